/* language: the output is in one of the languages allowed, by the parameters or the request's
 * metadata. A text too short to tell is unscored. Constant time: a sample is looked at. */
#include "verifier/check.h"
#include "verifier/text/language.h"

#include <stdlib.h>

struct language_check {
    struct cfg_text_list allow;
    struct str field;
    struct language *language;
    struct arena arena;
};

#define AT(field) offsetof(struct language_check, field)
static const struct option OPTIONS[] = {
    {"allow", OPTION_TEXTS, AT(allow), 0, 0, NULL, "ISO 639-1 codes, else from the metadata"},
    {"field", OPTION_TEXT, AT(field), 0, 0, NULL, "metadata field with the code"},
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0] };

static void language_check_close(void *state)
{
    struct language_check *c = state;
    if (!c)
        return;
    language_close(c->language);
    arena_free(&c->arena);
    free(c);
}

static int check_codes(const struct language_check *c, struct err *e)
{
    for (uint32_t i = 0; i < c->allow.n; i++) {
        if (language_is_known(c->allow.item[i]))
            continue;
        struct buf known;
        buf_init(&known, 4 * KiB);
        language_codes(&known);
        int rc = err_set(e, ERR_INVALID, "allow[%u]: found '" STR_FMT "', allowed: " STR_FMT, i,
                         STR_ARG(str_slice(c->allow.item[i], 0, 20)), STR_ARG(buf_str(&known)));
        buf_free(&known);
        return rc;
    }
    return ERR_OK;
}

static int language_check_open(void **state, const struct json_at *params, struct err *e)
{
    struct language_check *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    arena_init(&c->arena, 64 * KiB);
    c->field = STR("language");
    int rc = options_read(OPTIONS, OPTIONS_N, params, &c->arena, c, e);
    if (rc == ERR_OK)
        rc = check_codes(c, e);
    if (rc == ERR_OK)
        rc = language_open(&c->language, e);
    if (rc != ERR_OK) {
        language_check_close(c);
        return rc;
    }
    *state = c;
    return ERR_OK;
}

static struct check_verdict judge(const struct language_check *c, struct str text,
                                  const struct str *code, uint32_t n)
{
    bool is_unsure = false;
    for (uint32_t i = 0; i < n; i++) {
        enum language_answer is = language_is(c->language, text, code[i]);
        if (is == LANGUAGE_YES)
            return check_pass_if(true, "");
        is_unsure = is_unsure || is == LANGUAGE_UNSURE;
    }
    return is_unsure ? check_unscored("unknown_language") : check_pass_if(false, "other_language");
}

static struct check_verdict language_check_run(const void *state, const struct check_item *item)
{
    const struct language_check *c = state;
    if (c->allow.n)
        return judge(c, item->output->text, c->allow.item, c->allow.n);
    const json_t *v = check_metadata(item, c->field.p);
    struct str code = {json_string_value(v), json_string_length(v)};
    if (!json_is_string(v) || !language_is_known(code))
        return check_unscored(v ? "unknown_language" : "no_reference");
    return judge(c, item->output->text, &code, 1);
}

const struct check_ops CHECK_LANGUAGE = {
    .kind = "language",
    .code_version = 1,
    .summary = "the output is in one of the languages allowed",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = language_check_open,
    .run = language_check_run,
    .close = language_check_close,
};
