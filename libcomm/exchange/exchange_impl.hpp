#pragma once
// The implementation of an exchange, shared by its files: exchange.cpp (opening, closing, waiting),
// sending.cpp and receiving.cpp (the datapath), quiesce.cpp (ends of phases).
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "exchange/job_impl.hpp"
#include "exchange/staging.hpp"
#include "lanes/lane.hpp"
#include "weft/exchange.hpp"

namespace weft::transport {

// A destination of a thread.
struct Out {
  SendLane lane;
  Lanes* lanes = nullptr;
  int peer = -1;
  int reader = 0;                       // the thread there
  bool is_opening = false;              // the peer has not answered yet
  Code ended = Code::ok;                // not ok: the reason why nothing more can be sent
  std::unique_ptr<std::byte[]> buffer;  // of the block, unless it is staged
  StagingPool::Buffer staging;
};

// A shortage of memory, descriptors or mappings for receiving.
struct Shortage {
  std::uint64_t since_ns = 0;  // 0: none
  bool is_reported = false;    // it has lasted for Settings::patience_ns()
};

// A source of a thread.
struct In {
  ReceiveLane lane;
  Lanes* lanes = nullptr;
  int peer = -1;
  bool broken = false;
  Shortage shortage;  // for reading its next block
};

// A block that was taken out of its ring while its thread could not receive it.
struct Aside {
  In* in;
  std::uint8_t kind;
  std::vector<std::byte> data;
};

struct alignas(64) Thread {
  int number = 0;
  std::vector<detail::SendBlock> blocks;  // by destination
  std::vector<Out> outs;
  StagingPool staging;
  // By rank: blocks sent. Written by the thread, read at the end of a phase.
  std::vector<std::atomic<std::uint64_t>> sent;
  // The last flush left blocks, as their receivers have no memory for lanes. The same.
  std::atomic<bool> has_unsent{false};

  std::vector<std::unique_ptr<In>> ins;
  // The `ins` that may have entries: all of this host's, and the others as their fabrics list them.
  std::vector<In*> live;
  std::vector<Arrivals*> arrivals;  // the fabrics' lists for this thread
  std::size_t turn = 0;             // the next index of `live` to poll
  std::deque<Aside> aside;
  // The block that is being received, and its location; aside: the first of those.
  enum class From : std::uint8_t { nowhere, ring, aside, remote } from = From::nowhere;
  In* in = nullptr;
  std::uint32_t entry_length = 0;  // in the ring
  MemoryName remote{};             // `remote`: head and block
  std::byte* remote_mapped = nullptr;
  std::vector<std::byte> fetched;  // the block, where it cannot be mapped
  // Blocks received, in total and by rank. Written by the thread, `received_from` first.
  std::atomic<std::uint64_t> received{0};
  std::vector<std::atomic<std::uint64_t>> received_from;

  std::uint64_t known_connections = 0;
  std::uint64_t checked_ns = 0;  // the last check for lost peers by a send, by the coarse clock
  int num_unclocked = 0;         // blocks that may be sent before the clock is read again
  unsigned num_idle = 0;         // calls that found nothing
  std::uint32_t num_lost = 0;    // when the outs of lost peers were last ended
  std::uint32_t lost_reported = 0;
  bool corrupt_reported = false;
  bool shortage_reported = false;
  bool drops = false;  // drop_all() has returned all credit to the senders
  // Lanes that some thread has accepted for this one. Guarded by Impl::accept_mutex.
  std::vector<std::unique_ptr<In>> arrived;
};

struct ExchangeBase::Impl {
  Impl(Job& job, int num_threads, const ExchangeSettings& settings, std::uint32_t message_bytes);
  ~Impl();

  // exchange.cpp
  void agree();
  Code end(Thread& thread, Out& out, Code why) noexcept;
  void end_lost(Thread& thread) noexcept;
  bool is_lost(int peer) const noexcept { return engine.num_lost() != 0 && !engine.is_alive(peer); }
  Status trouble(Thread& thread);

  // sending.cpp
  // Of entries that are sent now. relaxed: no thread sends while the phase changes.
  std::uint64_t immediate() const noexcept {
    return make_immediate(phase.load(std::memory_order_relaxed), message_bytes);
  }
  // again: the peer has not answered yet, and the caller does not wait.
  Code connect(Thread& thread, Out& out, bool waits = true) noexcept;
  std::byte* place_in_mirror(Out& out) const noexcept;
  Code open_block(Thread& thread, int destination) noexcept;
  Code send_block(Thread& thread, int destination) noexcept;
  Code send_full(Thread& thread, int destination) noexcept;
  Code send_large(Thread& thread, int destination, std::span<const std::byte> message) noexcept;
  // remaining: the messages to send; afterwards, those that were not taken.
  Code send_run(Thread& thread, int destination, std::span<const std::byte>& remaining) noexcept;
  Code put_block(Thread& thread, Out& out, const std::byte* data, std::size_t bytes) noexcept;
  Code flush(Thread& thread) noexcept;
  Code send_rts(Thread& thread, Out& out, const StagingPool::Buffer& buffer, std::size_t bytes);
  void set_aside(Thread& thread) noexcept;
  Code take_staging(Thread& thread, Out& out, std::size_t bytes,
                    StagingPool::Buffer& buffer) noexcept;
  void count_sent(Thread& thread, const Out& out) noexcept;
  template <class Attempt>
  Code until_room(Thread& thread, Out& out, Attempt&& attempt) noexcept;

