/* tests/bench/read_queries.c - how long the dashboard's and the CLI's reads take on a large store.
 *
 * A store is filled by SQL with millions of scored outputs (three routes, 10 days, texts packed as
 * the controller packs them) and every query of the API is timed, each as the first reader of its
 * process would see it and again; then the controller's own start on it. Usage:
 * bench_read_queries FOLDER [MILLIONS]. Ten millions take about 16 GB and some minutes. The file is
 * removed at the end. Fails when a read takes more than 50 ms at its median. */
#include "controller/api_experiments.h"
#include "controller/api_read.h"
#include "controller/ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REPEATS = 9, CHUNK = 250000, LIMIT_MS = 50 };

static void die(const struct err *e)
{
    fprintf(stderr, "bench_read_queries: %s\n", e->msg);
    exit(1);
}

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) != ERR_OK)                                                                      \
            die(&e);                                                                               \
    } while (0)

/* Row i of route r: one in ten goes to "math", one in a thousand to "rare". */
#define ROUTE "CASE WHEN i%1000=7 THEN 'rare' WHEN i%10=3 THEN 'math' ELSE 'default' END"
#define WHEN  "(1764000000000000+i*86400)"

static const char *const FILL[] = {
    "INSERT INTO outputs SELECT i,'e'||(i%2),1,i,printf('chatcmpl-%012x%012x',1764000000000+i*86,"
    "abs(random())%281474976710656),0," ROUTE ",1+(i%20=0),"
    "CASE WHEN i%20=0 THEN 'challenger' ELSE 'champion' END,'',0.5,'','u'||(i%5000),i,1,"
    "CASE WHEN i%17=0 THEN 'length' ELSE 'stop' END,0,40,16,64+i%64,300,20000+i%9000,400000," WHEN
    ",x'0011223344556677889900112233445566778899001122334455667788990011' FROM chunk",
    "INSERT INTO bodies SELECT i,(SELECT body FROM sample) FROM chunk",
    "INSERT INTO scores SELECT i,i,(SELECT request_id FROM outputs WHERE id=i),0,'default','v1',"
    "'verifier'," ROUTE
    ",1,CASE WHEN i%50=0 THEN NULL ELSE abs(random()%1000)/999.0 END,'',900," WHEN
    "+500000,(SELECT checks FROM sample),NULL FROM chunk",
    "INSERT INTO route_rows SELECT s.route,s.row,1,s.reward,s.committed_us,o.revision,o.arm,"
    "o.created_us,o.queue_us,o.ttft_us,o.decode_us,o.prompt_tokens,o.cached_tokens,"
    "o.completion_tokens FROM chunk c JOIN scores s ON s.row=c.i JOIN outputs o ON o.id=c.i",
};

static void make_sample(struct db *d)
{
    struct err e = {0};
    struct db_stmt *q;
    struct packed body;
    struct arena a;
    struct buf text;
    struct packer *p = packer_new();
    arena_init(&a, MiB);
    buf_init(&text, MiB);
    buf_put_c(&text, "{\"schema\":\"milepost.output.v1\",\"text\":\"An answer of some length, as a "
                     "small model gives it.\",\"messages\":[{\"role\":\"user\",\"content\":\"What "
                     "is two and two?\"}],\"token_ids\":[");
    for (int i = 0; i < 96; i++)
        buf_printf(&text, "%s%d", i ? "," : "", (i * 7919) % 49152);
    buf_put_c(&text, "],\"logprobs\":[");
    for (int i = 0; i < 96; i++)
        buf_printf(&text, "%s-%.7f", i ? "," : "", (double)((i * 7919) % 9973) / 9973);
    buf_put_c(&text, "]}");
    MUST(packer_pack(p, buf_str(&text), &a, &body, &e));
    MUST(db_exec(d, "CREATE TEMP TABLE sample(body, checks)", &e));
    MUST(db_prepare(d, &q,
                    "INSERT INTO sample VALUES(?,'[{\"id\":\"answer\",\"kind\":\"contains\","
                    "\"outcome\":\"pass\",\"reason\":\"\",\"value\":1.0,\"weight\":1.0,\"is_gate\":"
                    "false,\"duration_us\":12}]')",
                    &e));
    db_bind_blob(q, 1, body.bytes);
    MUST(db_run(q, NULL, &e));
    packer_free(p);
    buf_free(&text);
    arena_free(&a);
}

