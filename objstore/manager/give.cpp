// The holder's side of a transfer: objects are sent, or offered for reading until the end of a
// lease.
#include <algorithm>
#include <new>

#include "give.hpp"
#include "objstore/shared/checksum.hpp"
#include "objstore/shared/clock.hpp"

namespace weft::objstore {
namespace {

constexpr std::uint64_t kRestoreNs = 20'000'000'000;

}  // namespace

void Serving::give(std::uint64_t to, const PeerMessage& ask) {
  PeerMessage answer;
  answer.id = ask.id;
  answer.number = ask.number;
  answer.kind = PeerKind::absent;
  std::uint32_t entry = kNoEntry;
  std::uint64_t bytes = 0;
  std::byte* from = nullptr;
  const std::byte* segment = nullptr;
  bool is_spilled = false;
  {
    const auto lock = core_.server.lock();
    Objects& objects = core_.server.objects();
    entry = objects.find_sealed(ask.id);
    if (entry != kNoEntry) {
      objects.hold(entry);
      const Entry& object = objects.index().entry(entry);
      answer.data_bytes = object.data_bytes;
      answer.metadata_bytes = object.metadata_bytes;
      answer.stamp = objects.stamp_of(entry);
      answer.checksum = objects.checksum_of(entry);
      segment = objects.segment().data();
      bytes = objects.bytes_of(entry);
      from = objects.place(entry);
    } else if (objects.is_spilled(ask.id)) {
      is_spilled = true;
      core_.server.restore(ask.id);
      core_.server.wake();
    }
  }
  if (is_spilled) {
    restores_.emplace(ask.id, Restore{to, monotonic_ns() + kRestoreNs, ask});
    return;
  }
  if (entry == kNoEntry) return members_.send(to, answer);
  const auto drop = [&] {
    const auto lock = core_.server.lock();
    core_.server.objects().drop(entry);
  };
  if (ask.wants_checksum && answer.checksum == 0) {
    answer.checksum = checksum_of(from, answer.data_bytes, answer.metadata_bytes);
    const auto lock = core_.server.lock();
    core_.server.objects().set_checksum(entry, answer.checksum);
  }
  if (bytes < std::min(ask.threshold, kMaxSentBytes) && send_contents(to, answer, {from, bytes})) {
    drop();
  } else if (memory_.offer_parts(to, entry, segment, from, bytes, answer.parts)) {
    answer.kind = PeerKind::offer;
    answer.lease_ms = core_.settings.lease_ms;
    memory_.count_lease(entry, 1);
    // The holder keeps it a little longer than the offer promises.
    leases_.push_back({to, ask.number, entry,
                       monotonic_ns() + core_.settings.lease_ms * std::uint64_t{1'100'000}});
    members_.send(to, answer);
  } else {
    drop();
    return members_.send(to, answer);
  }
  const std::lock_guard lock(core_.mutex);
  ++core_.counters.given;
  core_.counters.given_bytes += bytes;
}

// False: there is no memory for a copy of so many bytes.
bool Serving::send_contents(std::uint64_t to, PeerMessage answer,
                            std::span<const std::byte> contents) {
  answer.kind = PeerKind::data;
  answer.contents = contents;
  try {
    members_.send(to, answer);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void Serving::received_fin(std::uint64_t from, std::uint64_t number) {
  for (Lease& lease : leases_)
    if (lease.peer == from && lease.number == number) lease.ends_ns = 1;
  std::erase_if(restores_, [&](const auto& waiting) {
    return waiting.second.to == from && waiting.second.ask.number == number;
  });
}

void Serving::forget_restores(std::uint64_t generation) {
  std::erase_if(restores_, [&](const auto& waiting) { return waiting.second.to == generation; });
}

void Serving::drop_all() {
  for (const Lease& lease : leases_) core_.server.objects().drop(lease.entry);
  memory_.drop_all();
}

// Answers the asks that waited for it: the object is in memory again, or gone.
void Serving::give_restored(const ObjectId& id) {
  if (restores_.empty()) return;
  const auto [begin, end] = restores_.equal_range(id);
  std::vector<Restore> asks;
  for (auto it = begin; it != end; ++it) asks.push_back(std::move(it->second));
  restores_.erase(begin, end);
  for (const Restore& ask : asks) give(ask.to, ask.ask);
}

// Restores that found no room in time are requested again, as long as the other host wants the
// object.
void Serving::repeat_restores(std::uint64_t now_ns) {
  std::vector<Restore> due;
  std::erase_if(restores_, [&](auto& waiting) {
    if (waiting.second.until_ns > now_ns) return false;
    due.push_back(std::move(waiting.second));
    return true;
  });
  for (const Restore& restore : due) give(restore.to, restore.ask);
}

// Ends expired leases, and the leases of a peer that is lost.
void Serving::end_leases(std::uint64_t now_ns, std::uint64_t of_peer) {
  if (leases_.empty()) return;
  std::erase_if(leases_, [&](const Lease& lease) {
    if (lease.ends_ns > now_ns && lease.peer != of_peer) return false;
    if (lease.ends_ns != 1 && lease.peer != of_peer) {
      const std::lock_guard lock(core_.mutex);
      ++core_.counters.leases_ended;
    }
    memory_.count_lease(lease.entry, -1);
    const auto lock = core_.server.lock();
    core_.server.objects().drop(lease.entry);
    return true;
  });
}

}  // namespace weft::objstore
