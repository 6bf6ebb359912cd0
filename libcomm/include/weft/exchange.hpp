#pragma once
// Exchange: messages between the threads of a job's ranks. Each thread gathers its small messages
// in blocks, one for each destination, and writes full blocks into a ring at the receiver that it
// alone writes; so no thread waits for another. Messages from one thread to one destination are
// received in their order, once, unaltered. See docs/use/transport.md.
//
// Threads. Every call that takes a thread's number is made by one thread at a time for that number;
// threads do not disturb one another. What thread t of a rank sends arrives at thread t modulo the
// receiving rank's number of threads ("thread to machine"), or where the sender says ("thread to
// thread"). A number that is not below num_threads() is a bad_argument to flushSend, wait and
// quiesce; send, receive, release and source assert that it is (with NDEBUG: undefined behaviour).
//
// Blocking. send and flushSend block while the ring of the receiver is full; meanwhile they set
// aside messages for the calling thread, so threads that only send cannot stop one another. receive
// never blocks. wait and quiesce block as documented there; waiting threads sleep after a short
// while.
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#include "weft/export.hpp"
#include "weft/job.hpp"

namespace weft::transport {

enum class Pairing {
  thread_to_machine,  // a thread has one lane to each rank; destinations are ranks
  thread_to_thread,  // a thread has one lane to each thread of each rank; destinations are place()s
};

struct ExchangeSettings {
  int block_messages = 256;          // messages in a block, at most
  std::size_t block_bytes = 2048;    // bytes in a block, at most; a longer message is its own block
  std::size_t ring_bytes = 0;        // the largest a ring can get; 0: WEFT_RING_MAX_BYTES, 2 MiB
  std::size_t rendezvous_bytes = 0;  // blocks from this size on stay at the sender, and the
                                     // receiver reads them there; 0: 32 KiB
  Pairing pairing = Pairing::thread_to_machine;
};

namespace detail {

struct SendBlock {
  std::byte* cursor = nullptr;
  std::byte* end = nullptr;  // of the room for messages
  std::byte* begin = nullptr;
};

struct alignas(64) ReceiveBlock {
  const std::byte* cursor = nullptr;
  const std::byte* end = nullptr;
  int source = -1;
  bool held = false;  // the last received block is still lent to the program
};

// A rank's destinations: one, or one for each of its threads.
struct Destinations {
  int first = 0;
  int count = 1;
};

// Blocks lie at multiples of this everywhere: in rings, in buffers and where they are staged.
inline constexpr std::size_t kBlockAlign = 16;

// Copies of messages in blocks. As values of their type, where that is aligned: a compiler has to
// assume that copied bytes may change the very cursors above, and then every message waits for the
// one before it to reach memory.
template <class Message>
void put_message(std::byte* to, const Message& message) noexcept {
  if constexpr (alignof(Message) <= kBlockAlign && std::is_copy_constructible_v<Message>)
    ::new (static_cast<void*>(to)) Message(message);
  else
    std::memcpy(to, &message, sizeof message);
}
template <class Message>
void get_message(const std::byte* from, Message& message) noexcept {
  if constexpr (alignof(Message) <= kBlockAlign && std::is_copy_assignable_v<Message>)
    message = *std::launder(reinterpret_cast<const Message*>(from));
  else
    std::memcpy(static_cast<void*>(&message), from, sizeof message);
}

}  // namespace detail

// The common part of Exchange<Message> and Exchange<Bytes>.
class WEFT_API ExchangeBase {
 public:
  ExchangeBase(const ExchangeBase&) = delete;
  ExchangeBase& operator=(const ExchangeBase&) = delete;

  int num_threads() const noexcept { return num_threads_; }
  // Threads of another rank's part of this exchange; `rank` must be one.
  int num_threads(int rank) const noexcept;
  // With thread_to_thread: the destination that is this thread of this rank, counted modulo the
  // threads that it has.
  int place(int rank, int thread) const noexcept {
    const detail::Destinations& there = destinations_[rank];
    return there.first + (thread < there.count ? thread : thread % there.count);
  }
  int num_destinations() const noexcept { return num_destinations_; }

