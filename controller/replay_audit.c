/* One query per table; each gives the key of the first row that contradicts its sealed text.
 *
 * Reals are compared within rounding: SQLite's reading of a decimal text need not be the nearest
 * double. A text that SQLite's own JSON reader refuses (deeper than its limit) is covered by its
 * hash alone. Any thread with a store of its own. */
#include "controller/replay_audit.h"

#include <stdio.h>

#define TEXT(column)  column " IS NOT coalesce(json_extract(json,'$." column "'),'') OR "
#define COUNT(column) column " IS NOT coalesce(json_extract(json,'$." column "'),0) OR "
#define REAL(column)                                                                               \
    "(" column " IS NULL)<>(json_extract(json,'$." column "') IS NULL) OR abs(" column             \
    "-json_extract(json,'$." column "'))>1e-9*(1+abs(" column ")) OR "
#define RAW_TEXT(column)  column " IS NOT coalesce(json_extract(raw,'$." column "'),'') OR "
#define RAW_COUNT(column) column " IS NOT coalesce(json_extract(raw,'$." column "'),0) OR "

static const struct {
    const char *what, *sql;
} AUDITS[] = {
    {"decision",
     "SELECT number FROM decisions WHERE " TEXT("route") TEXT("action") TEXT("actor") TEXT("reason")
         TEXT("experiment") TEXT("test") TEXT("previous_hash") TEXT("hash") COUNT("from_revision")
             COUNT("to_revision") COUNT("at_us") REAL("log_e") REAL("log_threshold") "0 LIMIT 1"},
    {"revision", "SELECT number FROM revisions WHERE " TEXT("route") TEXT("author") TEXT("reason")
                     TEXT("hash") COUNT("number") COUNT("parent") COUNT("created_us") "0 LIMIT 1"},
    {"output",
     /* LIMIT keeps the text one value: else it is unpacked again for each column. */
     "SELECT id FROM (SELECT o.*,unpack(b.packed) AS raw FROM outputs o JOIN bodies b ON "
     "b.output=o.id LIMIT -1) WHERE json_valid(raw) AND (" RAW_TEXT("engine") RAW_TEXT(
         "request_id") RAW_TEXT("route") RAW_TEXT("arm") RAW_TEXT("experiment") RAW_TEXT("stratum")
         RAW_TEXT("unit") RAW_TEXT("finish_reason") RAW_COUNT("epoch") RAW_COUNT("seq") RAW_COUNT(
             "choice") RAW_COUNT("revision") RAW_COUNT("admission") RAW_COUNT("prompt_tokens")
             RAW_COUNT("completion_tokens") RAW_COUNT("created_us") RAW_COUNT("queue_us")
                 RAW_COUNT("ttft_us") RAW_COUNT("decode_us") RAW_COUNT("cached_tokens") RAW_COUNT(
                     "desired_version") "abs(propensity-json_extract(raw,'$.propensity'))>"
                                        "1e-9) LIMIT 1"},
    {"output's text",
     "SELECT b.output FROM bodies b LEFT JOIN outputs o ON o.id=b.output WHERE o.id IS "
     "NULL OR length(o.raw_hash)=32 AND o.raw_hash<>sha256(unpack(b.packed)) LIMIT 1"},
    {"output without its text",
     "SELECT id FROM outputs o WHERE id>=coalesce((SELECT CAST(value AS INTEGER) FROM settings "
     "WHERE key='texts_from'),1) AND NOT EXISTS(SELECT 1 FROM bodies WHERE output=o.id) LIMIT 1"},
    {"score", "SELECT row FROM scores s JOIN outputs o ON o.id=s.output WHERE s.is_counted=1 AND "
              "(s.request_id<>o.request_id OR s.choice<>o.choice OR s.route<>o.route) LIMIT 1"},
    {"quarantine of revision",
     "SELECT revision FROM quarantine q WHERE NOT EXISTS(SELECT 1 FROM decisions d WHERE "
     "d.number=q.decision AND d.route=q.route AND d.from_revision=q.revision AND d.action IN "
     "('quarantine','rollback')) LIMIT 1"},
    {"quarantine by decision",
     "SELECT number FROM decisions d WHERE action='quarantine' AND NOT EXISTS(SELECT 1 FROM "
     "quarantine q JOIN revisions r ON r.hash=q.hash WHERE q.route=d.route AND "
     "r.number=d.from_revision) LIMIT 1"},
    {"end of experiment",
     "SELECT id FROM experiments x WHERE ended_us IS NOT NULL AND NOT EXISTS(SELECT 1 FROM "
     "decisions d WHERE d.number=x.last_decision AND d.experiment=x.id AND (d.action=x.outcome OR "
     "(d.action='conclude' AND d.test=x.outcome))) LIMIT 1"},
};

int replay_audit(struct store *s, char *out, size_t cap, struct err *e)
{
    out[0] = '\0';
    for (size_t i = 0; i < sizeof AUDITS / sizeof *AUDITS; i++) {
        struct db_stmt *q;
        int rc = store_statement(s, AUDITS[i].sql, &q, e);
        if (rc == ERR_OK)
            rc = db_step(q, e);
        if (rc == ERR_NOT_FOUND)
            continue;
        if (rc != ERR_OK)
            return err_wrap(e, "audit of %s", AUDITS[i].what);
        struct str key = db_col_str(q, 0);
        snprintf(out, cap,
                 "%s " STR_FMT ": a column differs from the sealed text: it was changed, added or "
                 "removed",
                 AUDITS[i].what, STR_ARG(key));
        db_reset(q);
        return ERR_OK;
    }
    return ERR_OK;
}
