/* Verdicts and the per-output services every check uses. Any thread. */
#include "verifier/check.h"

#include "common/clock.h"

#include <math.h>

struct check_verdict check_pass_if(bool passed, const char *reason_of_failure)
{
    return (struct check_verdict){.outcome = passed ? SCORE_PASS : SCORE_FAIL,
                                  .value = passed ? 1.0 : 0.0,
                                  .reason = passed ? "" : reason_of_failure};
}

struct check_verdict check_share(double value, const char *reason_below_one)
{
    if (isnan(value))
        return check_unscored("not_a_number");
    if (value >= 1.0 || value <= 0.0)
        return check_pass_if(value >= 1.0, reason_below_one);
    return (struct check_verdict){
        .outcome = SCORE_VALUE, .value = value, .reason = reason_below_one};
}

struct check_verdict check_unscored(const char *reason)
{
    return (struct check_verdict){.outcome = SCORE_UNSCORED, .reason = reason};
}

uint64_t check_cpu_us(void)
{
    return clock_cpu_us();
}

bool check_is_late(const struct check_item *item)
{
    return item->cpu_deadline_us != 0 && check_cpu_us() > item->cpu_deadline_us;
}

const json_t *check_metadata(const struct check_item *item, const char *key)
{
    const json_t *v = json_object_get(item->metadata, key);
    return json_is_null(v) ? NULL : v;
}

bool check_question(json_t *v, struct arena *a, struct str *question, struct check_verdict *verdict)
{
    struct buf text;
    buf_init(&text, 32 * MiB);
    *question = (struct str){NULL, 0};
    if (v && json_write(v, &text, NULL) == ERR_OK && !text.failed)
        *question = arena_str(a, buf_str(&text));
    buf_free(&text);
    json_decref(v);
    if (!question->p)
        *verdict = check_unscored("too_large");
    return question->p != NULL;
}