  // Sends the blocks of the thread to all destinations. ok, or the first error as of send: the
  // other blocks have been sent all the same, and after no_memory the unsent ones go with a later
  // call. May block as send does.
  Code flushSend(int thread) noexcept;  // NOLINT: the paper's name

  // The rank that the message came from that this thread received last.
  int source(int thread) const noexcept {
    assert(has_thread(thread));
    return receiving_[thread].source;
  }

  // Blocks until receive would give this thread something: ok. timed_out: nothing came in that time
  // (0: it polls, and does not block). peer_lost: a rank was lost, reported once to each thread;
  // its messages are received before. corrupt: a rank sent invalid bytes, and its lane was closed;
  // reported once as well. no_memory: messages wait at their place, for 5 s
  // (WEFT_PEER_TIMEOUT_MS, if that is less) so far, as this process has no memory, descriptors or
  // mappings to receive them; reported once a shortage, they come when it is over.
  Status wait(int thread, std::chrono::microseconds timeout);

  // Ends a phase while other threads receive, or have received all: returns when every message that
  // any rank sent before its own call has been received everywhere. To be called by one thread of
  // each rank after all its threads have flushed; no thread of the rank sends until it returns.
  // Once it has returned, and not before, messages of the next phase may arrive. Collective, and
  // the same on all ranks that live: ok; peer_lost, with the names of the ranks that were lost
  // since the last collective call: the phase is over for the others, which have received what they
  // sent each other, and the next one is theirs; corrupt: a lane was closed, and messages with it,
  // by the ranks that are named: no later phase of this exchange can be ended; no_memory, as of
  // wait or of flushSend, for one of the ranks: nothing is lost, and another call, after another
  // flushSend of each thread, is to end this phase.
  Status quiesce();

  struct Impl;

 protected:
  // message_bytes: 0 for messages of any length.
  ExchangeBase(Job& job, int num_threads, const ExchangeSettings& settings,
               std::uint32_t message_bytes);
  ~ExchangeBase();

  bool has_thread(int thread) const noexcept {
    return static_cast<unsigned>(thread) < static_cast<unsigned>(num_threads_);
  }
  // Makes the destination's block ready for messages; sends what is in it.
  Code open_block(int thread, int destination) noexcept;
  Code send_block(int thread, int destination) noexcept;
  // A message that has a block of its own.
  Code send_large(int thread, int destination, std::span<const std::byte> message) noexcept;
  // Several messages behind one another, `message_bytes` each; num_taken: how many were taken.
  Code send_run(int thread, int destination, std::span<const std::byte> messages,
                std::size_t message_bytes, std::size_t* num_taken) noexcept;
  // Makes receiving_[thread] the next block, which ends the lending of the last. False: none now.
  bool next_block(int thread) noexcept;
  // All of it is received.
  void finish_block(int thread) noexcept;
  void broken_block(int thread) noexcept;
  Status quiesce(int thread, bool (*drain)(void*), void* argument);
  // The same; messages that come meanwhile are received by `exchange`, which is *this, and passed
  // on.
  template <class Message, class Exchange, class Handle>
  Status quiesce_into(Exchange& exchange, int thread, Handle& handle) {
    struct Drain {
      Exchange& exchange;
      int thread;
      Handle& handle;
    } drain{exchange, thread, handle};
    return quiesce(
        thread,
        [](void* argument) {
          auto& [exchange, thread, handle] = *static_cast<Drain*>(argument);
          // Not made by a constructor: a message need not have one without arguments.
          alignas(Message) std::byte room[sizeof(Message)];
          auto& message = *std::launder(reinterpret_cast<Message*>(room));
          bool any = false;
          for (; exchange.receive(thread, message); any = true) handle(message);
          return any;
        },
        &drain);
  }

