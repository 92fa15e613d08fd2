/* Draws of a load. Each draw seeds its own generator from (seed, purpose, number), so nothing here
 * has state. */
#include "controller/cli/bench/workload.h"

#include "common/rng.h"

#include <math.h>
#include <string.h>

static const double SIGMA_PROMPT = 1.1, SIGMA_OUTPUT = 0.9;

static const char *const WORDS[] = {
    "the",   "of",     "and",   "to",     "in",    "is",    "that",  "for",   "it",   "was",
    "with",  "be",     "by",    "on",     "not",   "he",    "his",   "but",   "at",   "are",
    "this",  "have",   "from",  "or",     "had",   "an",    "they",  "which", "one",  "you",
    "were",  "all",    "her",   "she",    "there", "would", "their", "we",    "him",  "been",
    "has",   "when",   "who",   "will",   "no",    "more",  "if",    "out",   "so",   "up",
    "said",  "what",   "its",   "about",  "than",  "into",  "them",  "can",   "only", "other",
    "time",  "new",    "some",  "could",  "these", "two",   "may",   "first", "then", "do",
    "any",   "like",   "my",    "now",    "over",  "such",  "our",   "man",   "me",   "even",
    "most",  "made",   "after", "also",   "did",   "many",  "off",   "must",  "well", "back",
    "years", "much",   "where", "your",   "way",   "down",  "long",  "each",  "just", "state",
    "those", "people", "how",   "little", "good",  "world", "make",  "see",   "own",  "work",
};
enum { N_WORDS = sizeof WORDS / sizeof WORDS[0] };

enum purpose { FOR_LENGTH = 1, FOR_TEXT, FOR_PREFIX, FOR_ARRIVAL };

static const struct {
    const char *name;
    enum length_law law;
} LAWS[] = {
    {"fixed", LENGTH_FIXED}, {"sharegpt", LENGTH_SHAREGPT}, {"exponential", LENGTH_EXPONENTIAL}};

int workload_law(const char *name, enum length_law *out, struct err *e)
{
    for (size_t i = 0; i < sizeof LAWS / sizeof LAWS[0]; i++) {
        if (strcmp(LAWS[i].name, name) == 0) {
            *out = LAWS[i].law;
            return ERR_OK;
        }
    }
    return err_set(e, ERR_INVALID, "--lengths: '%s' is none of fixed, sharegpt, exponential", name);
}

static struct rng start(uint64_t seed, enum purpose purpose, uint64_t conversation, uint32_t turn)
{
    uint64_t state = seed;
    struct rng r;

    state = rng_splitmix(&state) ^ (uint64_t)purpose;
    state = rng_splitmix(&state) ^ conversation;
    state = rng_splitmix(&state) ^ turn;
    rng_seed(&r, rng_splitmix(&state));
    return r;
}

static double exponential(struct rng *r)
{
    return -log1p(-rng_uniform(r));
}

static uint32_t draw(struct rng *r, enum length_law law, uint32_t length, double sigma,
                     uint32_t most)
{
    double v = length;

    if (law == LENGTH_SHAREGPT)
        v *= exp(sigma * rng_normal(r));
    else if (law == LENGTH_EXPONENTIAL)
        v *= exponential(r);
    v = round(v);
    return v < 1 ? 1 : v > most ? most : (uint32_t)v;
}

struct turn_size workload_turn(const struct workload *w, uint64_t conversation, uint32_t turn)
{
    struct rng r = start(w->seed, FOR_LENGTH, conversation, turn);
    uint32_t words = draw(&r, w->law, w->prompt_words, SIGMA_PROMPT, w->max_words);

    return (struct turn_size){words,
                              draw(&r, w->law, w->output_tokens, SIGMA_OUTPUT, w->max_output)};
}

static void put_words(struct rng *r, uint32_t n, struct buf *out)
{
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0)
            buf_put_char(out, ' ');
        buf_put_c(out, WORDS[rng_below(r, N_WORDS)]);
    }
}

void workload_text(const struct workload *w, uint64_t conversation, uint32_t turn, struct buf *out)
{
    struct rng r = start(w->seed, FOR_TEXT, conversation, turn);

    put_words(&r, workload_turn(w, conversation, turn).words, out);
}

void workload_prefix(const struct workload *w, struct buf *out)
{
    struct rng r = start(w->prefix_seed, FOR_PREFIX, 0, 0);

    put_words(&r, w->prefix_words, out);
}

void workload_arrivals(const struct workload *w, uint64_t *due_us, uint32_t n)
{
    struct rng r = start(w->seed, FOR_ARRIVAL, 0, 0);
    double at_s = 0;

    for (uint32_t i = 0; i < n; i++) {
        due_us[i] = (uint64_t)(at_s * 1e6);
        if (w->rate_s > 0)
            at_s += exponential(&r) / w->rate_s;
    }
}
