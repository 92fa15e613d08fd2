/* Opens the file, tokenizer, template and model, and settles the sizes that depend on them. */
#include "engine/load.h"

#include "common/log.h"
#include "engine/memory.h"
#include "engine/model/gguf.h"
#include "engine/ranks.h"
#include "kernels/ops.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NAME = 128, UNKNOWN_SHAPE_BLOCKS = 1024 };

static const char *const DEVICES[] = {NULL, "cuda", "simt", "cpu", "ref"}; /* of config_tables.c */

/* "Smol LM.gguf" -> "smol-lm": a name is typed in requests, and ':' begins a route there. */
static struct str plain_name(struct arena *a, struct str from)
{
    struct str name = arena_str(a, str_slice(from, 0, MAX_NAME));
    char *p = (char *)(uintptr_t)name.p; /* our own copy */
    for (size_t i = 0; p && i < name.n; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c >= 'A' && c <= 'Z')
            p[i] = (char)(c - 'A' + 'a');
        else if (c <= ' ' || c == ':' || c == '/' || c >= 127)
            p[i] = '-';
    }
    return name;
}

/* Of the file, not its general.name: that one often says how a model came about. */
static struct str model_name(const struct engine_config *c, struct arena *a)
{
    if (c->served_name.n)
        return c->served_name;
    struct str rest = c->model, piece, file = {0};
    while (str_split(&rest, '/', &piece))
        file = piece;
    if (str_ends(file, STR(".gguf")))
        file.n -= sizeof ".gguf" - 1;
    return plain_name(a, file);
}

static bool shape(const struct gguf *g, struct str arch, const char *key, uint64_t *out)
{
    char name[160];
    snprintf(name, sizeof name, STR_FMT ".%s", STR_ARG(str_slice(arch, 0, 64)), key);
    return gguf_get_u64(g, name, out, NULL) == ERR_OK && *out > 0 && *out < 1u << 24;
}

/* Devices with memory of their own that a model is spread over; 1 where ranks share the machine's.
 */
static uint64_t n_memories(const struct engine_config *c)
{
    const struct kern_ops *ops;
    return kern_find(DEVICES[c->device], &ops, NULL) == ERR_OK && ops->memory ? (uint64_t)c->tp_size
                                                                              : 1;
}

static uint64_t most_of(uint64_t n, uint64_t ranks)
{
    return (n + ranks - 1) / ranks;
}

/* Heads whose keys and values the file's model keeps; 0 = it does not say. */
static uint64_t heads_kept(const struct gguf *g, struct str arch)
{
    uint64_t n;
    return shape(g, arch, "attention.head_count_kv", &n) ||
                   shape(g, arch, "attention.head_count", &n)
               ? n
               : 0;
}

/* Of the rank with most: whole KV heads, and with them its share of all but the embedding. */
static uint64_t weight_bytes(const struct engine_config *c, const struct gguf *g)
{
    struct str arch;
    uint64_t all = gguf_file_bytes(g), n = n_memories(c), heads = 0;
    const struct gguf_tensor *embedding = gguf_find_tensor(g, "token_embd.weight");
    if (gguf_get_str(g, "general.architecture", &arch, NULL) == ERR_OK)
        heads = heads_kept(g, arch);
    if (n == 1 || heads == 0 || !embedding)
        return all;
    uint64_t share = all / heads * most_of(heads, n) + embedding->bytes;
    return share < all ? share : all;
}

/* Bytes of one KV block: of a rank with memory of its own, or of all ranks, where each has at least
 * one head. 0 = the file does not say (the model's own loader will then name what is missing). */
static uint64_t block_bytes(const struct engine_config *c, const struct gguf *g)
{
    struct str arch;
    const struct kern_ops *ops;
    uint64_t layers, width, heads, kv_heads, head_width;
    if (gguf_get_str(g, "general.architecture", &arch, NULL) != ERR_OK ||
        !shape(g, arch, "block_count", &layers) || !shape(g, arch, "embedding_length", &width) ||
        !shape(g, arch, "attention.head_count", &heads))
        return 0;
    kv_heads = heads_kept(g, arch);
    if (kv_heads < (uint64_t)c->tp_size)
        kv_heads = (uint64_t)c->tp_size;
    if (!shape(g, arch, "attention.key_length", &head_width))
        head_width = width / heads;
    const struct kern_attn_shape block = {.n_layer = (uint32_t)layers,
                                          .n_head_kv = (uint32_t)most_of(kv_heads, n_memories(c)),
                                          .d_head = (uint32_t)head_width,
                                          .kv_type = (enum kern_kv_type)c->kv_dtype};
    return kern_find(DEVICES[c->device], &ops, NULL) == ERR_OK ? ops->kv_block_bytes(&block) : 0;
}

/* Of the device, or of this machine for backends that work in its memory; *usable: what of it
 * mem_fraction allows. Others may hold some of a device's already. */
