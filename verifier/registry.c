/* Every check this build knows; a new kind adds one line to each of the two lists. */
#include "verifier/check.h"

extern const struct check_ops CHECK_LENGTH, CHECK_FINISH_REASON, CHECK_REGEX, CHECK_CONTAINS,
    CHECK_JSON, CHECK_EXACT, CHECK_NUMBER, CHECK_REPETITION, CHECK_JSON_SCHEMA;
/* They ask a service or a program: see remote/. A list of their own. */
extern const struct check_ops CHECK_REWARD_MODEL, CHECK_JUDGE, CHECK_COMMAND, CHECK_CODE;
/* Mathematics, refusals, letters. */
extern const struct check_ops CHECK_MATH;
extern const struct check_ops CHECK_REFUSAL, CHECK_CHOICE;

/* Instructions, language, what the engine recorded. */
extern const struct check_ops CHECK_CONSTRAINTS, CHECK_LANGUAGE, CHECK_LOGPROB, CHECK_LATENCY;

const struct check_ops *const CHECK_KINDS[] = {
    &CHECK_LENGTH, &CHECK_FINISH_REASON, &CHECK_REGEX,      &CHECK_CONTAINS,    &CHECK_JSON,
    &CHECK_EXACT,  &CHECK_NUMBER,        &CHECK_REPETITION, &CHECK_JSON_SCHEMA, &CHECK_REWARD_MODEL,
    &CHECK_JUDGE,  &CHECK_COMMAND,       &CHECK_CODE,       &CHECK_MATH,        &CHECK_REFUSAL,
    &CHECK_CHOICE, &CHECK_CONSTRAINTS,   &CHECK_LANGUAGE,   &CHECK_LOGPROB,     &CHECK_LATENCY,
};
const size_t CHECK_KINDS_N = sizeof CHECK_KINDS / sizeof CHECK_KINDS[0];

const struct check_ops *check_find(struct str kind)
{
    for (size_t i = 0; i < CHECK_KINDS_N; i++)
        if (str_eq_c(kind, CHECK_KINDS[i]->kind))
            return CHECK_KINDS[i];
    return NULL;
}

void check_kinds_text(struct buf *out)
{
    for (size_t i = 0; i < CHECK_KINDS_N; i++)
        buf_printf(out, "%s%s", i ? ", " : "", CHECK_KINDS[i]->kind);
}
