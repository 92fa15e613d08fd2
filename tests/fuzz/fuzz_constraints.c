/* First line = what the metadata lists, as JSON; the rest = text. Whatever either holds, there is a
 * verdict; cutting into pieces stays inside the text. */
#include "verifier/check.h"

#include <stdlib.h>

enum { LIST_MAX = 2048, TEXT_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Opened once: the profiles of the languages are many files. */
static const void *opened(const struct check_ops *ops)
{
    static void *state;
    json_t *params = json_pack("{s:b}", "loose", 1);
    struct json_at at = json_root(params);
    if (!state && ops->open(&state, &at, NULL) != ERR_OK)
        abort();
    json_decref(params);
    return state;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size}, list;
    const struct check_ops *ops = check_find(STR("constraints"));
    json_t *asked = NULL, *metadata = json_object();
    if (size == 0 || !str_split(&rest, '\n', &list) || list.n > LIST_MAX || !rest.p ||
        json_parse(list, JSON_ANY_VALUE, &asked, NULL) != ERR_OK) {
        json_decref(metadata);
        return 0;
    }
    json_object_set_new(metadata, "constraints", asked);
    struct output o = {.text = str_slice(rest, 0, TEXT_MAX)};
    struct arena a;
    arena_init(&a, 16 << 20);
    struct check_item item = {.output = &o, .metadata = metadata, .arena = &a};
    struct check_verdict v = ops->run(opened(ops), &item);
    if (!v.reason || (v.outcome == SCORE_PASS && *v.reason))
        abort();
    arena_free(&a);
    json_decref(metadata);
    return 0;
}
