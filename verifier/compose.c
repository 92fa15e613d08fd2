/* Score composition, DESIGN.md section 6. No state, no I/O. */
#include "verifier/compose.h"

static void set_scored(struct score *s, double reward)
{
    s->is_scored = true;
    s->reward = reward;
    s->reason = STR("");
}

static void set_unscored(struct score *s, struct str reason)
{
    s->is_scored = false;
    s->reward = 0;
    s->reason = reason.n ? reason : STR("unscored");
}

static bool is_failed(const struct check_result *r)
{
    return r->outcome != SCORE_UNSCORED && r->value < 0.5;
}

/* True when the gates alone decide. */
static bool compose_gates(struct score *s, uint32_t *passed)
{
    const struct check_result *unknown = NULL;
    for (uint32_t i = 0; i < s->n_check; i++) {
        const struct check_result *r = &s->check[i];
        if (!r->is_gate)
            continue;
        if (is_failed(r)) {
            set_scored(s, 0);
            return true;
        }
        if (r->outcome == SCORE_UNSCORED && !unknown)
            unknown = r;
        *passed += r->outcome != SCORE_UNSCORED;
    }
    if (unknown)
        set_unscored(s, unknown->reason);
    return unknown != NULL;
}

void compose_score(struct score *s)
{
    uint32_t gates_passed = 0, counted = 0;
    double sum = 0, weights = 0;
    struct str reason = STR("");
    if (s->n_check == 0) {
        set_unscored(s, STR("no_checks"));
        return;
    }
    if (compose_gates(s, &gates_passed))
        return;
    for (uint32_t i = 0; i < s->n_check; i++) {
        const struct check_result *r = &s->check[i];
        if (r->is_gate || r->weight <= 0)
            continue;
        counted++;
        if (r->outcome == SCORE_UNSCORED) {
            reason = reason.n ? reason : r->reason;
            continue;
        }
        sum += r->weight * r->value;
        weights += r->weight;
    }
    if (weights > 0)
        set_scored(s, sum / weights);
    else if (counted == 0 && gates_passed > 0)
        set_scored(s, 1);
    else
        set_unscored(s, counted ? reason : STR("no_weight"));
}
