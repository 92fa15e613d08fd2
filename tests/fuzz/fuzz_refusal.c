/* The refusal check over any text: a verdict, never an error of the expression. */
#include "verifier/check.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void *state; /* opened once: the expression is compiled then */
    const struct check_ops *ops = check_find(STR("refusal"));
    struct output o = {.text = {(const char *)data, size}};
    struct arena a;
    if (!state) {
        json_t *params = json_object();
        struct json_at at = json_root(params);
        if (ops->open(&state, &at, NULL) != ERR_OK)
            abort();
        json_decref(params);
    }
    arena_init(&a, 16 << 20);
    struct check_item item = {.output = &o, .arena = &a};
    if (ops->run(state, &item).outcome == SCORE_UNSCORED)
        abort();
    arena_free(&a);
    return 0;
}
