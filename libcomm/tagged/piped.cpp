// Announced messages through a pipe (fabric/shm/pipe.hpp), while such go in both directions at
// once. As in any shared copy each side claims pieces: the sender's go through the pipe; the
// receiver, who has all the copying to do then, claims some only when the sender, busy elsewhere,
// lends nothing. A pipe has room for kNumPiped pieces, and serves one message after the other, in
// the order in which the receiver asked for them.
#include <algorithm>

#include "base/wait.hpp"
#include "tagged/impl.hpp"

namespace weft::tagged {
namespace {

// How long the receiver waits for the sender.
constexpr std::uint64_t kPatienceNs = 20'000;

// Of so many messages that have it too far one is tried.
constexpr std::uint32_t kTriedFar = 32;

constexpr std::uint64_t kBytesBits = 24;
static_assert(kPipedBytes < 1u << kBytesBits);

}  // namespace

// While messages go both ways the sender has enough to do with its own; through a pipe less is to
// be done in all. Not between cores that are far from each other, nor where the messages are larger
// than the caches; but now and then, to find out whether they still are far.
bool Engine::Impl::wants_pipe(Peer& peer, std::uint64_t length) noexcept {
  if (length < pipe_min || length > pipe_max || peer.pipe.refused || crowded) return false;
  if (!peer.out.is_far()) return true;
  return peer.out.ring.measures_distance() && ++peer.pipe.num_far % kTriedFar == 0;
}

// Whether the sender could lend a piece now.
bool Engine::Impl::can_lend(const Transfer& transfer) const noexcept {
  const Pipe& pipe = peers[static_cast<std::size_t>(transfer.peer)].pipe;
  return transfer.claims && transfer.turn == pipe.lending && pipe.num_lent < kNumPiped;
}

void Engine::Impl::lend(Transfer& transfer) {
  Peer& peer = this->peer(transfer.peer);
  SharedCopy& record = *transfer.record;
  // acquire: the pages are ours again; pairs with the release in take().
  const std::uint32_t taken = record.taken.load(std::memory_order_acquire);
  peer.pipe.num_lent -= taken - transfer.taken;
  transfer.taken = taken;
  if (!can_lend(transfer)) return;
  const std::uint64_t offset = record.claimed.fetch_add(kPipedBytes, std::memory_order_relaxed);
  std::uint64_t left = 0;
  if (offset < transfer.length) {
    const std::uint64_t bytes = std::min<std::uint64_t>(kPipedBytes, transfer.length - offset);
    const auto* here = static_cast<const std::byte*>(transfer.request->buffer) + offset;
    const std::uint64_t lent = local->lend(transfer.peer, transfer.pipe, here, bytes);
    if (lent != 0) {
      ++peer.pipe.num_lent;
      record.piped_at[transfer.lent % kNumPiped].store(offset << kBytesBits | lent,
                                                       std::memory_order_relaxed);
      // release: where it is; pairs with the acquire in take().
      record.piped.store(++transfer.lent, std::memory_order_release);
    }
    left = bytes - lent;
    if (left != 0) give_back(record, offset + lent, left);
    ring_doorbell(*peer.out.sleeping);
  }
  if (offset + kPipedBytes < transfer.length && left == 0) return;
  transfer.claims = false;
  ++peer.pipe.lending;
}

// False: it is not this message's turn, or the sender has lent nothing.
bool Engine::Impl::take(Transfer& transfer) {
  Peer& peer = this->peer(transfer.peer);
  SharedCopy& record = *transfer.record;
  if (transfer.turn != peer.pipe.taking) return false;
  const std::uint64_t start = now_ns();
  // acquire: where it is; pairs with the release in lend().
  if (record.piped.load(std::memory_order_acquire) == transfer.taken) return false;
  peer.out.ring.note_line(now_ns() - start);
  const std::uint64_t piece =
      record.piped_at[transfer.taken % kNumPiped].load(std::memory_order_relaxed);
  const std::uint64_t offset = piece >> kBytesBits, bytes = piece & ((1u << kBytesBits) - 1);
  if (bytes == 0 || offset > transfer.length || bytes > transfer.length - offset) {
    count_copied(transfer, Code::corrupt, 0);
    return true;
  }
  const Code code =
      local->take(transfer.peer, static_cast<std::byte*>(transfer.request->buffer) + offset, bytes);
  // release: the pages are the sender's again.
  record.taken.store(++transfer.taken, std::memory_order_release);
  count_copied(transfer, code, bytes);
  ring_doorbell(*peer.out.sleeping);
  transfer.waits_since_ns = 0;
  return true;
}

bool Engine::Impl::waits_for_sender(Transfer& transfer) noexcept {
  if (transfer.turn != peer(transfer.peer).pipe.taking) return true;
  const std::uint64_t now = now_ns();
  if (transfer.waits_since_ns == 0) transfer.waits_since_ns = now;
  return now - transfer.waits_since_ns < kPatienceNs;
}

// The sender's end of a message: all that it lent is its own again.
void Engine::Impl::end_lending(Transfer& transfer) noexcept {
  Pipe& pipe = peer(transfer.peer).pipe;
  pipe.num_lent -= transfer.lent - transfer.taken;
  if (transfer.claims) ++pipe.lending;
}

}  // namespace weft::tagged
