/* The answer letter: within the letters there are, and a letter alone is stated too. */
#include "verifier/text/letter.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    char stated = letter_stated(text, 5), alone = letter_alone(text, 26);
    if ((stated && (stated < 'A' || stated > 'E')) || (alone && (alone < 'A' || alone > 'Z')))
        abort();
    return 0;
}
