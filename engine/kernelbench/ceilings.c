/* A crew of threads meets at a barrier, works, meets again; the time between is the run's. The
 * clock is CLOCK_MONOTONIC through common/clock. */
#include "engine/kernelbench/ceilings.h"

#include "common/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

enum { MIN_READ_BYTES = 384 * 1024 * 1024, PEAK_ROUNDS = 4000000, HUGE_PAGE = 1 << 21 };

typedef uint64_t (*work_fn)(const struct ceiling *c, uint32_t thread);

struct ceiling {
    uint32_t n;
    work_fn work; /* NULL: the processor cannot */
    const char *name;
    double amount; /* bytes or operations of a run */
    char *memory;  /* for reading */
    size_t part_bytes;
    uint32_t rounds;
    uint64_t (*read)(const char *p, size_t bytes);
    void (*peak)(uint32_t rounds);
    pthread_barrier_t barrier;
    uint64_t begin_us, end_us;
    _Atomic uint64_t sum; /* keeps the reads alive */
};

struct member {
    struct ceiling *crew;
    uint32_t index;
};

/* The i-th CPU this process may use; without a mask the thread stays free. */
static void pin(uint32_t index)
{
    cpu_set_t allowed, one;
    uint32_t seen = 0;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || seen++ != index)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_setaffinity_np(pthread_self(), sizeof one, &one);
        return;
    }
}

static void *run_member(void *arg)
{
    struct member *m = arg;
    struct ceiling *c = m->crew;

    pin(m->index);
    if (c->memory) /* what ran before has filled the caches with its own */
        c->sum += c->read(c->memory + c->part_bytes * m->index, c->part_bytes);
    pthread_barrier_wait(&c->barrier);
    if (m->index == 0)
        c->begin_us = clock_mono(&CLOCK_REAL).us;
    c->sum += c->work(c, m->index);
    pthread_barrier_wait(&c->barrier);
    if (m->index == 0)
        c->end_us = clock_mono(&CLOCK_REAL).us;
    return NULL;
}

/* Seconds of one run of the crew. */
static double run_crew(struct ceiling *c)
{
    pthread_t thread[CEILING_MAX_THREADS];
    struct member member[CEILING_MAX_THREADS];

    pthread_barrier_init(&c->barrier, NULL, c->n);
    for (uint32_t i = 0; i < c->n; i++) {
        member[i] = (struct member){c, i};
        if (pthread_create(&thread[i], NULL, run_member, &member[i]) != 0)
            abort(); /* the others wait at the barrier for ever */
    }
    for (uint32_t i = 0; i < c->n; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&c->barrier);
    return (double)(c->end_us - c->begin_us + 1) / 1e6;
}

double ceiling_best(struct ceiling *c, uint32_t n)
{
    double best = 0;

    for (uint32_t i = 0; c->work && i < n; i++) {
        double rate = c->amount / run_crew(c) / 1e9;
        best = rate > best ? rate : best;
    }
    return best;
}

bool ceiling_fills_caches(const struct ceiling *c)
{
    return c->memory != NULL;
}

const char *ceiling_name(const struct ceiling *c)
{
    return c->name;
}

static int open_crew(struct ceiling **out, uint32_t n_threads, struct err *e)
{
    *out = NULL;
    if (n_threads == 0 || n_threads > CEILING_MAX_THREADS)
        return err_set(e, ERR_INVALID, "%u threads; 1 to %d are allowed", n_threads,
                       CEILING_MAX_THREADS);
    *out = calloc(1, sizeof **out);
    if (!*out)
        return err_set(e, ERR_NOMEM, "a probe");
    (*out)->n = n_threads;
    return ERR_OK;
}

void ceiling_close(struct ceiling *c)
{
    if (!c)
        return;
    free(c->memory);
    free(c);
}

/* Reading. 64 bytes a step on any target; the compiler splits them where vectors are shorter. */
typedef uint64_t line_t __attribute__((vector_size(64), may_alias));
enum { LINES = 4, AHEAD_BYTES = 4096 };

static inline __attribute__((always_inline)) uint64_t read_lines(const char *p, size_t bytes)
{
    line_t a = {0}, b = a, c = a, d = a;
    uint64_t sum = 0;

    for (const char *end = p + bytes; p < end; p += LINES * 64) {
        for (int i = 0; i < LINES; i++)
            __builtin_prefetch(p + AHEAD_BYTES + i * 64);
        const line_t *l = (const line_t *)p;
        a ^= l[0];
        b ^= l[1];
        c ^= l[2];
        d ^= l[3];
    }
    a ^= b ^ c ^ d;
    for (int i = 0; i < 8; i++)
        sum ^= a[i];
    return sum;
}

static uint64_t read_plain(const char *p, size_t bytes)
{
    return read_lines(p, bytes);
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static uint64_t read_avx512(const char *p, size_t bytes)
{
    return read_lines(p, bytes);
}

__attribute__((target("avx2"))) static uint64_t read_avx2(const char *p, size_t bytes)
{
    return read_lines(p, bytes);
}
#endif

static uint64_t read_part(const struct ceiling *c, uint32_t thread)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < c->rounds; i++)
        sum += c->read(c->memory + c->part_bytes * thread, c->part_bytes);
    return sum;
}

static uint64_t (*choose_read(void))(const char *p, size_t bytes)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return read_avx512;
    if (__builtin_cpu_supports("avx2"))
        return read_avx2;
#endif
    return read_plain;
}

