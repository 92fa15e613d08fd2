/* bench_prefix MODEL.gguf [ROUNDS [--check]] - the prefix cache on against off: 8 users at once, 6
 * turns each, a system prompt of 512 tokens that all share; a turn's prompt is the conversation so
 * far and 24 new tokens, its answer 32 tokens. Prints mean end-to-end time, mean time to first
 * token of the first and of the later turns, and whether the tokens were the same. --check: exit 1
 * unless the mean is at least 40% lower, later first tokens at least 80% lower, and all tokens
 * equal. */
#include "common/rng.h"
#include "tests/bench/local.h"

#include <string.h>

enum {
    N_USERS = 8,
    N_TURNS = 6,
    N_SYSTEM = 512,
    N_QUESTION = 24,
    N_ANSWER = 32,
    N_CONTEXT = N_SYSTEM + N_TURNS * (N_QUESTION + N_ANSWER),
    N_BLOCKS = N_USERS * (N_CONTEXT / KV_BLOCK_TOKENS + 2),
    MAX_ROUNDS = 9
};

struct user {
    int32_t text[N_CONTEXT];
    uint32_t n_text, turn;
    struct bench_job job;
};

struct result {
    double whole_s, first_s, later_s; /* sums */
    int32_t text[N_USERS][N_CONTEXT];
    uint64_t prompt_tokens;
};

static void ask(struct generator *g, struct user *u, uint32_t index)
{
    struct rng r;
    rng_seed(&r, 1000 + index * N_TURNS + u->turn);
    for (uint32_t i = 0; i < N_QUESTION; i++)
        u->text[u->n_text++] = (int32_t)(300 + rng_below(&r, 1000));
    bench_init_job(&u->job, u->text, u->n_text, N_ANSWER);
    bench_submit(g, &u->job);
}

static void take_answer(struct user *u, struct result *sum)
{
    const struct bench_job *j = &u->job;
    double first = bench_seconds(j->submitted, j->first_token);
    sum->whole_s += bench_seconds(j->submitted, j->end);
    *(u->turn ? &sum->later_s : &sum->first_s) += first;
    memcpy(u->text + u->n_text, j->token, N_ANSWER * sizeof *j->token);
    u->n_text += N_ANSWER;
    u->turn++;
    free(j->token);
}

static void run(struct model *m, bool prefix_cache, struct result *sum)
{
    static struct user users[N_USERS];
    const struct gen_config c = {.clock = &CLOCK_REAL,
                                 .model = m,
                                 .n_kv_blocks = N_BLOCKS,
                                 .max_batch_tokens = 512,
                                 .max_running = N_USERS,
                                 .max_queue = N_USERS,
                                 .prefill_chunk = 256,
                                 .max_context = N_CONTEXT,
                                 .max_gap_us = 40000,
                                 .prefix_cache = prefix_cache};
    struct generator *g = NULL;
    struct err e = {0};
    bench_check(GENERATOR_LOCAL.open(&g, &c, &e), &e);
    for (uint32_t i = 0; i < N_USERS; i++) {
        users[i] = (struct user){.n_text = N_SYSTEM};
        for (uint32_t k = 0; k < N_SYSTEM; k++)
            users[i].text[k] = (int32_t)(300 + k * 37 % 1000);
        ask(g, &users[i], i);
    }
    for (uint32_t open = N_USERS; open > 0;) {
        bench_wait(g);
        for (uint32_t i = 0; i < N_USERS; i++) {
            if (users[i].turn == N_TURNS || !users[i].job.has_ended)
                continue;
            take_answer(&users[i], sum);
            if (users[i].turn < N_TURNS)
                ask(g, &users[i], i);
            else
                open--;
        }
    }
    struct gen_stats s;
    GENERATOR_LOCAL.stats(g, &s);
    sum->prompt_tokens += s.prompt_tokens;
    GENERATOR_LOCAL.close(g);
    for (uint32_t i = 0; i < N_USERS; i++)
        memcpy(sum->text[i], users[i].text, sizeof users[i].text);
}

static void print(const char *name, const struct result *r, uint32_t rounds)
{
    printf("%-9s end to end %6.3f s, first token %6.3f s in turn 1, %6.3f s later; "
           "%llu prompt tokens computed\n",
           name, r->whole_s / (N_USERS * N_TURNS * rounds), r->first_s / (N_USERS * rounds),
           r->later_s / (N_USERS * (N_TURNS - 1) * rounds), (unsigned long long)r->prompt_tokens);
}

/* Prints the comparison; true when it meets what --check asks. */
static bool judge(const struct result *on, const struct result *off)
{
    bool is_same = memcmp(on->text, off->text, sizeof on->text) == 0;
    double whole = 1 - on->whole_s / off->whole_s, later = 1 - on->later_s / off->later_s;
    printf("end to end %.0f%% lower, later first tokens %.0f%% lower, tokens %s\n", 100 * whole,
           100 * later, is_same ? "the same" : "DIFFERENT");
    bool is_enough = whole >= 0.4 && later >= 0.8;
    if (!is_enough || !is_same)
        printf("short: #11 %s\n",
               is_same ? "gate 40% end to end, 80% of later first tokens" : "tokens differ");
    return is_enough && is_same;
}

int main(int argc, char **argv)
{
    static struct result off, on;
    if (argc < 2 || argc > 4) {
        fputs("usage: bench_prefix MODEL.gguf [ROUNDS [--check]]\n", stderr);
        return 2;
    }
    uint32_t rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1;
    rounds = rounds < 1 ? 1 : rounds > MAX_ROUNDS ? MAX_ROUNDS : rounds;
    struct model *m = bench_open_model(argv[1], N_BLOCKS, N_USERS);
    for (uint32_t r = 0; r < rounds; r++) {
        run(m, r % 2, r % 2 ? &on : &off);
        run(m, !(r % 2), r % 2 ? &off : &on);
    }
    model_close(m);
    print("cache off", &off, rounds);
    print("cache on", &on, rounds);
    bool is_met = judge(&on, &off);
    return argc > 3 && strcmp(argv[3], "--check") == 0 && !is_met;
}
