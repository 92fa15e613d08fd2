/* Numbers in model text: never past the end, and the digits found are digits. */
#include "verifier/text/numeral.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool are_digits(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] != '.' && (s.p[i] < '0' || s.p[i] > '9'))
            return false;
    return s.n == 0 || s.p[0] != '0';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct arena a;
    struct numeral n;
    arena_init(&a, 64 << 20);
    if (numeral_stated(text, &a, &n)) {
        bool is_inside = n.text.p >= text.p && n.text.p + n.text.n <= text.p + text.n;
        if (!is_inside || !are_digits(n.digits))
            abort();
        if (n.is_exact && !numeral_equal(&n, &n, 0))
            abort();
    }
    arena_free(&a);
    return 0;
}
