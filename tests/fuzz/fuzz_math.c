/* Two answers, split at the first line end: any text ends within the budget, and a text that
 * states an answer states the same one as itself. */
#include "verifier/math/answer.h"
#include "verifier/math/equal.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size}, first, rest = text, want, got;
    struct arena a;
    arena_init(&a, 256 << 20);
    str_split(&rest, '\n', &first);
    if (math_answer(first, &a, &want) == MATH_ANSWER_FOUND) {
        bool has_form = false;
        for (size_t i = 0; i < want.n; i++)
            has_form = has_form || (want.p[i] != '$' && want.p[i] > ' ' && want.p[i] != '\\');
        if (want.n <= 4096 && has_form && math_equal(want, want, -1, &a) == MATH_DIFFERENT &&
            str_find(want, STR("\\"), 0) < 0)
            abort();
        if (rest.p && math_answer(rest, &a, &got) == MATH_ANSWER_FOUND) {
            (void)math_equal(want, got, -1, &a);
            (void)math_equal(got, want, 6, &a);
        }
    }
    arena_free(&a);
    return 0;
}