static uint64_t memory_bytes(const struct engine_config *c, uint64_t *usable)
{
    const struct kern_ops *ops;
    size_t free_bytes = SIZE_MAX, total = 0;
    if (kern_find(DEVICES[c->device], &ops, NULL) == ERR_OK && ops->memory &&
        (!ops->is_here || ops->is_here())) /* else opening it says what is missing */
        ops->memory(&free_bytes, &total);
    uint64_t all = total ? total : memory_usable_bytes();
    *usable = (uint64_t)(c->mem_fraction * (double)all);
    *usable = *usable < free_bytes ? *usable : free_bytes;
    return all;
}

/* Blocks that mem_fraction leaves beside the weights. */
static int share_of_memory(const struct engine_config *c, const struct gguf *g, uint64_t block,
                           uint64_t *n, struct err *e)
{
    uint64_t usable, all = memory_bytes(c, &usable), weights = weight_bytes(c, g);
    *n = usable > weights ? (usable - weights) / block : 0;
    if (*n > 0)
        return ERR_OK;
    return err_set(e, ERR_INVALID,
                   "engine.mem_fraction: %.2f of %llu MiB, %llu MiB with what is free, leaves "
                   "nothing for the key-value cache beside %llu MiB of weights: raise it, or take "
                   "a smaller model",
                   c->mem_fraction, (unsigned long long)(all / MiB),
                   (unsigned long long)(usable / MiB), (unsigned long long)(weights / MiB));
}

/* In this order: kv_tokens, mem_fraction, kv_memory_mib (of which no more is taken than all slots
 * and one idle conversation can use). */
