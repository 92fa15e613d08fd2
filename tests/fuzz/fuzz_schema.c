/* First line = schema, the rest = value. Neither may crash or stall it; a schema that loads gives
 * the same verdict for the value written again by jansson, when that can hold it. */
#include "verifier/schema/schema.h"
#include "verifier/text/json_tree.h"

#include <stdlib.h>
#include <string.h>

enum { SCHEMA_MAX = 4096, TEXT_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct check_verdict check(const struct schema *s, struct str text)
{
    struct arena a;
    arena_init(&a, 64 << 20);
    struct check_item item = {.arena = &a};
    struct check_verdict v = schema_check(s, text, &item);
    arena_free(&a);
    return v;
}

/* Only without reals: jansson rounds them. */
static void compare_rewritten(const struct schema *s, struct str text, struct check_verdict v)
{
    struct buf again;
    json_t *parsed = NULL;
    bool has_real =
        memchr(text.p, '.', text.n) || memchr(text.p, 'e', text.n) || memchr(text.p, 'E', text.n);
    if (has_real || json_parse(text, JSON_ANY_VALUE, &parsed, NULL) != ERR_OK)
        return;
    buf_init(&again, 1 << 20);
    if (json_write_canonical(parsed, &again, NULL) == ERR_OK &&
        check(s, buf_str(&again)).outcome != v.outcome)
        abort();
    buf_free(&again);
    json_decref(parsed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size}, text;
    if (size < 2 || !str_split(&rest, '\n', &text) || text.n > SCHEMA_MAX || !rest.p)
        return 0;
    struct str value = str_slice(rest, 0, TEXT_MAX);
    struct schema_options options = {.asserts_format = data[0] % 2, .ignores_unknown = true};
    struct schema *s;
    if (schema_open(&s, text, options, NULL) != ERR_OK)
        return 0;
    struct check_verdict v = check(s, value);
    compare_rewritten(s, value, v);
    schema_close(s);
    return 0;
}