/* As the migration makes them of rows that are there. */
static const char SUMS[] =
    "INSERT INTO rollups SELECT o.route,s.committed_us-s.committed_us%3600000000,o.revision,o.arm,"
    "count(*),sum(s.reward IS NULL),total(s.reward),total(s.reward*s.reward),"
    "sum(o.finish_reason='length'),0,sum(o.prompt_tokens),sum(o.completion_tokens),min(s.row),"
    "max(s.row) FROM scores s JOIN outputs o ON o.id=s.output GROUP BY 1,2,3,4;"
    "INSERT INTO minutes SELECT route,committed_us-committed_us%60000000,revision,arm,count(*),"
    "sum(reward IS NULL),total(reward) FROM route_rows WHERE committed_us>(SELECT "
    "max(committed_us) FROM scores)-172800000000 GROUP BY 1,2,3,4;"
    "UPDATE totals SET n=(SELECT max(id) FROM outputs) WHERE what IN('outputs','scores');"
    "UPDATE policy_state SET ord=(SELECT max(row) FROM scores)";

static void fill(const char *path, int64_t n)
{
    struct err e = {0};
    struct db *d;
    char sql[1024];
    MUST(db_open(&d, path, DB_SYNC_NORMAL, &e));
    MUST(db_exec(d,
                 "PRAGMA synchronous=OFF; PRAGMA cache_size=-400000; PRAGMA journal_mode=OFF;"
                 "CREATE TEMP TABLE chunk(i INTEGER PRIMARY KEY)",
                 &e));
    make_sample(d);
    for (int64_t from = 1000; from < 1000 + n; from += CHUNK) {
        MUST(db_exec(d, "BEGIN; DELETE FROM chunk", &e));
        snprintf(
            sql, sizeof sql,
            "INSERT INTO chunk WITH RECURSIVE c(i) AS (SELECT %lld UNION ALL SELECT i+1 FROM c "
            "LIMIT %d) SELECT i FROM c",
            (long long)from, CHUNK);
        MUST(db_exec(d, sql, &e));
        for (size_t k = 0; k < sizeof FILL / sizeof *FILL; k++)
            MUST(db_exec(d, FILL[k], &e));
        MUST(db_exec(d, "COMMIT", &e));
    }
    MUST(db_exec(d, SUMS, &e));
    MUST(db_exec(d, "PRAGMA journal_mode=WAL", &e));
    db_close(d);
}

/* Reads. */

static int revisions(struct store *s, struct str route, json_t **out, struct err *e)
{
    return api_read_revisions(s, route, 50, out, e);
}

static int decisions(struct store *s, struct str route, json_t **out, struct err *e)
{
    return api_read_decisions(s, route, -1, 50, out, e);
}

static int newest(struct store *s, struct str route, json_t **out, struct err *e)
{
    return api_read_scores(s, route, false, 20, out, e);
}

static int newest_1000(struct store *s, struct str route, json_t **out, struct err *e)
{
    return api_read_scores(s, route, false, 1000, out, e);
}

static int worst(struct store *s, struct str route, json_t **out, struct err *e)
{
    return api_read_scores(s, route, true, 20, out, e);
}

static int load(struct store *s, struct str route, json_t **out, struct err *e)
{
    return api_read_load(s, route, INT64_C(1764000000000000) + INT64_C(10) * 86400000000, out, e);
}

static int rewards_of(struct store *s, struct str route, int64_t hours, json_t **out, struct err *e)
{
    int64_t now_us;
    int rc =
        store_number(s, "SELECT committed_us FROM scores ORDER BY row DESC LIMIT 1", &now_us, e);
    return rc == ERR_OK ? api_read_rewards(s, route, hours, now_us, out, e) : rc;
}

static int rewards_2_days(struct store *s, struct str route, json_t **out, struct err *e)
{
    return rewards_of(s, route, 48, out, e);
}

static int rewards_year(struct store *s, struct str route, json_t **out, struct err *e)
{
    return rewards_of(s, route, 8760, out, e);
}

