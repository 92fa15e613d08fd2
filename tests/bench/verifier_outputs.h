/* tests/bench/verifier_outputs.h - outputs as an engine sends them, made up from a seed: answers of
 * 1 to 2 kB in prose with numbers and a JSON object, a token id and a log-probability for every
 * four bytes, a chat of two messages, the sampling parameters. Included by one .c file. */
#ifndef TESTS_BENCH_VERIFIER_OUTPUTS_H
#define TESTS_BENCH_VERIFIER_OUTPUTS_H

#include "common/rng.h"
#include "schemas/output.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    BENCH_TEXT_MIN = 1000,
    BENCH_TEXT_SPAN = 1000,
    BENCH_BYTES_PER_TOKEN = 4,
    BENCH_TOKENS_MAX = 1024
};

/* Sentences as of a tutor; about one in eight words is a number, as in worked solutions. */
static inline void bench_put_prose(struct buf *b, struct rng *r, size_t end)
{
    static const char *const WORDS[] = {
        "the",    "number", "of",    "apples", "in",     "each",  "basket", "is",     "first",
        "we",     "add",    "then",  "pears",  "which",  "gives", "a",      "total",  "so",
        "remain", "after",  "three", "days",   "people", "share", "them",   "and",    "every",
        "one",    "gets",   "half",  "price",  "dollar", "hour",  "train",  "travels"};
    enum { N_WORDS = sizeof WORDS / sizeof WORDS[0] };
    for (unsigned n = 1; b->n < end; n++) {
        if (rng_below(r, 8) == 0)
            buf_printf(b, "%u", (unsigned)rng_below(r, 1000));
        else
            buf_put_c(b, WORDS[rng_below(r, N_WORDS)]);
        buf_put_c(b, n % 60 == 0 ? ".\n\n" : n % 12 == 0 ? ". " : " ");
    }
}

static inline void bench_put_text(struct buf *b, struct rng *r, unsigned answer)
{
    size_t n = BENCH_TEXT_MIN + rng_below(r, BENCH_TEXT_SPAN);
    bench_put_prose(b, r, n - 160);
    buf_printf(b, "\n```json\n{\"a\": %u, \"unit\": \"apples\", \"steps\": [1, 2, 3]}\n```\n",
               answer);
    bench_put_prose(b, r, n - 24);
    buf_printf(b, ". The answer is %u.", answer);
}

/* One output encoded into *frame; its sequence number has ten digits. */
static inline int bench_encode_output(uint64_t seed, struct buf *frame, struct err *e)
{
    static int32_t ids[BENCH_TOKENS_MAX];
    static float logprobs[BENCH_TOKENS_MAX];
    struct rng r;
    rng_seed(&r, seed);
    struct buf text, question;
    char metadata[64];
    unsigned answer = (unsigned)rng_below(&r, 100000);
    buf_init(&text, 64 * KiB);
    buf_init(&question, 64 * KiB);
    bench_put_text(&text, &r, answer);
    bench_put_prose(&question, &r, 400);
    snprintf(metadata, sizeof metadata, "{\"reference\":%u,\"task\":\"apples\"}", answer);
    const struct output_message chat[] = {{STR("system"), STR("You are a careful tutor.")},
                                          {STR("user"), buf_str(&question)}};
    uint32_t n_tokens = (uint32_t)(text.n / BENCH_BYTES_PER_TOKEN);
    for (uint32_t i = 0; i < n_tokens; i++) {
        ids[i] = (int32_t)rng_below(&r, 128256);
        logprobs[i] = -(float)rng_below(&r, 1u << 24) / (float)(1u << 23);
    }
    struct output o = {.engine = STR("engine-1"),
                       .epoch = 1,
                       .seq = 1000000000,
                       .request_id = STR("chatcmpl-2f6c0a1b9d3e4f58"),
                       .route = STR("default"),
                       .revision = 12,
                       .arm = STR("champion"),
                       .propensity = 0.95,
                       .unit = STR("user-71"),
                       .admission = 77,
                       .desired_version = 4,
                       .messages = chat,
                       .n_messages = 2,
                       .text = buf_str(&text),
                       .token_ids = ids,
                       .logprobs = logprobs,
                       .n_tokens = n_tokens,
                       .finish_reason = STR("stop"),
                       .prompt_tokens = 120,
                       .completion_tokens = n_tokens,
                       .queue_us = 210,
                       .ttft_us = 48211,
                       .decode_us = 5120033,
                       .created_us = 1764451200000000,
                       .model = STR("SmolLM2-135M-Instruct"),
                       .weights = STR("SmolLM2-135M-Instruct.Q4_1.gguf"),
                       .metadata = str_from(metadata)};
    struct param_set none = {0};
    params_resolve(&none, NULL, &o.effective);
    int rc = output_encode(&o, frame, e);
    buf_free(&text);
    buf_free(&question);
    return rc;
}

#endif
