/* Random points, and what two evaluations say together. No state. */
#include "verifier/math/numeric.h"

#include "common/rng.h"

#include <math.h>

bool math_names(const struct math_node *n, struct math_point *p)
{
    if (n->kind == MATH_NAME || n->kind == MATH_TEXT) {
        for (uint32_t i = 0; i < p->n; i++)
            if (str_eq(p->name[i], n->text))
                return true;
        if (p->n == MATH_NAMES_MAX)
            return false;
        p->name[p->n++] = n->text;
    }
    for (uint32_t i = 0; i < n->n; i++)
        if (!math_names(n->child[i], p))
            return false;
    return true;
}

/* Multiples of 2^-20: positive in the first rounds, of either sign later. */
void math_point_choose(struct math_work *w, struct math_point *p, uint32_t round)
{
    struct rng r;
    rng_seed(&r, w->seed + round);
    for (uint32_t i = 0; i < p->n; i++) {
        double value = 0.25 + (double)rng_below(&r, 3 << 20) / (1 << 20);
        p->value[i] = round >= 6 && rng_below(&r, 2) ? -value : value;
    }
}

static math_wide size_of(math_wide re, math_wide im)
{
    return MATH_WIDE(hypot)(re, im);
}

/* A double is 53 bits wide: what it lost, the wide value lost 2^(wide - 53) times less. */
bool math_value_at(struct math_work *w, const struct math_node *n, const struct math_point *p,
                   struct math_value *out)
{
    double re, im, scale = 0;
    math_wide wide_scale = 0;
    math_eval_wide(w, n, p, &out->re, &out->im, &wide_scale);
    math_wide size = size_of(out->re, out->im);
    if (w->is_spent || !isfinite(size))
        return false;
    math_eval_double(w, n, p, &re, &im, &scale);
    math_wide largest = size > wide_scale ? size : wide_scale;
    math_wide floor = MATH_WIDE(ldexp)(largest, 10 - MATH_WIDE_BITS);
    math_wide lost = MATH_WIDE(ldexp)(size_of(out->re - re, out->im - im), 60 - MATH_WIDE_BITS);
    math_wide most = MATH_WIDE(ldexp)(largest, -MATH_WIDE_BITS / 2);
    out->noise = isfinite(lost) && lost > floor ? lost : floor;
    out->noise = out->noise > most ? most : out->noise;
    return !w->is_spent;
}

bool math_value_is_real(const struct math_value *v)
{
    return MATH_WIDE(fabs)(v->im) <= v->noise;
}

bool math_value_near(const struct math_value *a, const struct math_value *b)
{
    return size_of(a->re - b->re, a->im - b->im) <= 4 * (a->noise + b->noise);
}
