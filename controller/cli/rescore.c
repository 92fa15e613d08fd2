/* `milepost rescore`: a thread reads stored outputs and feeds `milepost-verifier score`; this one
 * reads the scores and compares. The database is opened for reading only. */
#include "controller/cli/rescore.h"

#include "common/io.h"
#include "common/queue.h"
#include "controller/cli/cli.h"
#include "controller/cli/print.h"
#include "controller/cli/since.h"
#include "controller/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AHEAD = 4096, REPORT_MIB = 8, TEXT_COLUMNS = 40 };

struct rescore {
    struct cli *cli;
    const char *route, *since, *checks;
    int64_t limit;
    struct store *store; /* feeder's thread once it runs */
    int64_t after_us;
    uint64_t total;
    int to, from; /* pipes of the child */
    pid_t child;
    struct queue *stored; /* of struct rescore_before, in the order they were sent */
    pthread_t feeder;
    struct err feed_error;
    struct rescore_report report;
};

extern char **environ;

static int spawn_verifier(struct rescore *r, struct err *e)
{
    const char *path = NULL;
    int in[2], out[2];
    int rc = cli_sibling(r->cli, "milepost-verifier", &path, e);

    if (rc != ERR_OK)
        return rc;
    if (pipe2(in, O_CLOEXEC) != 0)
        return err_set_sys(e, ERR_IO, errno, "a pipe to the verifier");
    if (pipe2(out, O_CLOEXEC) != 0) {
        close(in[0]);
        close(in[1]);
        return err_set_sys(e, ERR_IO, errno, "a pipe to the verifier");
    }
    char *argv[] = {(char *)path, "score",           "--config", (char *)r->checks,
                    "--set",      "log_level=error", NULL};
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
    int failed = posix_spawn(&r->child, path, &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    close(in[0]);
    close(out[1]);
    r->to = in[1];
    r->from = out[0];
    return failed == 0 ? ERR_OK : err_set_sys(e, ERR_IO, failed, "cannot run %s", path);
}

#define ROWS                                                                                       \
    " FROM outputs o JOIN bodies b ON b.output = o.id LEFT JOIN scores s ON s.output = o.id AND "  \
    "s.request_id = o.request_id AND s.choice = o.choice AND s.is_counted = 1"                     \
    " WHERE o.route = ?1 AND o.created_us >= ?2"

static int count_rows(struct rescore *r, struct err *e)
{
    struct db_stmt *s;
    int rc = store_statement(r->store, "SELECT count(*)" ROWS, &s, e);

    if (rc != ERR_OK)
        return rc;
    db_bind_str(s, 1, str_from(r->route));
    db_bind_i64(s, 2, r->after_us);
    rc = db_step(s, e);
    r->total = rc == ERR_OK ? (uint64_t)db_col_i64(s, 0) : 0;
    db_reset(s);
    if (rc == ERR_OK && r->limit > 0 && r->total > (uint64_t)r->limit)
        r->total = (uint64_t)r->limit;
    return rc;
}

static void free_before(struct rescore_before *b)
{
    if (b != NULL) {
        free((char *)b->request_id);
        free((char *)b->version);
    }
    free(b);
}

static struct rescore_before *read_before(struct db_stmt *s)
{
    struct rescore_before *b = calloc(1, sizeof *b);

    if (b == NULL)
        return NULL;
    *b = (struct rescore_before){.request_id = str_dup_c(db_col_str(s, 1)),
                                 .engine_seq = (uint64_t)db_col_i64(s, 2),
                                 .revision = (uint64_t)db_col_i64(s, 3),
                                 .reward = db_col_is_null(s, 4) ? NAN : db_col_f64(s, 4),
                                 .version = str_dup_c(db_col_str(s, 5))};
    if (b->request_id != NULL && b->version != NULL)
        return b;
    free_before(b);
    return NULL;
}

static int feed_rows(struct rescore *r, struct err *e)
{
    struct db_stmt *s;
    int rc = store_statement(r->store,
                             "SELECT unpack(b.packed), o.request_id, o.seq, o.revision, s.reward,"
                             " coalesce(s.version, 'none')" ROWS " ORDER BY o.id DESC LIMIT ?3",
                             &s, e);

    if (rc != ERR_OK)
        return rc;
    db_bind_str(s, 1, str_from(r->route));
    db_bind_i64(s, 2, r->after_us);
    db_bind_i64(s, 3, (int64_t)r->total);
    while (rc == ERR_OK && (rc = db_step(s, e)) == ERR_OK) {
        struct rescore_before *b = read_before(s);
        if (b == NULL)
            rc = err_set(e, ERR_NOMEM, "no memory for a row");
        else if (!queue_put(r->stored, b))
            rc = (free_before(b), err_set(e, ERR_CANCELLED, "stopped"));
        if (rc == ERR_OK)
            rc = io_write_all(r->to, db_col_str(s, 0), e);
        if (rc == ERR_OK)
            rc = io_write_all(r->to, STR("\n"), e);
    }
    db_reset(s);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static void *run_feeder(void *arg)
{
    struct rescore *r = arg;

    if (feed_rows(r, &r->feed_error) == ERR_OK)
        r->feed_error.code = ERR_OK;
    close(r->to); /* the end, for the verifier */
    queue_close(r->stored);
    return NULL;
}

/* One line of the verifier for each stored row. */
static int take_line(struct rescore *r, const char *text, size_t n, struct err *e)
{
    struct rescore_before *b = queue_take(r->stored, -1);
    json_t *score = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    int rc = b != NULL && score != NULL
                 ? rescore_add(&r->report, b, score, e)
                 : err_set(e, ERR_CORRUPT, "the verifier wrote what was not asked");

    json_decref(score);
    free_before(b);
    return rc;
}

static int compare(struct rescore *r, struct err *e)
{
    FILE *from = fdopen(r->from, "r");
    struct progress p;
    char *line = NULL, note[64];
    size_t cap = 0;
    ssize_t n;
    int rc = from != NULL ? ERR_OK : err_set_sys(e, ERR_IO, errno, "reading the scores");

    progress_start(&p, "rescore", r->total);
    while (rc == ERR_OK && (n = getline(&line, &cap, from)) > 0) {
        rc = take_line(r, line, (size_t)n, e);
        snprintf(note, sizeof note, "%" PRIu64 " of %" PRIu64, r->report.n_rows, r->total);
        progress_show(&p, r->report.n_rows, note);
    }
    progress_end(&p);
    free(line);
    if (from != NULL)
        fclose(from);
    return rc;
}

static int end_child(struct rescore *r, struct err *e)
{
    int status = 0;

    while (waitpid(r->child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return ERR_OK;
    return err_set(e, WIFEXITED(status) && WEXITSTATUS(status) == 2 ? ERR_INVALID : ERR_IO,
                   "milepost-verifier score failed; its message stands above");
}

static int run_rows(struct rescore *r, struct err *e)
{
    struct err end_error = {0};
    int rc = queue_open(&r->stored, AHEAD, false, e);

    if (rc == ERR_OK)
        rc = spawn_verifier(r, e);
    if (rc != ERR_OK)
        return rc;
    signal(SIGPIPE, SIG_IGN);
    if (pthread_create(&r->feeder, NULL, run_feeder, r) != 0)
        return err_set(e, ERR_NOMEM, "no thread");
    rc = compare(r, e);
    queue_close(r->stored);
    pthread_join(r->feeder, NULL);
    for (struct rescore_before *b; (b = queue_try_take(r->stored)) != NULL;)
        free_before(b);
    if (end_child(r, &end_error) != ERR_OK && rc == ERR_OK)
        rc = (*e = end_error, end_error.code);
    if (rc == ERR_OK && r->feed_error.code != ERR_OK)
        rc = (*e = r->feed_error, r->feed_error.code);
    if (rc == ERR_OK && r->report.n_rows != r->total)
        rc = err_set(e, ERR_CORRUPT, "%" PRIu64 " of %" PRIu64 " outputs were scored",
                     r->report.n_rows, r->total);
    return rc;
}

/* What came of it. */

static double mean(double sum, uint64_t n)
{
    return n > 0 ? sum / (double)n : NAN;
}

static json_t *number(double v)
{
    return isnan(v) ? json_null() : json_real(v);
}

static json_t *side_json(const struct rescore_side *s)
{
    return json_pack("{s:I,s:o,s:o}", "scored_by_both", (json_int_t)s->n, "mean_before",
                     number(mean(s->sum_old, s->n)), "mean_after", number(mean(s->sum_new, s->n)));
}

static json_t *moves_json(const struct rescore_report *p)
{
    json_t *all = json_object();

    for (int i = 0; i < RESCORE_CLASSES; i++) {
        json_t *row = json_object();
        for (int j = 0; j < RESCORE_CLASSES; j++)
            json_object_set_new(row, rescore_class_name((enum rescore_class)j),
                                json_integer((json_int_t)p->moves[i][j]));
        json_object_set_new(all, rescore_class_name((enum rescore_class)i), row);
    }
    return all;
}

static json_t *report_json(const struct rescore *r)
{
    const struct rescore_report *p = &r->report;
    json_t *revisions = json_array(), *moved = json_array(), *versions = json_array();

    for (size_t i = 0; i < p->n_revision; i++) {
        json_t *one = side_json(&p->revision[i].both);
        json_object_set_new(one, "revision", json_integer((json_int_t)p->revision[i].number));
        json_array_append_new(revisions, one);
    }
    for (size_t i = 0; i < p->n_moved; i++) {
        const struct rescore_moved *m = &p->moved[i];
        json_array_append_new(moved,
                              json_pack("{s:s,s:o,s:o,s:s,s:o}", "request_id", m->request_id,
                                        "before", number(m->before), "after", number(m->after),
                                        "reason", m->reason, "text", json_str(str_from(m->text))));
    }
    for (size_t i = 0; i < p->n_version_before; i++)
        json_array_append_new(versions, json_string(p->version_before[i]));
    return json_pack("{s:s,s:I,s:I,s:I,s:o,s:s?,s:o,s:o,s:o,s:o}", "route", r->route, "rows",
                     (json_int_t)p->n_rows, "changed", (json_int_t)p->n_changed, "unusable",
                     (json_int_t)p->n_unusable, "versions_before", versions, "version_after",
                     p->version_after, "both", side_json(&p->both), "moves", moves_json(p),
                     "revisions", revisions, "moved", moved);
}

static int print_moves(const struct rescore *r, struct err *e)
{
    static const char *const titles[] = {"BEFORE \\ AFTER", ">PASS", ">VALUE", ">FAIL",
                                         ">UNSCORED"};
    struct arena *a = &r->cli->arena;
    struct table t;
    int rc = table_init(&t, a, titles, 1 + RESCORE_CLASSES, e);

    for (int i = 0; i < RESCORE_CLASSES && rc == ERR_OK; i++) {
        const char *cells[1 + RESCORE_CLASSES] = {rescore_class_name((enum rescore_class)i)};
        for (int j = 0; j < RESCORE_CLASSES; j++)
            cells[1 + j] = arena_printf(a, "%" PRIu64, r->report.moves[i][j]).p;
        table_row(&t, cells);
    }
    if (rc == ERR_OK)
        table_print(&t, stdout);
    return rc;
}

static const char *real_text(struct arena *a, double v)
{
    return isnan(v) ? "-" : arena_printf(a, "%.4f", v).p;
}

static int print_revisions(const struct rescore *r, struct err *e)
{
    static const char *const titles[] = {">REV", ">SCORED BY BOTH", ">BEFORE", ">AFTER"};
    struct arena *a = &r->cli->arena;
    struct table t;
    int rc = table_init(&t, a, titles, 4, e);

    for (size_t i = 0; i < r->report.n_revision && rc == ERR_OK; i++) {
        const struct rescore_revision *v = &r->report.revision[i];
        const char *cells[] = {arena_printf(a, "%" PRIu64, v->number).p,
                               arena_printf(a, "%" PRIu64, v->both.n).p,
                               real_text(a, mean(v->both.sum_old, v->both.n)),
                               real_text(a, mean(v->both.sum_new, v->both.n))};
        table_row(&t, cells);
    }
    if (rc == ERR_OK)
        table_print(&t, stdout);
    return rc;
}

static int print_moved(const struct rescore *r, struct err *e)
{
    static const char *const titles[] = {"REQUEST", ">BEFORE", ">AFTER", "WHY", "TEXT"};
    struct arena *a = &r->cli->arena;
    struct table t;
    int rc = table_init(&t, a, titles, 5, e);

    for (size_t i = 0; i < r->report.n_moved && rc == ERR_OK; i++) {
        const struct rescore_moved *m = &r->report.moved[i];
        const char *cells[] = {one_line(a, m->request_id, 30), real_text(a, m->before),
                               real_text(a, m->after), one_line(a, m->reason, 40),
                               one_line(a, m->text, TEXT_COLUMNS)};
        table_row(&t, cells);
    }
    if (rc == ERR_OK)
        table_print(&t, stdout);
    return rc;
}

static int print_report(const struct rescore *r, struct err *e)
{
    const struct rescore_report *p = &r->report;
    struct arena *a = &r->cli->arena;
    int rc;

    printf("%s: %" PRIu64 " outputs, %" PRIu64 " verdicts change; mean reward of the %" PRIu64
           " scored by both: %s before, %s after\n\n",
           r->route, p->n_rows, p->n_changed, p->both.n,
           real_text(a, mean(p->both.sum_old, p->both.n)),
           real_text(a, mean(p->both.sum_new, p->both.n)));
    TRY(print_moves(r, e));
    putchar('\n');
    TRY(print_revisions(r, e));
    if (p->n_moved > 0) {
        printf("\nLargest changes:\n");
        TRY(print_moved(r, e));
    }
    printf("\nNothing was stored. To serve with these checks put them into the configuration and "
           "restart the verifier.\n");
out:
    return rc;
}

static int prepare(struct rescore *r, struct err *e)
{
    struct cli *c = r->cli;
    struct milepost_config checks;
    struct wall since = {0};
    int rc;

    if (r->checks == NULL)
        return err_set(e, ERR_INVALID,
                       "--checks: missing, allowed: a configuration with the route");
    if (r->route == NULL)
        r->route = arena_str(&c->arena, ((struct route_config *)c->config.routes.item)->name).p;
    if (r->since != NULL)
        TRY(since_parse(r->since, clock_wall(&CLOCK_REAL), &since, e));
    r->after_us = since.us;
    TRY(milepost_config_load(r->checks, NULL, 0, &c->arena, &checks, e));
    if (milepost_config_route(&checks, str_from(r->route)) == NULL)
        TRY(err_set(e, ERR_INVALID, "%s: has no route %s", r->checks, r->route));
    TRY(store_open_readonly(
        &r->store, milepost_config_path(&c->config, c->config.controller.database, &c->arena), e));
    TRY(count_rows(r, e));
    if (r->total == 0)
        TRY(err_set(e, ERR_NOT_FOUND, "no stored outputs of route %s%s%s", r->route,
                    r->since ? " since " : "", r->since ? r->since : ""));
out:
    return rc;
}

int cmd_rescore(struct cli *c, int argc, char **argv)
{
    struct rescore r = {.cli = c, .to = -1, .from = -1};
    const struct opt options[] = {
        {"checks", 0, OPT_TEXT, &r.checks, 0, 0, "FILE", "configuration with the new checks"},
        {"route", 'r', OPT_TEXT, &r.route, 0, 0, "ROUTE", "default: the first"},
        {"since", 0, OPT_TEXT, &r.since, 0, 0, "T", "2h, 7d, 2026-01-31, ... (UTC); default: all"},
        {"limit", 'n', OPT_INT, &r.limit, 0, 1000000000, "N", "the newest N; 0 = all"},
    };
    const struct cli_usage usage = {
        .line = "milepost rescore --checks FILE [--route ROUTE] [--since T] [--limit N] [--json]",
        .about =
            "Scores stored outputs with other checks and shows how the verdicts move beside the\n"
            "stored ones. FILE is a configuration; only the route's checks are used. Stores\n"
            "nothing, serves nothing; may run beside a live controller.",
        .opt = options,
        .n_opt = sizeof options / sizeof options[0]};
    struct arena texts;
    struct err e = {0};
    int n_args;
    int code = cli_begin(c, &usage, argc, argv, &n_args);

    if (code != CLI_CONTINUE)
        return code;
    arena_init(&texts, REPORT_MIB * MiB);
    r.report.arena = &texts;
    int rc = prepare(&r, &e);
    if (rc == ERR_OK)
        rc = run_rows(&r, &e);
    if (rc == ERR_OK && c->json) {
        json_t *v = report_json(&r);
        code = cli_print_json(v);
        json_decref(v);
    } else if (rc == ERR_OK) {
        rc = print_report(&r, &e);
        code = CLI_OK;
    }
    store_close(r.store);
    queue_free(r.stored);
    arena_free(&texts);
    return rc == ERR_OK ? code : cli_fail(&e);
}
