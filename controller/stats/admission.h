/* controller/stats/admission.h - puts committed outputs back into the order of their admission.
 *
 * Scores arrive in an order that depends on the reward (a failing check is often quick), so
 * statistics over arrival order are biased: 22% false rollbacks where admission order gives 1%.
 * Every engine numbers its admissions; a row is held until all earlier admissions of its source
 * were seen or the hole before it is older than the deadline. Rows that come after their place was
 * given up are late: counted, never used. A repeated number is a duplicate, never used.
 *
 * Pure and bounded: time is the commit time that the rows carry. O(held rows) for the call after
 * those that gave rows. */
#ifndef CONTROLLER_STATS_ADMISSION_H
#define CONTROLLER_STATS_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

enum {
    ADMISSION_SOURCES = 8,
    ADMISSION_HELD = 1024,
    ADMISSION_RESTART_LATE = 64,
    ADMISSION_BUCKETS = 4096
};

enum unit_flag {
    UNIT_SCORED = 1,    /* reward is valid */
    UNIT_SCORED_B = 2,  /* reward_b is valid: the disjoint set of checks */
    UNIT_TRUNCATED = 4, /* finish reason "length" */
    UNIT_INVALID = 8,   /* nothing usable came out */
    UNIT_ERROR = 16,    /* the engine failed */
    UNIT_FOREIGN = 32,  /* of another route: takes its place in the order, nothing else */
    UNIT_REFUSED = 64,  /* a check of kind refusal failed */
    UNIT_REPEATS = 128, /* a check of kind repetition failed */
    UNIT_CUT = 256,     /* the client left or the engine failed: length and time say nothing */
    UNIT_GONE = 512     /* admission.c's own: given out, its place not yet closed */
};

/* One request as the statistics see it. */
struct unit_row {
    uint64_t source;    /* hash of (engine, epoch) */
    uint64_t admission; /* 0 or 1 first, then without gaps within the source */
    uint64_t row;       /* controller's row id */
    uint64_t committed_us;
    uint64_t revision;
    uint64_t experiment; /* tag of the experiment, 0 = none */
    uint64_t checks;     /* tag of the version of the checks, 0 = not said */
    uint64_t session;    /* tag of the conversation or user, 0 = the request stands alone */
    uint64_t tokens;     /* generated */
    uint64_t latency_us; /* first token and decoding; 0 = not said */
    double propensity;
    double reward;
    double reward_b;
    uint32_t stratum;
    uint32_t flags;
};

struct admission_source {
    uint64_t id;
    uint64_t next; /* admission expected now; 0 = nothing released yet */
    uint64_t rows; /* to find the idlest source when the table is full */
    uint32_t late_run;
    uint32_t used;
};

struct admission_place { /* of a row that is held: how it is found by its number */
    uint32_t arrival;    /* 1, 2, ... in order */
    uint32_t before;     /* of the last one that arrived before it in the same bucket; 0 = none */
};

struct admission_queue {
    struct admission_source source[ADMISSION_SOURCES];
    struct unit_row held[ADMISSION_HELD]; /* in order of arrival */
    uint32_t n_held;
    uint32_t n_gone; /* of them given out; 0 after a put and after a take that gave nothing */
    uint64_t n_late;
    uint64_t n_duplicate;
    uint64_t n_missing; /* given up at the deadline, or because the queue was full; none before the
                           first row of a source */
    /* Not of the state: a queue that was read again looks and makes them anew. */
    bool is_settled; /* none that is held is in order: nothing to look for */
    uint32_t first_gone, n_place, n_arrival;
    struct admission_place place[ADMISSION_HELD]; /* [n_place] of held */
    uint32_t last[ADMISSION_BUCKETS];             /* arrival, by the top bits of a key; 0 = none */
};

/* Takes a row in. False: late or a duplicate, and counted as such. When the queue is full the
 * oldest hole is given up first: call admission_take() until it is empty-handed after every put. */
bool admission_put(struct admission_queue *q, const struct unit_row *row);

/* Gives the next row that is in order at this time. */
bool admission_take(struct admission_queue *q, uint64_t now_us, uint64_t deadline_us,
                    struct unit_row *out);

/* When admission_take() may give a row without a new one coming in; 0 = never. */
uint64_t admission_wake_us(const struct admission_queue *q, uint64_t deadline_us);

#endif
