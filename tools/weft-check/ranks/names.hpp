#pragma once
// Names: the calls that notes name, by number.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace weft::check {

inline constexpr std::array<std::string_view, 101> kCallNames = {"MPI",
                                                                 "MPI_Send",
                                                                 "MPI_Bsend",
                                                                 "MPI_Ssend",
                                                                 "MPI_Rsend",
                                                                 "MPI_Isend",
                                                                 "MPI_Ibsend",
                                                                 "MPI_Issend",
                                                                 "MPI_Irsend",
                                                                 "MPI_Send_init",
                                                                 "MPI_Bsend_init",
                                                                 "MPI_Ssend_init",
                                                                 "MPI_Rsend_init",
                                                                 "MPI_Start",
                                                                 "MPI_Startall",
                                                                 "MPI_Sendrecv",
                                                                 "MPI_Isendrecv",
                                                                 "MPI_Sendrecv_replace",
                                                                 "MPI_Isendrecv_replace",
                                                                 "MPI_Barrier",
                                                                 "MPI_Ibarrier",
                                                                 "MPI_Barrier_init",
                                                                 "MPI_Bcast",
                                                                 "MPI_Ibcast",
                                                                 "MPI_Bcast_init",
                                                                 "MPI_Gather",
                                                                 "MPI_Igather",
                                                                 "MPI_Gather_init",
                                                                 "MPI_Gatherv",
                                                                 "MPI_Igatherv",
                                                                 "MPI_Gatherv_init",
                                                                 "MPI_Scatter",
                                                                 "MPI_Iscatter",
                                                                 "MPI_Scatter_init",
                                                                 "MPI_Scatterv",
                                                                 "MPI_Iscatterv",
                                                                 "MPI_Scatterv_init",
                                                                 "MPI_Allgather",
                                                                 "MPI_Iallgather",
                                                                 "MPI_Allgather_init",
                                                                 "MPI_Allgatherv",
                                                                 "MPI_Iallgatherv",
                                                                 "MPI_Allgatherv_init",
                                                                 "MPI_Alltoall",
                                                                 "MPI_Ialltoall",
                                                                 "MPI_Alltoall_init",
                                                                 "MPI_Alltoallv",
                                                                 "MPI_Ialltoallv",
                                                                 "MPI_Alltoallv_init",
                                                                 "MPI_Alltoallw",
                                                                 "MPI_Ialltoallw",
                                                                 "MPI_Alltoallw_init",
                                                                 "MPI_Reduce",
                                                                 "MPI_Ireduce",
                                                                 "MPI_Reduce_init",
                                                                 "MPI_Allreduce",
                                                                 "MPI_Iallreduce",
                                                                 "MPI_Allreduce_init",
                                                                 "MPI_Reduce_scatter",
                                                                 "MPI_Ireduce_scatter",
                                                                 "MPI_Reduce_scatter_init",
                                                                 "MPI_Reduce_scatter_block",
                                                                 "MPI_Ireduce_scatter_block",
                                                                 "MPI_Reduce_scatter_block_init",
                                                                 "MPI_Scan",
                                                                 "MPI_Iscan",
                                                                 "MPI_Scan_init",
                                                                 "MPI_Exscan",
                                                                 "MPI_Iexscan",
                                                                 "MPI_Exscan_init",
                                                                 "MPI_Comm_dup",
                                                                 "MPI_Comm_split",
                                                                 "MPI_Comm_split_type",
                                                                 "MPI_Comm_create",
                                                                 "MPI_Comm_dup_with_info",
                                                                 "MPI_Comm_idup",
                                                                 "MPI_Comm_idup_with_info",
                                                                 "MPI_Cart_create",
                                                                 "MPI_Cart_sub",
                                                                 "MPI_Graph_create",
                                                                 "MPI_Dist_graph_create",
                                                                 "MPI_Dist_graph_create_adjacent",
                                                                 "MPI_Win_create",
                                                                 "MPI_Win_allocate",
                                                                 "MPI_Win_allocate_shared",
                                                                 "MPI_Win_create_dynamic",
                                                                 "MPI_Win_fence",
                                                                 "MPI_Win_free",
                                                                 "MPI_Comm_free",
                                                                 "MPI_File_open",
                                                                 "MPI_File_close",
                                                                 "MPI_Finalize",
                                                                 "MPI_Put",
                                                                 "MPI_Get",
                                                                 "MPI_Accumulate",
                                                                 "MPI_Rput",
                                                                 "MPI_Raccumulate",
                                                                 "MPI_Get_accumulate",
                                                                 "MPI_Rget_accumulate",
                                                                 "MPI_Fetch_and_op",
                                                                 "MPI_Compare_and_swap"};

// "MPI_SUM"; of the program's own operations that.
constexpr std::string_view name_of_op(std::uint32_t number) {
  constexpr std::pair<std::uint32_t, std::string_view> kNames[] = {
      {0x21, "MPI_SUM"},     {0x22, "MPI_MIN"},  {0x23, "MPI_MAX"},    {0x24, "MPI_PROD"},
      {0x28, "MPI_BAND"},    {0x29, "MPI_BOR"},  {0x2a, "MPI_BXOR"},   {0x30, "MPI_LAND"},
      {0x31, "MPI_LOR"},     {0x32, "MPI_LXOR"}, {0x38, "MPI_MINLOC"}, {0x39, "MPI_MAXLOC"},
      {0x3c, "MPI_REPLACE"}, {0x3d, "MPI_NO_OP"}};
  for (const auto& [known, name] : kNames)
    if (known == number) return name;
  return "an operation of the program";
}

// 0: not known.
constexpr std::uint8_t number_of_call(std::string_view name) {
  if (name.ends_with("_c")) name.remove_suffix(2);
  const auto at = std::ranges::find(kCallNames, name);
  return at == kCallNames.end() ? std::uint8_t{0}
                                : static_cast<std::uint8_t>(at - kCallNames.begin());
}
constexpr std::string_view name_of_call(std::uint8_t number) {
  return number < kCallNames.size() ? kCallNames[number] : kCallNames[0];
}

}  // namespace weft::check
