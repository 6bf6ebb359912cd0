#include "pairing.hpp"

#include <algorithm>
#include <tuple>

namespace weft::profile {
namespace {

// Messages that arrive in order.
using Channel = std::tuple<int, std::uint64_t, std::int32_t, bool>;  // peer, comm, tag, sent there

struct Queue {
  std::vector<std::uint64_t> start_ns;  // of the other ends
  std::size_t next = 0;
};

// What a call has waited for.
struct Found {
  int peer = -1;
  Reason reason = Reason::late_sender;
  std::uint64_t ns = 0;
  std::uint32_t num_receives = 0, num_sends = 0;
};

}  // namespace

Waits find_waits(std::vector<End> ends, std::span<const Call> calls,
                 const std::vector<std::vector<FarEnd>>& far,
                 std::span<const std::uint64_t> least_ns) {
  std::map<Channel, Queue> channels;
  for (std::size_t peer = 0; peer < far.size(); ++peer)
    for (const FarEnd& end : far[peer])
      channels[{static_cast<int>(peer), end.comm, end.tag, end.is_send != 0}].start_ns.push_back(
          end.start_ns);
  // Threads log their ends when their calls return.
  std::ranges::stable_sort(ends, {}, &End::start_ns);
  Waits waits;
  std::vector<Found> found(calls.size());
  for (const End& end : ends)
    if (end.peer >= 0 && end.call < calls.size())
      ++(end.kind == End::Kind::send ? found[end.call].num_sends : found[end.call].num_receives);
  for (const End& end : ends) {
    if (end.peer < 0) continue;
    const bool is_send = end.kind == End::Kind::send;
    Queue& queue = channels[{end.peer, end.comm, end.tag, !is_send}];
    const bool is_paired = queue.next < queue.start_ns.size();
    if (end.kind != End::Kind::probe) ++(is_paired ? waits.num_paired : waits.num_unpaired);
    if (!is_paired) continue;
    const std::uint64_t there_ns = queue.start_ns[queue.next];
    if (end.kind != End::Kind::probe) ++queue.next;
    if (end.call >= calls.size()) continue;
    const Call& call = calls[end.call];
    Found& best = found[end.call];
    // A send that is done does not show in a call that goes on for a receive.
    if (is_send && best.num_receives != 0) continue;
    if (there_ns <= call.begin_ns || (is_send && there_ns >= call.end_ns)) continue;
    const std::uint64_t ns = std::min(there_ns, call.end_ns) - call.begin_ns;
    if (ns <= best.ns || ns < least_ns[static_cast<std::size_t>(end.peer)]) continue;
    best.peer = end.peer;
    best.reason = is_send ? Reason::late_receiver : Reason::late_sender;
    best.ns = ns;
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].is_counted || found[i].ns == 0) continue;
    Waited& waited = waits.by_peer[{found[i].peer, found[i].reason}];
    waited.ns += found[i].ns;
    waited.calls += 1;
    waited.blocked_ns += calls[i].end_ns - calls[i].begin_ns;
  }
  // Where nobody is known to be late, the time is shared out: among the receives, if there are any.
  for (const End& end : ends) {
    if (end.peer < 0 || end.call >= calls.size()) continue;
    const Call& call = calls[end.call];
    const Found& of = found[end.call];
    const bool is_send = end.kind == End::Kind::send;
    if (!call.is_counted || of.ns != 0 || (is_send && of.num_receives != 0)) continue;
    const Reason reason = is_send ? Reason::late_receiver : Reason::late_sender;
    waits.by_peer[{end.peer, reason}].blocked_ns +=
        (call.end_ns - call.begin_ns) / (is_send ? of.num_sends : of.num_receives);
  }
  return waits;
}

}  // namespace weft::profile
