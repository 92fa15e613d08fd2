/* The functions of NCCL (its 2.28 user guide) that kernels/comm/nccl.c uses; they succeed at once.
 * One thread. */
#include "tests/kernels/simt/fake_nccl.h"

#include <nccl.h>
#include <string.h>

struct ncclComm {
    struct fake_nccl fake;
};

static struct ncclComm only;

struct fake_nccl *fake_nccl(void)
{
    return &only.fake;
}

static ncclResult_t count(void)
{
    only.fake.n_calls++;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 1, sizeof *id);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank)
{
    *comm = &only;
    return rank < n_ranks && id.internal[0] == 1 ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    comm->fake.n_aborts++;
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *out)
{
    *out = comm->fake.has_failed ? ncclSystemError : ncclSuccess;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSuccess ? "no error" : "a link is down";
}

#define UNUSED8(a, b, c, d, e, f, g, h)                                                            \
    ((void)(a), (void)(b), (void)(c), (void)(d), (void)(e), (void)(f), (void)(g), (void)(h))

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t n, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    UNUSED8(send, recv, n, type, op, comm, stream, 0);
    return count();
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t n, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    UNUSED8(send, recv, n, type, comm, stream, 0, 0);
    return count();
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t n, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    UNUSED8(send, recv, n, type, op, comm, stream, 0);
    return count();
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t n, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    UNUSED8(send, recv, n, type, root, comm, stream, 0);
    return count();
}

ncclResult_t ncclSend(const void *send, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    UNUSED8(send, n, type, peer, comm, stream, 0, 0);
    return count();
}

ncclResult_t ncclRecv(void *recv, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    UNUSED8(recv, n, type, peer, comm, stream, 0, 0);
    return count();
}

ncclResult_t ncclGroupStart(void)
{
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    return ncclSuccess;
}
