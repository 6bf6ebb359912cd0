// Gets, puts and atomics: started at once or when the provider has room, finished by poll().
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/wait.hpp"
#include "fabric/ofi/library.hpp"
#include "fabric/ofi/ofi.hpp"

namespace weft::ofi {

long OfiFabric::try_start(Operation& operation) noexcept {
  PeerNode& peer = node(operation.context.peer);
  if (operation.by_message) {
    Control ask{};
    ask.type = operation.kind == Operation::get   ? Type::get
               : operation.kind == Operation::cas ? Type::cas
                                                  : Type::fetch_add;
    ask.channel = operation.number;
    ask.lane = operation.token;
    ask.address = operation.address;
    ask.key = operation.key;
    ask.bytes = operation.kind == Operation::get ? operation.bytes : operation.operand;
    ask.compare = operation.compare;
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
    if (operations_.size() == kMaxOperations) return completion.set(Code::no_memory);
    free_operations_.push_back(&operations_.emplace_back());
    operations_.back().number = static_cast<std::uint32_t>(operations_.size() - 1);
  }
  Operation& operation = *free_operations_.back();
  free_operations_.pop_back();
  const std::uint32_t number = operation.number;
  operation = {};
  operation.number = number;
  operation.token = static_cast<std::uint32_t>(next_key());
  operation.by_message = kind != Operation::put && by_message_;
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

// True: all of it is shared, and starts here.
bool OfiFabric::find_registered(const Control& request, std::size_t bytes,
                                std::byte*& start) const noexcept {
  const std::lock_guard lock(memory_lock_);
  const auto found = registrations_.find(request.key);
  if (found == registrations_.end()) return false;
  const Registration& registration = found->second;
  if (request.address < registration.address) return false;
  const std::uint64_t offset = request.address - registration.address;
  if (offset > registration.bytes || bytes > registration.bytes - offset) return false;
  start = registration.start + offset;
  return true;
}

void OfiFabric::deny(const Control& request) noexcept {
  Control answer{};
  answer.type = Type::denied;
  answer.channel = request.channel;
  answer.lane = request.lane;
  answer.code = static_cast<std::uint16_t>(Code::bad_argument);
  send(static_cast<int>(request.from), answer);
}

void OfiFabric::on_get(const Control& request) noexcept {
  std::byte* start = nullptr;
  if (request.channel >= kMaxOperations || !find_registered(request, request.bytes, start))
    return deny(request);
  Control rest = request;
  if (!waiting_pushes_.empty() || !try_push(rest)) waiting_pushes_.push_back(rest);
}

// Sends what a get has asked for. False: no room now for the rest, which `request` then names.
bool OfiFabric::try_push(Control& request) noexcept {
  PeerNode& peer = node(static_cast<int>(request.from));
  while (request.bytes > 0) {
    std::byte* start = nullptr;
    if (peer.handle == FI_ADDR_NOTAVAIL) return true;  // it is lost
    if (!find_registered(request, request.bytes, start)) {
      deny(request);  // its owner has ended it meanwhile
      return true;
    }
    const std::size_t part = std::min<std::uint64_t>(request.bytes, part_max_);
    const iovec local{start, part};
    fi_msg message{};
    message.msg_iov = &local;
    message.iov_count = 1;
    message.addr = peer.handle;
    message.context = &peer.context;
    message.data = immediate_of_get(request.lane, request.channel);
    const ssize_t error = fi_sendmsg(endpoint_->ep(), &message, FI_REMOTE_CQ_DATA);
    if (error == -FI_EAGAIN) return false;
    if (error != 0) {
      lose(static_cast<int>(request.from), error_text(error));
      return true;
    }
    peer.posted_bytes += part;
    request.address += part;
    request.bytes -= part;
  }
  return true;
}

Operation* OfiFabric::find_operation(int peer, std::uint32_t number, std::uint32_t token) noexcept {
  if (number >= operations_.size()) return nullptr;
  Operation& operation = operations_[number];
  if (!operation.started || !operation.by_message || operation.token != token) return nullptr;
  return peer < 0 || operation.context.peer == peer ? &operation : nullptr;
}

// Only the owner of the memory knows the random number.
void OfiFabric::on_get_part(std::uint64_t data, const std::byte* bytes,
                            std::size_t length) noexcept {
  Operation* operation = find_operation(-1, static_cast<std::uint32_t>(data) & (kMaxOperations - 1),
                                        static_cast<std::uint32_t>(data >> 32));
  if (operation == nullptr || operation->kind != Operation::get ||
      length > operation->bytes - operation->received)
    return;
  PeerNode& peer = node(operation->context.peer);
  peer.heard_ns = now_ns_;
  peer.arrived_bytes += length;
  std::memcpy(static_cast<std::byte*>(operation->here) + operation->received, bytes, length);
  operation->received += length;
  if (operation->received == operation->bytes) finish(*operation, Code::ok);
}

// The owner's own atomics are the processor's too, so that all are atomic against each other.
void OfiFabric::on_atomic(const Control& request) noexcept {
  std::byte* start = nullptr;
  if (!find_registered(request, sizeof(std::uint64_t), start) ||
      reinterpret_cast<std::uintptr_t>(start) % sizeof(std::uint64_t) != 0)
    return deny(request);
  const std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(start));
  Control answer{};
  answer.type = Type::value;
  answer.channel = request.channel;
  answer.lane = request.lane;
  if (request.type == Type::fetch_add) {
    answer.bytes = word.fetch_add(request.bytes);
  } else {
    answer.bytes = request.compare;
    word.compare_exchange_strong(answer.bytes, request.bytes);
  }
  send(static_cast<int>(request.from), answer);
}

void OfiFabric::on_answer_of_owner(const Control& answer) noexcept {
  Operation* operation = find_operation(static_cast<int>(answer.from), answer.channel, answer.lane);
  if (operation == nullptr) return;
  if (answer.type == Type::denied) return finish(*operation, Code::bad_argument);
  if (operation->kind == Operation::get) return;
  operation->result = answer.bytes;
  finish(*operation, Code::ok);
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
  ring_own(0);
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
    if (operation.by_message) {
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
