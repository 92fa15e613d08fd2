/* controller/cli/demo.h - `milepost demo`: traffic, phases, and what is read back from SQLite.
 *
 * demo.c runs the phases, demo_facts.c reads the committed rows, demo_report.c prints. Every number
 * printed comes from demo_facts, never from what the phases counted themselves. */
#ifndef CONTROLLER_CLI_DEMO_H
#define CONTROLLER_CLI_DEMO_H

#include "common/db.h"
#include "controller/cli/cli.h"
#include "controller/cli/demo_load.h"
#include "controller/cli/supervisor.h"

enum { DEMO_MAX_STEPS = 16 };

/* Scored outputs of one choice of rows. */
struct demo_rewards {
    uint64_t n, n_unscored;
    double mean, variance; /* NaN when n is too small */
};

struct demo_step { /* one promotion of phase 3 */
    uint64_t decision, from_revision, to_revision, n_champion, n_challenger;
    double from_temperature, to_temperature, mean_champion, mean_challenger;
    double log_e, log_threshold;
};

struct demo_facts {
    uint64_t champion, bad_revision, rollback_decision; /* 0 = not seen */
    char experiment[128];
    struct demo_rewards before, control, during, after; /* during: the bad revision's own */
    uint64_t requests_until_rollback; /* admitted from the push to the decision's last row */
    double seconds_until_rollback;
    double log_e, log_threshold, effect;
    bool is_quarantined;
    struct demo_step step[DEMO_MAX_STEPS];
    uint32_t n_step;
    struct demo_rewards hot_first, hot_last; /* before the first trial, after the last promotion */
    double gain, gain_half_width;            /* last - first, 95% (Welch) */
    uint64_t n_outputs, n_scores, n_decisions;
};

struct demo_db { /* read-only; close db */
    struct db *db;
    struct db_stmt *scores, *decisions;
};
MUST_USE int demo_db_open(struct demo_db *d, const char *path, struct err *e);
/* Single numbers while the phases run; 0 when there is nothing yet. */
uint64_t demo_count_scores(struct demo_db *d, const char *route);
uint64_t demo_count_decisions(struct demo_db *d, const char *route, const char *action);
MUST_USE int demo_facts_read(struct db *db, struct demo_facts *out, struct err *e);
void demo_report(const struct demo_facts *f);
json_t *demo_report_json(const struct demo_facts *f);
/* All three phases did what they must; *why names the first that did not. */
bool demo_succeeded(const struct demo_facts *f, const char **why);

#endif
