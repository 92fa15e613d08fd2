/* Start and end of a command: options, configuration, errors, addresses.
 *
 * Exit codes: 0 done, 1 it did not work, 2 command line or configuration. */
#include "controller/cli/cli.h"

#include "common/http_client.h"
#include "common/nearest.h"
#include "common/tone.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WORDS = 16, ARENA_MAX_MIB = 64, PATH_MAX_BYTES = 4096 };

static const char *const CONFIG_PLACES[] = {"milepost.yaml", "deploy/milepost.yaml",
                                            "/etc/milepost/milepost.yaml"};

static void print_help(const struct cli_usage *u, const struct opt_group *groups, size_t n)
{
    printf("Usage: %s\n\n%s\n", u->line, u->about);
    opt_help(groups, n, stdout);
    printf("\nExit codes: 0 done, 1 it did not work, 2 command line or configuration.\n");
}

const char *cli_find_config(const char *given)
{
    const char *from_env = getenv("MILEPOST_CONFIG");

    if (given != NULL)
        return given;
    if (from_env != NULL && from_env[0] != '\0')
        return from_env;
    for (size_t i = 0; i < sizeof CONFIG_PLACES / sizeof CONFIG_PLACES[0]; i++)
        if (access(CONFIG_PLACES[i], R_OK) == 0)
            return CONFIG_PLACES[i];
    return NULL;
}

int cli_reload(struct cli *c, struct err *e)
{
    memset(&c->config, 0, sizeof c->config);
    return milepost_config_load(c->config_path, c->set.item, c->set.n, &c->arena, &c->config, e);
}

/* The first argument against the words there are. */
static int check_word(const struct cli_usage *u, const char *given, struct err *e)
{
    struct arena a;
    const char *name[MAX_WORDS];
    size_t n = 0;
    arena_init(&a, 4 * KiB);
    for (struct str rest = str_from(u->words), word; n < MAX_WORDS && str_split(&rest, ' ', &word);)
        name[n++] = arena_str(&a, word).p;
    bool is_known = false;
    for (size_t i = 0; i < n; i++)
        is_known = is_known || strcmp(given, name[i]) == 0;
    const char *near = is_known ? NULL : nearest_name(str_from(given), name, n);
    int rc = is_known ? ERR_OK
                      : err_set(e, ERR_INVALID, "'%.60s' is none of: %s%s%s%s", given, u->words,
                                near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    arena_free(&a);
    return rc;
}

int cli_begin(struct cli *c, const struct cli_usage *u, int argc, char **argv, int *n_args)
{
    const struct opt shared[] = {
        {"config", 'c', OPT_TEXT, &c->config_path, 0, 0, "FILE",
         "configuration; else $MILEPOST_CONFIG, ./milepost.yaml, deploy/, /etc/milepost/"},
        {"set", 's', OPT_LIST, &c->set, 0, 0, "KEY=VALUE", "override one key, repeatable"},
        {"controller", 0, OPT_TEXT, &c->controller, 0, 0, "URL", "of another controller"},
        {"engine", 0, OPT_TEXT, &c->engine, 0, 0, "URL", "of another engine"},
        {"json", 'j', OPT_FLAG, &c->json, 0, 0, NULL, "print JSON"},
        {"help", 'h', OPT_FLAG, &c->help, 0, 0, NULL, "this text"},
    };
    const struct opt_group groups[] = {{"Options", u->opt, u->n_opt},
                                       {"Common options", shared, sizeof shared / sizeof *shared}};
    struct err e = {0};
    int given = 0;

    if (c->outline != NULL) {
        c->outline->show(c->outline->ctx, u, groups, 2);
        return CLI_OK;
    }
    arena_init(&c->arena, ARENA_MAX_MIB * MiB);
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(u, groups, 2); /* before parsing, so that defaults are shown */
            return CLI_OK;
        }
    }
    if (opt_parse(groups, 2, argc, argv, &given, &e) != ERR_OK)
        return cli_fail(&e);
    if (given < u->min_args || given > u->max_args) {
        err_set(&e, ERR_INVALID, "%s\nUsage: %s",
                given < u->min_args ? "an argument is missing" : "too many arguments", u->line);
        return cli_fail(&e);
    }
    if (u->words != NULL && given > 0 && check_word(u, argv[0], &e) != ERR_OK)
        return cli_fail(&e);
    *n_args = given;
    if (u->needs_no_config)
        return CLI_CONTINUE;
    c->config_path = cli_find_config(c->config_path);
    return cli_reload(c, &e) == ERR_OK ? CLI_CONTINUE : (cli_fail(&e), CLI_USAGE);
}

void cli_end(struct cli *c)
{
    http_client_close(c->http);
    arena_free(&c->arena);
}

int cli_fail(const struct err *e)
{
    fprintf(stderr, "%smilepost:%s %s\n", tone_begin(stderr, TONE_BAD), tone_end(stderr, TONE_BAD),
            e->msg);
    return e->code == ERR_INVALID ? CLI_USAGE : CLI_FAILED;
}

int cli_print_json(const json_t *v)
{
    if (json_dumpf(v, stdout, JSON_INDENT(2)) != 0)
        return CLI_FAILED;
    putchar('\n');
    return CLI_OK;
}

const char *cli_url(struct cli *c, const char *given, struct str host, int64_t port)
{
    if (given != NULL)
        return given;
    if (host.n == 0 || str_eq_c(host, "0.0.0.0") || str_eq_c(host, "::"))
        host = STR("127.0.0.1");
    bool is_v6 = memchr(host.p, ':', host.n) != NULL;
    struct str url = arena_printf(&c->arena, "http://%s" STR_FMT "%s:%lld", is_v6 ? "[" : "",
                                  STR_ARG(host), is_v6 ? "]" : "", (long long)port);
    return url.p != NULL ? url.p : "";
}

const char *cli_engine_url(struct cli *c)
{
    return cli_url(c, c->engine, c->config.engine.host, c->config.engine.port);
}

const char *cli_controller_url(struct cli *c)
{
    return cli_url(c, c->controller, c->config.controller.host, c->config.controller.port);
}

int cli_sibling(struct cli *c, const char *name, const char **out, struct err *e)
{
    char self[PATH_MAX_BYTES];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    if (n <= 0)
        return err_set(e, ERR_IO, "cannot read /proc/self/exe to find %s", name);
    self[n] = '\0';
    char *slash = strrchr(self, '/');
    *slash = '\0';
    struct str path = arena_printf(&c->arena, "%s/%s", self, name);
    if (path.p == NULL)
        return err_set(e, ERR_NOMEM, "path of %s", name);
    if (access(path.p, X_OK) != 0)
        return err_set(e, ERR_NOT_FOUND, "%s is missing beside milepost; build it with milepost",
                       path.p);
    *out = path.p;
    return ERR_OK;
}

const char *cli_author(struct cli *c)
{
    const char *name = getenv("SUDO_USER");
    const struct passwd *who = getpwuid(getuid());

    if (name == NULL || name[0] == '\0')
        name = who != NULL ? who->pw_name : "unknown";
    struct str text = arena_printf(&c->arena, "operator:%s", name);
    return text.p != NULL ? text.p : "operator:unknown";
}
