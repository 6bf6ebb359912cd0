// The datapath of receiving: the next block of a thread, from the blocks set aside, from a ring, or
// from its sender's memory.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "exchange/exchange_impl.hpp"
#include "lanes/linked/remote_lanes.hpp"

namespace weft::transport {
namespace {
// Unsuccessful calls between two checks for lost peers.
constexpr unsigned kIdlePerCheck = 4096;
}  // namespace

void ExchangeBase::Impl::broken(Thread& thread, In& in, const char* what) noexcept {
  if (in.broken) return;
  in.broken = true;
  end_shortage(in.shortage);
  in.lane.close();
  log_line(LogLevel::error, job.members->rank(),
           "{} sent invalid data ({}): its lane to thread {} is closed",
           job.members->describe(in.peer), what, thread.number);
  note_corrupt(in.peer);
}

void ExchangeBase::Impl::note_shortage(Shortage& shortage, int peer) noexcept {
  const std::uint64_t now = now_ns();
  if (shortage.since_ns == 0) shortage.since_ns = now;
  const auto limit = job.members->settings().patience_ns();
  if (shortage.is_reported || now - shortage.since_ns <= limit) return;
  shortage.is_reported = true;
  num_shortages.fetch_add(1, std::memory_order_release);
  (void)or_no_memory([&] {
    log_line(LogLevel::warn, job.members->rank(),
             "no memory to receive messages{}: retrying (see ulimit -n and -v)",
             peer >= 0 ? " of " + job.members->describe(peer) : "");
  });
}

void ExchangeBase::Impl::end_shortage(Shortage& shortage) noexcept {
  if (shortage.is_reported) num_shortages.fetch_sub(1, std::memory_order_relaxed);
  shortage = {};
}

void ExchangeBase::Impl::note_corrupt(int peer) noexcept {
  int none = -1;
  corrupt_peer.compare_exchange_strong(none, peer, std::memory_order_relaxed);
  // release: pairs with the acquires of its readers.
  corrupt.store(true, std::memory_order_release);
}

// no_memory: not enough memory for the next lane now.
Code ExchangeBase::Impl::accept_all(Lanes& lanes) {
  for (;;) {
    int peer = -1;
    int channel = 0;
    ReceiveMemory memory;
    // All memory for a lane is allocated first, as it is accepted only once.
    for (auto& thread : threads) make_room(thread->arrived);
    auto in = std::make_unique<In>();
    if (Status status = lanes.accept(client, peer, channel, memory); !status) {
      if (status == Code::no_memory) {
        if (accept_shortage.since_ns == 0)
          log_line(LogLevel::warn, job.members->rank(), "a lane of {} is delayed: {}",
                   job.members->describe(peer), status.text());
        return Code::no_memory;
      }
      if (status == Code::peer_lost && peer >= 0) {
        engine.lose(peer);  // it ended between its first message and now
        continue;
      }
      log_line(LogLevel::error, job.members->rank(), "cannot accept a lane of {}: {}",
               job.members->describe(peer), status.text());
      note_corrupt(peer);
      continue;
    }
    if (peer < 0) return Code::ok;
    const int reader = channel_of(channel).reader;
    // A fabric may have smaller rings.
    if (reader >= num_threads || memory.ring_bytes < ring_min || memory.ring_bytes > ring_max) {
      log_line(LogLevel::error, job.members->rank(),
               "{} connected to thread {}, of {}, with {} bytes", job.members->describe(peer),
               reader, num_threads, memory.ring_bytes);
      note_corrupt(peer);
      continue;
    }
    in->peer = peer;
    in->lanes = &lanes;
    in->lane.open(lanes, memory, ring_min, memory.ring_bytes,
                  {peer, job.members->member(peer).host});
    engine.watch(peer);
    threads[static_cast<std::size_t>(reader)]->arrived.push_back(std::move(in));
    // Its thread may sleep, and the sender rang before the lane was accepted.
    ring_doorbell(local.sleeping(reader));
  }
}

std::uint64_t ExchangeBase::Impl::num_connections() const noexcept {
  // acquire: pairs with the release in Lanes::connect of the peer.
  std::uint64_t sum = local.connections().load(std::memory_order_acquire);
  if (has_remote)
    for (auto* lanes : job.fabrics->remote())
      sum += lanes->connections().load(std::memory_order_acquire);
  return sum;
}

void ExchangeBase::Impl::accept(Thread& thread) noexcept {
  const std::uint64_t now = num_connections();
  if (now == thread.known_connections) return;
  const std::lock_guard lock(accept_mutex);
  const Code code = or_no_memory([&] {
    Code first = accept_all(local);
    for (auto* lanes : job.fabrics->remote())
      if (const Code next = accept_all(*lanes); first == Code::ok) first = next;
    make_room(thread.ins, thread.arrived.size());
    make_room(thread.live, thread.ins.size() + thread.arrived.size() - thread.live.size());
    make_room(thread.arrivals, 1 + job.fabrics->remote().size());
    return first;
  });
  if (code == Code::ok) {
    end_shortage(accept_shortage);
    thread.known_connections = now;
  } else {
    note_shortage(accept_shortage, -1);
  }
  const std::size_t num = thread.ins.size() + thread.arrived.size();
  if (thread.ins.capacity() < num || thread.live.capacity() < num) return;
  for (auto& in : thread.arrived) {
    if (Arrivals* list = in->lane.arrivals; list == nullptr) {
      thread.live.push_back(in.get());
    } else {
      if (std::ranges::find(thread.arrivals, list) == thread.arrivals.end())
        thread.arrivals.push_back(list);
      list->begin(*in->lane.arrival, in.get());
    }
    thread.ins.push_back(std::move(in));
  }
  thread.arrived.clear();
}

void ExchangeBase::Impl::take_arrivals(Thread& thread) noexcept {
  for (Arrivals* list : thread.arrivals)
    for (Arrival* next = list->take(); next != nullptr; next = next->next)
      thread.live.push_back(static_cast<In*>(next->reader));
}

// Returns the lane's next entry if it may be received now.
bool ExchangeBase::Impl::peek_block(Thread& thread, In& in, Entry& entry) noexcept {
  if (in.broken) [[unlikely]]
    return false;
  if (!in.lane.peek(entry)) {
    if (in.lane.ring.broken()) [[unlikely]]
      broken(thread, in, "the head of a block");
    else
      in.lane.return_credit(true);
    return false;
  }
  const std::uint32_t now = phase.load(std::memory_order_relaxed);
  if (entry.immediate != make_immediate(now, message_bytes)) [[unlikely]] {
    // One phase ahead: the end of the phase has not reached this rank yet.
    if (entry.immediate == make_immediate(now + 1, message_bytes)) return dropping;
    // Sent in a phase that was ended without this peer.
    if (is_out[static_cast<std::size_t>(in.peer)].load(std::memory_order_relaxed)) {
      in.broken = true;
      return false;
    }
    broken(thread, in, "the phase of a block, or the size of its messages");
    return false;
  }
  return true;
}

// Makes the entry the current block. False: the entry is invalid.
bool ExchangeBase::Impl::take(Thread& thread, In& in, std::uint8_t kind, const std::byte* data,
                              std::uint32_t length) noexcept {
  if (kind == kBlock && length > 0 && (message_bytes == 0 || length % message_bytes == 0))
      [[likely]] {
    detail::ReceiveBlock& block = receiving[static_cast<std::size_t>(thread.number)];
    thread.in = &in;
    block.cursor = data;
    block.end = data + length;
    block.source = in.peer;
    return true;
  }
  if (kind != kRts || length != sizeof(Rts)) {
    broken(thread, in, "the kind or the length of a block");
    return false;
  }
  return true;
}

// Reads the block of an RTS, in place if its memory can be mapped. no_memory: try again later;
// another error: the block will not be received.
Code ExchangeBase::Impl::fetch(Thread& thread, In& in, const std::byte* announced) noexcept {
  Rts rts;
  std::memcpy(&rts, announced, sizeof rts);
  if (rts.bytes == 0 || rts.bytes > kMaxBlockBytes ||
      (message_bytes != 0 && rts.bytes % message_bytes != 0)) {
    broken(thread, in, "the length in an RTS");
    return Code::corrupt;
  }
  RemoteMemory memory{rts.address, sizeof(StagingHead) + rts.bytes, 0, {}, in.peer};
  MemoryKey key;
  key.names[job.route(in.peer).key] = {rts.region, rts.key};
  set_key(memory, key);
  detail::ReceiveBlock& block = receiving[static_cast<std::size_t>(thread.number)];
  Code code = Code::ok;
  thread.in = &in;
  thread.remote = job.memory_on_route(memory);
  thread.remote_mapped = nullptr;
  const std::byte* data = nullptr;
  if (in.lanes->is_mapped()) {
    // Staging memory is allocated, so it can be mapped; other memory is invalid here.
    if (ThreadState* state = job.find_thread(thread.number))
      thread.remote_mapped = state->mappings.find(*job.local, memory, code);
    else
      code = Code::no_memory;
    if (thread.remote_mapped != nullptr) data = thread.remote_mapped + sizeof(StagingHead);
  } else {
    code = or_no_memory([&] {
      thread.fetched.resize(sizeof(StagingHead) + rts.bytes);
      return in.lanes->get(in.peer, thread.remote, 0, thread.fetched.data(), thread.fetched.size());
    });
    if (code == Code::ok) data = thread.fetched.data() + sizeof(StagingHead);
  }
  // The sender's address is not trusted, and messages are read as values of their type.
  if (reinterpret_cast<std::uintptr_t>(data) % detail::kBlockAlign != 0) data = nullptr;
  if (data == nullptr) {
    if (dropping) return Code::cancelled;
    if (code == Code::peer_lost || is_lost(in.peer)) {
      in.broken = true;  // later messages must not be received without this block
      end_shortage(in.shortage);
      return Code::peer_lost;
    }
    if (code == Code::no_memory) {
      note_shortage(in.shortage, in.peer);
      return code;
    }
    broken(thread, in, "the memory in an RTS");
    return Code::corrupt;
  }
  end_shortage(in.shortage);
  in.lane.stats.row().add(stats::Counter::copied_bytes, rts.bytes);
  block.cursor = data;
  block.end = block.cursor + rts.bytes;
  block.source = in.peer;
  thread.from = Thread::From::remote;
  return Code::ok;
}

bool ExchangeBase::Impl::next_block(Thread& thread) noexcept {
  while (!thread.aside.empty()) {
    Aside& aside = thread.aside.front();
    In& in = *aside.in;
    const auto length = static_cast<std::uint32_t>(aside.data.size());
    bool taken = take(thread, in, aside.kind, aside.data.data(), length);
    if (taken && aside.kind == kBlock) {
      thread.from = Thread::From::aside;
      return true;
    }
    if (taken) {
      const Code code = fetch(thread, in, aside.data.data());
      if (code == Code::no_memory) return false;
      taken = code == Code::ok;
    }
    thread.aside.pop_front();
    if (taken) return true;
    // Later blocks of the lane must not be received without it.
    std::erase_if(thread.aside, [&in](const Aside& behind) { return behind.in == &in; });
  }
  take_arrivals(thread);
  for (std::size_t left = thread.live.size(); left > 0; --left) {
    if (thread.turn >= thread.live.size()) thread.turn = 0;
    In& in = *thread.live[thread.turn++];
    Entry entry;
    if (!peek_block(thread, in, entry)) {
      if (leave_if_idle(thread, thread.turn - 1)) --thread.turn;
      continue;
    }
    if (!take(thread, in, entry.kind, entry.data, entry.length)) continue;
    if (entry.kind == kBlock) [[likely]] {
      thread.from = Thread::From::ring;
      thread.entry_length = entry.length;
      return true;
    }
    const Code code = fetch(thread, in, entry.data);
    if (code == Code::no_memory) continue;  // the entry stays in the ring
    in.lane.ring.pop(entry.length);
    in.lane.return_credit(false);
    if (code == Code::ok) return true;
    thread.drops = false;  // so that drop_all() returns the credit
  }
  accept(thread);
  if (has_remote) job.poll_remote();
  if (++thread.num_idle % kIdlePerCheck == 0) {
    engine.check_for_lost();
    job.agreement->answer();
  }
  return false;
}

void ExchangeBase::Impl::finish_block(Thread& thread) noexcept {
  switch (thread.from) {
    case Thread::From::ring:
      thread.in->lane.ring.pop(thread.entry_length);
      thread.in->lane.return_credit(false);
      break;
    case Thread::From::aside:
      thread.aside.pop_front();
      break;
    case Thread::From::remote: {
      if (thread.remote_mapped != nullptr) {
        std::atomic_ref fin(reinterpret_cast<StagingHead*>(thread.remote_mapped)->fin);
        // release: all reads of the block; pairs with the acquire in StagingPool::collect.
        fin.store(fin.load(std::memory_order_relaxed) + 1, std::memory_order_release);
      } else {
        Lanes& lanes = *thread.in->lanes;
        StagingHead head;
        std::memcpy(&head, thread.fetched.data(), sizeof head);
        const std::uint64_t fin = head.fin + 1;
        std::uint64_t before = 0;
        Code code = lanes.put_once(thread.in->peer, thread.remote, 0, &fin, sizeof fin);
        // If the link broke, the put may be done, and the memory be reused for another block. After
        // another error the peer is lost, which waits for it report.
        while (code == Code::outcome_unknown)
          code = lanes.cas(thread.in->peer, thread.remote, 0, head.fin, fin, before);
      }
      ring_doorbell(*thread.in->lane.sleeping);
      break;
    }
    case Thread::From::nowhere:
      break;
  }
  thread.from = Thread::From::nowhere;
  detail::ReceiveBlock& block = receiving[static_cast<std::size_t>(thread.number)];
  block.cursor = block.end = nullptr;
  auto& from = thread.received_from[static_cast<std::size_t>(thread.in->peer)];
  from.store(from.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  // release: the program's use of the messages, before the thread that ends the phase continues.
  thread.received.store(thread.received.load(std::memory_order_relaxed) + 1,
                        std::memory_order_release);
  // The read below is ordered after that by the compiler, and by the heavy fence of the waiting
  // thread, as in ring_doorbell().
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (others_receive.load(std::memory_order_relaxed)) [[unlikely]]
    ring_doorbell(local.sleeping(0));
}

// Called repeatedly while the exchange closes: drops all messages and returns all credit.
void ExchangeBase::Impl::drop_all() noexcept {
  for (auto& thread : threads) {
    detail::ReceiveBlock& block = receiving[static_cast<std::size_t>(thread->number)];
    block.held = false;
    bool dropped = !std::exchange(thread->drops, true);
    if (thread->from != Thread::From::nowhere) finish_block(*thread);
    for (; next_block(*thread); dropped = true) finish_block(*thread);
    if (!dropped) continue;
    // Senders wait until all their data are read.
    for (auto& in : thread->ins) {
      if (in->lane.remote == nullptr || in->broken) continue;
      in->lane.return_credit(false);
      if (in->lane.ring.unreturned() != 0) in->lane.return_now();
    }
  }
}

bool ExchangeBase::next_block(int number) noexcept {
  Thread& thread = *impl_->threads[static_cast<std::size_t>(number)];
  detail::ReceiveBlock& block = receiving_[number];
  if (block.held) {
    block.held = false;
    impl_->finish_block(thread);
  }
  return impl_->next_block(thread);
}
void ExchangeBase::finish_block(int thread) noexcept {
  impl_->finish_block(*impl_->threads[static_cast<std::size_t>(thread)]);
}
void ExchangeBase::broken_block(int number) noexcept {
  Thread& thread = *impl_->threads[static_cast<std::size_t>(number)];
  impl_->broken(thread, *thread.in, "the length of a message");
  impl_->finish_block(thread);
}

}  // namespace weft::transport
