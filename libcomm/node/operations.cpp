// The calls that start puts, gets, atomics and messages. Copies of mapped memory are done at once.
#include <cstring>

#include "node/node_impl.hpp"
#include "weft/copy.hpp"

namespace weft {

using transport::NodeRequest;

namespace {

void describe(NodeRequest& request, Access access, const transport::RegionUse& use,
              std::uint64_t offset, void* local, std::size_t bytes) {
  request.access = access;
  request.region = use.region;
  request.local = static_cast<std::byte*>(local);
  request.bytes = bytes;
  request.offset = offset;
}

NodeRequest& begin(Operation& operation, Access access, const transport::RegionUse& use,
                   std::uint64_t offset, void* local, std::size_t bytes) {
  NodeRequest& request = OperationAccess::begin(operation);
  describe(request, access, use, offset, local, bytes);
  return request;
}

// Most copies are one word, which needs no call.
inline void copy(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes == 8)
    std::memcpy(to, from, 8);
  else if (bytes != 0)  // a buffer without bytes may be null
    weft::detail::copy(to, from, bytes);
}

void finish_at_once(Operation& operation, Code code) {
  OperationAccess::begin_inline(operation);
  OperationAccess::finish(operation, code);
}

// Returns true if the memory is mapped here, and the bytes are copied.
template <Access kAccess>
inline bool move_now(transport::RegionUse& use, std::uint64_t offset, void* local,
                     std::size_t bytes) noexcept {
  constexpr bool kPuts = kAccess == Access::put;
  std::byte* at = use.enter(kPuts ? kWrite : kRead, offset, bytes);
  if (at != nullptr) [[likely]]
    copy(kPuts ? at : local, kPuts ? local : at, bytes);
  use.leave();
  return at != nullptr;
}

template <Access kAccess>
inline void move(transport::RegionUse* use, std::uint64_t offset, void* local, std::size_t bytes,
                 Operation& operation) {
  if (use == nullptr) [[unlikely]]
    return finish_at_once(operation, Code::bad_argument);
  if (move_now<kAccess>(*use, offset, local, bytes)) [[likely]]
    return finish_at_once(operation, Code::ok);
  use->session->start(begin(operation, kAccess, *use, offset, local, bytes));
}

inline void change(transport::RegionUse* named, Access access, std::uint64_t offset,
                   std::uint64_t operand, std::uint64_t compare, Operation& operation) {
  if (named == nullptr) [[unlikely]]
    return finish_at_once(operation, Code::bad_argument);
  transport::RegionUse& use = *named;
  std::byte* at = offset % 8 == 0 ? use.enter(kAtomic, offset, 8) : nullptr;
  if (at != nullptr) [[likely]] {
    const auto previous = fabric::apply(atomic_of(access), at, operand, compare);
    use.leave();
    OperationAccess::set_previous(operation, previous);
    return finish_at_once(operation, Code::ok);
  }
  use.leave();
  NodeRequest& request = begin(operation, access, use, offset, nullptr, 8);
  request.operand = operand;
  request.compare = compare;
  use.session->start(request);
}

template <Access kAccess>
void move_all(std::span<const Transfer> parts, Operation& operation) {
  for (const Transfer& part : parts)
    if (part.memory == nullptr || NodeImpl::use_of(*part.memory) == nullptr)
      return finish_at_once(operation, Code::bad_argument);
  OperationAccess::begin_inline(operation);
  std::unique_ptr<transport::Batch> batch;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Transfer& part = parts[i];
    transport::RegionUse& use = *NodeImpl::use_of(*part.memory);
    if (move_now<kAccess>(use, part.offset, part.local, part.bytes)) continue;
    if (batch == nullptr) {
      const Code code = or_no_memory([&] {
        batch = std::make_unique<transport::Batch>();
        batch->requests.reserve(parts.size() - i);
      });
      if (code != Code::ok) return OperationAccess::finish(operation, code);
      batch->operation = &operation;
    }
    NodeRequest& request = batch->requests.emplace_back();
    describe(request, kAccess, use, part.offset, part.local, part.bytes);
    request.batch = batch.get();
    request.session = use.session.get();
  }
  if (batch == nullptr) return OperationAccess::finish(operation, Code::ok);
  // The last request that ends deletes the batch, so this loop counts as one until all are started.
  batch->left = batch->requests.size() + 1;
  transport::Batch* started = batch.release();
  for (NodeRequest& request : started->requests) request.session->start(request);
  NodeRequest last;
  last.batch = started;
  transport::finish(last);
}

}  // namespace

void Node::put(const PeerMemory& to, std::uint64_t offset, const void* from, std::size_t bytes,
               Operation& operation) {
  move<Access::put>(NodeImpl::use_of(to), offset, const_cast<void*>(from), bytes, operation);
}

void Node::put_notify(const PeerMemory& to, std::uint64_t offset, const void* from,
                      std::size_t bytes, const NotifyTag& tag, Operation& operation) {
  transport::RegionUse* use = NodeImpl::use_of(to);
  if (use == nullptr) return finish_at_once(operation, Code::bad_argument);
  NodeRequest& request =
      begin(operation, Access::put, *use, offset, const_cast<void*>(from), bytes);
  request.has_tag = true;
  request.tag = tag;
  use->session->start(request);
}

void Node::get(const PeerMemory& from, std::uint64_t offset, void* to, std::size_t bytes,
               Operation& operation) {
  move<Access::get>(NodeImpl::use_of(from), offset, to, bytes, operation);
}

void Node::cas(const PeerMemory& memory, std::uint64_t offset, std::uint64_t compare,
               std::uint64_t swap, Operation& operation) {
  change(NodeImpl::use_of(memory), Access::cas, offset, swap, compare, operation);
}

void Node::fetch_add(const PeerMemory& memory, std::uint64_t offset, std::uint64_t value,
                     Operation& operation) {
  change(NodeImpl::use_of(memory), Access::fetch_add, offset, value, 0, operation);
}

void Node::put_all(std::span<const Transfer> parts, Operation& operation) {
  move_all<Access::put>(parts, operation);
}
void Node::get_all(std::span<const Transfer> parts, Operation& operation) {
  move_all<Access::get>(parts, operation);
}

Code Node::send(const Peer& peer, const void* message, std::size_t bytes) {
  transport::Session* session = NodeImpl::session_of(peer);
  if (session == nullptr) [[unlikely]]
    return Code::bad_argument;
  return session->send({static_cast<const std::byte*>(message), bytes});
}

void Node::send(const Peer& peer, const void* message, std::size_t bytes, Operation& operation) {
  transport::Session* session = NodeImpl::session_of(peer);
  if (session == nullptr || bytes > transport::kMaxMessageBytes)
    return finish_at_once(operation, Code::bad_argument);
  NodeRequest& request = OperationAccess::begin(operation);
  request.is_send = true;
  request.local = static_cast<std::byte*>(const_cast<void*>(message));
  request.bytes = bytes;
  session->start(request);
}

}  // namespace weft
