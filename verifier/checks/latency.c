/* latency: time to the first token, whole time, and tokens a second, as the engine recorded them
 * (its own monotonic clock). */
#include "verifier/check.h"

#include <stdlib.h>

struct latency {
    int64_t ttft_ms, total_ms;
    double tok_s;
};

#define AT(field) offsetof(struct latency, field)
static const struct option OPTIONS[] = {
    {"max_ttft_ms", OPTION_INT, AT(ttft_ms), 1, 86400000, NULL,
     "admission to first token, queue included"},
    {"max_total_ms", OPTION_INT, AT(total_ms), 1, 86400000, NULL, "admission to last token"},
    {"min_tok_s", OPTION_REAL, AT(tok_s), 0, 1e9, NULL, "tokens a second behind the first"},
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0] };

static void latency_close(void *state)
{
    free(state);
}

static int latency_open(void **state, const struct json_at *params, struct err *e)
{
    struct latency *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    int rc = options_read(OPTIONS, OPTIONS_N, params, NULL, c, e);
    if (rc == ERR_OK && !c->ttft_ms && !c->total_ms && c->tok_s <= 0)
        rc = err_set(e, ERR_INVALID,
                     "nothing to compare with: give max_ttft_ms, max_total_ms or min_tok_s");
    if (rc != ERR_OK) {
        latency_close(c);
        return rc;
    }
    *state = c;
    return ERR_OK;
}

static bool is_over(uint64_t us, int64_t limit_ms)
{
    return limit_ms && us > (uint64_t)limit_ms * 1000;
}

static struct check_verdict latency_run(const void *state, const struct check_item *item)
{
    const struct latency *c = state;
    const struct output *o = item->output;
    uint64_t total_us = o->ttft_us + o->decode_us;
    bool has_rate = o->completion_tokens > 1 && o->decode_us > 0;
    double tok_s = has_rate ? (o->completion_tokens - 1) * 1e6 / (double)o->decode_us : 0;
    if (total_us == 0)
        return check_unscored("no_timings");
    if (is_over(o->ttft_us, c->ttft_ms))
        return check_pass_if(false, "slow_first_token");
    if (is_over(total_us, c->total_ms))
        return check_pass_if(false, "slow");
    if (c->tok_s > 0 && !has_rate && !c->ttft_ms && !c->total_ms)
        return check_unscored("no_rate"); /* one token has none */
    struct check_verdict v = check_pass_if(!has_rate || tok_s >= c->tok_s, "few_tokens_a_second");
    v.measure = (double)total_us / 1e6;
    return v;
}

const struct check_ops CHECK_LATENCY = {
    .kind = "latency",
    .code_version = 1,
    .summary = "first token, whole time and rate within bounds",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = latency_open,
    .run = latency_run,
    .close = latency_close,
};
