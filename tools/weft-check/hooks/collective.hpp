#pragma once
// Collectives: blocking, nonblocking (Ibcast) and persistent (Bcast_init).
#include <fmt/core.h>

#include "tools/weft-check/hooks/arguments.hpp"
#include "tools/weft-check/program/variables.hpp"
#include "tools/weft-check/ranks/collectives.hpp"
#include "tools/weft-check/report.hpp"
#include "tools/weft-check/state/requests.hpp"
#include "tools/weft-check/state/windows.hpp"

namespace weft::check {

// "Bcast" of "Ibcast" and "Bcast_init"; empty: no collective.
constexpr std::string_view kCollectives[] = {
    "Barrier",   "Bcast",     "Gather",     "Gatherv",        "Scatter",
    "Scatterv",  "Allgather", "Allgatherv", "Alltoall",       "Alltoallv",
    "Alltoallw", "Reduce",    "Allreduce",  "Reduce_scatter", "Reduce_scatter_block",
    "Scan",      "Exscan"};
constexpr std::string_view kNonblocking[] = {
    "Ibarrier",   "Ibcast",     "Igather",     "Igatherv",        "Iscatter",
    "Iscatterv",  "Iallgather", "Iallgatherv", "Ialltoall",       "Ialltoallv",
    "Ialltoallw", "Ireduce",    "Iallreduce",  "Ireduce_scatter", "Ireduce_scatter_block",
    "Iscan",      "Iexscan"};
constexpr std::string_view collective_of(std::string_view name) {
  if (name.ends_with("_init")) name.remove_suffix(5);
  for (std::size_t i = 0; i < std::size(kCollectives); ++i)
    if (name == kCollectives[i] || name == kNonblocking[i]) return kCollectives[i];
  return {};
}

inline std::uint32_t number_of_op(MPI_Op op) {
  const auto number = reinterpret_cast<std::uintptr_t>(op);
  return number < 1024 ? static_cast<std::uint32_t>(number)
                       : 1024;  // one for all of the program's own
}

// Builds what the members compare, and the memory that the call uses.
class CollectiveCall {
 public:
  explicit CollectiveCall(MPI_Comm comm) : comm_(comm_of(comm)) {}
  bool is_valid() const { return comm_ != nullptr && !comm_->is_inter; }
  int rank() const { return comm_->rank; }
  std::uint64_t size() const { return comm_->world.size(); }
  Collective& collective() { return collective_; }
  Comm* comm() const { return comm_; }
  const std::vector<Memory>& memory() const { return memory_; }

  void set_signature(std::int64_t count, MPI_Datatype type) {
    const Layout* layout = layout_of(type);
    if (layout == nullptr || count < 0) return;
    collective_.signature = signature_of(*layout, static_cast<std::uint64_t>(count));
    collective_.has_signature = true;
  }
  // What this rank sends to itself must be what it receives.
  void compare(std::int64_t out_count, MPI_Datatype out, std::int64_t in_count, MPI_Datatype in) {
    const Layout *sent = layout_of(out), *received = layout_of(in);
    if (sent == nullptr || received == nullptr || out_count < 0 || in_count < 0) return;
    const Signature one = signature_of(*sent, static_cast<std::uint64_t>(out_count));
    const Signature other = signature_of(*received, static_cast<std::uint64_t>(in_count));
    if (one.has_any || other.has_any || (one.number == 0 && other.number == 0)) return;
    if (one.number == other.number && one.basic == other.basic && one.hash == other.hash) return;
    report("signature",
           fmt::format("a rank's part is sent as {} and received as {}: both must be the same",
                       text_of(static_cast<std::uint64_t>(out_count), *sent),
                       text_of(static_cast<std::uint64_t>(in_count), *received)));
  }
  void use(const void* buffer, std::int64_t count, MPI_Datatype type, Access access) {
    if (buffer == MPI_IN_PLACE || count <= 0) return;
    Memory memory = lasting_memory(buffer, static_cast<std::uint64_t>(count), type, access);
    if (memory.buffer != nullptr) memory_.push_back(std::move(memory));
  }
  void check(bool ends_in_call) {
    for (const Memory& memory : memory_) {
      if (ends_in_call) check_use(memory.buffer, memory.count, *memory.layout, memory.access);
      check_variable(memory,
                     memory.access == Access::reads ? "its send buffer" : "its receive buffer");
    }
    if (memory_.size() == 2 && memory_[0].access != memory_[1].access)
      check_disjoint(memory_[0], memory_[1], "send and receive buffers");
  }

