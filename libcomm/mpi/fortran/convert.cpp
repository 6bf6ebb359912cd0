#include "mpi/fortran/convert.hpp"

namespace weft::mpi::fortran {

void* translate_sentinel(std::size_t offset, void* address) noexcept {
  switch (offset) {
    case offsetof(Sentinels, in_place):
      return MPI_IN_PLACE;
    case offsetof(Sentinels, buffer_automatic):
      return MPI_BUFFER_AUTOMATIC;
    case offsetof(Sentinels, unweighted):
      return MPI_UNWEIGHTED;
    case offsetof(Sentinels, weights_empty):
      return MPI_WEIGHTS_EMPTY;
    case offsetof(Sentinels, bottom):
    case offsetof(Sentinels, errcodes_ignore):
    case offsetof(Sentinels, status_ignore):
    case offsetof(Sentinels, statuses_ignore):
      return nullptr;
    default:
      return address;
  }
}

void refuse(int code, MPI_Fint* ierror) noexcept {
  PMPI_Comm_call_errhandler(MPI_COMM_SELF, code);
  if (ierror != nullptr) *ierror = code;
}

std::int64_t num_group(MPI_Comm comm) noexcept {
  int is_inter = 0, size = 0;
  if (comm == nullptr || comm == MPI_COMM_NULL) return 0;
  if (PMPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS) return 0;
  (void)(is_inter ? PMPI_Comm_remote_size(comm, &size) : PMPI_Comm_size(comm, &size));
  return size;
}

namespace {

void count_neighbors(MPI_Comm comm, int& in, int& out) noexcept {
  in = out = 0;
  int topology = MPI_UNDEFINED, rank = 0, weighted = 0, num_dims = 0;
  if (comm == nullptr || comm == MPI_COMM_NULL) return;
  if (PMPI_Topo_test(comm, &topology) != MPI_SUCCESS) return;
  if (topology == MPI_DIST_GRAPH) {
    PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
  } else if (topology == MPI_GRAPH) {
    PMPI_Comm_rank(comm, &rank);
    PMPI_Graph_neighbors_count(comm, rank, &in);
    out = in;
  } else if (topology == MPI_CART) {
    PMPI_Cartdim_get(comm, &num_dims);
    in = out = 2 * num_dims;
  }
}

}  // namespace

std::int64_t num_indegree(MPI_Comm comm) noexcept {
  int in, out;
  count_neighbors(comm, in, out);
  return in;
}
std::int64_t num_outdegree(MPI_Comm comm) noexcept {
  int in, out;
  count_neighbors(comm, in, out);
  return out;
}

}  // namespace weft::mpi::fortran
