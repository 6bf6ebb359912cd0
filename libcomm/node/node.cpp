// The calls of Node, Peer and PeerMemory, except operations (operations.cpp) and waits
// (node_progress.cpp).
#include "weft/node.hpp"

#include <cstdlib>
#include <cstring>

#include "base/trace.hpp"
#include "base/wait.hpp"
#include "node/node_impl.hpp"

namespace weft {

// Peer.

const std::string& Peer::name() const noexcept {
  static const std::string none;
  return impl_ != nullptr ? impl_->session->theirs().name : none;
}
std::uint64_t Peer::generation() const noexcept {
  return impl_ != nullptr ? impl_->session->theirs().generation : 0;
}
std::string_view Peer::fabric() const noexcept {
  return impl_ != nullptr ? impl_->session->fabric() : "";
}
bool Peer::is_mapped() const noexcept { return impl_ != nullptr && impl_->session->is_mapped(); }
bool Peer::is_lost() const noexcept {
  return impl_ == nullptr || impl_->session->state() == transport::Session::State::lost;
}
int Peer::unreachable_ms() const noexcept {
  transport::Session* session = NodeImpl::session_of(*this);
  return session != nullptr ? static_cast<int>(session->unreachable_ns(now_ns()) / 1'000'000) : 0;
}
std::size_t Peer::message_max() const noexcept {
  return impl_ != nullptr ? impl_->session->message_max() : 0;
}
void* Peer::context() const noexcept { return impl_ != nullptr ? impl_->context : nullptr; }
void Peer::set_context(void* context) const noexcept {
  if (impl_ != nullptr) impl_->context = context;
}

PeerMemory::~PeerMemory() = default;
PeerMemory::PeerMemory() noexcept = default;
PeerMemory::PeerMemory(PeerMemory&&) noexcept = default;
PeerMemory& PeerMemory::operator=(PeerMemory&&) noexcept = default;
PeerMemory::PeerMemory(const PeerMemory& other) { *this = other; }
PeerMemory& PeerMemory::operator=(const PeerMemory& other) {
  if (this == &other) return *this;
  impl_ = other.impl_ == nullptr
              ? nullptr
              : std::make_unique<PeerMemoryImpl>(other.impl_->session, other.impl_->region);
  return *this;
}

// Node.

Node::Node(const NodeSettings& settings) try : impl_(std::make_unique<NodeImpl>(settings)) {
} catch (const std::bad_alloc&) {
  throw Error(Code::no_memory);
}
Node::~Node() = default;

Status Node::listen(std::string_view address) {
  if (!impl_->is_own_process()) return NodeImpl::refuse_child();
  std::lock_guard lock(impl_->transport_->progress_lock());
  Status status = or_no_memory([&] { return impl_->transport_->listen(address); });
  impl_->wake_thread();
  return status;
}

Status Node::address(std::string& text) {
  if (!impl_->is_own_process()) return NodeImpl::refuse_child();
  std::lock_guard lock(impl_->transport_->progress_lock());
  Status status = or_no_memory([&] { return impl_->transport_->address(text); });
  impl_->wake_thread();
  return status;
}

Status Node::connect(std::string_view address, Peer& peer, int timeout_ms) {
  if (!impl_->is_own_process()) return NodeImpl::refuse_child();
  const trace::Span span("connect");
  std::shared_ptr<NodeImpl::Connecting> connecting;
  if (or_no_memory([&] { connecting = impl_->begin_connect(address, timeout_ms); }) != Code::ok)
    return Code::no_memory;
  for (;;) {
    {
      std::lock_guard lock(impl_->transport_->progress_lock());
      if (connecting->is_done) return NodeImpl::outcome(*connecting, peer);
    }
    wait_some(20);
  }
}

void Node::connect_async(std::string_view address, std::function<void(Status, Peer)> done,
                         int timeout_ms) {
  if (!impl_->is_own_process()) return done(NodeImpl::refuse_child(), {});
  std::lock_guard lock(impl_->transport_->progress_lock());
  make_room(impl_->waiting_connects_);
  auto connecting = impl_->begin_connect(address, timeout_ms);
  impl_->waiting_connects_.push_back({std::move(connecting), std::move(done)});
  ++impl_->num_connects_;
  impl_->wake_thread();
}

void Node::close(const Peer& peer) {
  if (!peer || !impl_->is_own_process()) return;
  std::lock_guard lock(impl_->transport_->progress_lock());
  impl_->transport_->close(*peer.impl_->session);
}

void Node::on_peer(std::function<void(const Peer&)> call) {
  impl_->set(impl_->peer_call, std::move(call));
}
void Node::on_lost(std::function<void(const Peer&, const Status&)> call) {
  impl_->set(impl_->lost_call, std::move(call));
}
void Node::on_message(std::function<void(const Peer&, std::span<const std::byte>)> call) {
  impl_->set(impl_->message_call, std::move(call));
}
void Node::on_notify(std::function<void(const Peer&, const NotifyTag&)> call) {
  impl_->set(impl_->notify_call, std::move(call));
}

Status Node::register_memory(void* address, std::size_t bytes) {
  if (!impl_->is_own_process()) return NodeImpl::refuse_child();
  const trace::Span span("register_memory");
  if (address == nullptr || bytes == 0) return Code::bad_argument;
  std::lock_guard lock(impl_->transport_->progress_lock());
  if (impl_->regions_.contains(address))
    return {Code::bad_argument, "this memory is registered already"};
  return impl_->add(address, bytes, false);
}

Status Node::allocate(std::size_t bytes, void*& address) {
  if (!impl_->is_own_process()) return NodeImpl::refuse_child();
  if (bytes == 0) return Code::bad_argument;
  std::lock_guard lock(impl_->transport_->progress_lock());
  if (fabric::Mapped* mapped = impl_->transport_->mapped(); mapped != nullptr) {
    if (Status status = or_no_memory([&] { return mapped->allocate(bytes, address); }); !status)
      return status;
  } else {
    address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (address == nullptr) return Code::no_memory;
    std::memset(address, 0, bytes);
  }
  Status status = impl_->add(address, bytes, true);
  if (!status) impl_->free_allocated(address);
  return status;
}

Status Node::deregister_memory(void* address) { return impl_->take_back(address, false); }
Status Node::release(void* address) { return impl_->take_back(address, true); }

Status Node::key(const void* address, std::uint32_t rights, MemoryKey& key, const Peer& only) {
  if (!impl_->is_own_process()) return NodeImpl::refuse_child();
  std::lock_guard lock(impl_->transport_->progress_lock());
  const auto found = impl_->regions_.find(address);
  if (found == impl_->regions_.end()) return {Code::not_found, "no such memory of this Node"};
  return or_no_memory([&] {
    return impl_->transport_->make_key(*found->second, rights, only ? only.generation() : 0, key);
  });
}

PeerMemory Node::memory(const Peer& peer, const MemoryKey& key) {
  PeerMemory memory;
  if (NodeImpl::session_of(peer) == nullptr) return memory;
  const auto& session = peer.impl_->session;
  memory.impl_ = std::make_unique<PeerMemoryImpl>(session, session->import(key));
  return memory;
}

std::uint64_t Node::generation() const noexcept { return impl_->transport_->generation(); }
int Node::timeout_ms() const noexcept { return static_cast<int>(impl_->timeout_ns_ / 1'000'000); }

}  // namespace weft