static int settle_kv_blocks(const struct engine_config *c, const struct gguf *g, uint32_t *out,
                            struct err *e)
{
    uint64_t bytes = block_bytes(c, g), most = (uint64_t)c->max_running + 1,
             n = UNKNOWN_SHAPE_BLOCKS;
    most *= ((uint64_t)c->max_context + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    if (c->kv_tokens) {
        n = ((uint64_t)c->kv_tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    } else if (c->mem_fraction > 0 && bytes) {
        int rc = share_of_memory(c, g, bytes, &n, e);
        if (rc != ERR_OK)
            return rc;
    } else if (bytes) {
        n = (uint64_t)c->kv_memory_mib * MiB / bytes;
        n = n < most ? n : most;
    }
    *out = (uint32_t)(n == 0                             ? 1
                      : n < UINT32_MAX / KV_BLOCK_TOKENS ? n
                                                         : UINT32_MAX / KV_BLOCK_TOKENS);
    return ERR_OK;
}

/* Free memory is not the same to every rank: the first one's pool is everybody's. */
static int agree_on_blocks(struct comm *ranks, uint32_t *n_kv_blocks, struct err *e)
{
    return ranks ? ranks->ops->broadcast(ranks, n_kv_blocks, sizeof *n_kv_blocks, COMM_BYTE, 0, e)
                 : ERR_OK;
}

static uint32_t threads_of(const struct engine_config *c, const struct comm *ranks)
{
    int64_t n = ranks ? c->threads / ranks->size : c->threads;
    return (uint32_t)(c->threads && n == 0 ? 1 : n);
}

static int open_model(struct model **out, const struct engine_config *c, const struct gguf *file,
                      uint32_t n_kv_blocks, struct comm *ranks, struct err *e)
{
    cpu_set_t cores;
    uint32_t max_batch = (uint32_t)c->max_batch_tokens;
    uint32_t rows = gen_max_rows((uint32_t)c->max_running, (uint32_t)c->draft_tokens);
    const struct model_options options = {
        .backend = DEVICES[c->device],
        .n_threads = threads_of(c, ranks),
        .n_kv_blocks = n_kv_blocks,
        .kv_type = (enum model_kv_type)c->kv_dtype,
        .has_fp8_weights = c->weights == 1,
        .has_library_gemm = c->gemm == 1,
        .max_batch_tokens = max_batch,
        .max_batch_rows = rows < max_batch ? rows : max_batch,
        .ranks = ranks,
    };
    ranks_take_cores(ranks, &cores);
    int rc = model_open(out, file, &options, e);
    ranks_restore_cores(ranks, &cores);
    return rc;
}

static void settle_context(struct load *l, const struct engine_config *c)
{
    uint64_t pool = (uint64_t)l->n_kv_blocks * KV_BLOCK_TOKENS;
    uint32_t trained = model_get_info(l->model)->n_ctx_train;
    l->max_context = (uint32_t)c->max_context;
    if (trained < l->max_context)
        l->max_context = trained;
    if (pool < l->max_context)
        l->max_context = (uint32_t)pool;
    if (l->max_context < (uint64_t)c->max_context)
        log_event(LOG_INFO, "engine.context_lowered", "configured=%lld tokens=%u trained=%u",
                  (long long)c->max_context, l->max_context, trained);
}

static void find_ends(struct load *l)
{
    uint32_t n_vocab = tokenizer_get_info(l->tokenizer)->n_vocab;
    for (uint32_t i = 0; i < n_vocab && l->n_end < LOAD_MAX_END_IDS; i++)
        if (tokenizer_is_end(l->tokenizer, (int32_t)i))
            l->end_ids[l->n_end++] = (int32_t)i;
}

static void name_path(struct err *e, const char *path)
{
    if (e && str_find(str_from(e->msg), str_from(path), 0) < 0)
        err_wrap(e, "%s", path);
}

int load_open(struct load *l, const struct engine_config *c, struct comm *ranks, struct arena *a,
              struct err *e)
{
    int rc;
    *l = (struct load){.ranks = ranks};
    const char *path = arena_str(a, c->model).p;
    const char *template = c->chat_template.n ? arena_str(a, c->chat_template).p : NULL;
    if (!path || (c->chat_template.n && !template))
        return err_set(e, ERR_NOMEM, "out of memory for the model's path");
    TRY(gguf_open(&l->file, path, e));
    TRY(tokenizer_open(&l->tokenizer, l->file, e));
    TRY(chat_template_find(&l->chat_template, l->file, template, e));
    TRY(settle_kv_blocks(c, l->file, &l->n_kv_blocks, e));
    TRY(agree_on_blocks(ranks, &l->n_kv_blocks, e));
    TRY(open_model(&l->model, c, l->file, l->n_kv_blocks, ranks, e));
    settle_context(l, c);
    find_ends(l);
    l->name = model_name(c, a);
    if (!l->name.p)
        rc = err_set(e, ERR_NOMEM, "out of memory for the model's name");
out:
    if (rc != ERR_OK)
        name_path(e, path);
    return rc;
}

int load_rank(struct model **out, const struct engine_config *c, struct comm *ranks,
              struct arena *a, struct err *e)
{
    struct gguf *file;
    uint32_t n_kv_blocks = 0;
    const char *path = arena_str(a, c->model).p;
    *out = NULL;
    if (!path)
        return err_set(e, ERR_NOMEM, "out of memory for the model's path");
    int rc = gguf_open(&file, path, e);
    if (rc != ERR_OK)
        return rc;
    TRY(agree_on_blocks(ranks, &n_kv_blocks, e));
    rc = open_model(out, c, file, n_kv_blocks, ranks, e);
out:
    gguf_close(file);
    return rc;
}

uint64_t load_device_bytes(const struct load *l, const struct engine_config *c)
{
    const struct kern_ops *ops;
    const struct model_info *m = model_get_info(l->model);
    if (kern_find(DEVICES[c->device], &ops, NULL) != ERR_OK || !ops->memory)
        return 0;
    return m->weight_bytes + (uint64_t)l->n_kv_blocks * m->kv_bytes_per_block;
}

void load_close(struct load *l)
{
    model_close(l->model);
    tokenizer_close(l->tokenizer);
    if (l->file)
        gguf_close(l->file);
    *l = (struct load){0};
}

static int check_same_strings(const struct gguf *old, const struct gguf *new, const char *key,
                              struct err *e)
{
    struct gguf_array a, b;
    int rc_old = gguf_get_array(old, key, &a, NULL), rc = gguf_get_array(new, key, &b, NULL);
    if (rc_old != ERR_OK && rc != ERR_OK)
        return ERR_OK; /* not a key of this kind of tokenizer */
    if (rc_old != rc || !a.strings || !b.strings || a.n != b.n)
        return err_set(e, ERR_INVALID, "%s: of another size or kind than in the file served", key);
    for (uint64_t i = 0; i < a.n; i++)
        if (!str_eq(a.strings[i], b.strings[i]))
            return err_set(e, ERR_INVALID,
                           "%s[%llu] is \"" STR_FMT "\", in the file served \"" STR_FMT "\"", key,
                           (unsigned long long)i, STR_ARG(b.strings[i]), STR_ARG(a.strings[i]));
    return ERR_OK;
}

int load_other_weights(struct model **out, const struct load *l, const struct engine_config *c,
                       const char *path, struct err *e)
{
    struct gguf *file;
    *out = NULL;
    if (l->ranks)
        return err_set(e, ERR_UNSUPPORTED,
                       "weights are loaded at start with engine.tp_size above 1: name the file in "
                       "engine.model and start again");
    int rc = gguf_open(&file, path, e);
    if (rc != ERR_OK) {
        name_path(e, path);
        return rc;
    }
    TRY(check_same_strings(l->file, file, "tokenizer.ggml.tokens", e));
    TRY(check_same_strings(l->file, file, "tokenizer.ggml.merges", e));
    rc = open_model(out, c, file, l->n_kv_blocks, NULL, e);
out:
    if (rc != ERR_OK)
        name_path(e, path);
    gguf_close(file);
    return rc;
}
