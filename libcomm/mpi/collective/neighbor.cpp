// Neighbourhood collectives: every process sends to and receives from the neighbours of its
// topology. All forms run as a schedule; the blocking ones wait for it.
#include "mpi/collective/collective.hpp"
#include "mpi/comm/topology.hpp"

namespace weft::mpi {
namespace {

// allgather(v): one block goes to all neighbours. alltoall(v,w): one for each. A null array of
// counts means blocks of one size that lie one after the other.
template <class Count, class Place>
struct NeighborCall {
  using Inter = void;  // these have no topology
  const void* send_buffer;
  MPI_Count send_count;
  const Count* send_counts;
  const Place* send_places;
  MPI_Datatype send_datatype;
  const MPI_Datatype* send_datatypes;
  bool one_block;  // allgather
  void* receive_buffer;
  MPI_Count receive_count;
  const Count* receive_counts;
  const Place* receive_places;
  MPI_Datatype receive_datatype;
  const MPI_Datatype* receive_datatypes;
  std::vector<int> sources = {};
  std::vector<int> destinations = {};
  std::vector<Datatype*> send_types = {};
  std::vector<Datatype*> receive_types = {};
  Blocks send = {};
  Blocks receive = {};
  KeptArrays arrays = {};

  static int find_types(std::size_t n, MPI_Count one_count, const Count* counts, MPI_Datatype one,
                        const MPI_Datatype* handles, std::vector<Datatype*>& types) {
    types.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      const MPI_Count count = counts == nullptr ? one_count : static_cast<MPI_Count>(counts[i]);
      const int code = check_elements(count, handles == nullptr ? one : handles[i], types[i]);
      if (code == MPI_SUCCESS) continue;
      // A neighbour that gets nothing may have any type.
      if (code != MPI_ERR_TYPE || count != 0 || handles == nullptr) return code;
      types[i] = find_datatype(MPI_BYTE);
    }
    return MPI_SUCCESS;
  }
  template <class F>
  void each_type(F&& f) const {
    for (Datatype* type : send_types) f(type);
    for (Datatype* type : receive_types) f(type);
  }
  void keep_arrays() {
    arrays.keep(send_counts, destinations.size());
    arrays.keep(send_places, destinations.size());
    arrays.keep(receive_counts, sources.size());
    arrays.keep(receive_places, sources.size());
  }
  int check(Comm& comm) {
    if (comm.topology == nullptr) return MPI_ERR_TOPOLOGY;
    if (send_buffer == MPI_IN_PLACE || receive_buffer == MPI_IN_PLACE) return MPI_ERR_BUFFER;
    neighbors(comm, sources, destinations);
    const int code = find_types(one_block ? 1 : destinations.size(), send_count, send_counts,
                                send_datatype, send_datatypes, send_types);
    if (code != MPI_SUCCESS) return code;
    return find_types(sources.size(), receive_count, receive_counts, receive_datatype,
                      receive_datatypes, receive_types);
  }
  // The block of a missing neighbour is empty: the program's data in its place stay.
  static int set(Blocks& blocks, const void* base, MPI_Count one_count, const Count* counts,
                 const Place* places, bool in_bytes, const std::vector<Datatype*>& types,
                 const std::vector<int>* peers) {
    return blocks.set(
        const_cast<void*>(base), static_cast<int>(types.size()),
        [one_count, counts, peers](std::size_t i) {
          if (peers != nullptr && (*peers)[i] == MPI_PROC_NULL) return MPI_Count{0};
          return counts == nullptr ? one_count : static_cast<MPI_Count>(counts[i]);
        },
        [one_count, places, in_bytes, &types](std::size_t i) {
          if (in_bytes) return static_cast<std::ptrdiff_t>(places[i]);
          const auto steps = places == nullptr ? static_cast<std::ptrdiff_t>(i) * one_count
                                               : static_cast<std::ptrdiff_t>(places[i]);
          return steps * static_cast<std::ptrdiff_t>(types[i]->extent());
        },
        [&types](std::size_t i) { return types[i]; });
  }
  int prepare(Comm&) {
    int code = set(send, send_buffer, send_count, send_counts, send_places,
                   send_datatypes != nullptr, send_types, one_block ? nullptr : &destinations);
    if (code != MPI_SUCCESS) return code;
    send.pack();
    code = set(receive, receive_buffer, receive_count, receive_counts, receive_places,
               receive_datatypes != nullptr, receive_types, &sources);
    return code == MPI_SUCCESS && send.shares_memory(receive) ? MPI_ERR_BUFFER : code;
  }
  void build(Schedule& schedule) {
    // Messages between two processes that are neighbours more than once match in order. With two
    // processes in a periodic dimension the neighbour below is also the one above: its first
    // message is meant for our upper side. Sending in the reverse order of receiving there would be
    // wrong for graphs, so a cartesian grid sends each pair of directions crosswise.
    for (std::size_t i = 0; i < sources.size(); ++i)
      if (sources[i] != MPI_PROC_NULL)
        schedule.receive(sources[i], receive.block(i), receive.bytes[i]);
    const bool crosswise = schedule.comm().topology->kind == MPI_CART;
    for (std::size_t i = 0; i < destinations.size(); ++i) {
      const std::size_t to = crosswise ? i ^ 1 : i;
      if (destinations[to] == MPI_PROC_NULL) continue;
      const std::size_t block = one_block ? 0 : to;
      schedule.send(destinations[to], send.block(block), send.bytes[block]);
    }
    schedule.wait();
  }
  void finish() { receive.unpack(); }
};

template <class Call>
int run_neighbor(MPI_Comm handle, Call&& call, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  return run_waiting(*comm, std::move(call), function);
}

}  // namespace
}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

