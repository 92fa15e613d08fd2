/* logprob: the mean log probability of the output's tokens lies between bounds, and no single one
 * is below a floor: how surprised the model was by its own words. Linear. */
#include "verifier/check.h"

#include <math.h>
#include <stdlib.h>

struct logprob {
    double min, max, token_min;
};

#define AT(field) offsetof(struct logprob, field)
static const struct option OPTIONS[] = {
    {"min", OPTION_REAL, AT(min), -1e6, 0, NULL, "smallest mean, nats a token"},
    {"max", OPTION_REAL, AT(max), -1e6, 0, NULL, "largest mean: nearer to 0 is copied or looping"},
    {"token_min", OPTION_REAL, AT(token_min), -1e6, 0, NULL, "smallest value of any token"},
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0] };

static void logprob_close(void *state)
{
    free(state);
}

static int logprob_open(void **state, const struct json_at *params, struct err *e)
{
    struct logprob *c = malloc(sizeof *c);
    if (!c)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    *c = (struct logprob){-1e6, 0, -1e6};
    int rc = options_read(OPTIONS, OPTIONS_N, params, NULL, c, e);
    if (rc == ERR_OK && json_object_size(params->v) == 0)
        rc = err_set(e, ERR_INVALID, "nothing to compare with: give min, max or token_min");
    if (rc == ERR_OK && c->min > c->max)
        rc = err_set(e, ERR_INVALID, "min: found %g, allowed: at most max (%g)", c->min, c->max);
    if (rc != ERR_OK) {
        logprob_close(c);
        return rc;
    }
    *state = c;
    return ERR_OK;
}

static struct check_verdict logprob_run(const void *state, const struct check_item *item)
{
    const struct logprob *c = state;
    const struct output *o = item->output;
    double sum = 0, least = 0;
    if (!o->logprobs || o->n_tokens == 0)
        return check_unscored("no_logprobs");
    for (uint32_t i = 0; i < o->n_tokens; i++) {
        sum += o->logprobs[i];
        least = o->logprobs[i] < least ? o->logprobs[i] : least;
    }
    double mean = sum / o->n_tokens;
    if (!isfinite(mean))
        return check_unscored("not_a_number");
    const char *why = mean < c->min          ? "mean_low"
                      : mean > c->max        ? "mean_high"
                      : least < c->token_min ? "token_low"
                                             : "";
    struct check_verdict v = check_pass_if(*why == '\0', why);
    v.measure = mean;
    return v;
}

const struct check_ops CHECK_LOGPROB = {
    .kind = "logprob",
    .code_version = 1,
    .summary = "mean log probability of the tokens lies between bounds",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = logprob_open,
    .run = logprob_run,
    .close = logprob_close,
};
