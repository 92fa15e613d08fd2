/* tests/sim/world.h - engines' control side, verifier and controller in one process, virtual time.
 *
 * The parts are those that serve: admission, outbox, publisher and control client of the engine,
 * the verifier's judge with real checks, the controller's loop over SQLite; they meet on the
 * in-memory bus, which loses, repeats, delays and reorders by seed. Only what computes is made up:
 * tokens come from a random number, and better ones at a lower temperature. Time and every random
 * number, those of the serving code too, come from the plan and its seed, so the same plan gives
 * the same run to the bit. An event is one part doing one thing; audit.h looks after each. One
 * thread. */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "common/rng.h"
#include "controller/loop.h"
#include "engine/control/desired_table.h"
#include "engine/control/wire.h"
#include "verifier/judge.h"

enum {
    WORLD_ENGINES = 2,
    WORLD_FLIGHTS = 128,
    WORLD_HELD = 64,
    WORLD_ROUTES = 2,
    WORLD_CHECK_SETS = 2
};

struct audit;

struct world_plan {
    uint64_t seed, n_requests;
    uint32_t n_engines, burst; /* burst: most requests that come at once */
    double service_us;         /* mean, of a generation */
    struct bus_faults faults;
    double restarts;       /* of any of the three, chance per event */
    double operator_acts;  /* chance per event */
    uint64_t outbox_bytes; /* a small one drops rows while nobody takes them */
    bool is_audited;
    char again[96]; /* the environment that gives this run again, for whoever reads of its end */
};

/* What the simulator itself knows of a record that its engine stored. */
struct fact {
    uint64_t seq, revision, desired_version, experiment; /* experiment: hash of its name */
    double propensity, reward;                           /* reward: NaN = cannot be scored */
    uint32_t route;
    bool is_committed, is_invalid;
};

struct flight {                /* one request from admission to its stored record */
    struct sim_engine *engine; /* NULL = free */
    struct route_table *table;
    struct route_choice choice;
    struct params effective;
    struct output output;
    struct fact fact;
    uint64_t end_us;
    char id[32], unit[24], text[80], metadata[40];
    int32_t token[4];
    float logprob[4];
};

struct sim_engine {
    struct world *world;
    uint32_t index;
    char id[16], path[128], address[32];
    struct db *disk;       /* holds the outbox in memory while the process is down */
    struct outbox *outbox; /* NULL = the process is down */
    struct wire *wire;
    struct route_table *table, *pending;
    uint64_t pending_at_us, up_at_us, next_admission;
    uint32_t n_flights;
    struct flight flight[WORLD_FLIGHTS];
    uint64_t n_room, n_seq; /* seqs so far */
    struct fact *fact;      /* [n_room] by admission; seq 0 = never stored */
    uint64_t *admission_of; /* [n_room] by seq */
    uint64_t mark;          /* highest commit it acted on */
};

struct sim_verifier {
    struct bus_socket *outputs, *scores; /* NULL = down */
    struct check_set *set[WORLD_CHECK_SETS][WORLD_ROUTES];
    uint32_t using; /* which of the sets; a restart may bring a new version of the checks */
    struct bus_message held[WORLD_HELD];
    uint32_t n_held;
    struct buf answer;
    struct arena arena;
    uint64_t up_at_us;
};

struct world {
    struct world_plan plan;
    struct rng rng;
    struct fake_clock time;
    struct clock clock;
    struct bus *bus;
    struct arena arena;
    struct milepost_config config;
    char folder[64], database[96];
    struct db *disk; /* as an engine's */
    struct sim_engine engine[WORLD_ENGINES];
    struct sim_verifier verifier;
    struct metrics *metrics;
    struct board *board;
    struct loop *loop; /* NULL = down */
    uint64_t loop_up_at_us;
    uint64_t n_admitted, n_stored, n_lost, n_events; /* lost: died with their engine, unstored */
    uint64_t n_restarts[3];                          /* engines, verifier, controller */
    bool is_settling; /* no more requests, faults, acts: everything comes to rest */
    struct audit *audit;
};

uint64_t world_now_us(const struct world *w);
bool world_chance(struct world *w, double p);
/* Ends the process: the simulation itself is broken, or an invariant is. */
_Noreturn void PRINTF_LIKE(2, 3) world_fail(const struct world *w, const char *fmt, ...);
#define WORLD_TRY(w, call)                                                                         \
    do {                                                                                           \
        struct err world_err = {0};                                                                \
        if ((call) != ERR_OK)                                                                      \
            world_fail((w), "%s: %s", #call, world_err.msg);                                       \
    } while (0)

void world_open(struct world *w, const struct world_plan *p);
/* One event. */
void world_step(struct world *w);
/* Until every output of the plan is stored, committed or known to be dropped, and engines and
 * controller agree. */
void world_run(struct world *w);
/* After it: what must hold of the whole run, and a replay of its database. */
void world_end(struct world *w);
void world_close(struct world *w);
/* After world_end: equal for runs that are equal in all they left behind. digest.c. */
uint64_t world_digest(const struct world *w);

/* world_engine.c */
void sim_engine_start(struct sim_engine *g);
void sim_engine_stop(struct sim_engine *g, bool is_killed);
void sim_engine_admit(struct sim_engine *g);
void sim_engine_finish(struct sim_engine *g); /* what is due; stores it */
void sim_engine_turn(struct sim_engine *g);   /* its wire, and what came over it */
void sim_engine_free(struct sim_engine *g);
bool sim_engine_rests(const struct sim_engine *g, uint64_t desired_version);

/* world_verifier.c */
void sim_verifier_open(struct world *w); /* sets only */
void sim_verifier_start(struct world *w);
void sim_verifier_stop(struct world *w);
void sim_verifier_turn(struct world *w);
void sim_verifier_close(struct world *w);

/* world_controller.c */
void sim_controller_start(struct world *w);
void sim_controller_stop(struct world *w);
void sim_controller_turn(struct world *w);
void sim_controller_act(struct world *w); /* an operator */

#endif