int ceiling_open_read(struct ceiling **out, uint32_t n_threads, size_t bytes, struct err *e)
{
    int rc = open_crew(out, n_threads, e);
    if (rc != ERR_OK)
        return rc;
    struct ceiling *c = *out;
    size_t step = LINES * 64, part = bytes / n_threads / step * step;
    part = part ? part : step;
    size_t total = (part * n_threads + AHEAD_BYTES + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    c->memory = aligned_alloc(HUGE_PAGE, total);
    if (!c->memory) {
        ceiling_close(c);
        *out = NULL;
        return err_set(e, ERR_NOMEM, "%zu bytes to read", total);
    }
    madvise(c->memory, total, MADV_HUGEPAGE);
    memset(c->memory, 1, total);
    c->part_bytes = part;
    c->rounds = (uint32_t)(MIN_READ_BYTES / (part * n_threads) + 1);
    c->amount = (double)(part * n_threads) * c->rounds;
    c->read = choose_read();
    c->name = "reading";
    c->work = read_part;
    return ERR_OK;
}

/* Multiplying: twelve independent chains hide the latency of two ports. */
#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
enum { CHAINS = 12 };

typedef float floats_t __attribute__((vector_size(64)));

static void peak_fp32_plain(uint32_t rounds)
{
    floats_t sum[CHAINS] = {{0}};

    for (uint32_t r = 0; r < rounds; r++) {
        for (int i = 0; i < CHAINS; i++)
            sum[i] = sum[i] * 0.5f + 1.0f;
        __asm__ volatile("" : : "r"(sum) : "memory");
    }
}

#if defined(__x86_64__)
#define DECLARE_512(i) __m512i c##i = _mm512_set1_epi32(i);
#define DOT_512(i)     __asm__ volatile("vpdpbusd %1, %2, %0" : "+v"(c##i) : "v"(a), "v"(b));
__attribute__((target("avx512f,avx512vnni"))) static void peak_int8_avx512(uint32_t rounds)
{
    __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(5);
    TWELVE(DECLARE_512)
    for (uint32_t r = 0; r < rounds; r++) {
        TWELVE(DOT_512)
    }
}

#define DECLARE_256(i) __m256i c##i = _mm256_set1_epi32(i);
#define DOT_256(i)     __asm__ volatile("%{vex%} vpdpbusd %1, %2, %0" : "+x"(c##i) : "x"(a), "x"(b));
__attribute__((target("avx2"))) static void peak_int8_avxvnni(uint32_t rounds)
{
    __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(5);
    TWELVE(DECLARE_256)
    for (uint32_t r = 0; r < rounds; r++) {
        TWELVE(DOT_256)
    }
}

#define DECLARE_F512(i) __m512 c##i = _mm512_set1_ps((float)i);
#define FMA_512(i)      __asm__ volatile("vfmadd231ps %1, %2, %0" : "+v"(c##i) : "v"(a), "v"(b));
__attribute__((target("avx512f"))) static void peak_fp32_avx512(uint32_t rounds)
{
    __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(0.25f);
    TWELVE(DECLARE_F512)
    for (uint32_t r = 0; r < rounds; r++) {
        TWELVE(FMA_512)
    }
}

#define DECLARE_F256(i) __m256 c##i = _mm256_set1_ps((float)i);
#define FMA_256(i)      __asm__ volatile("vfmadd231ps %1, %2, %0" : "+x"(c##i) : "x"(a), "x"(b));
__attribute__((target("avx2,fma"))) static void peak_fp32_avx2(uint32_t rounds)
{
    __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(0.25f);
    TWELVE(DECLARE_F256)
    for (uint32_t r = 0; r < rounds; r++) {
        TWELVE(FMA_256)
    }
}
#endif

struct peak {
    const char *name;
    void (*run)(uint32_t rounds);
    uint32_t ops; /* of one instruction */
};

/* Best first; the last of fp32 runs everywhere. */
static struct peak choose_int8(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d; /* clang 14's __builtin_cpu_supports knows no AVX-VNNI */
    if (__builtin_cpu_supports("avx512vnni"))
        return (struct peak){"AVX-512 VNNI", peak_int8_avx512, 128};
    if (__builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4))
        return (struct peak){"AVX-VNNI", peak_int8_avxvnni, 64};
#endif
    return (struct peak){"none", NULL, 0};
}

static struct peak choose_fp32(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return (struct peak){"AVX-512 FMA", peak_fp32_avx512, 32};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return (struct peak){"AVX2 FMA", peak_fp32_avx2, 16};
#endif
    return (struct peak){"compiler's vectors", peak_fp32_plain, 32};
}

static uint64_t run_peak(const struct ceiling *c, uint32_t thread)
{
    c->peak(c->rounds);
    return thread;
}

static int open_peak(struct ceiling **out, const struct peak *p, uint32_t n_threads, struct err *e)
{
    int rc = open_crew(out, n_threads, e);
    if (rc != ERR_OK)
        return rc;
    struct ceiling *c = *out;
    c->name = p->name;
    c->peak = p->run;
    c->work = p->run ? run_peak : NULL;
    c->rounds = PEAK_ROUNDS;
    c->amount = (double)n_threads * CHAINS * PEAK_ROUNDS * p->ops;
    return ERR_OK;
}

int ceiling_open_int8(struct ceiling **out, uint32_t n_threads, struct err *e)
{
    struct peak p = choose_int8();
    return open_peak(out, &p, n_threads, e);
}

int ceiling_open_fp32(struct ceiling **out, uint32_t n_threads, struct err *e)
{
    struct peak p = choose_fp32();
    return open_peak(out, &p, n_threads, e);
}