#define WEFT_PARAMETERS(...) __VA_ARGS__
#define WEFT_NEIGHBOR(name, suffix, parameters, call)                                \
  MPI_FUNCTION(Neighbor_##name##suffix)(WEFT_PARAMETERS parameters, MPI_Comm comm) { \
    return run_neighbor(comm, call, __func__);                                       \
  }                                                                                  \
  MPI_FUNCTION(Ineighbor_##name##suffix)                                             \
  (WEFT_PARAMETERS parameters, MPI_Comm comm, MPI_Request * request) {               \
    return run_background(comm, call, false, request, __func__);                     \
  }                                                                                  \
  MPI_FUNCTION(Neighbor_##name##_init##suffix)                                       \
  (WEFT_PARAMETERS parameters, MPI_Comm comm, MPI_Info, MPI_Request * request) {     \
    return run_background(comm, call, true, request, __func__);                      \
  }

#define WEFT_EACH_FORM(Count, Place, suffix)                                                       \
  WEFT_NEIGHBOR(                                                                                   \
      allgather, suffix,                                                                           \
      (const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf,                 \
       Count recvcount, MPI_Datatype recvtype),                                                    \
      (NeighborCall<Count, Place>{sendbuf, sendcount, nullptr, nullptr, sendtype, nullptr, true,   \
                                  recvbuf, recvcount, nullptr, nullptr, recvtype, nullptr}))       \
  WEFT_NEIGHBOR(                                                                                   \
      allgatherv, suffix,                                                                          \
      (const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf,                 \
       const Count* recvcounts, const Place* displs, MPI_Datatype recvtype),                       \
      (NeighborCall<Count, Place>{sendbuf, sendcount, nullptr, nullptr, sendtype, nullptr, true,   \
                                  recvbuf, 0, recvcounts, displs, recvtype, nullptr}))             \
  WEFT_NEIGHBOR(                                                                                   \
      alltoall, suffix,                                                                            \
      (const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf,                 \
       Count recvcount, MPI_Datatype recvtype),                                                    \
      (NeighborCall<Count, Place>{sendbuf, sendcount, nullptr, nullptr, sendtype, nullptr, false,  \
                                  recvbuf, recvcount, nullptr, nullptr, recvtype, nullptr}))       \
  WEFT_NEIGHBOR(                                                                                   \
      alltoallv, suffix,                                                                           \
      (const void* sendbuf, const Count* sendcounts, const Place* sdispls, MPI_Datatype sendtype,  \
       void* recvbuf, const Count* recvcounts, const Place* rdispls, MPI_Datatype recvtype),       \
      (NeighborCall<Count, Place>{sendbuf, 0, sendcounts, sdispls, sendtype, nullptr, false,       \
                                  recvbuf, 0, recvcounts, rdispls, recvtype, nullptr}))            \
  WEFT_NEIGHBOR(alltoallw, suffix,                                                                 \
                (const void* sendbuf, const Count* sendcounts, const MPI_Aint* sdispls,            \
                 const MPI_Datatype* sendtypes, void* recvbuf, const Count* recvcounts,            \
                 const MPI_Aint* rdispls, const MPI_Datatype* recvtypes),                          \
                (NeighborCall<Count, MPI_Aint>{sendbuf, 0, sendcounts, sdispls, MPI_DATATYPE_NULL, \
                                               sendtypes, false, recvbuf, 0, recvcounts, rdispls,  \
                                               MPI_DATATYPE_NULL, recvtypes}))

WEFT_EACH_FORM(int, int, )
WEFT_EACH_FORM(MPI_Count, MPI_Aint, _c)
#undef WEFT_EACH_FORM
