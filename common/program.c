/* One table of shared options, so that all processes read, refuse and explain alike. */
#include "common/program.h"

#include <string.h>

static void print_help(const struct program *p, const struct opt_group *groups, size_t n)
{
    printf("Usage: %s %s\n\n%s\n", p->name, p->usage, p->about);
    opt_help(groups, n, stdout);
    printf("\nExit codes: 0 done, 1 failed while running, 2 command line or configuration, 3 "
           "device.\n");
}

int program_begin(struct program *p, int argc, char **argv)
{
    bool is_help = false, is_version = false;
    const struct opt shared[] = {
        {"config", 'c', OPT_TEXT, &p->config, 0, 0, "FILE",
         "the configuration of all processes; without it every key has its default"},
        {"set", 's', OPT_LIST, &p->set, 0, 0, "KEY=VALUE", "one key over the file, repeatable"},
        {"check-config", 'k', OPT_FLAG, &p->is_check, 0, 0, NULL, "say what is wrong, exit"},
        {"print-config", 'p', OPT_FLAG, &p->is_print, 0, 0, NULL, "the effective one, exit"},
        {"version", 'V', OPT_FLAG, &is_version, 0, 0, NULL, "print the version, exit"},
        {"help", 'h', OPT_FLAG, &is_help, 0, 0, NULL, "this text"},
    };
    const struct opt_group groups[] = {{"Options", p->opt, p->n_opt},
                                       {"Common options", shared, sizeof shared / sizeof *shared}};
    struct err e = {0};
    int n_left = 0;
    int rc = opt_parse(groups, 2, argc - 1, argv + 1, &n_left, &e);
    if (rc == ERR_OK && n_left > 0)
        rc = err_set(&e, ERR_INVALID, "'%.60s' is not expected; see --help", argv[1]);
    if (rc != ERR_OK)
        return program_end(p, rc, PROGRAM_USAGE, &e);
    if (is_help)
        print_help(p, groups, 2);
    else if (is_version)
        printf("%s %s\n", p->name, MILEPOST_VERSION);
    return is_help || is_version ? PROGRAM_OK : PROGRAM_CONTINUE;
}

int program_end(const struct program *p, int rc, int code, const struct err *e)
{
    if (rc == ERR_OK)
        return PROGRAM_OK;
    fprintf(stderr, "%s: %s\n", p->name, e->msg);
    return rc == ERR_DEVICE ? PROGRAM_DEVICE : code;
}

int program_print_config(const struct cfg_table *t, const void *config, struct err *e)
{
    struct buf out;
    buf_init(&out, 4 * MiB);
    int rc = cfg_print(t, config, &out, e);
    if (rc == ERR_OK && fwrite(out.p, 1, out.n, stdout) != out.n)
        rc = err_set(e, ERR_IO, "cannot write to standard output");
    buf_free(&out);
    return rc;
}
