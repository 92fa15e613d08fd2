/* write_tiny ARCHITECTURE FILE.gguf - the tiny random model that golden_logits --tiny runs, for
 * make.py and for looking at. */
#include "tests/harness/tiny_model.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    struct err e = {0};
    if (argc != 3) {
        fputs("usage: write_tiny ARCHITECTURE FILE.gguf\n", stderr);
        return 2;
    }
    const struct tiny_model tiny = tiny_model_of(argv[1]);
    if (tiny_model_write(&tiny, argv[2], &e) != ERR_OK) {
        fprintf(stderr, "write_tiny: %s\n", e.msg);
        return 1;
    }
    return 0;
}