  std::unique_ptr<Impl> impl_;
  detail::SendBlock* const* sending_ = nullptr;  // [thread][destination]
  detail::ReceiveBlock* receiving_ = nullptr;    // [thread]
  int num_threads_ = 0;
  int num_destinations_ = 0;
  const detail::Destinations* destinations_ = nullptr;  // [rank]
};

// Messages of one trivially copyable type.
template <class Message>
class Exchange : public ExchangeBase {
  static_assert(std::is_trivially_copyable_v<Message>);

 public:
  // Opens this rank's part. Collective; every rank must open the same exchanges in the same order,
  // with the same settings and message but not necessarily as many threads. Throws Error
  // (bad_argument, with the setting that differs; peer_lost: all living ranks may try again;
  // no_memory). Blocks until all living ranks have come. The destructor is collective as well, and
  // blocks in the same manner (a rank that is lost then is reported by the next collective call);
  // meanwhile it drops what still comes for this exchange, so that no rank is stopped in sending to
  // it, but takes nothing that comes for others; so end the phase of those first. No other call may
  // run. Messages that were not received are dropped. In a child that the process has forked it
  // does nothing.
  Exchange(Job& job, int num_threads, const ExchangeSettings& settings = {})
      : ExchangeBase(job, num_threads, settings, sizeof(Message)) {}

  // Puts a copy of the message into the destination's block, and sends the block when it is full.
  // Blocks only while the receiver's ring is full, or while as much is staged as may be. ok;
  // bad_argument: no such destination; peer_lost: the destination is gone (known some 20 ms after a
  // death on this host), what was in the block is dropped; corrupt: the destination has closed this
  // thread's lane for what it read there, nothing more can be sent; no_memory: the receiver has no
  // room for a ring, or this side none for a block: the message was not taken, later it may be.
  // Between hosts the receiver answers later, and flushSend returns the error of the block that is
  // filled meanwhile.
  Code send(int destination, int thread, const Message& message) noexcept {
    if (static_cast<unsigned>(destination) >= static_cast<unsigned>(num_destinations_)) [[unlikely]]
      return Code::bad_argument;
    assert(has_thread(thread));
    detail::SendBlock& block = sending_[thread][destination];
    if (block.cursor == block.end) [[unlikely]] {
      if (const Code code = open_block(thread, destination); code != Code::ok) return code;
    }
    std::byte* const place = block.cursor;
    detail::put_message(place, message);
    block.cursor = place + sizeof message;
    return block.cursor == block.end ? send_block(thread, destination) : Code::ok;
  }

  // The same for a run of messages, as if one by one; whole blocks of it are not copied twice.
  // After an error *num_taken is the number taken.
  Code send(int destination, int thread, std::span<const Message> messages,
            std::size_t* num_taken = nullptr) noexcept {
    assert(has_thread(thread));
    return send_run(thread, destination, std::as_bytes(messages), sizeof(Message), num_taken);
  }

  // Takes the next message for this thread, if there is one. Never blocks.
  bool receive(int thread, Message& message) noexcept {
    assert(has_thread(thread));
    detail::ReceiveBlock& block = receiving_[thread];
    if (block.cursor == block.end && !next_block(thread)) return false;
    const std::byte* const place = block.cursor;
    block.cursor = place + sizeof message;
    detail::get_message(place, message);
    if (block.cursor == block.end) finish_block(thread);
    return true;
  }

