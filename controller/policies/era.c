/* controller/policies/era.c - one version of the checks at a time; see the header. Pure. */
#include "controller/policies/era.h"

const struct state_field ERA_FIELDS[] = {
    STATE_NUMBER(struct era, version, STATE_U64),
    STATE_NUMBER(struct era, other, STATE_U64),
    STATE_NUMBER(struct era, run, STATE_U32),
    STATE_NUMBER(struct era, n_excluded, STATE_U64),
    STATE_END,
};

enum era_verdict era_admit(struct era *x, uint64_t version)
{
    if (x->version == 0)
        x->version = version;
    if (version == x->version) {
        x->run = 0;
        return ERA_COUNTS;
    }
    x->run = version == x->other ? x->run + 1 : 1;
    x->other = version;
    if (x->run < ERA_PATIENCE) {
        x->n_excluded++;
        return ERA_EXCLUDED;
    }
    x->version = version;
    x->run = 0;
    return ERA_BEGINS;
}
