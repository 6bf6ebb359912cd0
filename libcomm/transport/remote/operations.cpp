// Gets, puts and atomics on memory of others, which the fabric does, or their side.
#include <algorithm>
#include <cstring>

#include "base/shortage.hpp"
#include "transport/remote/remote_lanes.hpp"

namespace weft::transport {

namespace {

// Operations that one peer has to answer at a time; more wait here. Without a bound, two ranks that
// ask each other for much could fill the link in both directions.
constexpr std::size_t kMaxUnderWay = 64;
constexpr std::size_t kMaxOperations = 1 << 17;

// More links do not break under one operation, unless it is the one that breaks them.
constexpr unsigned kMaxBreaks = 16;
// Of one request of a fabric.
constexpr std::size_t kMaxRequest = std::size_t{1} << 30;

bool is_atomic(const RemoteOperation& operation) { return operation.access >= Access::cas; }

}  // namespace

void RemoteLanes::begin(int rank, Access access, const MemoryName& there, std::size_t offset,
                        void* here, std::size_t bytes, std::uint64_t operand, std::uint64_t compare,
                        std::uint64_t* previous, Completion& completion) noexcept {
  if (offset > there.bytes || bytes > there.bytes - offset || there.region == 0 ||
      (access >= Access::cas && (there.address + offset) % 8 != 0))
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
    if (free_operations_.empty()) {
      if (operations_.size() == kMaxOperations) return Code::no_memory;
      make_room(free_operations_, operations_.size() + 1);  // giving back takes no memory
      free_operations_.push_back(&operations_.emplace_back());
      operations_.back().number = static_cast<std::uint32_t>(operations_.size() - 1);
      operations_.back().done = fabric_done;
      operations_.back().lanes = this;
    }
    make_room(peer->under_way, kMaxUnderWay - std::min(kMaxUnderWay, peer->under_way.size()));
    return Code::ok;
  });
  if (room != Code::ok) return completion.set(room);
  RemoteOperation& operation = *free_operations_.back();
  free_operations_.pop_back();
  peer->waiting.push_back(operation);
  operation.access = access;
  operation.peer = peer;
  operation.completion = &completion;
  operation.place = {number_of(there), there.address + offset, bytes, there.bytes - offset};
  operation.here = static_cast<std::byte*>(here);
  operation.moved = 0;
  operation.is_asked = operation.is_fabrics = false;
  operation.num_breaks = 0;
  operation.operand = operand;
  operation.compare = compare;
  operation.previous = previous;
  if (!pump_operations(*peer)) peer->make_busy();
}

// True: none waits for room.
bool RemoteLanes::pump_operations(RankPeer& peer) {
  while (!peer.waiting.empty() && peer.link.is_up()) {
    if (peer.under_way.size() >= kMaxUnderWay) return true;  // goes on with an answer
    RemoteOperation& operation = peer.waiting.front();
    const Code code = start_operation(operation);
    if (code == Code::again) return false;
    peer.waiting.pop_front();
    peer.under_way.push_back(&operation);
    if (code != Code::ok) finish(operation, code);
  }
  return true;
}

// again: no room now.
Code RemoteLanes::start_operation(RemoteOperation& operation) {
  if (operation.is_asked) return Code::ok;
  if (!is_fabrics(operation)) return ask_owner(operation);
  const Code code = post_to_fabric(operation);
  if (code == Code::peer_lost) return Code::again;  // the link's end is told next
  operation.is_asked = operation.is_fabrics = code == Code::ok;
  return code;
}

bool RemoteLanes::is_fabrics(const RemoteOperation& operation) const {
  const fabric::Limits& limits = endpoint_->limits();
  switch (operation.access) {
    case Access::get:
      return limits.gets && operation.place.bytes <= kMaxRequest;
    case Access::put:
      return limits.puts && operation.place.bytes <= kMaxRequest;
    default:
      return limits.atomics;
  }
}

Code RemoteLanes::post_to_fabric(RemoteOperation& operation) {
  fabric::Link& link = *operation.peer->link.link();
  const OwnerPlace& place = operation.place;
  const fabric::Key key = fabric::key_of({place.address, place.room, place.key});
  switch (operation.access) {
    case Access::get:
      return endpoint_->get(link, operation.here, place.bytes, key, 0, operation);
    case Access::put:
      return endpoint_->put(link, operation.here, place.bytes, key, 0, operation);
    default:
      return endpoint_->atomic(link,
                               operation.access == Access::cas ? fabric::Atomic::compare_swap
                                                               : fabric::Atomic::fetch_add,
                               key, 0, operation.operand, operation.compare, operation.result,
                               operation);
  }
}

