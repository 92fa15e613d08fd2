/* Any bytes as a model file: the tokenizer and the template opened from it, if they open at all,
 * encode and decode without harm. */
#include "engine/model/gguf.h"
#include "engine/text/chat_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_IDS = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct tokenizer *t, const struct gguf *file)
{
    const struct str texts[] = {STR("Hello world's 123\n\n  aaaa<|im_end|>"), STR("\xFF\xC3 hell"),
                                STR("")};
    static int32_t ids[MAX_IDS];
    const struct chat_template *chat;
    struct buf out;
    size_t n;
    buf_init(&out, 64 * MiB);
    for (size_t i = 0; i < 3; i++)
        if (tokenizer_encode(t, texts[i], i == 0, ids, MAX_IDS, &n, NULL) == ERR_OK)
            tokenizer_decode(t, ids, n, true, &out);
    struct chat_message m[] = {{STR("system"), texts[0]}, {STR("user"), texts[1]}};
    if (chat_template_find(&chat, file, NULL, NULL) == ERR_OK &&
        chat_template_encode(chat, t, file, m, 2, ids, MAX_IDS, &n, NULL) == ERR_OK)
        tokenizer_decode(t, ids, n, false, &out);
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf *file = NULL;
    struct tokenizer *t = NULL;
    char path[64];
    int fd = memfd_create("model", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (gguf_open(&file, path, NULL) == ERR_OK && tokenizer_open(&t, file, NULL) == ERR_OK)
        use(t, file);
    tokenizer_close(t);
    gguf_close(file);
    close(fd);
    return 0;
}
