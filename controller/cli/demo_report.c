/* The demonstration's facts as text and as JSON, and whether they are a success. Pure. */
#include "controller/cli/demo.h"
#include "controller/cli/print.h"

#include <math.h>

static void print_rewards(const char *label, const struct demo_rewards *r)
{
    double half = r->n > 1 ? 1.96 * sqrt(r->variance / (double)r->n) : (double)NAN;

    printf("  %-34s %.3f +- %.3f over %llu scored", label, r->mean, half, (unsigned long long)r->n);
    if (r->n_unscored > 0)
        printf(", %llu unscored", (unsigned long long)r->n_unscored);
    putchar('\n');
}

static void print_push(const struct demo_facts *f)
{
    printf("\nA bad push on live traffic (route default)\n");
    print_rewards("reward before, revision in service:", &f->before);
    print_rewards("reward during, the bad revision:", &f->during);
    print_rewards("reward during, the 5% control:", &f->control);
    print_rewards("reward after the rollback:", &f->after);
    printf("  %-34s %llu (%.1f s)\n",
           "requests until the rollback:", (unsigned long long)f->requests_until_rollback,
           f->seconds_until_rollback);
    printf("  %-34s %.4g, needed %.4g\n", "e-value at the decision:", exp(f->log_e),
           exp(f->log_threshold));
    printf("  %-34s %+.3f\n", "effect, bad minus control:", f->effect);
    printf("  revision %llu is %s; revision %llu serves again (decision %llu)\n",
           (unsigned long long)f->bad_revision,
           f->is_quarantined ? "quarantined" : "NOT quarantined", (unsigned long long)f->champion,
           (unsigned long long)f->rollback_decision);
}

static void print_cooling(const struct demo_facts *f)
{
    printf("\nA setting that is too hot (route hot)\n");
    for (uint32_t i = 0; i < f->n_step; i++) {
        const struct demo_step *s = &f->step[i];
        printf("  temperature %.2f -> %.2f: reward %.3f -> %.3f over %llu + %llu scored, e-value "
               "%.4g of %.4g (decision %llu)\n",
               s->from_temperature, s->to_temperature, s->mean_champion, s->mean_challenger,
               (unsigned long long)s->n_champion, (unsigned long long)s->n_challenger,
               exp(s->log_e), exp(s->log_threshold), (unsigned long long)s->decision);
    }
    print_rewards("reward before the first trial:", &f->hot_first);
    print_rewards("reward after the last promotion:", &f->hot_last);
    printf("  %-34s %+.3f, 95%% interval [%+.3f, %+.3f]\n", "reward gain:", f->gain,
           f->gain - f->gain_half_width, f->gain + f->gain_half_width);
}

void demo_report(const struct demo_facts *f)
{
    printf("Read back from SQLite: %llu outputs, %llu scores, %llu decisions.\n",
           (unsigned long long)f->n_outputs, (unsigned long long)f->n_scores,
           (unsigned long long)f->n_decisions);
    print_push(f);
    print_cooling(f);
}

static json_t *rewards_json(const struct demo_rewards *r)
{
    json_t *v = json_object();

    json_object_set_new(v, "n", json_integer((json_int_t)r->n));
    json_object_set_new(v, "unscored", json_integer((json_int_t)r->n_unscored));
    json_object_set_new(v, "mean", json_num(r->mean));
    json_object_set_new(v, "variance", json_num(r->variance));
    return v;
}

static json_t *step_json(const struct demo_step *s)
{
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:f}", "decision",
                     (json_int_t)s->decision, "from_temperature", s->from_temperature,
                     "to_temperature", s->to_temperature, "mean_champion", s->mean_champion,
                     "mean_challenger", s->mean_challenger, "n_champion", (json_int_t)s->n_champion,
                     "n_challenger", (json_int_t)s->n_challenger, "log_e", s->log_e,
                     "log_threshold", s->log_threshold);
}

json_t *demo_report_json(const struct demo_facts *f)
{
    json_t *steps = json_array();

    for (uint32_t i = 0; i < f->n_step; i++)
        json_array_append_new(steps, step_json(&f->step[i]));
    json_t *push = json_pack("{s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:b}", "before",
                             rewards_json(&f->before), "during", rewards_json(&f->during),
                             "control", rewards_json(&f->control), "after", rewards_json(&f->after),
                             "requests_until_rollback", (json_int_t)f->requests_until_rollback,
                             "seconds_until_rollback", json_num(f->seconds_until_rollback), "log_e",
                             json_num(f->log_e), "log_threshold", json_num(f->log_threshold),
                             "effect", json_num(f->effect), "is_quarantined", f->is_quarantined);
    json_t *cooling =
        json_pack("{s:o, s:o, s:o, s:o, s:o}", "steps", steps, "first", rewards_json(&f->hot_first),
                  "last", rewards_json(&f->hot_last), "gain", json_num(f->gain), "gain_half_width",
                  json_num(f->gain_half_width));
    return json_pack("{s:o, s:o, s:I, s:I, s:I}", "bad_push", push, "cooling", cooling, "outputs",
                     (json_int_t)f->n_outputs, "scores", (json_int_t)f->n_scores, "decisions",
                     (json_int_t)f->n_decisions);
}

static bool each_step_is_colder(const struct demo_facts *f)
{
    for (uint32_t i = 0; i < f->n_step; i++)
        if (!(f->step[i].to_temperature < f->step[i].from_temperature))
            return false;
    return true;
}

bool demo_succeeded(const struct demo_facts *f, const char **why)
{
    const struct {
        bool holds;
        const char *why;
    } must[] = {
        {f->before.n > 0 && f->after.n > 0, "a phase has no scored output"},
        {f->rollback_decision != 0, "the bad push was not rolled back"},
        {f->is_quarantined, "the bad revision is not quarantined"},
        {f->log_e >= f->log_threshold, "the rollback rests on no e-value past its threshold"},
        {f->during.mean < f->control.mean, "the bad revision was not worse than its control"},
        {f->after.mean > f->during.mean, "the reward did not come back after the rollback"},
        {f->n_step >= 1, "no step of the hot route won its canary"},
        {each_step_is_colder(f), "a promoted step did not lower the temperature"},
        {f->gain - f->gain_half_width > 0, "the reward gain's interval does not exclude zero"},
    };

    for (size_t i = 0; i < sizeof must / sizeof must[0]; i++) {
        if (!must[i].holds) {
            *why = must[i].why;
            return false;
        }
    }
    return true;
}
