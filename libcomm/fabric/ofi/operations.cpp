// Gets, puts and atomics: started at once or when the provider has room, finished by poll().
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "fabric/ofi/library.hpp"
#include "fabric/ofi/ofi.hpp"

namespace weft::ofi {
namespace {

// Operations by message that one peer has to answer at a time; more wait here. Without a bound, two
// processes that ask each other for much could fill the connection in both directions, and signs of
// life would come behind all of it.
constexpr int kMaxUnderWay = 64;

}  // namespace

long OfiFabric::start_in_window(Operation& operation) noexcept {
  int& under_way = node(operation.context.peer).num_under_way;
  if (operation.by_message && !operation.counted) {
    if (under_way == kMaxUnderWay) return -FI_EAGAIN;
    ++under_way;
    operation.counted = true;
  }
  return try_start(operation);
}

long OfiFabric::try_start(Operation& operation) noexcept {
  if (operation.by_message && operation.kind == Operation::put) return try_put(operation);
  if (operation.by_message) {
    send(operation.context.peer, request_of(operation));
    return 0;
  }
  return operation.kind <= Operation::put ? try_rma(operation) : try_atomic(operation);
}

Control OfiFabric::request_of(const Operation& operation) const noexcept {
  static constexpr Type kTypes[] = {Type::get, Type::put, Type::cas, Type::fetch_add};
  Control request{};
  request.type = kTypes[operation.kind];
  request.channel = operation.number;
  request.lane = operation.token;
  request.address = operation.address + operation.moved;
  request.key = operation.key;
  request.bytes =
      operation.kind <= Operation::put ? operation.bytes - operation.moved : operation.operand;
  request.compare = operation.compare;
  set_room(request, operation.room - operation.moved);
  return request;
}

// By message. Sends what has not been sent yet.
long OfiFabric::try_put(Operation& operation) noexcept {
  PeerNode& peer = node(operation.context.peer);
  while (operation.moved < operation.bytes) {
    Push* const taken = take_push(operation.context.peer);
    if (taken == nullptr) return -FI_EAGAIN;
    Push& push = *taken;
    push.head = request_of(operation);
    sign(push.head, peer);
    const std::size_t part =
        std::min(operation.bytes - operation.moved, part_max_ - sizeof push.head);
    const iovec local[] = {{&push.head, sizeof push.head},
                           {static_cast<std::byte*>(operation.here) + operation.moved, part}};
    fi_msg message{};
    message.msg_iov = local;
    message.iov_count = std::size(local);
    message.addr = peer.handle;
    message.context = &push.context;
    if (const ssize_t error = fi_sendmsg(endpoint_->ep(), &message, FI_COMPLETION); error != 0) {
      give_back(push);
      return error;
    }
    peer.posted_bytes += part;
    operation.moved += part;
  }
  return 0;
}

long OfiFabric::try_rma(Operation& operation) noexcept {
  void* descriptor = nullptr;
  if (endpoint_->has_mode(FI_MR_LOCAL)) {
    if (operation.local_mr == nullptr &&
        fi_mr_reg(endpoint_->domain(), operation.here, operation.bytes,
                  operation.kind == Operation::get ? FI_READ : FI_WRITE, 0, next_key(), 0,
                  &operation.local_mr, nullptr) != 0)
      return -FI_ENOMEM;
    descriptor = fi_mr_desc(operation.local_mr);
  }
  iovec local{operation.copy != nullptr ? operation.copy.get() : operation.here, operation.bytes};
  const fi_rma_iov remote{operation.address, operation.bytes, operation.key};
  fi_msg_rma message{};
  message.msg_iov = &local;
  message.desc = descriptor != nullptr ? &descriptor : nullptr;
  message.iov_count = 1;
  message.addr = node(operation.context.peer).handle;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &operation.context;
  if (operation.kind == Operation::get) return fi_readmsg(endpoint_->ep(), &message, FI_COMPLETION);
  // Complete when it can be seen there, not when it has left.
  return fi_writemsg(endpoint_->ep(), &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
}

long OfiFabric::try_atomic(Operation& operation) noexcept {
  fi_ioc operand{&operation.operand, 1}, compare{&operation.compare, 1},
      result{&operation.result, 1};
  const fi_rma_ioc target{operation.address, 1, operation.key};
  fi_msg_atomic message{};
  message.msg_iov = &operand;
  message.iov_count = 1;
  message.addr = node(operation.context.peer).handle;
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
    if (operations_.size() == kMaxOperations ||
        or_no_memory([&] {
          make_room(free_operations_, operations_.size() + 1);  // giving back takes no memory
          free_operations_.push_back(&operations_.emplace_back());
          return Code::ok;
        }) != Code::ok)
      return completion.set(Code::no_memory);
    operations_.back().number = static_cast<std::uint32_t>(operations_.size() - 1);
  }
  Operation& operation = *free_operations_.back();
  free_operations_.pop_back();
  const std::uint32_t number = operation.number;
  operation = {};
  operation.number = number;
  operation.token = static_cast<std::uint32_t>(next_key());
  operation.by_message = operation.started = by_message_;
  operation.context.kind = Context::operation;
  operation.context.peer = peer;
  operation.kind = kind;
  operation.completion = &completion;
  operation.address = there.address + offset;
  operation.room = there.bytes - offset;
  operation.key = std::uint64_t{there.extra} << 32 | there.region;
  operation.here = here;
  operation.bytes = bytes;
  operation.operand = operand;
  operation.compare = compare;
  operation.previous = previous;
  if (!by_message_ && kind <= Operation::put && !endpoint_->has_mode(FI_MR_LOCAL)) {
    operation.copy.reset(new (std::nothrow) std::byte[bytes]);
    if (operation.copy == nullptr) return finish(operation, Code::no_memory);
    if (kind == Operation::put) std::memcpy(operation.copy.get(), here, bytes);
  }
  std::deque<Operation*>& waiting = node(peer).waiting_operations;
  const long error = waiting.empty() ? start_in_window(operation) : -FI_EAGAIN;
  if (error == 0) {
    operation.started = true;
  } else if (error == -FI_EAGAIN) {
    note_waiting(peer);
    if (or_no_memory([&] {
          waiting.push_back(&operation);
          return Code::ok;
        }) != Code::ok)
      finish(operation, Code::no_memory);
  } else {
    fail(operation, error);
  }
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
      length > operation->bytes - operation->moved)
    return;
  PeerNode& peer = node(operation->context.peer);
  peer.note_heard(now_ns_);
  peer.arrived_bytes += length;
  std::memcpy(static_cast<std::byte*>(operation->here) + operation->moved, bytes, length);
  operation->moved += length;
  if (operation->moved == operation->bytes) finish(*operation, Code::ok);
}

