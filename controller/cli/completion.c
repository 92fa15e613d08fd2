/* `milepost completion bash|zsh`: a script made from the table of commands and from the option
 * tables that the commands themselves parse with, so that it knows what this program knows. */
#include "controller/cli/cli.h"

#include <string.h>

struct writer {
    const struct cli_command *command;
    bool is_zsh;
};

static bool takes_file(const struct opt *o)
{
    return o->argument && (strstr(o->argument, "FILE") || strstr(o->argument, "FOLDER"));
}

/* Bash: lists of words. kind: 0 flags, 1 with a value, 2 with a file. */
static void bash_list(const char *name, const struct opt_group *groups, size_t n, int kind)
{
    printf(" %s=\"", name);
    for (size_t g = 0; g < n; g++)
        for (size_t i = 0; i < groups[g].n; i++) {
            const struct opt *o = &groups[g].opt[i];
            int its = o->kind == OPT_FLAG ? 0 : takes_file(o) ? 2 : 1;
            if (its != kind || !o->help)
                continue;
            printf("--%s ", o->name);
            if (o->letter)
                printf("-%c ", o->letter);
        }
    putchar('"');
}

static void bash_command(const struct cli_command *c, const struct cli_usage *u,
                         const struct opt_group *groups, size_t n)
{
    printf("    %s) words=\"%s\"", c->name, u->words ? u->words : "");
    bash_list("flags", groups, n, 0);
    bash_list("values", groups, n, 1);
    bash_list("files", groups, n, 2);
    puts(" ;;");
}

/* In single quotes; what _arguments reads itself is escaped. */
static void zsh_text(const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (*text == '\n')
            putchar(' ');
        else if (strchr("[]:\\", *text))
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

static void zsh_option(const struct opt *o)
{
    const char *more = o->kind == OPT_LIST ? "*" : "";
    if (o->letter)
        printf(" \\\n        '%s-%c[", more, o->letter), zsh_text(o->help), fputs("]", stdout);
    for (int is_long = 0; is_long < 2; is_long++) {
        if (is_long)
            printf(" \\\n        '%s--%s[", more, o->name), zsh_text(o->help), fputs("]", stdout);
        else if (!o->letter)
            continue;
        if (o->kind != OPT_FLAG) {
            putchar(':');
            zsh_text(o->argument);
            fputs(takes_file(o) ? ":_files" : ": ", stdout);
        }
        putchar('\'');
    }
}

static void zsh_command(const struct cli_command *c, const struct cli_usage *u,
                        const struct opt_group *groups, size_t n)
{
    printf("    %s)\n        _arguments -s", c->name);
    for (size_t g = 0; g < n; g++)
        for (size_t i = 0; i < groups[g].n; i++)
            if (groups[g].opt[i].help)
                zsh_option(&groups[g].opt[i]);
    if (u->words)
        printf(" \\\n        '1:what:(%s)'", u->words);
    puts(" \\\n        '*:file:_files' ;;");
}

static void show(void *ctx, const struct cli_usage *u, const struct opt_group *groups, size_t n)
{
    const struct writer *w = ctx;
    (w->is_zsh ? zsh_command : bash_command)(w->command, u, groups, n);
}

static void write_commands(bool is_zsh)
{
    for (size_t i = 0; i < CLI_COMMANDS_N; i++) {
        struct writer w = {&CLI_COMMANDS[i], is_zsh};
        const struct cli_outline outline = {show, &w};
        struct cli c = {.outline = &outline};
        (void)CLI_COMMANDS[i].run(&c, 0, NULL);
        cli_end(&c);
    }
}

static void write_bash(void)
{
    puts("# Completion of milepost for bash: source <(milepost completion bash)\n"
         "_milepost()\n{\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
         "    local words= flags= values= files=\n"
         "    if [ \"$COMP_CWORD\" -eq 1 ]; then");
    printf("        mapfile -t COMPREPLY < <(compgen -W \"--help --version");
    for (size_t i = 0; i < CLI_COMMANDS_N; i++)
        printf(" %s", CLI_COMMANDS[i].name);
    puts("\" -- \"$cur\")\n        return\n    fi\n    case ${COMP_WORDS[1]} in");
    write_commands(false);
    puts("    esac\n    COMPREPLY=()\n"
         "    case \" $values \" in *\" $prev \"*) return ;; esac\n"
         "    if [[ \" $files \" == *\" $prev \"* ]]; then\n"
         "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
         "    elif [[ $cur == -* ]]; then\n"
         "        mapfile -t COMPREPLY < <(compgen -W \"$flags $values $files\" -- \"$cur\")\n"
         "    elif [ \"$COMP_CWORD\" -eq 2 ] && [ -n \"$words\" ]; then\n"
         "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
         "    else\n"
         "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
         "    fi\n}\n"
         "complete -o filenames -F _milepost milepost");
}

static void write_zsh(void)
{
    puts("#compdef milepost\n# Completion of milepost for zsh: source <(milepost completion zsh)\n"
         "_milepost()\n{\n    local -a commands=(");
    for (size_t i = 0; i < CLI_COMMANDS_N; i++) {
        printf("        '%s:", CLI_COMMANDS[i].name);
        zsh_text(CLI_COMMANDS[i].summary);
        puts("'");
    }
    puts("    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n"
         "        return\n    fi\n    local command=$words[2]\n    shift words\n"
         "    (( CURRENT-- ))\n    case $command in");
    write_commands(true);
    puts("    esac\n}\ncompdef _milepost milepost");
}

int cmd_completion(struct cli *c, int argc, char **argv)
{
    static const struct cli_usage usage = {
        .line = "milepost completion bash | zsh",
        .about = "Prints a script that completes commands, options and files.\n"
                 "  bash: source <(milepost completion bash)    in ~/.bashrc\n"
                 "  zsh:  source <(milepost completion zsh)     in ~/.zshrc, after compinit",
        .min_args = 1,
        .max_args = 1,
        .words = "bash zsh",
        .needs_no_config = true};
    int n_args;
    int code = cli_begin(c, &usage, argc, argv, &n_args);

    if (code != CLI_CONTINUE)
        return code;
    if (strcmp(argv[0], "zsh") == 0)
        write_zsh();
    else
        write_bash();
    return CLI_OK;
}
