/* controller/cli/bench/workload.h - what a load asks for: lengths, words, arrival times. Pure.
 *
 * A load is a number of conversations of one or more turns. Everything about one follows from the
 * seed and its number, so that threads need no lock and two runs send the same bytes. Prompts are
 * made of short common English words, each one token with most vocabularies; servers report the
 * true number of tokens, which is what results are given in. */
#ifndef CONTROLLER_CLI_BENCH_WORKLOAD_H
#define CONTROLLER_CLI_BENCH_WORKLOAD_H

#include "common/buf.h"

enum { BENCH_MAX_WORDS = 32768, BENCH_MAX_OUTPUT = 16384 };

enum length_law {
    LENGTH_FIXED,
    /* Log-normal, like conversations people shared (ShareGPT, as used by vLLM's benchmarks): the
     * given lengths are medians, sigma 1.1 for prompts and 0.9 for outputs. */
    LENGTH_SHAREGPT,
    LENGTH_EXPONENTIAL /* the given lengths are means */
};

struct workload {
    uint64_t seed, prefix_seed; /* the shared prefix has its own */
    enum length_law law;
    uint32_t prompt_words, output_tokens; /* per turn */
    uint32_t max_words, max_output;       /* of one turn; a longer draw is cut */
    uint32_t prefix_words;                /* system message common to all; 0 = none */
    double rate_s;                        /* conversations a second (Poisson); 0 = closed loop */
};

struct turn_size {
    uint32_t words, output_tokens; /* both at least 1 */
};

/* ERR_INVALID lists the known names. */
MUST_USE int workload_law(const char *name, enum length_law *out, struct err *e);
struct turn_size workload_turn(const struct workload *w, uint64_t conversation, uint32_t turn);
/* The user's text of a turn, and the system text common to all. */
void workload_text(const struct workload *w, uint64_t conversation, uint32_t turn, struct buf *out);
void workload_prefix(const struct workload *w, struct buf *out);
/* Start of each conversation from the begin of the load: a Poisson process; zeros when rate_s is
 * 0. due_us: [n]. */
void workload_arrivals(const struct workload *w, uint64_t *due_us, uint32_t n);

#endif
