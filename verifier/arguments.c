/* Options by table; "--key value" and "--key=value". */
#include "verifier/arguments.h"

#include <string.h>

static const struct {
    const char *name;
    bool takes_value;
    enum arguments_mode mode; /* of those without a value */
    const char *help;
} OPTIONS[] = {
    {"--config", true, MODE_SERVE, "FILE  the configuration of all processes"},
    {"--set", true, MODE_SERVE, "KEY=VALUE  one key over the file, again and again"},
    {"--check-config", false, MODE_CHECK_CONFIG, "open every check, say what is wrong, exit"},
    {"--print-config", false, MODE_PRINT_CONFIG, "print the effective configuration, exit"},
    {"--version", false, MODE_VERSION, "print the version, exit"},
    {"--help", false, MODE_HELP, "print this, exit"},
};
enum { OPTIONS_N = sizeof OPTIONS / sizeof OPTIONS[0], CONFIG = 0 };

static int find_option(const char *arg, const char **value)
{
    const char *equals = strchr(arg, '=');
    size_t n = equals ? (size_t)(equals - arg) : strlen(arg);
    *value = equals ? equals + 1 : NULL;
    for (int i = 0; i < OPTIONS_N; i++)
        if (strlen(OPTIONS[i].name) == n && memcmp(OPTIONS[i].name, arg, n) == 0)
            return i;
    return -1;
}

static int keep_value(struct arguments *out, int option, const char *value, struct err *e)
{
    if (option == CONFIG) {
        out->config = value;
        return ERR_OK;
    }
    if (out->n_set == ARGUMENTS_MAX_SET)
        return err_set(e, ERR_INVALID, "--set: at most %d are allowed", ARGUMENTS_MAX_SET);
    out->set[out->n_set++] = value;
    return ERR_OK;
}

int arguments_parse(int argc, char **argv, struct arguments *out, struct err *e)
{
    *out = (struct arguments){.mode = MODE_SERVE};
    for (int i = 1; i < argc; i++) {
        const char *value;
        int option = find_option(argv[i], &value);
        if (option < 0 || (value && !OPTIONS[option].takes_value))
            return err_set(e, ERR_INVALID, "unknown argument '%.60s'; see --help", argv[i]);
        if (!OPTIONS[option].takes_value) {
            out->mode = OPTIONS[option].mode;
            continue;
        }
        if (!value && i + 1 == argc)
            return err_set(e, ERR_INVALID, "%s needs a value", OPTIONS[option].name);
        int rc = keep_value(out, option, value ? value : argv[++i], e);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

void arguments_usage(FILE *to)
{
    fprintf(to, "usage: milepost-verifier [OPTION]...\n"
                "       milepost-verifier check --cases FILE.tsv\n"
                "       milepost-verifier score [OPTION]... < OUTPUTS > SCORES   (JSON lines)\n"
                "Scores outputs from the engines and sends the scores to the controller.\n");
    for (int i = 0; i < OPTIONS_N; i++)
        fprintf(to, "  %-15s %s\n", OPTIONS[i].name, OPTIONS[i].help);
    fprintf(to, "Exit: 0 done, 1 failed while running, 2 usage or configuration.\n");
}
