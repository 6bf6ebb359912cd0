// The datapath of sending: blocks are written into rings, or staged for the receiver, with an RTS.
#include <algorithm>
#include <cstring>

#include "base/log.hpp"
#include "base/shortage.hpp"
#include "base/trace.hpp"
#include "exchange/exchange_impl.hpp"
#include "weft/copy.hpp"

namespace weft::transport {

// Ends a destination for good. why: peer_lost, or corrupt: its reader has closed the lane.
Code ExchangeBase::Impl::end(Thread& thread, Out& out, Code why) noexcept {
  out.ended = why;
  thread.staging.forget(out.peer, why == Code::peer_lost);
  detail::SendBlock& block = thread.blocks[static_cast<std::size_t>(&out - thread.outs.data())];
  if (out.staging.head != nullptr) thread.staging.give_back(std::exchange(out.staging, {}));
  block = {};
  return why;
}

// Called only when Engine::num_lost has changed, as is_lost() may take a lock.
void ExchangeBase::Impl::end_lost(Thread& thread) noexcept {
  thread.num_lost = engine.num_lost();
  for (Out& out : thread.outs)
    if (out.ended == Code::ok && is_lost(out.peer)) (void)end(thread, out, Code::peer_lost);
}

Code ExchangeBase::Impl::connect(Thread& thread, Out& out, bool waits) noexcept {
  if (engine.num_lost() != thread.num_lost) [[unlikely]]
    end_lost(thread);
  if (out.ended != Code::ok) return end(thread, out, out.ended);
  if (out.lane.connected()) return Code::ok;
  if (out.lanes == nullptr) {
    log_line(LogLevel::error, job.members->rank(), "{}", job.fabrics->explain(out.peer));
    return end(thread, out, Code::peer_lost);
  }
  SendMemory memory;
  memory.ring_bytes = ring_max;
  const int channel =
      channel_number({static_cast<std::uint16_t>(client), static_cast<std::uint8_t>(thread.number),
                      static_cast<std::uint8_t>(out.reader)});
  Status status;
  Code code = or_no_memory([&] { out.lane.ring.make_room(ring_min); });
  if (code != Code::ok) return code;
  const auto attempt = [&] {
    status = or_no_memory([&] { return out.lanes->connect(out.peer, channel, memory); });
    return status.code();
  };
  code = waits ? until_room(thread, out, attempt) : attempt();
  out.is_opening = code == Code::again;
  if (out.is_opening) return code;
  if (code == Code::ok && memory.ring_bytes < ring_min) {
    log_line(LogLevel::error, job.members->rank(),
             "blocks of this exchange need rings of {} bytes, and {} has at most {}", ring_min,
             out.lanes->limits().fabric, memory.ring_bytes);
    return end(thread, out, Code::peer_lost);
  }
  if (code != Code::ok) {
    log_line(LogLevel::info, job.members->rank(), "cannot connect to {}: {}",
             job.members->describe(out.peer), status.text());
    if (code == Code::no_memory) return code;
    engine.lose(out.peer);  // as when the engine itself cannot connect
    return end(thread, out, Code::peer_lost);
  }
  code = or_no_memory([&] {
    out.lane.open(*out.lanes, memory, ring_min, memory.ring_bytes,
                  {out.peer, job.members->member(out.peer).host});
  });
  if (code != Code::ok) return code;
  ring_doorbell(*out.lane.sleeping);
  engine.watch(out.peer);
  return Code::ok;
}

Code ExchangeBase::Impl::take_staging(Thread& thread, Out& out, std::size_t bytes,
                                      StagingPool::Buffer& buffer) noexcept {
  return until_room(thread, out, [&] {
    return or_no_memory([&] { return thread.staging.take(bytes, buffer); });
  });
}

// Makes room for at least one message, or for bytes. The first block does not wait for the lane,
// which is needed only when the block is sent: a thread that fills blocks for many destinations
// opens all these lanes in the time of one.
Code ExchangeBase::Impl::open_block(Thread& thread, int destination) noexcept {
  Out& out = thread.outs[static_cast<std::size_t>(destination)];
  detail::SendBlock& block = thread.blocks[static_cast<std::size_t>(destination)];
  Code opened = send_block(thread, destination);  // a block that send_full() has kept
  if (opened == Code::ok) opened = connect(thread, out, false);
  if (opened != Code::ok && opened != Code::again) return opened;
  if (block_bytes >= settings.rendezvous_bytes) {
    const Code code = take_staging(thread, out, block_bytes, out.staging);
    if (code != Code::ok) return code;
    block.begin = out.staging.data();
  } else if (std::byte* place = place_in_mirror(out); place != nullptr) {
    block.begin = place;
  } else {
    if (!out.buffer) out.buffer.reset(new (std::nothrow) std::byte[block_bytes]);
    if (!out.buffer) return Code::no_memory;
    block.begin = out.buffer.get();
  }
  block.cursor = block.begin;
  block.end = block.begin + block_bytes;
  return Code::ok;
}

// Between hosts a block is filled where the fabric sends it from. A mapped ring's reader would take
// the first line of an unfinished block back and forth. Null: there is no room now, or the lane is
// not open, or has not needed its ring yet.
std::byte* ExchangeBase::Impl::place_in_mirror(Out& out) const noexcept {
  const bool has_ring =
      out.lane.connected() && !out.lanes->is_mapped() && out.lane.num_initial == 0;
  return has_ring ? out.lane.reserve(block_bytes) : nullptr;
}

Code ExchangeBase::Impl::send_block(Thread& thread, int destination) noexcept {
  Out& out = thread.outs[static_cast<std::size_t>(destination)];
  detail::SendBlock& block = thread.blocks[static_cast<std::size_t>(destination)];
  const auto bytes = static_cast<std::size_t>(block.cursor - block.begin);
  if (bytes == 0) {
    if (out.staging.head == nullptr && block.begin != out.buffer.get()) block = {};
    return Code::ok;
  }
  if (engine.num_lost() != thread.num_lost) [[unlikely]]
    end_lost(thread);
  if (!out.lane.connected()) [[unlikely]] {
    if (const Code code = connect(thread, out); code != Code::ok) return code;
  }
  if (out.lane.is_closed()) [[unlikely]]
    out.ended = Code::corrupt;
  if (out.ended != Code::ok) [[unlikely]]
    return end(thread, out, out.ended);
  if (out.staging.head != nullptr) {
    const Code code = send_rts(thread, out, out.staging, bytes);
    if (code != Code::ok) return code;
    out.staging = {};
    block = {};
    return Code::ok;
  }
  const Code code = put_block(thread, out, block.begin, bytes);
  if (code != Code::ok) return code;
  if (block.begin == out.buffer.get())
    block.cursor = block.begin;
  else
    block = {};  // the next one's place in the mirror is another
  return Code::ok;
}

// Sends a block that the last message has filled. If the receiver has no memory for the lane, the
// block is kept, and the next call for this destination sends it or returns the error.
Code ExchangeBase::Impl::send_full(Thread& thread, int destination) noexcept {
  const Code code = send_block(thread, destination);
  return code == Code::no_memory ? Code::ok : code;
}

Code ExchangeBase::Impl::put_block(Thread& thread, Out& out, const std::byte* data,
                                   std::size_t bytes) noexcept {
  const std::uint64_t now = immediate();
  const auto attempt = [&] {
    std::byte* to = out.lane.reserve(bytes);
    if (to == nullptr) return Code::again;
    // A block that was filled in place is there, unless the ring has gone back to its start since.
    if (data + bytes > to && to + bytes > data) {
      if (to != data) std::memmove(to, data, bytes);
    } else {
      fill_entry(to, data, bytes, kInlineBytes);
    }
    out.lane.publish(kBlock, bytes, now);
    return Code::ok;
  };
  if (attempt() != Code::ok) [[unlikely]]
    if (const Code code = until_room(thread, out, attempt); code != Code::ok) return code;
  count_sent(thread, out);
  return Code::ok;
}

// Counts a block that was sent. A thread that only sends into a ring with room polls nothing else,
// so it checks for lost peers here: after the block, for which the receiver may wait.
void ExchangeBase::Impl::count_sent(Thread& thread, const Out& out) noexcept {
  auto& sent = thread.sent[static_cast<std::size_t>(out.peer)];
  sent.store(sent.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  // In a stream of blocks only every fourth reads the clock.
  if (thread.num_unclocked > 0) {
    --thread.num_unclocked;
    return;
  }
  constexpr std::uint64_t kPeriodNs = 20'000'000;
  const std::uint64_t now = coarse_now_ns();
  if (now - thread.checked_ns < kPeriodNs) [[likely]] {
    thread.num_unclocked = 3;
    return;
  }
  thread.checked_ns = now;
  engine.check_for_lost();
}

Code ExchangeBase::Impl::send_run(Thread& thread, int destination,
                                  std::span<const std::byte>& remaining) noexcept {
  Out& out = thread.outs[static_cast<std::size_t>(destination)];
  detail::SendBlock& block = thread.blocks[static_cast<std::size_t>(destination)];
  while (!remaining.empty()) {
    if (block.cursor == block.begin && remaining.size() >= block_bytes &&
        block_bytes < settings.rendezvous_bytes) {
      Code code = connect(thread, out);
      if (code == Code::ok) code = put_block(thread, out, remaining.data(), block_bytes);
      if (code != Code::ok) return code;
      remaining = remaining.subspan(block_bytes);
      continue;
    }
    if (block.cursor == block.end) {
      if (const Code code = open_block(thread, destination); code != Code::ok) return code;
    }
    const std::size_t fits =
        std::min(remaining.size(), static_cast<std::size_t>(block.end - block.cursor));
    std::memcpy(block.cursor, remaining.data(), fits);
    block.cursor += fits;
    remaining = remaining.subspan(fits);
    if (block.cursor == block.end) {
      if (const Code code = send_full(thread, destination); code != Code::ok) return code;
    }
  }
  return Code::ok;
}

Code ExchangeBase::Impl::send_rts(Thread& thread, Out& out, const StagingPool::Buffer& buffer,
                                  std::size_t bytes) {
  const MemoryName name = key_of(buffer.memory).memory(buffer.memory, job.route(out.peer).key);
  const Rts rts{name.address, bytes, name.region, name.extra};
  const Code code = until_room(thread, out, [&] {
    return out.lane.send(kRts, immediate(), &rts, sizeof rts) ? Code::ok : Code::again;
  });
  if (code != Code::ok) return code;
  thread.staging.pin(buffer, out.peer);
  count_sent(thread, out);
  return Code::ok;
}

Code ExchangeBase::Impl::send_large(Thread& thread, int destination,
                                    std::span<const std::byte> message) noexcept {
  if (message.size() > Exchange<Bytes>::kMaxBytes) return Code::bad_argument;
  Out& out = thread.outs[static_cast<std::size_t>(destination)];
  detail::SendBlock& block = thread.blocks[static_cast<std::size_t>(destination)];
  if (Code code = send_block(thread, destination); code != Code::ok) return code;
  const auto length = static_cast<std::uint32_t>(message.size());
  const std::size_t bytes = (sizeof length + message.size() + 3) & ~std::size_t{3};
  const auto put = [&](std::byte* to) {
    // The padding is written first, as it overlaps the length of an empty message.
    std::memset(to + bytes - sizeof length, 0, sizeof length);
    if (length > 0) weft::detail::copy(to + sizeof length, message.data(), length);
    std::memcpy(to, &length, sizeof length);
  };
  if (bytes <= block_bytes) {
    if (block.begin == nullptr) {
      if (const Code code = open_block(thread, destination); code != Code::ok) return code;
    }
    put(block.cursor);
    block.cursor += bytes;
    return block.cursor == block.end ? send_full(thread, destination) : Code::ok;
  }
  if (const Code code = connect(thread, out); code != Code::ok) return code;
  if (bytes >= settings.rendezvous_bytes) {
    StagingPool::Buffer buffer;
    Code code = take_staging(thread, out, bytes, buffer);
    if (code != Code::ok) return code;
    put(buffer.data());
    code = send_rts(thread, out, buffer, bytes);
    if (code != Code::ok) thread.staging.give_back(buffer);
    return code;
  }
  std::byte* to = nullptr;
  const Code code = until_room(thread, out, [&] {
    to = out.lane.reserve(bytes);
    return to != nullptr ? Code::ok : Code::again;
  });
  if (code != Code::ok) return code;
  put(to);
  out.lane.publish(kBlock, bytes, immediate());
  count_sent(thread, out);
  return Code::ok;
}

Code ExchangeBase::Impl::flush(Thread& thread) noexcept {
  Code first = Code::ok;
  bool has_unsent = false;
  for (int d = 0; d < static_cast<int>(thread.blocks.size()); ++d) {
    const detail::SendBlock& block = thread.blocks[static_cast<std::size_t>(d)];
    if (block.cursor == block.begin) continue;
    const Code code = send_block(thread, d);
    has_unsent = has_unsent || code == Code::no_memory;
    if (first == Code::ok) first = code;
  }
  // relaxed: the meeting of the threads in quiesce() orders it.
  thread.has_unsent.store(has_unsent, std::memory_order_relaxed);
  return first;
}

// Takes the thread's blocks out of the rings, so that its senders can continue while it waits for
// room itself. They are received later, in order.
void ExchangeBase::Impl::set_aside(Thread& thread) noexcept {
  accept(thread);
  detail::ReceiveBlock& block = receiving[static_cast<std::size_t>(thread.number)];
  if (thread.from == Thread::From::ring) {
    if (block.held) return;  // the program uses it, so all behind it has to wait
    // The unread part of it; there are no others aside.
    if (or_no_memory([&] {
          thread.aside.push_front({thread.in, kBlock, {block.cursor, block.end}});
        }) != Code::ok)
      return;  // the blocks stay in the rings
    block.cursor = thread.aside.front().data.data();
    block.end = block.cursor + thread.aside.front().data.size();
    thread.from = Thread::From::aside;
    thread.in->lane.ring.pop(thread.entry_length);
    thread.in->lane.return_credit(false);
  }
  take_arrivals(thread);
  for (std::size_t i = thread.live.size(); i-- > 0;) {
    In* in = thread.live[i];
    Entry entry;
    while (peek_block(thread, *in, entry)) {
      if (or_no_memory([&] {
            thread.aside.push_back({in, entry.kind, {entry.data, entry.data + entry.length}});
          }) != Code::ok)
        return;
      in->lane.ring.pop(entry.length);
      in->lane.return_credit(false);
    }
    leave_if_idle(thread, i);
  }
}

Code ExchangeBase::open_block(int thread, int destination) noexcept {
  return impl_->open_block(*impl_->threads[static_cast<std::size_t>(thread)], destination);
}
Code ExchangeBase::send_block(int thread, int destination) noexcept {
  const trace::Span span("send a block");
  return impl_->send_full(*impl_->threads[static_cast<std::size_t>(thread)], destination);
}
Code ExchangeBase::send_large(int thread, int destination,
                              std::span<const std::byte> message) noexcept {
  const trace::Span span("send a long message");
  return impl_->send_large(*impl_->threads[static_cast<std::size_t>(thread)], destination, message);
}
Code ExchangeBase::send_run(int thread, int destination, std::span<const std::byte> messages,
                            std::size_t message_bytes, std::size_t* num_taken) noexcept {
  std::span<const std::byte> remaining = messages;
  const Code code = static_cast<unsigned>(destination) < static_cast<unsigned>(num_destinations_)
                        ? impl_->send_run(*impl_->threads[static_cast<std::size_t>(thread)],
                                          destination, remaining)
                        : Code::bad_argument;
  if (num_taken != nullptr) *num_taken = (messages.size() - remaining.size()) / message_bytes;
  return code;
}
Code ExchangeBase::flushSend(int thread) noexcept {
  const trace::Span span("flushSend");
  if (!has_thread(thread)) return Code::bad_argument;
  return impl_->flush(*impl_->threads[static_cast<std::size_t>(thread)]);
}

}  // namespace weft::transport
