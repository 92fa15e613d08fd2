/* Keys of controller.webhooks: who is told, of what, and how long it is tried. */
#include "schemas/config_tables.h"

/* What a webhook may be told of: actions of decisions, an exported dataset, everything. */
static const char *const EVENTS[] = {
    "alert",      "rollback", "promote",  "canary",   "step",      "expire",   "hold",     "resume",
    "quarantine", "reject",   "champion", "allocate", "eliminate", "conclude", "finetune", "all"};

#define W struct webhook_config
static const struct cfg_option WEBHOOK_OPTIONS[] = {
    {.key = "name",
     .type = CFG_TEXT,
     .offset = offsetof(W, name),
     .max = 64,
     .unit = "",
     .help = "Names the receiver in metrics and in the database."},
    {.key = "url",
     .type = CFG_TEXT,
     .offset = offsetof(W, url),
     .max = 2048,
     .unit = "",
     .help = "http or https; each event is one POST."},
    TEXT_ROW(W, secret_file, "",
             "File with the secret that signs (whsec_ and base64, or any text); empty = "
             "MILEPOST_WEBHOOK_SECRET, or unsigned when that is unset."),
    {.key = "events",
     .type = CFG_TEXT_LIST,
     .offset = offsetof(W, events),
     .fallback = "alert,rollback,finetune",
     .unit = "",
     .help = "Actions of decisions (alert, rollback, promote, canary, step, expire, hold, resume, "
             "quarantine, reject, champion, allocate, eliminate, conclude), finetune, or all."},
    INT_ROW(W, timeout_ms, "10000", 100, 600000, "ms", "A POST without an answer by then failed."),
    INT_ROW(W, retry_ms, "1000", 10, 600000, "ms",
            "Pause before the second attempt; doubled after each, up to ten minutes."),
    INT_ROW(W, give_up_minutes, "1440", 1, 525600, "minutes",
            "What could not be delivered by then is given up and counted."),
};
#undef W

bool milepost_config_wants(const struct webhook_config *w, struct str event)
{
    for (uint32_t i = 0; i < w->events.n; i++) {
        if (str_eq_c(w->events.item[i], "all") || str_eq(w->events.item[i], event))
            return true;
    }
    return false;
}

static bool is_event(struct str s)
{
    for (size_t i = 0; i < sizeof EVENTS / sizeof *EVENTS; i++) {
        if (str_eq_c(s, EVENTS[i]))
            return true;
    }
    return false;
}

static int check_webhook(const void *value, const char *path, struct err *e)
{
    const struct webhook_config *w = value;
    if (!config_is_name(w->name))
        return err_set(e, ERR_INVALID, "%s.name: letters, digits, - _ . only, got \"%.40s\"", path,
                       w->name.p);
    if (!str_starts(w->url, STR("http://")) && !str_starts(w->url, STR("https://")))
        return err_set(e, ERR_INVALID, "%s.url: must begin with http:// or https://", path);
    for (uint32_t i = 0; i < w->events.n; i++) {
        if (!is_event(w->events.item[i]))
            return err_set(e, ERR_INVALID,
                           "%s.events[%u]: \"%.40s\" is no action of a decision, nor finetune, nor "
                           "all",
                           path, i, w->events.item[i].p);
    }
    return ERR_OK;
}

const struct cfg_table WEBHOOK_TABLE = {.name = "webhook",
                                        .size = sizeof(struct webhook_config),
                                        .option = WEBHOOK_OPTIONS,
                                        .n_option = CFG_COUNT(WEBHOOK_OPTIONS),
                                        .max_items = 16,
                                        .check = check_webhook};
