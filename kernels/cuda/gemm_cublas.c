/* c = scale * a b^T by cuBLASLt. Its matrices are column-major: seen so, c is [n, m], b is [k, n]
 * transposed and a is [k, m], which is also the only form its FP8 kernels take. The handle is made
 * once, at the first question, and kept until the process ends. */
#include "kernels/cuda/dev_cuda.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>

enum { MOST_ALIGNED = 256 };

#define FUNCTIONS(X)                                                                               \
    X(cublasLtCreate)                                                                              \
    X(cublasLtMatmul)                                                                              \
    X(cublasLtMatmulAlgoGetHeuristic)                                                              \
    X(cublasLtMatmulDescCreate)                                                                    \
    X(cublasLtMatmulDescDestroy)                                                                   \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatrixLayoutCreate)                                                                  \
    X(cublasLtMatrixLayoutDestroy)                                                                 \
    X(cublasLtMatmulPreferenceCreate)                                                              \
    X(cublasLtMatmulPreferenceDestroy)                                                             \
    X(cublasLtMatmulPreferenceSetAttribute)

#define POINTER(f) __typeof__(f) *f;
static struct {
    FUNCTIONS(POINTER)
    void *library;
    bool has_functions;
    cublasLtHandle_t handle;
    pthread_once_t once;
} lt = {.once = PTHREAD_ONCE_INIT};

#define STRING_OF(x)  #x
#define SONAME(major) "libcublasLt.so." STRING_OF(major)

/* Not linked: its relocations alone would cost each start of the engine a third of a second. */
static bool is_loaded(void)
{
    if (!lt.library)
        lt.library = dlopen(SONAME(CUBLAS_VER_MAJOR), RTLD_NOW | RTLD_LOCAL);
    if (!lt.library)
        lt.library = dlopen(CUBLASLT_PATH, RTLD_NOW | RTLD_LOCAL);
    bool ok = lt.library != NULL;
#define RESOLVE(f) ok = ok && (*(void **)&lt.f = dlsym(lt.library, #f)) != NULL;
    FUNCTIONS(RESOLVE)
    return ok;
}

static void open_once(void)
{
    lt.has_functions = is_loaded();
    if (!lt.has_functions || lt.cublasLtCreate(&lt.handle) != CUBLAS_STATUS_SUCCESS)
        lt.handle = NULL;
}

static bool is_open(void)
{
    (void)pthread_once(&lt.once, open_once);
    return lt.handle != NULL;
}

int cublas_ready(struct err *e)
{
    return is_open()
               ? ERR_OK
               : err_set(e, ERR_UNSUPPORTED, "backend cuda: %s %s: engine.gemm own needs none",
                         SONAME(CUBLAS_VER_MAJOR),
                         lt.has_functions ? "finds no device" : "was not found");
}

struct product {
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulPreference_t preference;
};

/* Its heuristic takes 256 bytes for granted. */
static bool aligned(const struct product *p, cublasLtMatmulPreferenceAttributes_t which,
                    const void *data)
{
    uint32_t bytes = MOST_ALIGNED;
    while ((uintptr_t)data % bytes)
        bytes /= 2;
    return !lt.cublasLtMatmulPreferenceSetAttribute(p->preference, which, &bytes, sizeof bytes);
}

static bool describe(struct product *p, const struct dev_gemm *g)
{
    const cublasOperation_t turned = CUBLAS_OP_T;
    static const cudaDataType_t TYPES[] = {
        [DEV_BF16] = CUDA_R_16BF, [DEV_FP8] = CUDA_R_8F_E4M3, [DEV_F32] = CUDA_R_32F};
    const size_t workspace = DEV_GEMM_WORKSPACE;
    cudaDataType_t in = TYPES[g->type];
    return !lt.cublasLtMatmulDescCreate(&p->what, CUBLAS_COMPUTE_32F, CUDA_R_32F) &&
           !lt.cublasLtMatmulDescSetAttribute(p->what, CUBLASLT_MATMUL_DESC_TRANSA, &turned,
                                              sizeof turned) &&
           !lt.cublasLtMatrixLayoutCreate(&p->a, in, (uint64_t)g->k, (uint64_t)g->n, g->k) &&
           !lt.cublasLtMatrixLayoutCreate(&p->b, in, (uint64_t)g->k, (uint64_t)g->m, g->k) &&
           !lt.cublasLtMatrixLayoutCreate(&p->c, CUDA_R_32F, (uint64_t)g->n, (uint64_t)g->m,
                                          g->ldc) &&
           !lt.cublasLtMatmulPreferenceCreate(&p->preference) &&
           !lt.cublasLtMatmulPreferenceSetAttribute(p->preference,
                                                    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                    &workspace, sizeof workspace) &&
           aligned(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, g->b) &&
           aligned(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, g->a) &&
           aligned(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, g->c) &&
           aligned(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, g->c);
}

static void forget(struct product *p)
{
    if (p->preference)
        lt.cublasLtMatmulPreferenceDestroy(p->preference);
    if (p->c)
        lt.cublasLtMatrixLayoutDestroy(p->c);
    if (p->b)
        lt.cublasLtMatrixLayoutDestroy(p->b);
    if (p->a)
        lt.cublasLtMatrixLayoutDestroy(p->a);
    if (p->what)
        lt.cublasLtMatmulDescDestroy(p->what);
}

bool cublas_gemm(const struct dev_gemm *g, struct dev_stream *s)
{
    struct product p = {0};
    cublasLtMatmulHeuristicResult_t best;
    const float kept = g->is_added ? 1 : 0;
    int found = 0;
    bool ok = is_open() && describe(&p, g) &&
              !lt.cublasLtMatmulAlgoGetHeuristic(lt.handle, p.what, p.a, p.b, p.c, p.c,
                                                 p.preference, 1, &best, &found) &&
              found > 0 &&
              !lt.cublasLtMatmul(lt.handle, p.what, &g->scale, g->b, p.a, g->a, p.b, &kept, g->c,
                                 p.c, g->c, p.c, &best.algo, g->workspace, DEV_GEMM_WORKSPACE,
                                 (cudaStream_t)s);
    forget(&p);
    return ok;
}
