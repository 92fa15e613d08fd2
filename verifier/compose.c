/* Score composition, DESIGN.md section 6. No state, no I/O. */
#include "verifier/compose.h"

struct composed {
    bool is_scored;
    double reward;
    struct str reason;
};

static struct composed scored(double reward)
{
    return (struct composed){true, reward, STR("")};
}

static struct composed unscored(struct str reason)
{
    return (struct composed){false, 0, reason.n ? reason : STR("unscored")};
}

static bool is_failed(const struct check_result *r)
{
    return r->outcome != SCORE_UNSCORED && r->value < 0.5;
}

/* True when the gates alone decide. */
static bool compose_gates(const struct score *s, bool is_b, uint32_t *passed, struct composed *out)
{
    const struct check_result *unknown = NULL;
    for (uint32_t i = 0; i < s->n_check; i++) {
        const struct check_result *r = &s->check[i];
        if (!r->is_gate || r->is_b != is_b)
            continue;
        if (is_failed(r)) {
            *out = scored(0);
            return true;
        }
        if (r->outcome == SCORE_UNSCORED && !unknown)
            unknown = r;
        *passed += r->outcome != SCORE_UNSCORED;
    }
    if (unknown)
        *out = unscored(unknown->reason);
    return unknown != NULL;
}

static struct composed compose(const struct score *s, bool is_b)
{
    struct composed by_gates;
    uint32_t gates_passed = 0, counted = 0;
    double sum = 0, weights = 0;
    struct str reason = STR("");
    if (s->n_check == 0)
        return unscored(STR("no_checks"));
    if (compose_gates(s, is_b, &gates_passed, &by_gates))
        return by_gates;
    for (uint32_t i = 0; i < s->n_check; i++) {
        const struct check_result *r = &s->check[i];
        if (r->is_gate || r->weight <= 0 || r->is_b != is_b)
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
        return scored(sum / weights);
    return counted == 0 && gates_passed > 0 ? scored(1)
                                            : unscored(counted ? reason : STR("no_weight"));
}

void compose_score(struct score *s)
{
    struct composed a = compose(s, false), b = compose(s, true);
    s->is_scored = a.is_scored;
    s->reward = a.reward;
    s->reason = a.reason;
    s->is_scored_b = b.is_scored;
    s->reward_b = b.reward;
}