static int params(struct store *s, struct str route, json_t **out, struct err *e)
{
    return api_read_params(s, route, NULL, out, e);
}

static int experiments(struct store *s, struct str route, json_t **out, struct err *e)
{
    return api_experiment_list(s, route, 50, out, e);
}

static const struct {
    const char *name;
    int (*fn)(struct store *s, struct str route, json_t **out, struct err *e);
    bool is_free; /* the API's largest list: printed, not held to the limit; no page asks for it */
} READS[] = {
    {"revisions", revisions, false},     {"decisions", decisions, false},
    {"newest 20", newest, false},        {"worst 20", worst, false},
    {"newest 1000", newest_1000, true},  {"params", params, false},
    {"series", api_read_series, false},  {"load", load, false},
    {"experiments", experiments, false}, {"2 days", rewards_2_days, false},
    {"1 year", rewards_year, false},
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double once(const char *path, size_t i, struct str route, struct store **s)
{
    struct err e = {0};
    json_t *v = NULL;
    struct mono begin = clock_mono(&CLOCK_REAL);
    if (!*s)
        MUST(store_open_readonly(s, path, &e));
    MUST(READS[i].fn(*s, route, &v, &e));
    double ms = (double)mono_since_us(begin, clock_mono(&CLOCK_REAL)) * 1e-3;
    json_decref(v);
    return ms;
}

static bool time_read(const char *path, size_t i, struct str route)
{
    double ms[REPEATS], first;
    struct store *s = NULL;
    first = once(path, i, route, &s);
    for (int k = 0; k < REPEATS; k++)
        ms[k] = once(path, i, route, &s);
    store_close(s);
    qsort(ms, REPEATS, sizeof *ms, compare);
    printf("  %-12s %-8.*s first %7.2f ms, then median %7.2f ms (%.2f to %.2f)\n", READS[i].name,
           STR_ARG(route), first, ms[REPEATS / 2], ms[0], ms[REPEATS - 1]);
    return READS[i].is_free || ms[REPEATS / 2] <= LIMIT_MS;
}

static double start(const char *path, const struct milepost_config *config)
{
    struct err e = {0};
    struct ledger *l;
    struct ledger_options o = {.database = path, .config = config, .clock = CLOCK_REAL};
    struct mono begin = clock_mono(&CLOCK_REAL);
    MUST(ledger_open(&l, &o, &e));
    double ms = (double)mono_since_us(begin, clock_mono(&CLOCK_REAL)) * 1e-3;
    ledger_close(l);
    return ms;
}

static void remove_store(const char *path)
{
    static const char *const SUFFIX[] = {"", "-wal", "-shm", ".lock"};
    char file[600];
    for (int i = 0; i < 4; i++) {
        snprintf(file, sizeof file, "%s%s", path, SUFFIX[i]);
        unlink(file);
    }
}

int main(int argc, char **argv)
{
    static const char *const overrides[] = {"routes=[{name: default}, {name: math}, {name: rare}]"};
    struct err e = {0};
    struct arena a;
    struct milepost_config config;
    struct stat st;
    char path[512];
    double millions = argc > 2 ? strtod(argv[2], NULL) : 0.25;
    bool is_good = true;
    snprintf(path, sizeof path, "%s/reads-%ld.sqlite", argc > 1 ? argv[1] : ".", (long)getpid());
    arena_init(&a, 16 * MiB);
    MUST(milepost_config_load(NULL, overrides, 1, &a, &config, &e));
    start(path, &config);
    fill(path, (int64_t)(millions * 1e6));
    printf("read_queries: %.2f million outputs, %.1f GB\n", millions,
           stat(path, &st) == 0 ? (double)st.st_size * 1e-9 : 0.0);
    for (size_t i = 0; i < sizeof READS / sizeof *READS; i++)
        for (uint32_t r = 0; r < config.routes.n; r++)
            is_good &=
                time_read(path, i, ((const struct route_config *)config.routes.item)[r].name);
    printf("  the controller's start: %.1f ms\n", start(path, &config));
    remove_store(path);
    arena_free(&a);
    printf("%s\n", is_good ? "every read below 50 ms" : "a read takes longer than 50 ms");
    return is_good ? 0 : 1;
}
