#include "clocks.hpp"

#include "counts.hpp"

namespace weft::profile {
namespace {

constexpr int kRounds = 10;
constexpr int kTag = 0;

// The first of the leaders answers each of the others with its time: also those behind one that is
// lost, as they wait for it.
int answer(MPI_Comm leaders) {
  int size = 0, result = MPI_SUCCESS;
  PMPI_Comm_size(leaders, &size);
  for (int rank = 1; rank < size; ++rank) {
    int code = MPI_SUCCESS;
    for (int i = 0; i < kRounds && code == MPI_SUCCESS; ++i) {
      code = PMPI_Recv(nullptr, 0, MPI_BYTE, rank, kTag, leaders, MPI_STATUS_IGNORE);
      const std::uint64_t now = now_ns();
      if (code == MPI_SUCCESS) code = PMPI_Send(&now, 1, MPI_UINT64_T, rank, kTag, leaders);
    }
    if (code != MPI_SUCCESS) result = code;
  }
  return result;
}

// The shortest round has the smallest error: the answer was given at some time within it.
int ask(MPI_Comm leaders, Comparison& comparison) {
  for (int i = 0; i < kRounds; ++i) {
    std::uint64_t theirs = 0;
    const std::uint64_t begin = now_ns();
    int code = PMPI_Send(nullptr, 0, MPI_BYTE, 0, kTag, leaders);
    if (code == MPI_SUCCESS)
      code = PMPI_Recv(&theirs, 1, MPI_UINT64_T, 0, kTag, leaders, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return code;
    const std::uint64_t half = (now_ns() - begin + 1) / 2;
    if (i != 0 && half >= comparison.error_ns) continue;
    comparison.error_ns = half;
    comparison.offset_ns =
        static_cast<std::int64_t>(theirs) - static_cast<std::int64_t>(begin + half);
  }
  return MPI_SUCCESS;
}

}  // namespace

int compare_clocks(MPI_Comm comm, Comparison& comparison) {
  int rank = 0, place = 0;
  PMPI_Comm_rank(comm, &rank);
  comparison = {now_ns(), 0, 0};
  MPI_Comm host = MPI_COMM_NULL, leaders = MPI_COMM_NULL;
  int code = PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
  if (code != MPI_SUCCESS) return code;
  PMPI_Comm_set_errhandler(host, MPI_ERRORS_RETURN);
  PMPI_Comm_rank(host, &place);
  code = PMPI_Comm_split(comm, place == 0 ? 0 : MPI_UNDEFINED, rank, &leaders);
  if (code == MPI_SUCCESS && leaders != MPI_COMM_NULL) {
    PMPI_Comm_set_errhandler(leaders, MPI_ERRORS_RETURN);
    code = rank == 0 ? answer(leaders) : ask(leaders, comparison);
    PMPI_Comm_free(&leaders);
  }
  // Whatever has happened between the leaders, the others of their hosts wait for them.
  std::int64_t said[3] = {comparison.offset_ns, static_cast<std::int64_t>(comparison.error_ns),
                          code};
  code = PMPI_Bcast(said, 3, MPI_INT64_T, 0, host);
  PMPI_Comm_free(&host);
  if (code != MPI_SUCCESS) return code;
  comparison.offset_ns = said[0];
  comparison.error_ns = static_cast<std::uint64_t>(said[1]);
  return static_cast<int>(said[2]);
}

std::uint64_t by_common_clock(std::uint64_t ns, const Comparison& first,
                              const Comparison& last) noexcept {
  double share = 0;
  if (last.at_ns > first.at_ns && ns > first.at_ns)
    share = static_cast<double>(ns - first.at_ns) / static_cast<double>(last.at_ns - first.at_ns);
  const double drift = share * static_cast<double>(last.offset_ns - first.offset_ns);
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(ns) + first.offset_ns +
                                    static_cast<std::int64_t>(drift));
}

}  // namespace weft::profile
