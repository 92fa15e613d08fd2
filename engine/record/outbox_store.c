/* Two tables: rows by sequence number, and a few named values. */
#include "engine/record/outbox_store.h"

#include <stdlib.h>

static const struct db_migration MIGRATIONS[] = {
    {1, "0001_outbox",
     "CREATE TABLE output(seq INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, json TEXT NOT NULL) "
     "STRICT;"
     "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;"},
};

static int prepare_all(struct outbox_store *s, struct err *e)
{
    int rc;
    TRY(db_prepare(s->db, &s->insert, "INSERT INTO output(seq, bytes, json) VALUES(?1, ?2, ?3)",
                   e));
    TRY(db_prepare(s->db, &s->set_meta,
                   "INSERT INTO meta(key, value) VALUES(?1, ?2) "
                   "ON CONFLICT(key) DO UPDATE SET value = ?2",
                   e));
    TRY(db_prepare(s->db, &s->get_meta, "SELECT value FROM meta WHERE key = ?1", e));
    TRY(db_prepare(s->db, &s->drop_to, "DELETE FROM output WHERE seq <= ?1", e));
    TRY(db_prepare(s->db, &s->oldest,
                   "SELECT coalesce(min(seq), 0), coalesce(max(seq), 0), count(*), "
                   "coalesce(sum(bytes), 0) FROM output",
                   e));
    TRY(db_prepare(s->db, &s->weigh,
                   "SELECT count(*), coalesce(sum(bytes), 0) FROM output WHERE seq <= ?1", e));
out:
    return rc;
}

