/* controller/cli/diagnosis.h - what two looks at the metrics of engine, verifier and controller say
 * of where time goes and what is wrong, layer by layer. Pure: `milepost doctor` looks. */
#ifndef CONTROLLER_CLI_DIAGNOSIS_H
#define CONTROLLER_CLI_DIAGNOSIS_H

#include "common/arena.h"
#include "common/str.h"

enum process { PROCESS_ENGINE, PROCESS_VERIFIER, PROCESS_CONTROLLER, PROCESSES };
enum health { HEALTH_OK, HEALTH_WARN, HEALTH_BAD };

/* Texts of /metrics, p NULL where nobody answered. */
struct look {
    struct str text[PROCESSES];
};

struct looks {
    struct look before, after;
    double seconds; /* between them, above 0 */
    bool is_alone;  /* the engine serves without the loop */
};

struct finding {
    const char *layer;
    enum health health;
    const char *what, *advice; /* in the arena; advice "" where nothing is to be done */
};

enum { MAX_FINDINGS = 12 };
struct diagnosis {
    uint32_t n;
    struct finding finding[MAX_FINDINGS];
};

void diagnose(const struct looks *l, struct arena *a, struct diagnosis *out);
const char *health_name(enum health h); /* "ok" "warn" "bad" */
enum health diagnosis_worst(const struct diagnosis *d);

#endif
