/* verifier/check_command.h - `milepost-verifier check --cases FILE.tsv`. */
#ifndef VERIFIER_CHECK_COMMAND_H
#define VERIFIER_CHECK_COMMAND_H

/* argv[0] is the program, argv[1] "check". Writes to stdout; returns the exit code: 0 all rows
 * agree, 1 some do not, 2 usage or a broken table. */
int check_command(int argc, char **argv);

#endif
