// The holder's side of a transfer: objects are sent, or offered for reading until the end of a
// lease.
#include <algorithm>
#include <new>

#include "manager.hpp"
#include "objstore/shared/checksum.hpp"
#include "objstore/shared/clock.hpp"

namespace weft::objstore {
namespace {

constexpr std::uint64_t kRestoreNs = 20'000'000'000;

}  // namespace

void Manager::give(std::uint64_t to, const PeerMessage& ask) {
  PeerMessage answer;
  answer.id = ask.id;
  answer.number = ask.number;
  answer.kind = PeerKind::absent;
  std::uint32_t entry = kNoEntry;
  std::uint64_t bytes = 0;
  std::byte* from = nullptr;
  bool is_spilled = false;
  {
    const auto lock = server_.lock();
    Objects& objects = server_.objects();
    entry = objects.find_sealed(ask.id);
    if (entry != kNoEntry) {
      objects.hold(entry);
      const Entry& object = objects.index().entry(entry);
      answer.data_bytes = object.data_bytes;
      answer.metadata_bytes = object.metadata_bytes;
      answer.stamp = objects.stamp_of(entry);
      answer.checksum = objects.checksum_of(entry);
      segment_ = objects.segment().data();
      bytes = objects.bytes_of(entry);
      from = objects.place(entry);
    } else if (objects.is_spilled(ask.id)) {
      is_spilled = true;
      server_.restore(ask.id);
      server_.wake();
    }
  }
  if (is_spilled) {
    restores_.emplace(ask.id, Restore{to, monotonic_ns() + kRestoreNs, ask});
    return;
  }
  if (entry == kNoEntry) return send(to, answer);
  const auto drop = [&] {
    const auto lock = server_.lock();
    server_.objects().drop(entry);
  };
  if (ask.wants_checksum && answer.checksum == 0) {
    answer.checksum = checksum_of(from, answer.data_bytes, answer.metadata_bytes);
    const auto lock = server_.lock();
    server_.objects().set_checksum(entry, answer.checksum);
  }
  if (bytes < std::min(ask.threshold, kMaxSentBytes) && send_contents(to, answer, {from, bytes})) {
    drop();
  } else if (offer_parts(to, entry, from, bytes, answer.parts)) {
    answer.kind = PeerKind::offer;
    answer.lease_ms = settings_.lease_ms;
    count_lease(entry, 1);
    // The holder keeps it a little longer than the offer promises.
    leases_.push_back(
        {to, ask.number, entry, monotonic_ns() + settings_.lease_ms * std::uint64_t{1'100'000}});
    send(to, answer);
  } else {
    drop();
    return send(to, answer);
  }
  const std::lock_guard lock(inbox_mutex_);
  ++counters_.given;
  counters_.given_bytes += bytes;
}

// False: there is no memory for a copy of so many bytes.
bool Manager::send_contents(std::uint64_t to, PeerMessage answer,
                            std::span<const std::byte> contents) {
  answer.kind = PeerKind::data;
  answer.contents = contents;
  try {
    send(to, answer);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

// Answers the asks that waited for it: the object is in memory again, or gone.
void Manager::give_restored(const ObjectId& id) {
  if (restores_.empty()) return;
  const auto [begin, end] = restores_.equal_range(id);
  std::vector<Restore> asks;
  for (auto it = begin; it != end; ++it) asks.push_back(std::move(it->second));
  restores_.erase(begin, end);
  for (const Restore& ask : asks) give(ask.to, ask.ask);
}

// Restores that found no room in time are requested again, as long as the other host wants the
// object.
void Manager::repeat_restores(std::uint64_t now_ns) {
  std::vector<Restore> due;
  std::erase_if(restores_, [&](auto& waiting) {
    if (waiting.second.until_ns > now_ns) return false;
    due.push_back(std::move(waiting.second));
    return true;
  });
  for (const Restore& restore : due) give(restore.to, restore.ask);
}

// Ends expired leases, and the leases of a peer that is lost.
void Manager::end_leases(std::uint64_t now_ns, std::uint64_t of_peer) {
  if (leases_.empty()) return;
  std::erase_if(leases_, [&](const Lease& lease) {
    if (lease.ends_ns > now_ns && lease.peer != of_peer) return false;
    if (lease.ends_ns != 1 && lease.peer != of_peer) {
      const std::lock_guard lock(inbox_mutex_);
      ++counters_.leases_ended;
    }
    count_lease(lease.entry, -1);
    const auto lock = server_.lock();
    server_.objects().drop(lease.entry);
    return true;
  });
}

}  // namespace weft::objstore
