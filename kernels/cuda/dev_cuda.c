/* The device interface on the CUDA runtime; with gemm_cublas.c the only C that knows it.
 *
 * Calls that cannot report keep the first error in `sticky`; sync tells it, and goes on telling it:
 * after a fault every call of this process fails, so that it should end and start again. */
#include "kernels/cuda/dev_cuda.h"

#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdlib.h>

static _Atomic int sticky; /* first cudaError_t of this process; 0: none */

static void note(cudaError_t rc)
{
    int none = 0;
    if (rc != cudaSuccess)
        atomic_compare_exchange_strong(&sticky, &none, (int)rc);
}

static int told(cudaError_t rc, const char *call, struct err *e)
{
    return err_set(e, ERR_DEVICE, "cuda: %s: %s (%d)", call, cudaGetErrorString(rc), (int)rc);
}

static cudaStream_t stream_of(struct dev_stream *s)
{
    return (cudaStream_t)s;
}

static bool cuda_is_here(void)
{
    int n = 0;
    bool is_here = cudaGetDeviceCount(&n) == cudaSuccess && n > 0;
    (void)cudaGetLastError(); /* "no device" is no error of ours */
    return is_here;
}

static int cuda_open(uint32_t index, struct err *e)
{
    int n = 0;
    cudaError_t rc = cudaGetDeviceCount(&n);
    if (rc != cudaSuccess || n == 0)
        return err_set(e, ERR_DEVICE,
                       "cuda: no device: %s (%d): an NVIDIA GPU and its driver are needed; "
                       "engine.device: auto or cpu works without",
                       cudaGetErrorString(rc == cudaSuccess ? cudaErrorNoDevice : rc), (int)rc);
    rc = cudaSetDevice((int)(index % (uint32_t)n));
    if (rc != cudaSuccess)
        return told(rc, "cudaSetDevice", e);
    return ERR_OK;
}

static void cuda_enter(uint32_t index)
{
    int n = 0;
    note(cudaGetDeviceCount(&n));
    if (n > 0)
        note(cudaSetDevice((int)(index % (uint32_t)n)));
}

static unsigned cuda_capability(void)
{
    int index = 0, major = 0, minor = 0;
    note(cudaGetDevice(&index));
    note(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
    note(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
    return (unsigned)(major * 10 + minor);
}

static void cuda_memory(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = *total_bytes = 0;
    note(cudaMemGetInfo(free_bytes, total_bytes));
}

/* Too little memory is the caller's to handle, not a broken device. */
static void *cuda_alloc(size_t n)
{
    void *p = NULL;
    if (cudaMalloc(&p, n) == cudaSuccess)
        return p;
    (void)cudaGetLastError();
    return NULL;
}

static void cuda_release(void *p)
{
    note(cudaFree(p));
}

static void *cuda_host_alloc(size_t n)
{
    void *p = NULL;
    if (cudaMallocHost(&p, n) == cudaSuccess)
        return p;
    (void)cudaGetLastError();
    return NULL;
}

static void cuda_host_release(void *p)
{
    if (p)
        note(cudaFreeHost(p));
}

static struct dev_stream *cuda_stream_open(void)
{
    cudaStream_t s = NULL;
    note(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return (struct dev_stream *)s;
}

static void cuda_stream_close(struct dev_stream *s)
{
    note(cudaStreamDestroy(stream_of(s)));
}

static int waited(cudaError_t outcome, struct err *e)
{
    note(outcome);
    note(cudaPeekAtLastError());
    int rc = atomic_load(&sticky);
    return rc ? told((cudaError_t)rc, "the device failed", e) : ERR_OK;
}

static int cuda_sync(struct dev_stream *s, struct err *e)
{
    return waited(cudaStreamSynchronize(stream_of(s)), e);
}

static void cuda_copy(void *dst, const void *src, size_t n, enum dev_copy kind,
                      struct dev_stream *s)
{
    static const enum cudaMemcpyKind KINDS[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                                                cudaMemcpyDeviceToDevice};
    note(cudaMemcpyAsync(dst, src, n, KINDS[kind], stream_of(s)));
}

static void cuda_fill(void *dst, int byte, size_t n, struct dev_stream *s)
{
    note(cudaMemsetAsync(dst, byte, n, stream_of(s)));
}

static struct dev_event *cuda_event_open(void)
{
    cudaEvent_t v = NULL;
    note(cudaEventCreate(&v));
    return (struct dev_event *)v;
}

static void cuda_event_close(struct dev_event *v)
{
    note(cudaEventDestroy((cudaEvent_t)v));
}

static void cuda_record(struct dev_event *v, struct dev_stream *s)
{
    note(cudaEventRecord((cudaEvent_t)v, stream_of(s)));
}

static void cuda_wait(struct dev_stream *s, struct dev_event *v)
{
    note(cudaStreamWaitEvent(stream_of(s), (cudaEvent_t)v, 0));
}

static int cuda_await(struct dev_event *v, struct err *e)
{
    return waited(cudaEventSynchronize((cudaEvent_t)v), e);
}

static float cuda_elapsed_ms(struct dev_event *from, struct dev_event *to)
{
    float ms = 0;
    note(cudaEventElapsedTime(&ms, (cudaEvent_t)from, (cudaEvent_t)to));
    return ms;
}

static void cuda_capture_begin(struct dev_stream *s)
{
    note(cudaStreamBeginCapture(stream_of(s), cudaStreamCaptureModeThreadLocal));
}

static struct dev_graph *cuda_capture_end(struct dev_stream *s)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t run = NULL;
    if (cudaStreamEndCapture(stream_of(s), &graph) != cudaSuccess || !graph) {
        (void)cudaGetLastError();
        return NULL;
    }
    note(cudaGraphInstantiate(&run, graph, 0));
    note(cudaGraphDestroy(graph));
    return (struct dev_graph *)run;
}

static void cuda_graph_launch(struct dev_graph *g, struct dev_stream *s)
{
    note(cudaGraphLaunch((cudaGraphExec_t)g, stream_of(s)));
}

static void cuda_graph_close(struct dev_graph *g)
{
    if (g)
        note(cudaGraphExecDestroy((cudaGraphExec_t)g));
}

static void cuda_gemm(const struct dev_gemm *g, struct dev_stream *s)
{
    if (!cublas_gemm(g, s))
        note(cudaErrorUnknown);
}

static bool cuda_is_done(struct dev_stream *s)
{
    return cudaStreamQuery(stream_of(s)) != cudaErrorNotReady;
}

static bool cuda_is_reached(struct dev_event *v)
{
    return cudaEventQuery((cudaEvent_t)v) != cudaErrorNotReady;
}

const struct dev_ops DEV_CUDA = {
    .name = "cuda",
    .is_here = cuda_is_here,
    .open = cuda_open,
    .enter = cuda_enter,
    .capability = cuda_capability,
    .memory = cuda_memory,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .host_alloc = cuda_host_alloc,
    .host_release = cuda_host_release,
    .stream_open = cuda_stream_open,
    .stream_close = cuda_stream_close,
    .sync = cuda_sync,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .event_open = cuda_event_open,
    .event_close = cuda_event_close,
    .record = cuda_record,
    .wait = cuda_wait,
    .await = cuda_await,
    .elapsed_ms = cuda_elapsed_ms,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .graph_launch = cuda_graph_launch,
    .graph_close = cuda_graph_close,
    .gemm_ready = cublas_ready,
    .gemm = cuda_gemm,
    .is_done = cuda_is_done,
    .is_reached = cuda_is_reached,
};
