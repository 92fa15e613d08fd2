/* milepost-verifier: thin main. */
#include "verifier/check_command.h"

#include <string.h>

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "check") == 0)
        return check_command(argc, argv);
    return 2;
}