  // Takes a run of messages, all of one rank: the unread ones of a block, in place, valid until the
  // thread's next receive, wait, quiesce or release. The rules of views of bytes below hold for it.
  // Never blocks.
  bool receive(int thread, std::span<const Message>& messages) noexcept
      requires(alignof(Message) <= detail::kBlockAlign) {
    assert(has_thread(thread));
    detail::ReceiveBlock& block = receiving_[thread];
    if (block.cursor == block.end && !next_block(thread)) return false;
    const auto bytes = static_cast<std::size_t>(block.end - block.cursor);
    messages = {std::launder(reinterpret_cast<const Message*>(block.cursor)),
                bytes / sizeof(Message)};
    block.cursor = block.end;
    block.held = true;
    return true;
  }
  // Gives back the run received last.
  void release(int thread) noexcept {
    assert(has_thread(thread));
    detail::ReceiveBlock& block = receiving_[thread];
    if (!block.held) return;
    block.held = false;
    finish_block(thread);
  }

  using ExchangeBase::quiesce;
  // The same end of a phase for programs whose threads do it together: every thread of every rank
  // calls it; it flushes, and gives each message that still comes to `handle(message)`, which must
  // not send.
  template <class Handle>
  Status quiesce(int thread, Handle&& handle) {
    return quiesce_into<Message>(*this, thread, handle);
  }
};

// Messages of any length up to 1 GiB.
using Bytes = std::span<const std::byte>;

template <>
class Exchange<Bytes> : public ExchangeBase {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 30;

  Exchange(Job& job, int num_threads, const ExchangeSettings& settings = {})
      : ExchangeBase(job, num_threads, settings, 0) {}

  // As above; the bytes may be reused at once. bad_argument: longer than kMaxBytes.
  Code send(int destination, int thread, Bytes message) noexcept {
    if (static_cast<unsigned>(destination) >= static_cast<unsigned>(num_destinations_)) [[unlikely]]
      return Code::bad_argument;
    assert(has_thread(thread));
    detail::SendBlock& block = sending_[thread][destination];
    const std::size_t bytes = room_for(message.size());
    const auto room = static_cast<std::size_t>(block.end - block.cursor);
    if (bytes > room || message.size() > room) [[unlikely]]
      return send_large(thread, destination, message);
    const auto length = static_cast<std::uint32_t>(message.size());
    std::memcpy(block.cursor, &length, sizeof length);
    if (length > 0) std::memcpy(block.cursor + sizeof length, message.data(), length);
    block.cursor += bytes;
    return block.cursor == block.end ? send_block(thread, destination) : Code::ok;
  }

  // Takes the next message for this thread, if there is one: a view into the ring, valid until the
  // thread's next receive, wait, quiesce or release. Long held, it holds up its sender; a thread
  // that sends while it holds one may wait for a receiver that waits for it, so release first.
  // Never blocks.
  bool receive(int thread, Bytes& message) noexcept {
    assert(has_thread(thread));
    detail::ReceiveBlock& block = receiving_[thread];
    release(thread);
    if (block.cursor == block.end && !next_block(thread)) return false;
    std::uint32_t length = 0;
    const auto room = static_cast<std::size_t>(block.end - block.cursor);
    if (room >= sizeof length) std::memcpy(&length, block.cursor, sizeof length);
    if (room < sizeof length || room_for(length) > room) [[unlikely]] {
      broken_block(thread);
      return false;
    }
    message = {block.cursor + sizeof length, length};
    block.cursor += room_for(length);
    block.held = true;
    return true;
  }
  // Gives back the message received last.
  void release(int thread) noexcept {
    assert(has_thread(thread));
    detail::ReceiveBlock& block = receiving_[thread];
    if (!block.held) return;
    block.held = false;
    if (block.cursor == block.end) finish_block(thread);
  }

  using ExchangeBase::quiesce;
  // As above; the argument of `handle` is valid until it returns.
  template <class Handle>
  Status quiesce(int thread, Handle&& handle) {
    return quiesce_into<Bytes>(*this, thread, handle);
  }

 private:
  // A length, the bytes, and up to 3 bytes to the next length.
  static constexpr std::size_t room_for(std::size_t length) noexcept {
    return (sizeof(std::uint32_t) + length + 3) & ~std::size_t{3};
  }
};

}  // namespace weft::transport
