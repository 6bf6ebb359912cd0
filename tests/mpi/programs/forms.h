// The three forms of a collective: blocking, in the background, persistent. A program runs the same
// checks with each by writing its calls as CALL_ON(comm, Bcast, data, count, type, root), without
// the communicator among the arguments.
#ifndef WEFT_TESTS_FORMS_H
#define WEFT_TESTS_FORMS_H
#include "expect.h"

#if MPI_VERSION >= 4
enum { kBlocking, kNonblocking, kPersistent, kForms };
#define PERSISTENT(...) __VA_ARGS__
#else  // has none that are persistent
enum { kBlocking, kNonblocking, kForms, kPersistent };
#define PERSISTENT(...)
#endif

static int form = kBlocking;

// Ends what a call of the current form began.
static UNUSED void complete(MPI_Request* request) {
  if (form == kPersistent) {
    EXPECT_OK(MPI_Start(request));
    EXPECT_OK(MPI_Wait(request, MPI_STATUS_IGNORE));
    EXPECT_OK(MPI_Request_free(request));
  } else if (form == kNonblocking) {
    EXPECT_OK(MPI_Wait(request, MPI_STATUS_IGNORE));
  }
}

#define CALL_ON(comm, name, ...)                                                         \
  do {                                                                                   \
    MPI_Request request_ = MPI_REQUEST_NULL;                                             \
    if (form == kBlocking) EXPECT_OK(MPI_##name(__VA_ARGS__, comm));                     \
    if (form == kNonblocking) EXPECT_OK(MPI_I##name(__VA_ARGS__, comm, &request_));      \
    PERSISTENT(if (form == kPersistent)                                                  \
                   EXPECT_OK(MPI_P##name(__VA_ARGS__, comm, MPI_INFO_NULL, &request_));) \
    complete(&request_);                                                                 \
  } while (0)

static UNUSED void barrier_on(MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (form == kBlocking) EXPECT_OK(MPI_Barrier(comm));
  if (form == kNonblocking) EXPECT_OK(MPI_Ibarrier(comm, &request));
  PERSISTENT(if (form == kPersistent) EXPECT_OK(MPI_Barrier_init(comm, MPI_INFO_NULL, &request));)
  complete(&request);
}

// The names that CALL_ON builds; MPI's own are not put together so evenly.
#define MPI_IBcast MPI_Ibcast
#define MPI_PBcast MPI_Bcast_init
#define MPI_IGather MPI_Igather
#define MPI_PGather MPI_Gather_init
#define MPI_IGatherv MPI_Igatherv
#define MPI_PGatherv MPI_Gatherv_init
#define MPI_IScatter MPI_Iscatter
#define MPI_PScatter MPI_Scatter_init
#define MPI_IScatterv MPI_Iscatterv
#define MPI_PScatterv MPI_Scatterv_init
#define MPI_IAllgather MPI_Iallgather
#define MPI_PAllgather MPI_Allgather_init
#define MPI_IAllgatherv MPI_Iallgatherv
#define MPI_PAllgatherv MPI_Allgatherv_init
#define MPI_IAlltoall MPI_Ialltoall
#define MPI_PAlltoall MPI_Alltoall_init
#define MPI_IAlltoallv MPI_Ialltoallv
#define MPI_PAlltoallv MPI_Alltoallv_init
#define MPI_IAlltoallw MPI_Ialltoallw
#define MPI_PAlltoallw MPI_Alltoallw_init
#define MPI_IReduce MPI_Ireduce
#define MPI_PReduce MPI_Reduce_init
#define MPI_IAllreduce MPI_Iallreduce
#define MPI_PAllreduce MPI_Allreduce_init
#define MPI_IReduce_scatter MPI_Ireduce_scatter
#define MPI_PReduce_scatter MPI_Reduce_scatter_init
#define MPI_IReduce_scatter_block MPI_Ireduce_scatter_block
#define MPI_PReduce_scatter_block MPI_Reduce_scatter_block_init
#define MPI_IScan MPI_Iscan
#define MPI_PScan MPI_Scan_init
#define MPI_IExscan MPI_Iexscan
#define MPI_PExscan MPI_Exscan_init
#define MPI_INeighbor_allgather MPI_Ineighbor_allgather
#define MPI_PNeighbor_allgather MPI_Neighbor_allgather_init
#define MPI_INeighbor_allgatherv MPI_Ineighbor_allgatherv
#define MPI_PNeighbor_allgatherv MPI_Neighbor_allgatherv_init
#define MPI_INeighbor_alltoall MPI_Ineighbor_alltoall
#define MPI_PNeighbor_alltoall MPI_Neighbor_alltoall_init
#define MPI_INeighbor_alltoallv MPI_Ineighbor_alltoallv
#define MPI_PNeighbor_alltoallv MPI_Neighbor_alltoallv_init
#define MPI_INeighbor_alltoallw MPI_Ineighbor_alltoallw
#define MPI_PNeighbor_alltoallw MPI_Neighbor_alltoallw_init
#endif