void OfiFabric::on_answer_of_owner(const Control& answer) noexcept {
  Operation* operation = find_operation(static_cast<int>(answer.from), answer.channel, answer.lane);
  if (operation == nullptr) return;
  const bool is_put = operation->kind == Operation::put;
  if (is_put != (answer.type == Type::written)) return;
  if (answer.type == Type::denied)
    return finish(*operation, answer.code == static_cast<std::uint16_t>(Code::no_memory)
                                  ? Code::no_memory
                                  : Code::bad_argument);
  if (is_put) {
    if (answer.code != 0) operation->code = Code::bad_argument;
    // Not before the provider has nothing more of it to send.
    if (answer.bytes == 0 && operation->moved == operation->bytes)
      finish(*operation, operation->code);
    return;
  }
  if (operation->kind == Operation::get) return;
  operation->result = answer.bytes;
  finish(*operation, Code::ok);
}

// Before its first entry in either list.
void OfiFabric::note_waiting(int peer) noexcept {
  const PeerNode& node = this->node(peer);
  if (node.waiting_operations.empty() && node.waiting_gets.empty() &&
      std::ranges::find(waiting_peers_, peer) == waiting_peers_.end())
    waiting_peers_.push_back(peer);
}

// One peer's connection that is not made yet does not hold up the others: each gets its turn.
void OfiFabric::retry_waiting() noexcept {
  std::erase_if(waiting_peers_, [this](int peer) {
    PeerNode& node = this->node(peer);
    const bool no_gets = retry_gets(node);
    return retry_operations(node) && no_gets;
  });
}

// True: none waits any more.
bool OfiFabric::retry_operations(PeerNode& peer) noexcept {
  while (!peer.waiting_operations.empty()) {
    Operation& operation = *peer.waiting_operations.front();
    const long error = start_in_window(operation);
    if (error == -FI_EAGAIN) return false;
    peer.waiting_operations.pop_front();
    if (error == 0)
      operation.started = true;
    else
      fail(operation, error);
  }
  return true;
}

void OfiFabric::fail(Operation& operation, long error) noexcept {
  if (error != -FI_ENOMEM) lose(operation.context.peer, error_text(error));
  finish(operation, error == -FI_ENOMEM ? Code::no_memory : Code::peer_lost);
}

// The provider's device writes or reads its memory here no more, whatever still comes.
void OfiFabric::close_local(Operation& operation) noexcept {
  if (operation.local_mr != nullptr) fi_close(&operation.local_mr->fid);
  operation.local_mr = nullptr;
}

void OfiFabric::finish(Operation& operation, Code code) noexcept {
  close_local(operation);
  if (operation.completion != nullptr) {
    if (operation.copy != nullptr && operation.kind == Operation::get && code == Code::ok)
      std::memcpy(operation.here, operation.copy.get(), operation.bytes);
    if (operation.previous != nullptr) *operation.previous = operation.result;
    operation.completion->set(code);
  }
  operation.completion = nullptr;
  operation.copy.reset();
  operation.started = false;
  if (std::exchange(operation.counted, false)) --node(operation.context.peer).num_under_way;
  operation.context.peer = -1;
  free_operations_.push_back(&operation);
  ring_all();
}

void OfiFabric::abandon_operations(int peer) noexcept {
  for (Operation* operation : std::exchange(node(peer).waiting_operations, {}))
    finish(*operation, Code::peer_lost);
  // The rest ends when the provider says so, to nobody.
  for (Operation& operation : operations_) {
    if (!operation.started || operation.context.peer != peer) continue;
    if (operation.by_message) {
      finish(operation, Code::peer_lost);
      continue;
    }
    if (operation.completion == nullptr) continue;
    close_local(operation);
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