  // receiving.cpp
  bool next_block(Thread& thread) noexcept;
  void take_arrivals(Thread& thread) noexcept;
  // After an unsuccessful poll of this entry of `live`: true if it was removed.
  bool leave_if_idle(Thread& thread, std::size_t index) noexcept {
    In& in = *thread.live[index];
    // A broken lane is removed, and its arrival stays armed, so that it is never listed again.
    if (in.lane.arrival == nullptr || !(in.broken || in.lane.try_idle())) return false;
    thread.live[index] = thread.live.back();
    thread.live.pop_back();
    return true;
  }
  bool peek_block(Thread& thread, In& in, Entry& entry) noexcept;
  bool take(Thread& thread, In& in, std::uint8_t kind, const std::byte* data,
            std::uint32_t length) noexcept;
  Code fetch(Thread& thread, In& in, const std::byte* announced) noexcept;
  void finish_block(Thread& thread) noexcept;
  void broken(Thread& thread, In& in, const char* what) noexcept;
  // Not enough memory to receive: the entry stays in the ring. peer: -1 for lanes.
  void note_shortage(Shortage& shortage, int peer) noexcept;
  void end_shortage(Shortage& shortage) noexcept;
  void note_corrupt(int peer) noexcept;
  void accept(Thread& thread) noexcept;
  Code accept_all(Lanes& lanes);
  std::uint64_t num_connections() const noexcept;
  void drop_all() noexcept;
  bool wait_until_read() noexcept;

  // quiesce.cpp
  Status quiesce(Thread* thread, const Background& drain);
  Status end_phase(const Background& drain, Status status, bool all, bool others_drain);
  Status agree_on_counts(bool& all_received);
  bool has_unsent() const noexcept;
  Status agree_on_end();
  Status name_corrupt();
  std::uint64_t received_here() const noexcept;
  bool is_complete() const noexcept {
    return received_here() >= expected.load(std::memory_order_relaxed);
  }
  // Messages of the phase have waited for memory for Settings::patience_ns().
  bool is_short() const noexcept {
    return num_shortages.load(std::memory_order_acquire) != 0 && !is_complete();
  }
  void leave_out_lost();
  void drop_lanes_of_lost(Thread& thread) noexcept;

  Job::Impl& job;
  tagged::Engine& engine;
  HostLanes& local;       // has the doorbells
  const bool has_remote;  // there are ranks on other hosts
  const int num_threads;
  const std::uint32_t message_bytes;
  int client = 0;
  const bool wants_default_rings;  // WEFT_RING_MAX_BYTES, or more if the blocks need it
  ExchangeSettings settings;
  std::size_t block_bytes = 0;  // capacity of a block
  std::uint32_t ring_min = 0, ring_max = 0;
  std::vector<int> threads_of;                     // by rank
  std::vector<detail::Destinations> destinations;  // by rank
  int num_destinations = 0;
  std::uint64_t spin_ns = 0, yield_ns = 0;
  bool crowded = false;
  bool fence_works = false;

  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<detail::SendBlock*> sending;
  std::vector<detail::ReceiveBlock> receiving;
  std::mutex accept_mutex;
  Shortage accept_shortage;           // guarded by accept_mutex
  std::atomic<int> num_shortages{0};  // that have lasted so
  std::atomic<bool> corrupt{false};   // some lane was closed
  std::atomic<int> corrupt_peer{-1};  // the peer of the first of them; set before
  bool dropping = false;              // the exchange ends: later messages are dropped

  // The end of a phase.
  std::atomic<std::uint32_t> phase{0};
  std::atomic<int> num_arrived{0}, num_finished{0};
  std::atomic<std::uint32_t> step{0};      // grows by one when thread 0 has advanced
  std::vector<std::uint64_t> counts;       // of agree_on_counts()
  bool receive_more = false;               // written before step grows
  std::uint32_t known_lost = 0;            // the same; as Engine::num_lost
  Status outcome;                          // written before step grows for the second time
  bool some_left_out = false;              // the same: since the previous phase
  std::atomic<std::uint64_t> expected{0};  // blocks for this rank from live ranks
  // The lost ranks, as agreed on: their blocks are not counted.
  std::vector<std::atomic<bool>> is_out;  // by rank
  std::atomic<int> num_out{0};
  // One thread ends the phase and waits for blocks that others receive. Written by it.
  std::atomic<bool> others_receive{false};
};

// A wait that polls, then yields, then sleeps on the thread's doorbell. Use: check the condition,
// pause(), and check again.
class Waiter {
 public:
  Waiter(ExchangeBase::Impl& impl, int thread)
      : impl_(impl), thread_(thread), sleep_(impl.crowded) {}
  void pause(std::uint64_t longest_us = ~std::uint64_t{0}) noexcept;

 private:
  ExchangeBase::Impl& impl_;
  const int thread_;
  enum class Stage : std::uint8_t { spin, yield, sleep } stage_ = Stage::spin;
  std::uint32_t armed_ = 0;  // the result of arm_doorbell(); 0: not armed
  unsigned count_ = 0;
  std::uint64_t limit_ns_ = 0;
  DoorbellSleep sleep_;
};

template <class Attempt>
Code ExchangeBase::Impl::until_room(Thread& thread, Out& out, Attempt&& attempt) noexcept {
  Waiter waiter(*this, thread.number);
  for (;;) {
    const Code code = attempt();
    if (code != Code::again) return code;
    if (is_lost(out.peer)) return end(thread, out, Code::peer_lost);
    if (out.lane.is_closed()) return end(thread, out, Code::corrupt);
    set_aside(thread);
    waiter.pause();
  }
}

}  // namespace weft::transport
