/* `milepost backup`: a copy of the controller's database while it runs; and whether one is sound.
 */
#include "common/db_backup.h"
#include "controller/cli/cli.h"
#include "controller/cli/print.h"
#include "controller/store/store.h"

#include <string.h>
#include <sys/stat.h>

static void show(void *ctx, uint64_t done, uint64_t total)
{
    struct progress *p = ctx;
    p->total = total;
    progress_show(p, done, "");
}

static int print_done(struct cli *c, const char *path, const char *said)
{
    struct stat st = {0};
    (void)!stat(path, &st);
    if (!c->json) {
        printf("%s: %s, %.1f MB\n", path, said, (double)st.st_size * 1e-6);
        return CLI_OK;
    }
    json_t *v =
        json_pack("{s:s, s:s, s:I}", "file", path, "result", said, "bytes", (json_int_t)st.st_size);
    int code = cli_print_json(v);
    json_decref(v);
    return code;
}

static int check(struct cli *c, const char *path)
{
    struct err e = {0};
    struct store *s = NULL;
    int rc = store_open_readonly(&s, path, &e);
    if (rc == ERR_OK)
        rc = db_check(store_db(s), &e);
    store_close(s);
    return rc == ERR_OK ? print_done(c, path, "sound") : cli_fail(&e);
}

static int back_up(struct cli *c, const char *path)
{
    struct err e = {0};
    struct store *s = NULL;
    struct progress p;
    const char *from = milepost_config_path(&c->config, c->config.controller.database, &c->arena);
    int rc = store_open_readonly(&s, from, &e);
    progress_start(&p, "backup", 0);
    if (rc == ERR_OK)
        rc = db_backup(store_db(s), path, show, &p, &e);
    progress_end(&p);
    store_close(s);
    return rc == ERR_OK ? print_done(c, path, "written") : cli_fail(&e);
}

int cmd_backup(struct cli *c, int argc, char **argv)
{
    bool is_check = false;
    const struct opt options[] = {
        {"check", 0, OPT_FLAG, &is_check, 0, 0, NULL, "check FILE instead of writing it"}};
    const struct cli_usage usage = {
        .line = "milepost backup FILE | milepost backup --check FILE [--json]",
        .about =
            "Copies the controller's database to a new FILE while the controller runs: one moment\n"
            "of it, in one file. --check reads all of FILE (SQLite's integrity check, "
            "references);\n"
            "'milepost replay FILE' then proves its decisions.",
        .opt = options,
        .n_opt = 1,
        .min_args = 1,
        .max_args = 1};
    int n_args;
    int code = cli_begin(c, &usage, argc, argv, &n_args);

    if (code != CLI_CONTINUE)
        return code;
    return is_check ? check(c, argv[0]) : back_up(c, argv[0]);
}
