/* Codec of milepost.control.v1: a row per message type; only the desired document, which nests, has
 * functions of its own (control_desired.c). No state; any thread. */
#include "schemas/control.h"

#include "common/json_members.h"
#include "schemas/codec_direct.h"
#include "schemas/control_desired.h"

enum { CONTROL_MAX_BYTES = 4 * 1024 * 1024, MAX_ARGUMENT = 4096 };

#define FIELD(part, key, type, flags, max)                                                         \
    {                                                                                              \
#key, type, flags, offsetof(struct control, part.key), 0, max                              \
    }
#define NAME (CODEC_REQUIRED | CODEC_NOT_EMPTY)

static const struct codec_field HELLO[] = {
    FIELD(hello, engine, CODEC_TEXT, NAME, CODEC_MAX_NAME),
    FIELD(hello, epoch, CODEC_U64, CODEC_REQUIRED, 0),
    FIELD(hello, next_seq, CODEC_U64, CODEC_REQUIRED, 0),
    FIELD(hello, oldest_seq, CODEC_U64, 0, 0),
    FIELD(hello, model, CODEC_TEXT, 0, CODEC_MAX_NAME),
    FIELD(hello, weights, CODEC_TEXT, 0, CODEC_MAX_NAME),
    FIELD(hello, version, CODEC_TEXT, 0, CODEC_MAX_NAME),
    FIELD(hello, desired_version, CODEC_U64, 0, 0),
    FIELD(hello, crashes, CODEC_U64, 0, 0),
};

static const struct codec_field APPLIED[] = {
    FIELD(applied, engine, CODEC_TEXT, NAME, CODEC_MAX_NAME),
    FIELD(applied, desired_version, CODEC_U64, CODEC_REQUIRED, 0),
};

static const struct codec_field COMMIT[] = {
    FIELD(commit, engine, CODEC_TEXT, NAME, CODEC_MAX_NAME),
    FIELD(commit, epoch, CODEC_U64, CODEC_REQUIRED, 0),
    FIELD(commit, seq, CODEC_U64, CODEC_REQUIRED, 0),
    FIELD(commit, held, CODEC_TEXT, CODEC_SKIP_EMPTY, CONTROL_HELD_BYTES),
};

static const struct codec_field HEARTBEAT[] = {
    FIELD(heartbeat, engine, CODEC_TEXT, NAME, CODEC_MAX_NAME),
    FIELD(heartbeat, epoch, CODEC_U64, CODEC_REQUIRED, 0),
    FIELD(heartbeat, next_seq, CODEC_U64, CODEC_REQUIRED, 0),
    FIELD(heartbeat, oldest_seq, CODEC_U64, 0, 0),
    FIELD(heartbeat, desired_version, CODEC_U64, CODEC_REQUIRED, 0),
    FIELD(heartbeat, running, CODEC_U32, 0, 0),
    FIELD(heartbeat, waiting, CODEC_U32, 0, 0),
    FIELD(heartbeat, outbox_rows, CODEC_U64, 0, 0),
    FIELD(heartbeat, outbox_dropped, CODEC_U64, 0, 0),
    FIELD(heartbeat, kv_usage, CODEC_REAL, CODEC_SKIP_EMPTY, 1),
    FIELD(heartbeat, tokens_per_second, CODEC_REAL, CODEC_SKIP_EMPTY, 1e12),
};

static const struct codec_field COMMAND[] = {
    FIELD(command, id, CODEC_U64, CODEC_REQUIRED, 0),
    FIELD(command, name, CODEC_TEXT, NAME, CODEC_MAX_NAME),
    FIELD(command, argument, CODEC_TEXT, CODEC_SKIP_EMPTY, MAX_ARGUMENT),
};

static const struct codec_field RESULT[] = {
    FIELD(result, id, CODEC_U64, CODEC_REQUIRED, 0),
    {"ok", CODEC_BOOL, CODEC_REQUIRED, offsetof(struct control, result.is_ok), 0, 0},
    FIELD(result, message, CODEC_TEXT, CODEC_SKIP_EMPTY, MAX_ARGUMENT),
};

#define ROW(table) table, sizeof table / sizeof *table

static const struct {
    const struct codec_field *field;
    size_t n;
} TYPES[CONTROL_TYPE_COUNT] = {
    [CONTROL_HELLO] = {ROW(HELLO)},      [CONTROL_APPLIED] = {ROW(APPLIED)},
    [CONTROL_COMMIT] = {ROW(COMMIT)},    [CONTROL_HEARTBEAT] = {ROW(HEARTBEAT)},
    [CONTROL_COMMAND] = {ROW(COMMAND)},  [CONTROL_RESULT] = {ROW(RESULT)},
    [CONTROL_DESIRED] = {.field = NULL},
};