/* Absent reads as 0. */
static int get_number(struct outbox_store *s, const char *key, uint64_t *out, struct err *e)
{
    struct buf text;
    buf_init(&text, 64);
    *out = 0;
    int rc = outbox_store_get(s, key, &text, e);
    if (rc == ERR_OK) {
        buf_put_char(&text, '\0');
        *out = strtoull(text.p, NULL, 10);
    }
    buf_free(&text);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static int set_number(struct outbox_store *s, const char *key, uint64_t v, struct err *e)
{
    char text[24];
    struct buf b = {.p = text, .cap = sizeof text, .max_bytes = sizeof text};
    buf_printf(&b, "%llu", (unsigned long long)v);
    return outbox_store_set(s, key, buf_str(&b), e);
}

static int load_counters(struct outbox_store *s, uint64_t epoch_seed, struct err *e)
{
    uint64_t newest = 0;
    int rc;
    TRY(db_step(s->oldest, e));
    s->oldest_seq = (uint64_t)db_col_i64(s->oldest, 0);
    newest = (uint64_t)db_col_i64(s->oldest, 1);
    s->rows = (uint64_t)db_col_i64(s->oldest, 2);
    s->bytes = (uint64_t)db_col_i64(s->oldest, 3);
    db_reset(s->oldest);
    TRY(get_number(s, "epoch", &s->epoch, e));
    TRY(get_number(s, "next_seq", &s->saved.next_seq, e));
    TRY(get_number(s, "dropped", &s->saved.dropped, e));
    TRY(get_number(s, "committed_seq", &s->saved.committed_seq, e));
    TRY(get_number(s, "next_admission", &s->saved.next_admission, e));
    s->next_seq = s->saved.next_seq;
    s->dropped = s->saved.dropped;
    s->committed_seq = s->saved.committed_seq;
    s->next_admission = s->saved.next_admission;
    if (s->next_admission == 0)
        s->next_admission = 1;
    if (s->epoch == 0) { /* a new file; 53 bits pass through every JSON reader unharmed */
        s->epoch = (epoch_seed >> 11) | 1;
        TRY(set_number(s, "epoch", s->epoch, e));
    }
    if (s->next_seq <= newest)
        s->next_seq = newest + 1;
    if (s->rows == 0)
        s->oldest_seq = s->next_seq;
out:
    return rc;
}

int outbox_store_open(struct outbox_store *s, const char *path, bool sync_full, uint64_t epoch_seed,
                      struct err *e)
{
    int rc;
    *s = (struct outbox_store){0};
    TRY(db_open(&s->db, path, sync_full ? DB_SYNC_FULL : DB_SYNC_NORMAL, e));
    TRY(db_migrate(s->db, MIGRATIONS, sizeof MIGRATIONS / sizeof *MIGRATIONS, e));
    TRY(prepare_all(s, e));
    TRY(load_counters(s, epoch_seed, e));
    return ERR_OK;
out:
    outbox_store_close(s);
    return e ? err_wrap(e, "outbox") : rc;
}

int outbox_store_begin_life(struct outbox_store *s, struct err *e)
{
    uint64_t was_alive = 0;
    int rc;
    TRY(get_number(s, "crashes", &s->crashes, e));
    TRY(get_number(s, "alive", &was_alive, e));
    s->crashes += was_alive != 0;
    TRY(set_number(s, "crashes", s->crashes, e));
    TRY(set_number(s, "alive", 1, e));
out:
    return rc;
}

void outbox_store_end_life(struct outbox_store *s)
{
    (void)set_number(s, "alive", 0, NULL); /* a disk that refuses: counted as a crash, at worst */
}

void outbox_store_close(struct outbox_store *s)
{
    db_close(s->db);
    s->db = NULL;
}

int outbox_store_insert(struct outbox_store *s, uint64_t seq, struct str json, struct err *e)
{
    db_bind_i64(s->insert, 1, (int64_t)seq);
    db_bind_i64(s->insert, 2, (int64_t)json.n);
    db_bind_str(s->insert, 3, json);
    int rc = db_run(s->insert, NULL, e);
    if (rc == ERR_OK) {
        s->rows++;
        s->bytes += json.n;
    }
    return rc;
}

int outbox_store_delete(struct outbox_store *s, uint64_t seq, bool is_drop, struct err *e)
{
    int rc;
    db_bind_i64(s->weigh, 1, (int64_t)seq);
    TRY(db_step(s->weigh, e));
    uint64_t rows = (uint64_t)db_col_i64(s->weigh, 0), bytes = (uint64_t)db_col_i64(s->weigh, 1);
    db_reset(s->weigh);
    db_bind_i64(s->drop_to, 1, (int64_t)seq);
    TRY(db_run(s->drop_to, NULL, e));
    s->rows -= rows;
    s->bytes -= bytes;
    s->dropped += is_drop ? rows : 0;
    if (s->oldest_seq <= seq)
        s->oldest_seq = seq + 1;
out:
    return rc;
}

int outbox_store_shrink(struct outbox_store *s, uint64_t max_bytes, struct err *e)
{
    int rc = ERR_OK;
    while (rc == ERR_OK && s->bytes > max_bytes && s->rows > 0) {
        uint64_t some = s->rows / 16 ? s->rows / 16 : 1;
        rc = outbox_store_delete(s, s->oldest_seq + some - 1, true, e);
    }
    return rc;
}

static int save_number(struct outbox_store *s, const char *key, uint64_t v, uint64_t *saved,
                       struct err *e)
{
    int rc = v == *saved ? ERR_OK : set_number(s, key, v, e);
    if (rc == ERR_OK)
        *saved = v;
    return rc;
}

int outbox_store_save_counters(struct outbox_store *s, struct err *e)
{
    int rc;
    TRY(save_number(s, "next_seq", s->next_seq, &s->saved.next_seq, e));
    TRY(save_number(s, "dropped", s->dropped, &s->saved.dropped, e));
    TRY(save_number(s, "committed_seq", s->committed_seq, &s->saved.committed_seq, e));
    TRY(save_number(s, "next_admission", s->next_admission, &s->saved.next_admission, e));
out:
    return rc;
}

int outbox_store_set(struct outbox_store *s, const char *key, struct str value, struct err *e)
{
    db_bind_str(s->set_meta, 1, str_from(key));
    db_bind_str(s->set_meta, 2, value);
    return db_run(s->set_meta, NULL, e);
}

int outbox_store_get(struct outbox_store *s, const char *key, struct buf *value, struct err *e)
{
    db_bind_str(s->get_meta, 1, str_from(key));
    int rc = db_step(s->get_meta, e);
    if (rc != ERR_OK)
        return rc;
    buf_put_str(value, db_col_str(s->get_meta, 0));
    db_reset(s->get_meta);
    return buf_check(value, "stored value", e);
}
