// Gets, puts and atomics: started at once or when the provider has room, finished by poll().
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sched.h>

#include <algorithm>

#include "base/wait.hpp"
#include "fabric/doorbell.hpp"
#include "fabric/ofi/ofi.hpp"

namespace weft::ofi {

long OfiFabric::try_start(Operation& operation) noexcept {
  PeerNode& peer = node(operation.context.peer);
  if (operation.pushed) {
    if (fi_mr_reg(endpoint_->domain(), operation.here, operation.bytes, FI_REMOTE_WRITE, 0,
                  next_key(), 0, &operation.local_mr, nullptr) != 0)
      return -FI_ENOMEM;
    Control ask{};
    ask.type = Type::get;
    ask.channel = operation.number;
    ask.address = operation.address;
    ask.key = operation.key;
    ask.bytes = operation.bytes;
    const std::uint64_t key = fi_mr_key(operation.local_mr);
    ask.lane = static_cast<std::uint32_t>(key);
    ask.other_lane = static_cast<std::uint32_t>(key >> 32);
    send(operation.context.peer, ask);
    return 0;
  }
  void* descriptor = nullptr;
  if (operation.kind <= Operation::put && endpoint_->has_mode(FI_MR_LOCAL)) {
    if (operation.local_mr == nullptr &&
        fi_mr_reg(endpoint_->domain(), operation.here, operation.bytes,
                  operation.kind == Operation::get ? FI_READ : FI_WRITE, 0, next_key(), 0,
                  &operation.local_mr, nullptr) != 0)
      return -FI_ENOMEM;
    descriptor = fi_mr_desc(operation.local_mr);
  }
  iovec local{operation.here, operation.bytes};
  const fi_rma_iov remote{operation.address, operation.bytes, operation.key};
  if (operation.kind <= Operation::put) {
    fi_msg_rma message{};
    message.msg_iov = &local;
    message.desc = descriptor != nullptr ? &descriptor : nullptr;
    message.iov_count = 1;
    message.addr = peer.handle;
    message.rma_iov = &remote;
    message.rma_iov_count = 1;
    message.context = &operation.context;
    if (operation.kind == Operation::get)
      return fi_readmsg(endpoint_->ep(), &message, FI_COMPLETION);
    // Complete when it can be seen there, not when it has left.
    return fi_writemsg(endpoint_->ep(), &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
  }
  fi_ioc operand{&operation.operand, 1}, compare{&operation.compare, 1},
      result{&operation.result, 1};
  const fi_rma_ioc target{operation.address, 1, operation.key};
  fi_msg_atomic message{};
  message.msg_iov = &operand;
  message.iov_count = 1;
  message.addr = peer.handle;
  message.rma_iov = &target;
  message.rma_iov_count = 1;
  message.datatype = FI_UINT64;
  message.op = operation.kind == Operation::cas ? FI_CSWAP : FI_SUM;
  message.context = &operation.context;
  if (operation.kind == Operation::cas)
    return fi_compare_atomicmsg(endpoint_->ep(), &message, &compare, nullptr, 1, &result, nullptr,
                                1, FI_COMPLETION);
  return fi_fetch_atomicmsg(endpoint_->ep(), &message, &result, nullptr, 1, FI_COMPLETION);
}

void OfiFabric::start(int peer, Operation::Kind kind, const RemoteMemory& there, std::size_t offset,
                      void* here, std::size_t bytes, std::uint64_t operand, std::uint64_t compare,
                      Completion& completion, std::uint64_t* previous) noexcept {
  if (offset > there.bytes || bytes > there.bytes - offset || there.region == 0 ||
      (kind >= Operation::cas && (there.address + offset) % 8 != 0))
    return completion.set(Code::bad_argument);
  if (bytes == 0) return completion.set(Code::ok);
  const std::lock_guard lock(lock_);
  if (Status status = reach(peer); !status) return completion.set(status.code());
  watch(peer);
  if (node(peer).state.load(std::memory_order_relaxed) != PeerState::alive)
    return completion.set(Code::peer_lost);
  if (free_operations_.empty()) {
    free_operations_.push_back(&operations_.emplace_back());
    operations_.back().number = static_cast<std::uint32_t>(operations_.size() - 1);
  }
  Operation& operation = *free_operations_.back();
  free_operations_.pop_back();
  const std::uint32_t number = operation.number;
  operation = {};
  operation.number = number;
  operation.pushed = kind == Operation::get && gets_pushed_;
  operation.context.kind = Context::operation;
  operation.context.peer = peer;
  operation.kind = kind;
  operation.completion = &completion;
  operation.address = there.address + offset;
  operation.key = std::uint64_t{there.extra} << 32 | there.region;
  operation.here = here;
  operation.bytes = bytes;
  operation.operand = operand;
  operation.compare = compare;
  operation.previous = previous;
  const long error = waiting_operations_.empty() ? try_start(operation) : -FI_EAGAIN;
  if (error == 0) {
    operation.started = true;
  } else if (error == -FI_EAGAIN) {
    waiting_operations_.push_back(&operation);
  } else {
    finish(operation, error == -FI_ENOMEM ? Code::no_memory : Code::peer_lost);
  }
}

void OfiFabric::on_get(const Control& request) noexcept {
  const int peer = static_cast<int>(request.from);
  Code code = Code::ok;
  {
    const std::lock_guard lock(memory_lock_);
    const auto found = registrations_.find(request.key);
    if (found == registrations_.end() || request.address > found->second.bytes ||
        request.bytes > found->second.bytes - request.address)
      code = Code::bad_argument;
  }
  if (code != Code::ok) {
    Control answer{};
    answer.type = Type::denied;
    answer.channel = request.channel;
    answer.code = static_cast<std::uint16_t>(code);
    return send(peer, answer);
  }
  if (!waiting_pushes_.empty() || !try_push(request)) waiting_pushes_.push_back(request);
}

// False: no room now.
bool OfiFabric::try_push(const Control& request) noexcept {
  PeerNode& peer = node(static_cast<int>(request.from));
  if (peer.handle == FI_ADDR_NOTAVAIL) return true;  // it is lost
  std::byte* start = nullptr;
  {
    const std::lock_guard lock(memory_lock_);
    const auto found = registrations_.find(request.key);
    if (found == registrations_.end()) return true;  // its owner has ended it meanwhile
    start = found->second.start;
  }
  iovec local{start + request.address, request.bytes};
  const fi_rma_iov remote{0, request.bytes, std::uint64_t{request.other_lane} << 32 | request.lane};
  fi_msg_rma message{};
  message.msg_iov = &local;
  message.iov_count = 1;
  message.addr = peer.handle;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &peer.context;
  // No immediate data: when a connection ends amid a write that has, the provider's reader crashes.
  const ssize_t error = fi_writemsg(endpoint_->ep(), &message, 0);
  if (error == -FI_EAGAIN) return false;
  Control answer{};
  answer.type = Type::got;
  answer.channel = request.channel;
  send(static_cast<int>(request.from), answer);
  return true;
}

void OfiFabric::on_got(const Control& answer) noexcept {
  if (answer.channel >= operations_.size()) return;
  Operation& operation = operations_[answer.channel];
  if (operation.started && operation.pushed &&
      operation.context.peer == static_cast<int>(answer.from))
    finish(operation, Code::ok);
}

void OfiFabric::on_denied(const Control& answer) noexcept {
  if (answer.channel >= operations_.size()) return;
  Operation& operation = operations_[answer.channel];
  if (operation.started && operation.pushed &&
      operation.context.peer == static_cast<int>(answer.from))
    finish(operation, Code::bad_argument);
}

void OfiFabric::retry_operations() noexcept {
  while (!waiting_pushes_.empty() && try_push(waiting_pushes_.front())) waiting_pushes_.pop_front();
  // One peer's connection that is not made yet must not hold up the others: each gets its turn.
  for (std::size_t i = waiting_operations_.size(); i > 0; --i) {
    Operation& operation = *waiting_operations_.front();
    waiting_operations_.pop_front();
    const long error = try_start(operation);
    if (error == 0)
      operation.started = true;
    else if (error == -FI_EAGAIN)
      waiting_operations_.push_back(&operation);
    else
      finish(operation, error == -FI_ENOMEM ? Code::no_memory : Code::peer_lost);
  }
}

void OfiFabric::finish(Operation& operation, Code code) noexcept {
  if (operation.local_mr != nullptr) fi_close(&operation.local_mr->fid);
  operation.local_mr = nullptr;
  if (operation.completion != nullptr) {
    if (operation.previous != nullptr) *operation.previous = operation.result;
    operation.completion->set(code);
  }
  operation.completion = nullptr;
  operation.started = false;
  operation.context.peer = -1;
  free_operations_.push_back(&operation);
  ring_doorbell(local_.sleeping(0));
}

void OfiFabric::abandon_operations(int peer) noexcept {
  for (std::size_t i = waiting_operations_.size(); i > 0; --i) {
    Operation* operation = waiting_operations_.front();
    waiting_operations_.pop_front();
    if (operation->context.peer == peer)
      finish(*operation, Code::peer_lost);
    else
      waiting_operations_.push_back(operation);
  }
  // The rest ends when the provider says so, to nobody.
  for (Operation& operation : operations_) {
    if (!operation.started || operation.context.peer != peer) continue;
    if (operation.pushed) {
      finish(operation, Code::peer_lost);
      continue;
    }
    if (operation.completion == nullptr) continue;
    operation.completion->set(Code::peer_lost);
    operation.completion = nullptr;
  }
}

Code OfiFabric::run(int peer, Operation::Kind kind, const RemoteMemory& there, std::size_t offset,
                    void* here, std::size_t bytes, std::uint64_t operand, std::uint64_t compare,
                    std::uint64_t* previous) noexcept {
  if (peer == job_.rank()) return Code::unsupported;
  Completion completion;
  start(peer, kind, there, offset, here, bytes, operand, compare, completion, previous);
  for (unsigned i = 0; !completion.is_done(); ++i) {
    {
      const std::lock_guard lock(lock_);
      poll_locked();
    }
    if (i >= 64) sched_yield();
  }
  return completion.code();
}

Code OfiFabric::get(int peer, const RemoteMemory& from, std::size_t offset, void* to,
                    std::size_t bytes) noexcept {
  return run(peer, Operation::get, from, offset, to, bytes, 0, 0, nullptr);
}
Code OfiFabric::put(int peer, const RemoteMemory& to, std::size_t offset, const void* from,
                    std::size_t bytes) noexcept {
  return run(peer, Operation::put, to, offset, const_cast<void*>(from), bytes, 0, 0, nullptr);
}
Code OfiFabric::cas(int peer, const RemoteMemory& word, std::size_t offset, std::uint64_t compare,
                    std::uint64_t swap, std::uint64_t& previous) noexcept {
  return run(peer, Operation::cas, word, offset, nullptr, 8, swap, compare, &previous);
}
Code OfiFabric::fetch_add(int peer, const RemoteMemory& word, std::size_t offset,
                          std::uint64_t value, std::uint64_t& previous) noexcept {
  return run(peer, Operation::fetch_add, word, offset, nullptr, 8, value, 0, &previous);
}

void OfiFabric::start_get(int peer, const RemoteMemory& from, std::size_t offset, void* to,
                          std::size_t bytes, Completion& completion) noexcept {
  start(peer, Operation::get, from, offset, to, bytes, 0, 0, completion, nullptr);
}
void OfiFabric::start_put(int peer, const RemoteMemory& to, std::size_t offset, const void* from,
                          std::size_t bytes, Completion& completion) noexcept {
  start(peer, Operation::put, to, offset, const_cast<void*>(from), bytes, 0, 0, completion,
        nullptr);
}

}  // namespace weft::ofi
