/* Option tables: one loop over argv, one lookup, one setter per kind.
 *
 * A table rather than argp, so that every command's --help, errors and exit codes look alike and
 * the texts can be tested. Values point into argv. */
#include "common/options.h"

#include "common/nearest.h"
#include "common/tone.h"

#include <string.h>

static const struct opt *find_name(const struct opt_group *group, size_t n_group, struct str name)
{
    for (size_t g = 0; g < n_group; g++)
        for (size_t i = 0; i < group[g].n; i++)
            if (str_eq_c(name, group[g].opt[i].name))
                return &group[g].opt[i];
    return NULL;
}

static const struct opt *find_letter(const struct opt_group *group, size_t n_group, char letter)
{
    for (size_t g = 0; g < n_group; g++)
        for (size_t i = 0; i < group[g].n; i++)
            if (group[g].opt[i].letter == letter)
                return &group[g].opt[i];
    return NULL;
}

enum { MAX_OPTIONS = 64 };

static const char *nearest(const struct opt_group *group, size_t n_group, struct str name)
{
    const char *names[MAX_OPTIONS];
    size_t n = 0;

    for (size_t g = 0; g < n_group; g++)
        for (size_t i = 0; i < group[g].n && n < MAX_OPTIONS; i++)
            names[n++] = group[g].opt[i].name;
    const char *found = nearest_name(name, names, n);
    return found != NULL ? found : "";
}

static int set_int(const struct opt *o, const char *text, struct err *e)
{
    int64_t v = 0;

    if (str_to_i64(str_from(text), &v, NULL) != ERR_OK || v < o->min || v > o->max)
        return err_set(e, ERR_INVALID, "--%s: '%s' is not a whole number in [%lld, %lld]", o->name,
                       text, (long long)o->min, (long long)o->max);
    *(int64_t *)o->value = v;
    return ERR_OK;
}

static int set_list(const struct opt *o, const char *text, struct err *e)
{
    struct opt_list *list = o->value;

    if (list->n == OPT_LIST_MAX)
        return err_set(e, ERR_INVALID, "--%s: more than %d times", o->name, OPT_LIST_MAX);
    list->item[list->n++] = text;
    return ERR_OK;
}

static int set_value(const struct opt *o, const char *text, struct err *e)
{
    if (o->kind == OPT_INT)
        return set_int(o, text, e);
    if (o->kind == OPT_LIST)
        return set_list(o, text, e);
    *(const char **)o->value = text;
    return ERR_OK;
}

/* What an option looks like in argv: the option itself, and the value glued to it (or NULL). */
static int recognise(const struct opt_group *group, size_t n_group, const char *arg,
                     const struct opt **out, const char **glued, struct err *e)
{
    *glued = NULL;
    if (arg[1] != '-') {
        *out = find_letter(group, n_group, arg[1]);
        if (*out == NULL)
            return err_set(e, ERR_INVALID, "unknown option %s; see --help", arg);
        *glued = arg[2] != '\0' ? arg + 2 : NULL;
        return ERR_OK;
    }
    struct str name = str_from(arg + 2);
    const char *equals = strchr(arg, '=');
    if (equals != NULL) {
        name.n = (size_t)(equals - name.p);
        *glued = equals + 1;
    }
    *out = find_name(group, n_group, name);
    if (*out != NULL)
        return ERR_OK;
    const char *near = nearest(group, n_group, name);
    return err_set(e, ERR_INVALID, "unknown option --" STR_FMT "%s%s; see --help", STR_ARG(name),
                   near[0] ? "; did you mean --" : "", near);
}

static int take_option(const struct opt *o, const char *glued, int argc, char **argv, int *i,
                       struct err *e)
{
    if (o->kind == OPT_FLAG) {
        if (glued != NULL)
            return err_set(e, ERR_INVALID, "--%s takes no value, got '%s'", o->name, glued);
        *(bool *)o->value = true;
        return ERR_OK;
    }
    if (glued == NULL) {
        if (*i + 1 >= argc)
            return err_set(e, ERR_INVALID, "--%s needs a value: --%s %s", o->name, o->name,
                           o->argument);
        glued = argv[++*i];
    }
    return set_value(o, glued, e);
}

int opt_parse(const struct opt_group *group, size_t n_group, int argc, char **argv, int *n_left,
              struct err *e)
{
    int left = 0;
    bool only_positional = false;

    for (int i = 0; i < argc; i++) {
        char *arg = argv[i];
        if (only_positional || arg[0] != '-' || arg[1] == '\0') {
            argv[left++] = arg;
            continue;
        }
        if (strcmp(arg, "--") == 0) {
            only_positional = true;
            continue;
        }
        const struct opt *o;
        const char *glued;
        int rc = recognise(group, n_group, arg, &o, &glued, e);
        if (rc == ERR_OK)
            rc = take_option(o, glued, argc, argv, &i, e);
        if (rc != ERR_OK)
            return rc;
    }
    *n_left = left;
    return ERR_OK;
}

/* A number that may not be given stands for "not given". */
static void print_default(const struct opt *o, FILE *to)
{
    const int64_t *n = o->kind == OPT_INT ? o->value : NULL;
    if (n && *n >= o->min)
        fprintf(to, " (default %lld)", (long long)*n);
    else if (o->kind == OPT_TEXT && *(const char *const *)o->value != NULL &&
             **(const char *const *)o->value != '\0')
        fprintf(to, " (default %s)", *(const char *const *)o->value);
}

void opt_help(const struct opt_group *group, size_t n_group, FILE *to)
{
    for (size_t g = 0; g < n_group; g++) {
        if (group[g].n == 0)
            continue;
        fprintf(to, "\n%s%s:%s\n", tone_begin(to, TONE_TITLE), group[g].title,
                tone_end(to, TONE_TITLE));
        for (size_t i = 0; i < group[g].n; i++) {
            const struct opt *o = &group[g].opt[i];
            if (!o->help)
                continue;
            char letter[8] = "    ", left[64];
            if (o->letter)
                snprintf(letter, sizeof letter, "-%c, ", o->letter);
            snprintf(left, sizeof left, "%s--%s%s%s", letter, o->name, o->argument ? " " : "",
                     o->argument ? o->argument : "");
            fprintf(to, "  %-28s %s", left, o->help);
            print_default(o, to);
            fputc('\n', to);
        }
    }
}
