/* engine-bench: what a device does with our kernels, for tests/gpu/run.sh. Rows are printed and,
 * with
 * --json, written for report.py. Exit 0; 1 an error (rows found before it are written); 2 usage;
 * 77 no device. */
#include "tests/gpu/bench/bench.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_NO_DEVICE = 77 };

static const struct command {
    const char *name;
    int (*run)(const struct bench_options *o, struct rows *rows, struct err *e);
} COMMANDS[] = {{"ceilings", bench_ceilings}, {"kernels", bench_kernels}, {"model", bench_model}};

static void print_help(FILE *to)
{
    fprintf(
        to,
        "Usage: engine-bench ceilings|kernels|model [options]\n\n"
        "  --backend NAME   cuda (default), simt, ref\n"
        "  --model NAME     of model: %s\n"
        "  --dtype NAME     bf16 (default), fp8 (of model), f16, q8_0, q4_0, q4_1, q4_k, q6_k\n"
        "  --batch N@C,..   N sequences decode together, each after C positions; default 1@256\n"
        "  --prompt N       tokens of a prompt to measure; default 0: none\n"
        "  --gemm NAME      who multiplies prompts: own (default) or cublaslt\n"
        "  --small          sizes for the emulator\n"
        "  --json FILE      the rows as JSON\n",
        synth_names());
}

static bool read_number(const char *text, unsigned long most, uint32_t *out, char **end)
{
    unsigned long n = strtoul(text, end, 10);
    *out = (uint32_t)n;
    return *end != text && n <= most;
}

static bool read_batches(const char *text, struct bench_options *o)
{
    char *end;
    o->n_batch = 0;
    for (const char *p = text; o->n_batch < 8; p = end + 1) {
        uint32_t *batch = &o->batch[o->n_batch], *context = &o->context[o->n_batch];
        if (!read_number(p, 1024, batch, &end) || *batch == 0 || *end != '@' ||
            !read_number(end + 1, 1 << 20, context, &end) || *context == 0 || (*end && *end != ','))
            return false;
        o->n_batch++;
        if (!*end)
            return true;
    }
    return false;
}

static bool read_count(const char *text, uint32_t *out)
{
    char *end;
    return read_number(text, 1 << 20, out, &end) && !*end;
}

static bool take_option(int c, struct bench_options *o, const char **json)
{
    switch (c) {
    case 'B':
        o->backend = optarg;
        return true;
    case 'm':
        return (o->shape = synth_find(optarg)) != NULL;
    case 'd':
        o->dtype_name = optarg;
        o->is_fp8 = strcmp(optarg, "fp8") == 0;
        return synth_dtype(o->is_fp8 ? "bf16" : optarg, &o->dtype);
    case 'b':
        return read_batches(optarg, o);
    case 'p':
        return read_count(optarg, &o->prompt);
    case 'g':
        o->has_library_gemm = strcmp(optarg, "cublaslt") == 0;
        return o->has_library_gemm || strcmp(optarg, "own") == 0;
    case 's':
        return o->is_small = true;
    case 'j':
        *json = optarg;
        return true;
    default:
        return false;
    }
}

static bool read_options(int argc, char **argv, struct bench_options *o, const char **json)
{
    static const struct option OPTIONS[] = {{"backend", required_argument, NULL, 'B'},
                                            {"model", required_argument, NULL, 'm'},
                                            {"dtype", required_argument, NULL, 'd'},
                                            {"batch", required_argument, NULL, 'b'},
                                            {"prompt", required_argument, NULL, 'p'},
                                            {"gemm", required_argument, NULL, 'g'},
                                            {"small", no_argument, NULL, 's'},
                                            {"json", required_argument, NULL, 'j'},
                                            {NULL, 0, NULL, 0}};
    int c;
    while ((c = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
        if (!take_option(c, o, json)) {
            print_help(stderr);
            return false;
        }
    }
    return true;
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++)
        if (name && strcmp(COMMANDS[i].name, name) == 0)
            return &COMMANDS[i];
    return NULL;
}

static const struct dev_ops *device_of(const char *backend)
{
    if (strcmp(backend, DEV_CUDA.name) == 0)
        return &DEV_CUDA;
    return strcmp(backend, DEV_SIMT.name) == 0 ? &DEV_SIMT : NULL;
}

int main(int argc, char **argv)
{
    struct bench_options o = {
        .backend = "cuda", .dtype_name = "bf16", .batch = {1}, .context = {256}, .n_batch = 1};
    const struct command *command = find_command(argc > 1 ? argv[1] : NULL);
    const char *json = NULL;
    static struct rows rows;
    struct err e = {0}, write_error = {0};
    (void)synth_dtype(o.dtype_name, &o.dtype);
    o.shape = synth_find("synth-1b");
    if (!command || !read_options(argc - 1, argv + 1, &o, &json)) {
        if (!command)
            print_help(stderr);
        return 2;
    }
    if (kern_find(o.backend, &o.ops, &e) != ERR_OK) {
        fprintf(stderr, "engine-bench: %s\n", e.msg);
        return 2;
    }
    o.dev = device_of(o.backend);
    if (o.dev && o.dev->open(0, &e) != ERR_OK) {
        fprintf(stderr, "engine-bench: %s\n", e.msg);
        return EXIT_NO_DEVICE;
    }
    int rc = command->run(&o, &rows, &e);
    if (rc != ERR_OK)
        fprintf(stderr, "engine-bench: %s\n", e.msg);
    if (rows_write(&rows, command->name, json, &write_error) != ERR_OK) {
        fprintf(stderr, "engine-bench: %s\n", write_error.msg);
        return 1;
    }
    return rc == ERR_OK ? 0 : 1;
}
