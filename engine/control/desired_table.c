/* Invariant: what is stored once made a table. No thread, no lock: the table is the caller's. */
#include "engine/control/desired_table.h"

#include "common/log.h"

int desired_table_accept(struct outbox *o, const struct desired *d, struct str text,
                         struct route_table **out, struct err *e)
{
    int rc = route_table_from_desired(out, d, e);
    if (rc == ERR_OK)
        outbox_save_desired(o, text);
    else
        log_event(LOG_WARN, "engine.desired_refused", "version=%llu err=\"%s\"",
                  (unsigned long long)d->version, e->msg);
    return rc;
}

static int read_stored(struct str text, struct route_table **out, struct err *e)
{
    struct arena a;
    struct control m;
    arena_init(&a, 32 * MiB);
    int rc = control_decode(text, &a, &m, e);
    if (rc == ERR_OK && m.type != CONTROL_DESIRED)
        rc = err_set(e, ERR_CORRUPT, "the stored state is another message");
    if (rc == ERR_OK)
        rc = route_table_from_desired(out, &m.desired, e);
    arena_free(&a);
    return rc;
}

int desired_table_first(struct outbox *o, const struct milepost_config *c, struct route_table **out,
                        struct err *e)
{
    struct buf text;
    struct err why;
    int rc = ERR_NOT_FOUND;
    buf_init(&text, 16 * MiB);
    if (o && outbox_load_desired(o, &text)) {
        rc = read_stored(buf_str(&text), out, &why);
        if (rc != ERR_OK)
            log_event(LOG_WARN, "engine.stored_state_refused", "err=\"%s\"", why.msg);
    }
    buf_free(&text);
    return rc == ERR_OK ? rc : route_table_from_config(out, c, e);
}
