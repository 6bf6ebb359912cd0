// Gets, puts and atomics on memory of others, which the fabric does, or their side.
#include <utility>

#include "base/shortage.hpp"
#include "lanes/linked/remote_lanes.hpp"

namespace weft::transport {

namespace {

constexpr std::size_t kMaxUnderWay = 64;  // with one peer; more wait here
constexpr std::size_t kMaxOperations = 1 << 17;

}  // namespace

void RemoteLanes::begin(int rank, const RemoteAccess& access, Completion& completion) noexcept {
  const MemoryName& there = access.there;
  const std::size_t offset = access.offset, bytes = access.bytes;
  if (offset > there.bytes || bytes > there.bytes - offset || there.region == 0 ||
      (is_atomic(access.access) && (there.address + offset) % 8 != 0))
    return completion.set(Code::bad_argument);
  if (bytes == 0) return completion.set(Code::ok);
  if (rank == job_.rank()) return completion.set(Code::unsupported);
  const std::lock_guard lock(lock_);
  RankPeer* peer = nullptr;
  if (!is_alive(rank)) return completion.set(Code::peer_lost);
  if (Status status = or_no_memory([&] { return reach(rank, peer); }); !status)
    return completion.set(status.code());
  watch(*peer);
  const Code room = or_no_memory([&] {
    if (operations_.num_taken() == kMaxOperations) return Code::no_memory;
    operations_.make_room();
    return Code::ok;
  });
  if (room != Code::ok) return completion.set(room);
  RemoteOperation& operation = operations_.take();
  operation = {};
  operation.done = fabric_done;
  operation.lanes = this;
  operation.access = access.access;
  operation.local = static_cast<std::byte*>(access.here);
  operation.bytes = bytes;
  operation.operand = access.operand;
  operation.compare = access.compare;
  operation.peer = peer;
  operation.completion = &completion;
  operation.range = {number_of(there), there.address + offset, bytes, there.bytes - offset};
  operation.previous_to = access.previous;
  peer->waiting.push_back(operation);
  if (!pump_operations(*peer)) peer->make_busy();
}

// True: none waits for room.
bool RemoteLanes::pump_operations(RankPeer& peer) {
  while (!peer.waiting.empty()) {
    if (!peer.link.is_up()) {
      peer.link.want();
      return true;
    }
    if (peer.num_under_way >= kMaxUnderWay) return true;  // continues when one of them ends
    RemoteOperation& operation = *peer.waiting.first();
    const bool by_fabric =
        can_do(endpoint_->limits(), operation) && !operation.is_for_owner(endpoint_->limits());
    const RemoteRange& range = operation.range;
    const Code code = by_fabric
                          ? post_access(*endpoint_, *peer.link.link(), operation,
                                        fabric::key_of({range.address, range.room, range.key}), 0)
                          : peer.target_side.post(operation, range);
    // The end of a link is reported next.
    if (code == Code::again || code == Code::peer_lost) return false;
    peer.waiting.remove(operation);
    peer.under_way.push_back(operation);
    ++peer.num_under_way;
    operation.is_under_way = true;
    operation.is_fabrics = by_fabric && code == Code::ok;
    if (code != Code::ok) end(operation, code);
  }
  return true;
}

// In poll() or close() of the endpoint, which are called with the lock held. After the end of a
// link its gets and puts go over the next one, see ask_again().
void RemoteLanes::fabric_done(fabric::WorkRequest& request, Code code) noexcept {
  auto& operation = static_cast<RemoteOperation&>(request);
  RemoteLanes& lanes = *operation.lanes;
  operation.is_fabrics = false;
  if (code != Code::peer_lost && code != Code::cancelled) return lanes.end(operation, code);
  if (operation.is_once())
    lanes.finish(operation, Code::outcome_unknown);
  else if (operation.count_break())
    lanes.finish(operation, Code::peer_lost);
}

// The messages of target-side emulation.
bool RemoteLanes::on_target_side(RankPeer& peer, Kind kind, fabric::Bytes bytes) {
  AccessRequest* ended = nullptr;
  Code code = Code::ok;
  if (!peer.target_side.on_message(kind, bytes, ended, code)) return false;
  if (ended != nullptr) end(static_cast<RemoteOperation&>(*ended), code);
  return true;
}

// The link is gone: its gets, and the fabric's puts, are posted once more, in their order.
void RemoteLanes::ask_again(RankPeer& peer) {
  for (RemoteOperation* operation = peer.under_way.last(); operation != nullptr;) {
    RemoteOperation& one = *std::exchange(operation, operation->before);
    if (one.is_asked && one.access != Access::get) continue;
    peer.under_way.remove(one);
    --peer.num_under_way;
    one.is_asked = one.is_under_way = false;
    peer.waiting.push_front(one);
  }
}

void RemoteLanes::end_operations(RankPeer& peer) {
  for (auto* list : {&peer.waiting, &peer.under_way})
    while (!list->empty()) finish(*list->first(), Code::peer_lost);
}

// The fabric, or target-side emulation, has completed or refused it.
void RemoteLanes::end(RemoteOperation& operation, Code code) {
  if (code == Code::ok && operation.previous_to != nullptr)
    *operation.previous_to = operation.previous;
  // Peers must not learn which memory exists.
  finish(operation, code == Code::not_permitted ? Code::bad_argument : code);
}

void RemoteLanes::finish(RemoteOperation& operation, Code code) {
  RankPeer& peer = *operation.peer;
  peer.target_side.drop(operation);
  (operation.is_under_way ? peer.under_way : peer.waiting).remove(operation);
  if (operation.is_under_way) --peer.num_under_way;
  Completion& completion = *operation.completion;
  operations_.give_back(operation);
  completion.set(code);
  ring_all();
  if (!peer.waiting.empty()) peer.make_busy();
}

}  // namespace weft::transport
