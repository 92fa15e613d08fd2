/* tests/sim/audit.h - what must hold in the simulated world, looked at after each event.
 *
 * Beside the controller stands a second reading of its database: only committed rows, through a
 * connection of its own, fed to laws of its own. What the live laws hold, what the decisions say
 * and what engines are told is compared with that, and with what the simulator itself knows of
 * every record. A broken invariant ends the process with its seed. */
#ifndef TESTS_SIM_AUDIT_H
#define TESTS_SIM_AUDIT_H

#include "tests/sim/world.h"

/* NULL database yet: it is opened at the first commit. A plan that is not audited makes every call
 * but audit_end do nothing. */
struct audit *audit_new(struct world *w);
void audit_free(struct audit *a);

/* The controller has committed (or started): reads what is new. What is stored as decided is what
 * the live laws hold. */
void audit_commit(struct audit *a, const struct ledger *live);
/* A document reached an engine: newer than any that this life of it was handed, each of its routes
 * is what committed decisions say, and a version is one text for everyone, for ever. */
void audit_document(struct audit *a, uint32_t engine, const struct desired *d, struct str text);
/* An engine goes over to a version; one goes on with it after a restart. */
void audit_apply(struct audit *a, uint32_t engine, uint64_t version);
void audit_restart(struct audit *a, uint32_t engine, uint64_t version);
/* What was decided for a request against the document in force. */
void audit_admission(struct audit *a, const struct flight *f);
/* An output left the engine's publisher, whatever becomes of it. */
void audit_send(struct audit *a, const struct sim_engine *g, uint64_t seq);
/* The engine forgot everything up to this seq. */
void audit_mark(struct audit *a, struct sim_engine *g, uint64_t committed_seq);
/* After each event, whatever it was. */
void audit_event(struct audit *a);
/* Everything is at rest: all that was stored is committed or counted as a gap, all agree. */
void audit_end(struct audit *a);

struct audit_sums {
    uint64_t n_rows, n_unscored, n_decisions, n_documents, n_gap, n_late, n_foreign, n_paused;
    uint64_t n_trial_unscored; /* unscored rows that the law's trials counted as such */
    uint64_t n_action[ACTION_KIND_COUNT];
};
const struct audit_sums *audit_sums(const struct audit *a);

#endif
