/* finish_reason: generation ended in an allowed way; default only "stop". As a gate it makes every
 * truncated answer worth 0: else a lower max_new_tokens could raise a reward that truncation only
 * hid from (CONTROL.md 2.8). */
#include "verifier/check.h"

#include <stdlib.h>

struct finish {
    struct cfg_text_list allow;
    struct arena arena;
};

static const struct option OPTIONS[] = {
    {"allow", OPTION_TEXTS, offsetof(struct finish, allow), 0, 0, NULL, "reasons that pass"},
};
enum { OPTIONS_N = 1 };
static const struct str DEFAULT_ALLOW[] = {{"stop", 4}};
static const char *const REASONS[] = {"stop", "length", NULL};

static void finish_close(void *state)
{
    struct finish *f = state;
    if (f)
        arena_free(&f->arena);
    free(f);
}

static int refuse_unknown_reasons(const struct finish *f, struct err *e)
{
    for (uint32_t i = 0; i < f->allow.n; i++) {
        bool is_known = false;
        for (int r = 0; REASONS[r]; r++)
            is_known = is_known || str_eq_c(f->allow.item[i], REASONS[r]);
        if (!is_known)
            return err_set(e, ERR_INVALID, "allow[%u]: found '" STR_FMT "', allowed: stop, length",
                           i, STR_ARG(str_slice(f->allow.item[i], 0, 40)));
    }
    return ERR_OK;
}

static int finish_open(void **state, const struct json_at *params, struct err *e)
{
    struct finish *f = calloc(1, sizeof *f);
    if (!f)
        return err_set(e, ERR_NOMEM, "no memory for a check");
    arena_init(&f->arena, 64 * KiB);
    f->allow = (struct cfg_text_list){(struct str *)DEFAULT_ALLOW, 1};
    int rc = options_read(OPTIONS, OPTIONS_N, params, &f->arena, f, e);
    if (rc == ERR_OK)
        rc = refuse_unknown_reasons(f, e);
    if (rc != ERR_OK) {
        finish_close(f);
        return rc;
    }
    *state = f;
    return ERR_OK;
}

static struct check_verdict finish_run(const void *state, const struct check_item *item)
{
    const struct finish *f = state;
    bool is_allowed = false;
    for (uint32_t i = 0; i < f->allow.n; i++)
        is_allowed = is_allowed || str_eq(item->output->finish_reason, f->allow.item[i]);
    bool is_cut = str_eq_c(item->output->finish_reason, "length");
    return check_pass_if(is_allowed, is_cut ? "truncated" : "finish_reason");
}

const struct check_ops CHECK_FINISH_REASON = {
    .kind = "finish_reason",
    .code_version = 1,
    .summary = "generation ended in an allowed way (default: stop)",
    .option = OPTIONS,
    .n_option = OPTIONS_N,
    .open = finish_open,
    .run = finish_run,
    .close = finish_close,
};
