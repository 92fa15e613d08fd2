/* Any bytes as a user's text: encoding and decoding give them back, streaming gives valid UTF-8 of
 * the same content, a chat message brings no control token. The first byte picks the split. */
#include "engine/text/chat_template.h"
#include "engine/text/detok.h"
#include "engine/text/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N_SPLITS = 4, MAX_TEXT = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct target {
    struct gguf *file;
    struct tokenizer *t;
    const struct chat_template *chat;
};

static void check(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "fuzz_tokenizer: %s\n", what);
        abort();
    }
}

static struct target open_target(const char *split)
{
    const struct fixture f = {
        .split = split,
        .jinja = STR("{{ '<|im_start|>system\\nBe brief.<|im_end|>\\n' }}"),
        .merge = {"h e", "l l", "he ll", "hell o", "a a", "aa aa", "= =", "1 2", "12 3"},
        .control = {"<|im_start|>", "<|im_end|>"},
        .user = {"<think>", ":::"},
    };
    struct target x;
    struct buf b;
    char path[64];
    buf_init(&b, MiB);
    fixture_write(&b, &f);
    int fd = memfd_create("vocabulary", 0);
    check(fd >= 0 && write(fd, b.p, b.n) == (ssize_t)b.n, "memory file");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    check(gguf_open(&x.file, path, NULL) == ERR_OK, "gguf_open");
    check(tokenizer_open(&x.t, x.file, NULL) == ERR_OK, "tokenizer_open");
    check(chat_template_find(&x.chat, x.file, NULL, NULL) == ERR_OK, "chat_template_find");
    close(fd);
    buf_free(&b);
    return x;
}

static void check_round_trip(const struct target *x, struct str text, bool parse_special)
{
    static int32_t ids[MAX_TEXT];
    struct buf out;
    size_t n;
    buf_init(&out, 2 * MAX_TEXT);
    check(tokenizer_encode(x->t, text, parse_special, ids, MAX_TEXT, &n, NULL) == ERR_OK, "encode");
    tokenizer_decode(x->t, ids, n, false, &out);
    check(str_eq(buf_str(&out), text), "decoding gives another text");
    buf_free(&out);
}

/* The first bytes of the text serve as stop strings as well. */
static void check_stream(const struct target *x, struct str text)
{
    static int32_t ids[MAX_TEXT];
    const struct str stop[] = {str_slice(text, 0, 3), STR("\n\n"), str_slice(text, 1, 2)};
    struct detok d;
    struct str piece;
    size_t n, total = 0;
    check(tokenizer_encode(x->t, text, false, ids, MAX_TEXT, &n, NULL) == ERR_OK, "encode");
    detok_init(&d, x->t, stop, 3, 4 * MAX_TEXT);
    for (size_t i = 0; i <= n; i++) {
        if (i < n)
            detok_push(&d, ids[i], &piece);
        else
            detok_finish(&d, &piece);
        check(utf8_is_valid(piece), "a piece is not UTF-8");
        total += piece.n;
    }
    check(total == d.text.n, "pieces and text differ");
    for (size_t i = 0; i < 3; i++)
        check(!stop[i].n || !utf8_is_valid(stop[i]) || str_find(buf_str(&d.text), stop[i], 0) < 0,
              "a stop string is in the text");
    detok_fini(&d);
}

static void check_chat(const struct target *x, struct str text)
{
    static int32_t ids[MAX_TEXT + 256];
    struct chat_message m[] = {{STR("user"), text}};
    size_t n, n_special = 0;
    check(chat_template_encode(x->chat, x->t, x->file, m, 1, ids, MAX_TEXT + 256, &n, NULL) ==
              ERR_OK,
          "chat_template_encode");
    for (size_t i = 0; i < n; i++)
        n_special += tokenizer_is_special(x->t, ids[i]);
    check(n_special == 5, "a message changed the number of control tokens");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const SPLITS[N_SPLITS] = {"gpt-2", "llama-bpe", "qwen2", "smollm"};
    static struct target targets[N_SPLITS];
    if (size < 1 || size > MAX_TEXT)
        return 0;
    struct target *x = &targets[data[0] % N_SPLITS];
    if (!x->t)
        *x = open_target(SPLITS[data[0] % N_SPLITS]);
    struct str text = {(const char *)data + 1, size - 1};
    check_round_trip(x, text, data[0] & 4);
    check_stream(x, text);
    check_chat(x, text);
    return 0;
}