 private:
  Comm* comm_;
  Collective collective_;
  std::vector<Memory> memory_;
};

template <class Count>
std::int64_t sum_of_counts(const Count* counts, std::uint64_t number) {
  std::int64_t sum = 0;
  for (std::uint64_t i = 0; counts != nullptr && i < number; ++i) sum += counts[i];
  return sum;
}

// The arguments of `kind` without what _init and I add behind them.
template <std::size_t function, class... A>
void describe_collective(CollectiveCall& call, A&... a) {
  constexpr std::string_view kName = collective_of(kPlain<function>);
  Collective& collective = call.collective();
  const auto size = static_cast<std::int64_t>(call.size());
  collective.waits_for_all = is_one_of(kName, "Barrier", "Allgather", "Allgatherv", "Alltoall",
                                       "Allreduce", "Reduce_scatter", "Reduce_scatter_block");
  if constexpr (kName == "Bcast") {
    collective.root = argument<3>(a...);
    call.set_signature(argument<1>(a...), argument<2>(a...));
    call.use(argument<0>(a...), argument<1>(a...), argument<2>(a...),
             collective.root == call.rank() ? Access::reads : Access::writes);
  } else if constexpr (kName == "Gather") {
    collective.root = argument<6>(a...);
    const bool is_root = collective.root == call.rank();
    const bool is_in_place = is_root && argument<0>(a...) == MPI_IN_PLACE;
    if (is_root)
      call.set_signature(argument<4>(a...), argument<5>(a...));
    else
      call.set_signature(argument<1>(a...), argument<2>(a...));
    if (is_root && !is_in_place)
      call.compare(argument<1>(a...), argument<2>(a...), argument<4>(a...), argument<5>(a...));
    if (!is_in_place)
      call.use(argument<0>(a...), argument<1>(a...), argument<2>(a...), Access::reads);
    if (is_root)
      call.use(argument<3>(a...), argument<4>(a...) * size, argument<5>(a...), Access::writes);
  } else if constexpr (kName == "Scatter") {
    collective.root = argument<6>(a...);
    const bool is_root = collective.root == call.rank();
    const bool is_in_place = is_root && argument<3>(a...) == MPI_IN_PLACE;
    if (is_root)
      call.set_signature(argument<1>(a...), argument<2>(a...));
    else
      call.set_signature(argument<4>(a...), argument<5>(a...));
    if (is_root && !is_in_place)
      call.compare(argument<1>(a...), argument<2>(a...), argument<4>(a...), argument<5>(a...));
    if (is_root)
      call.use(argument<0>(a...), argument<1>(a...) * size, argument<2>(a...), Access::reads);
    if (!is_in_place)
      call.use(argument<3>(a...), argument<4>(a...), argument<5>(a...), Access::writes);
  } else if constexpr (kName == "Gatherv") {
    collective.root = argument<7>(a...);
    if (collective.root != call.rank() || argument<0>(a...) != MPI_IN_PLACE)
      call.use(argument<0>(a...), argument<1>(a...), argument<2>(a...), Access::reads);
    if (collective.root == call.rank() && argument<0>(a...) != MPI_IN_PLACE &&
        argument<4>(a...) != nullptr)
      call.compare(argument<1>(a...), argument<2>(a...), argument<4>(a...)[call.rank()],
                   argument<6>(a...));
  } else if constexpr (kName == "Scatterv") {
    collective.root = argument<7>(a...);
    if (collective.root != call.rank() || argument<4>(a...) != MPI_IN_PLACE)
      call.use(argument<4>(a...), argument<5>(a...), argument<6>(a...), Access::writes);
    if (collective.root == call.rank() && argument<4>(a...) != MPI_IN_PLACE &&
        argument<1>(a...) != nullptr)
      call.compare(argument<1>(a...)[call.rank()], argument<3>(a...), argument<5>(a...),
                   argument<6>(a...));
  } else if constexpr (kName == "Allgather" || kName == "Alltoall") {
    call.set_signature(argument<4>(a...), argument<5>(a...));
    if (argument<0>(a...) != MPI_IN_PLACE) {
      call.compare(argument<1>(a...), argument<2>(a...), argument<4>(a...), argument<5>(a...));
      call.use(argument<0>(a...), argument<1>(a...) * (kName == "Alltoall" ? size : 1),
               argument<2>(a...), Access::reads);
    }
    call.use(argument<3>(a...), argument<4>(a...) * size, argument<5>(a...), Access::writes);
  } else if constexpr (kName == "Allgatherv") {
    call.set_signature(sum_of_counts(argument<4>(a...), call.size()), argument<6>(a...));
    if (argument<0>(a...) != MPI_IN_PLACE) {
      if (argument<4>(a...) != nullptr)
        call.compare(argument<1>(a...), argument<2>(a...), argument<4>(a...)[call.rank()],
                     argument<6>(a...));
      call.use(argument<0>(a...), argument<1>(a...), argument<2>(a...), Access::reads);
    }
  } else if constexpr (kName == "Reduce" || kName == "Allreduce" || kName == "Scan" ||
                       kName == "Exscan") {
    collective.op = number_of_op(argument<4>(a...));
    if constexpr (kName == "Reduce") collective.root = argument<5>(a...);
    call.set_signature(argument<2>(a...), argument<3>(a...));
    call.use(argument<0>(a...), argument<2>(a...), argument<3>(a...), Access::reads);
    if (kName != "Reduce" || collective.root == call.rank())
      call.use(argument<1>(a...), argument<2>(a...), argument<3>(a...), Access::writes);
  } else if constexpr (kName == "Reduce_scatter_block") {
    collective.op = number_of_op(argument<4>(a...));
    call.set_signature(argument<2>(a...) * size, argument<3>(a...));
    call.use(argument<0>(a...), argument<2>(a...) * size, argument<3>(a...), Access::reads);
    if (argument<0>(a...) != MPI_IN_PLACE)
      call.use(argument<1>(a...), argument<2>(a...), argument<3>(a...), Access::writes);
  } else if constexpr (kName == "Reduce_scatter") {
    collective.op = number_of_op(argument<4>(a...));
    const std::int64_t sum = sum_of_counts(argument<2>(a...), call.size());
    call.set_signature(sum, argument<3>(a...));
    call.use(argument<0>(a...), sum, argument<3>(a...), Access::reads);
  }
}

template <std::size_t function, class... A>
int call_collective(Own<A...> own, A... a) {
  constexpr std::string_view kName = kPlain<function>;
  constexpr bool kIsPersistent = kName.ends_with("_init");
  constexpr bool kHasRequest = kHas<MPI_Request*, A...>;
  CollectiveCall call(first_of<MPI_Comm>(a...));
  if (call.is_valid()) {
    describe_collective<function>(call, a...);
    call.check(!kHasRequest);
    note_collective(call.comm(), call.collective());
  }
  const int code = own(a...);
  if (code != MPI_SUCCESS) {
    if (call.is_valid()) note_failed_collective(call.comm());
    return code;
  }
  if constexpr (kHasRequest) {
    Operation operation;
    operation.is_persistent = kIsPersistent;
    operation.is_active = !kIsPersistent;
    operation.memory = call.memory();
    add_request(std::get<sizeof...(A) - 1>(std::tie(a...)), std::move(operation));
  } else if (call.is_valid() && call.collective().waits_for_all) {
    note_synchronised(*call.comm());
    note_barrier();
  }
  return code;
}

}  // namespace weft::check
