// The C functions of the collectives that move data: blocking, nonblocking and persistent, with int
// and with large counts. Their Calls are in calls.hpp.
#include "mpi/collective/calls.hpp"

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

// Defines three functions of one Call: blocking, nonblocking, persistent. `parameters` and `call`
// are in parentheses.
#define WEFT_PARAMETERS(...) __VA_ARGS__
#define WEFT_COLLECTIVE(name, iname, suffix, parameters, call)                   \
  MPI_FUNCTION(name##suffix)(WEFT_PARAMETERS parameters, MPI_Comm comm) {        \
    return run_blocking(comm, call, __func__);                                   \
  }                                                                              \
  MPI_FUNCTION(iname##suffix)                                                    \
  (WEFT_PARAMETERS parameters, MPI_Comm comm, MPI_Request * request) {           \
    return run_background(comm, call, false, request, __func__);                 \
  }                                                                              \
  MPI_FUNCTION(name##_init##suffix)                                              \
  (WEFT_PARAMETERS parameters, MPI_Comm comm, MPI_Info, MPI_Request * request) { \
    return run_background(comm, call, true, request, __func__);                  \
  }

MPI_FUNCTION(Barrier)(MPI_Comm comm) { return run_blocking(comm, BarrierCall{}, __func__); }
MPI_FUNCTION(Ibarrier)(MPI_Comm comm, MPI_Request* request) {
  return run_background(comm, BarrierCall{}, false, request, __func__);
}
MPI_FUNCTION(Barrier_init)(MPI_Comm comm, MPI_Info, MPI_Request* request) {
  return run_background(comm, BarrierCall{}, true, request, __func__);
}

#define WEFT_EACH_FORM(Count, Place, suffix)                                                       \
  WEFT_COLLECTIVE(Bcast, Ibcast, suffix,                                                           \
                  (void* buffer, Count count, MPI_Datatype datatype, int root),                    \
                  (BcastCall{buffer, count, datatype, root}))                                      \
  WEFT_COLLECTIVE(Gather, Igather, suffix,                                                         \
                  (const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf,     \
                   Count recvcount, MPI_Datatype recvtype, int root),                              \
                  (GatherCall{sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,          \
                              root == -1 ? -2 : root}))                                            \
  WEFT_COLLECTIVE(Allgather, Iallgather, suffix,                                                   \
                  (const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf,     \
                   Count recvcount, MPI_Datatype recvtype),                                        \
                  (GatherCall{sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, -1}))    \
  WEFT_COLLECTIVE(Scatter, Iscatter, suffix,                                                       \
                  (const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf,     \
                   Count recvcount, MPI_Datatype recvtype, int root),                              \
                  (ScatterCall{sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root})) \
  WEFT_COLLECTIVE(Gatherv, Igatherv, suffix,                                                       \
                  (const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf,     \
                   const Count* recvcounts, const Place* displs, MPI_Datatype recvtype, int root), \
                  (GathervCall<Count, Place>{sendbuf, sendcount, sendtype, recvbuf, recvcounts,    \
                                             displs, recvtype, root == -1 ? -2 : root}))           \
  WEFT_COLLECTIVE(Allgatherv, Iallgatherv, suffix,                                                 \
                  (const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf,     \
                   const Count* recvcounts, const Place* displs, MPI_Datatype recvtype),           \
                  (GathervCall<Count, Place>{sendbuf, sendcount, sendtype, recvbuf, recvcounts,    \
                                             displs, recvtype, -1}))                               \
  WEFT_COLLECTIVE(                                                                                 \
      Scatterv, Iscatterv, suffix,                                                                 \
      (const void* sendbuf, const Count* sendcounts, const Place* displs, MPI_Datatype sendtype,   \
       void* recvbuf, Count recvcount, MPI_Datatype recvtype, int root),                           \
      (ScattervCall<Count, Place>{sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount,       \
                                  recvtype, root}))                                                \
  WEFT_COLLECTIVE(Alltoall, Ialltoall, suffix,                                                     \
                  (const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf,     \
                   Count recvcount, MPI_Datatype recvtype),                                        \
                  (AlltoallCall{sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype}))      \
  WEFT_COLLECTIVE(                                                                                 \
      Alltoallv, Ialltoallv, suffix,                                                               \
      (const void* sendbuf, const Count* sendcounts, const Place* sdispls, MPI_Datatype sendtype,  \
       void* recvbuf, const Count* recvcounts, const Place* rdispls, MPI_Datatype recvtype),       \
      (AlltoallvCall<Count, Place>{sendbuf, sendcounts, sdispls, nullptr, recvbuf, recvcounts,     \
                                   rdispls, nullptr, sendtype, recvtype}))                         \
  WEFT_COLLECTIVE(Alltoallw, Ialltoallw, suffix,                                                   \
                  (const void* sendbuf, const Count* sendcounts, const Place* sdispls,             \
                   const MPI_Datatype* sendtypes, void* recvbuf, const Count* recvcounts,          \
                   const Place* rdispls, const MPI_Datatype* recvtypes),                           \
                  (AlltoallvCall<Count, Place>{sendbuf, sendcounts, sdispls, sendtypes, recvbuf,   \
                                               recvcounts, rdispls, recvtypes}))

WEFT_EACH_FORM(int, int, )
WEFT_EACH_FORM(MPI_Count, MPI_Aint, _c)
#undef WEFT_EACH_FORM