// In poll() or close() of the endpoint, which are called with the lock held. After the end of a
// link its gets and puts go over the next one, see ask_again().
void RemoteLanes::fabric_done(fabric::Request& request, Code code) noexcept {
  auto& operation = static_cast<RemoteOperation&>(request);
  operation.is_fabrics = false;
  if (code == Code::peer_lost || code == Code::cancelled) {
    if (is_atomic(operation))
      operation.lanes->finish(operation, Code::outcome_unknown);
    else if (++operation.num_breaks == kMaxBreaks)
      operation.lanes->finish(operation, Code::peer_lost);
    return;
  }
  if (code == Code::ok && operation.previous != nullptr) *operation.previous = operation.result;
  // As the owner's side says it, which tells nobody what memory there is.
  if (code == Code::not_permitted) code = Code::bad_argument;
  operation.lanes->finish(operation, code);
}

// again: no room now.
Code RemoteLanes::ask_owner(RemoteOperation& operation) {
  RankPeer& peer = *operation.peer;
  if (is_atomic(operation)) {
    OwnerAtomicMessage message{};
    message.kind = Kind::owner_atomic;
    message.id = operation.number;
    message.place = operation.place;
    message.is_swap = operation.access == Access::cas ? 1 : 0;
    message.operand = operation.operand;
    message.compare = operation.compare;
    if (peer.link.post(message, sizeof message, {}) != Code::ok) return Code::again;
    operation.is_asked = true;
    return Code::ok;
  }
  OwnerAccessMessage message{};
  message.id = operation.number;
  const std::size_t most = endpoint_->limits().message_max - sizeof message;
  const OwnerPlace& all = operation.place;
  do {
    message.place = {all.key, all.address + operation.moved, all.bytes - operation.moved,
                     all.room - operation.moved};
    fabric::Bytes data;
    message.kind = Kind::owner_get;
    if (operation.access == Access::put) {
      message.kind = Kind::owner_put;
      data = {operation.here + operation.moved, std::min<std::size_t>(message.place.bytes, most)};
    }
    if (peer.link.send_once(message, sizeof message, data) != Code::ok) return Code::again;
    operation.moved += data.size();
  } while (operation.access == Access::put && operation.moved < all.bytes);
  operation.is_asked = true;
  return Code::ok;
}

// The link is gone: what it had under way is asked for once more, but atomics, which are numbered.
void RemoteLanes::ask_again(RankPeer& peer) {
  for (std::size_t i = peer.under_way.size(); i-- > 0;) {
    RemoteOperation& operation = *peer.under_way[i];
    if (is_atomic(operation)) continue;
    operation.is_asked = false;
    if (operation.access == Access::put) operation.moved = 0;
    peer.waiting.push_front(operation);
  }
  std::erase_if(peer.under_way,
                [](const RemoteOperation* operation) { return !operation->is_asked; });
  // A put whose pieces were on their way begins anew.
  peer.waiting.for_each([](RemoteOperation& operation) {
    if (operation.access == Access::put) operation.moved = 0;
  });
}

void RemoteLanes::end_operations(RankPeer& peer) {
  while (!peer.waiting.empty()) {
    RemoteOperation& operation = peer.waiting.front();
    peer.waiting.pop_front();
    finish(operation, Code::peer_lost);
  }
  while (!peer.under_way.empty()) finish(*peer.under_way.back(), Code::peer_lost);
}

void RemoteLanes::finish(RemoteOperation& operation, Code code) {
  RankPeer& peer = *operation.peer;
  std::erase(peer.under_way, &operation);
  operation.peer = nullptr;
  // A later user has another number.
  operation.number += kMaxOperations;
  operation.completion->set(code);
  free_operations_.push_back(&operation);
  ring_all();
  if (!peer.waiting.empty()) peer.make_busy();
}

RemoteOperation* RemoteLanes::find_operation(const RankPeer& peer, std::uint32_t number) {
  const std::size_t place = number % kMaxOperations;
  if (place >= operations_.size()) return nullptr;
  RemoteOperation& operation = operations_[place];
  return operation.peer == &peer && operation.number == number ? &operation : nullptr;
}

bool RemoteLanes::on_owner_data(RankPeer& peer, const OwnerDataMessage& message,
                                fabric::Bytes data) {
  RemoteOperation* operation = find_operation(peer, message.id);
  if (operation == nullptr) return true;
  if (operation->access != Access::get || !operation->is_asked || operation->is_fabrics ||
      data.empty() || data.size() > operation->place.bytes - operation->moved)
    return false;
  std::memcpy(operation->here + operation->moved, data.data(), data.size());
  operation->moved += data.size();
  if (operation->moved == operation->place.bytes) finish(*operation, Code::ok);
  return true;
}

bool RemoteLanes::on_owner_done(RankPeer& peer, const OwnerDoneMessage& message) {
  RemoteOperation* operation = find_operation(peer, message.id);
  // A put that is refused is answered for each of its pieces.
  if (operation == nullptr) return true;
  if (operation->is_fabrics) return false;
  if (message.code != 0) {
    peer.waiting.erase(*operation);
    finish(*operation, message.code == static_cast<std::uint64_t>(Code::no_memory)
                           ? Code::no_memory
                           : Code::bad_argument);
    return true;
  }
  if (operation->access == Access::get || !operation->is_asked) return false;
  if (operation->previous != nullptr) *operation->previous = message.previous;
  finish(*operation, Code::ok);
  return true;
}

}  // namespace weft::transport
