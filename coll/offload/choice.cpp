// The choice between the switches and the hosts for a call: what switches can, and which way is
// faster, as measured (trials.hpp) or else by a model.
#include <fmt/core.h>

#include "base/log.hpp"
#include "coll/offload/choice/model.hpp"
#include "coll/offload/offload.hpp"

namespace weft::offload {

using namespace innet;
using coll::Collective;

namespace {

// Longer vectors are tried for reductions to all alone. Of the other calls the hosts send each byte
// of a result to those who keep it; by switches all leaders get all of them, so only the shorter
// way of a short vector can gain.
constexpr std::size_t kMostTriedBytes = 64 * 1024;

bool is_to_all(const Call& call) noexcept {
  return call.collective == Collective::allreduce || call.collective == Collective::barrier;
}

}  // namespace

Offload::Refusal Offload::refusal(const coll::Reduction& op) const noexcept {
  if (op.operation == Operation::none) return Refusal::own;
  if (op.element == Element::none) return Refusal::element;
  if (find_reduce(op.element, op.operation) == nullptr) return Refusal::undefined;
  // Several numbers a piece, as of complex ones, are summed up one by one.
  const std::size_t unit = element_bytes(op.element);
  if (op.element_bytes != unit && (op.operation != Operation::sum || op.element_bytes % unit != 0))
    return Refusal::parts;
  // Nodes reduce first, and switches by their topology: the order depends on the distribution over
  // hosts.
  if (team_.choices().reproducible && is_floating(op.element)) return Refusal::order;
  return Refusal::none;
}

void Offload::say(Refusal why, const coll::Reduction& op) noexcept {
  const std::uint32_t bit = 1u << static_cast<unsigned>(why);
  if (team_.rank() != 0 || (said_.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) return;
  const auto tell = [&](auto... text) {
    // Who leaves the choice to Weft need not know; who has made it does.
    log_line(forced_ || lengths_ ? LogLevel::warn : LogLevel::info, team_.engine().rank(),
             "offload: {} stay with the hosts: {}", text...);
  };
  switch (why) {
    case Refusal::none:
      return;
    case Refusal::kind:
      return tell(
          "gather, scatter, alltoall, scans, and all calls of blocks of several lengths",
          "switches compute allreduce, reduce, reduce_scatter, allgather, bcast and barrier "
          "alone");
    case Refusal::own:
      return tell("reductions by an operation of the program",
                  "switches know those of MPI alone, not functions (MPI_Op_create)");
    case Refusal::element:
      return tell(
          fmt::format("reductions of elements of {} bytes by {}", op.element_bytes,
                      name(op.operation)),
          "switches compute integers of 8 to 64 bits, float, double, complex sums of these, "
          "bfloat16 and pairs with an int alone");
    case Refusal::parts:
      return tell(fmt::format("reductions of complex numbers by {}", name(op.operation)),
                  "switches compute their parts one by one, which gives sums alone");
    case Refusal::undefined:
      return tell(fmt::format("reductions of {} by {}", name(op.element), name(op.operation)),
                  "the switches' arithmetic does not define them");
    case Refusal::order:
      return tell(fmt::format("reductions of {}", name(op.element)),
                  "WEFT_COLL_ALGORITHMS=reproducible asks for one order of sums, which switches "
                  "do not keep");
    case Refusal::switches:
      return tell(fmt::format("reductions of {} by {}", name(op.element), name(op.operation)),
                  "the switches of this communicator do not compute them");
  }
}

bool Offload::takes(const Call& call, std::optional<bool> decided) noexcept {
  if (!usable_) return false;
  if (const Refusal why = refusal(call.op); why != Refusal::none) {
    say(why, call.op);
    return false;
  }
  if (forced_) return true;
  if (lengths_) {
    const auto length = static_cast<std::int64_t>(call.bytes());
    return is_to_all(call) && length >= lengths_->min && length <= lengths_->max;
  }
  // The model is one of allreduces.
  return decided.value_or(
      is_to_all(call) &&
      offload_wins(mode_ == Mode::socket, {num_nodes_, num_members_of_node_, call.bytes()}));
}

bool Offload::measures(const Call& call) const noexcept {
  const bool rounds = is_floating(call.op.element) &&
                      (call.op.operation == Operation::sum || call.op.operation == Operation::prod);
  return is_made() && usable_ && !forced_ && !lengths_ && num_nodes_ > 1 &&
         (is_to_all(call) || call.bytes() <= kMostTriedBytes) &&
         refusal(call.op) == Refusal::none && !(rounds && (terms_.ordered || terms_.fixed));
}

// The way of a blocking call, which all members take.
bool Offload::choose(const Call& call) {
  is_trial_ = false;
  if (!measures(call)) return takes(call, {});
  Trials& trials = this->trials(call);
  if (trials.is_due(call.bytes())) {
    if (everyone_ == nullptr) {
      std::vector<int> members;
      for (int member = 0; member < team_.size(); ++member) members.push_back(team_.world(member));
      everyone_ = coll::Team::part_of(team_, members);
    }
    const coll::Reduction sum{[](const void* in, void* inout, std::size_t count, void*) {
                                for (std::size_t i = 0; i < count; ++i)
                                  static_cast<std::uint64_t*>(inout)[i] +=
                                      static_cast<const std::uint64_t*>(in)[i];
                              },
                              nullptr, sizeof(std::uint64_t)};
    Trials::Times times = trials.times(call.bytes());
    // A loss is found by the call itself.
    if (!coll::allreduce(*everyone_, nullptr, times.data(), times.size(), sum)) return false;
    trials.decide(call.bytes(), times);
  }
  const bool guess = !trials.is_decided(call.bytes()) && takes(call, {});
  const bool is_by_switch = trials.next_is_by_switch(call.bytes(), guess);
  is_trial_ = trials.is_in_trial(call.bytes());
  return is_by_switch;
}

}  // namespace weft::offload
