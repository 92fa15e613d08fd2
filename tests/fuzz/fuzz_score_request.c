/* Bodies of POST /score: any bytes are refused or give outputs that an engine's codec takes. */
#include "verifier/score_request.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct err e;
    struct score_request q;
    arena_init(&a, 64 * MiB);
    if (score_request_parse((struct str){(const char *)data, size}, &a, &q, &e) == ERR_OK) {
        for (size_t i = 0; i < q.n; i++)
            if (!q.output[i].text.p || !q.output[i].metadata.n)
                abort();
    } else if (e.msg[0] == '\0') {
        abort();
    }
    arena_free(&a);
    return 0;
}
