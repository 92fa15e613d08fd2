/* Every command of `milepost`, in the order and groups of its help. One line here is a new command:
 * help, the nearest name of a misspelt one and completion follow from it. */
#include "controller/cli/cli.h"

const struct cli_command CLI_COMMANDS[] = {
    {"Run", "up", "start engine, verifier and controller; Ctrl-C stops them", cmd_up},
    {"Run", "demo", "watch the loop catch a bad push, then mend a bad setting", cmd_demo},
    {"Use", "chat", "talk to the model", cmd_chat},
    {"Watch", "status", "engines, routes, arms and their tests", cmd_status},
    {"Watch", "doctor", "where time goes, what is wrong and what to do", cmd_doctor},
    {"Watch", "why", "what a decision rests on", cmd_why},
    {"Watch", "scores", "recent outputs with their check results", cmd_scores},
    {"Steer", "params", "show, set, history, diff of a route's parameters", cmd_params},
    {"Steer", "rollback", "back to an earlier revision", cmd_rollback},
    {"Steer", "promote", "the revision on trial serves all, untested", cmd_promote},
    {"Steer", "stop", "end the running trial", cmd_stop},
    {"Steer", "experiment", "compare several settings at once: plan, start, list, report, stop",
     cmd_experiment},
    {"Steer", "pause", "freeze a route's law", cmd_pause},
    {"Steer", "resume", "let it go on", cmd_resume},
    {"Steer", "engine", "list engines; drain, resume, flush-cache, load-weights", cmd_engine},
    {"Check", "config", "check a configuration file, print its reference", cmd_config},
    {"Check", "bench", "measure a server under load, or the kernels", cmd_bench},
    {"Check", "rescore", "stored outputs under other checks, beside their old scores", cmd_rescore},
    {"Check", "replay", "recompute every decision from the stored rows", cmd_replay},
    {"Keep", "export", "scored outputs for training, as JSON lines", cmd_export},
    {"Keep", "finetune", "export a dataset on the controller and tell its webhooks", cmd_finetune},
    {"Keep", "backup", "copy the database while it is in use; check a copy", cmd_backup},
    {"Set up", "completion", "completion for bash or zsh, to be sourced", cmd_completion},
};
_Static_assert(sizeof CLI_COMMANDS / sizeof *CLI_COMMANDS == CLI_COMMANDS_N, "see cli.h");