static const char *const NAMES[CONTROL_TYPE_COUNT] = {
    [CONTROL_HELLO] = "hello",   [CONTROL_DESIRED] = "desired",     [CONTROL_APPLIED] = "applied",
    [CONTROL_COMMIT] = "commit", [CONTROL_HEARTBEAT] = "heartbeat", [CONTROL_COMMAND] = "command",
    [CONTROL_RESULT] = "result",
};

void control_held_put(struct buf *out, uint64_t first, uint64_t last)
{
    char text[48];
    struct buf b = {.p = text, .cap = sizeof text, .max_bytes = sizeof text};
    if (out->n)
        buf_put_char(&b, ',');
    buf_put_u64(&b, first);
    buf_put_char(&b, '-');
    buf_put_u64(&b, last);
    if (out->n + b.n <= CONTROL_HELD_BYTES)
        buf_put_str(out, buf_str(&b));
}

bool control_held_next(struct str *rest, uint64_t *first, uint64_t *last)
{
    struct str range, low;
    int64_t a, b;
    if (!str_split(rest, ',', &range) || !str_split(&range, '-', &low) ||
        str_to_i64(low, &a, NULL) != ERR_OK || str_to_i64(range, &b, NULL) != ERR_OK || a < 1 ||
        b < a)
        return false;
    *first = (uint64_t)a;
    *last = (uint64_t)b;
    return true;
}

static int write_desired(const struct control *c, struct buf *out, struct err *e)
{
    json_t *obj = codec_new(CONTROL_SCHEMA);
    if (!obj)
        return err_set(e, ERR_NOMEM, "out of memory for a control message");
    int rc = codec_put(obj, "type", json_string(NAMES[c->type]), e);
    if (rc == ERR_OK)
        rc = desired_write(&c->desired, obj, e);
    if (rc == ERR_OK)
        rc = json_write(obj, out, e);
    json_decref(obj);
    return rc;
}

int control_encode(const struct control *c, struct buf *out, struct err *e)
{
    if ((unsigned)c->type >= CONTROL_TYPE_COUNT)
        return err_set(e, ERR_BUG, "control: no message type %d", (int)c->type);
    if (c->type == CONTROL_DESIRED)
        return write_desired(c, out, e);
    codec_open_direct(out, CONTROL_SCHEMA);
    buf_printf(out, ",\"type\":\"%s\"", NAMES[c->type]);
    int rc = codec_write_direct(out, TYPES[c->type].field, TYPES[c->type].n, c, e);
    buf_put_char(out, '}');
    return rc == ERR_OK ? buf_check(out, "control message", e) : rc;
}

static int read_tree(struct str json, struct arena *a, struct control *out, struct err *e)
{
    json_t *doc = NULL;
    int rc = codec_open(json, CONTROL_SCHEMA, CONTROL_MAX_BYTES, &doc, e);
    if (rc != ERR_OK)
        return rc;
    struct json_at root = json_root(doc);
    size_t type = 0;
    rc = codec_get_name(&root, "type", NAMES, CONTROL_TYPE_COUNT, &type, e);
    if (rc == ERR_OK) {
        out->type = (enum control_type)type;
        rc = out->type == CONTROL_DESIRED
                 ? desired_read(&root, a, &out->desired, e)
                 : codec_read(&root, TYPES[type].field, TYPES[type].n, a, out, e);
    }
    json_decref(doc);
    return rc;
}

/* CONTROL_TYPE_COUNT: none of them, or not where our writer puts it, behind the schema. */
static enum control_type type_of(struct str json)
{
    struct json_members members;
    struct json_member m = {0};
    size_t type = 0;
    int rc = json_members_open(&members, json, NULL);
    for (int i = 0; i < 2 && rc == ERR_OK; i++)
        rc = json_members_next(&members, &m, NULL);
    if (rc != ERR_OK || !str_eq_c(m.key, "type"))
        return CONTROL_TYPE_COUNT;
    while (type < CONTROL_TYPE_COUNT &&
           !str_eq_c(str_slice(m.value, 1, m.value.n - 1), NAMES[type]))
        type++;
    return (enum control_type)type;
}

/* Commits and heartbeats, which come all the time, without a tree. */
static bool read_direct(struct str json, struct arena *a, struct control *out)
{
    enum control_type type = type_of(json);
    if (type == CONTROL_TYPE_COUNT || !TYPES[type].field)
        return false;
    struct codec_apart name = {.key = "type"};
    const struct codec_direct c = {
        CONTROL_SCHEMA, CONTROL_MAX_BYTES, TYPES[type].field, TYPES[type].n, &name, 1};
    out->type = type;
    return codec_read_direct(json, &c, a, out, NULL) == ERR_OK && name.text.p[0] == '"' &&
           str_eq_c(str_slice(name.text, 1, name.text.n - 1), NAMES[type]);
}

int control_decode(struct str json, struct arena *a, struct control *out, struct err *e)
{
    *out = (struct control){0};
    if (read_direct(json, a, out))
        return ERR_OK;
    *out = (struct control){0};
    return read_tree(json, a, out, e);
}
