// A fetch from its first offer on: room for the object, reads of pieces from the holders, and the
// end.
#include <algorithm>

#include "directory_duties.hpp"
#include "fetch.hpp"
#include "objstore/shared/checksum.hpp"
#include "objstore/shared/clock.hpp"
#include "sockets.hpp"

namespace weft::objstore {
namespace {

constexpr std::uint64_t kRetryNs = 20'000'000;
constexpr std::uint64_t kMostPiece = 256 << 20;  // so that a lease need not last for all of it
constexpr std::uint64_t kLeastPiece = 2 << 20;
constexpr int kMostWrong = 4;  // wrong checksums of an object; then it counts as corrupt everywhere
constexpr std::uint64_t kMostRead = 1 << 30;  // the limit of one get

}  // namespace

// --- Room for the object ---

// False: there is no room yet, and it is tried again later; or the fetch has ended, and is gone.
bool Fetches::make_place(Fetch& fetch, const ObjectSizes& sizes) {
  const std::uint64_t total = sizes.data_bytes + sizes.metadata_bytes;
  if (total > kLongBytes && !fetch.is_long) fetch.is_long.emplace(num_long_);
  if (fetch.into != nullptr) {
    const IntoTarget& into = *fetch.into;
    fetch.to = into.to;
    fetch.begin = std::min(into.offset, sizes.data_bytes);
    fetch.bytes = std::min(into.bytes, sizes.data_bytes - fetch.begin);
  } else {
    auto lock = core_.server.lock();
    std::uint32_t entry = kNoEntry;
    const Outcome outcome =
        core_.server.create_in_place(fetch.id, sizes.data_bytes, sizes.metadata_bytes, entry);
    const std::uint64_t now_ns = monotonic_ns();
    core_.server.set_lacks_room(fetch.id, outcome.code == Code::again);
    if (outcome.code == Code::again && (fetch.is_wanted || now_ns <= fetch.keep_until_ns)) {
      retry_at(fetch, now_ns + kRetryNs);
      return false;
    }
    // A local client that creates the object may still abort it.
    if (outcome.code == Code::exists && fetch.is_wanted &&
        !core_.server.objects().is_here(fetch.id)) {
      retry_at(fetch, now_ns + kRetryNs);
      return false;
    }
    if (!outcome.ok()) {
      if (outcome.code != Code::exists && outcome.code != Code::again)
        core_.server.fail_waits(fetch.id, outcome.code, outcome.reason);
      lock.unlock();
      forget(fetch);
      return false;
    }
    fetch.entry = entry;
    fetch.to = core_.server.objects().place(entry);
    fetch.begin = 0;
    fetch.bytes = total;
  }
  fetch.has_place = true;
  fetch.sizes = sizes;
  fetch.missing.clear();
  if (fetch.bytes != 0) fetch.missing.push_back({fetch.begin, fetch.bytes});
  return true;
}

void Fetches::lose_place(Fetch& fetch) {
  fetch.has_place = false;
  fetch.givers.clear();
  fetch.missing.clear();
  if (fetch.entry == kNoEntry) return;
  const auto lock = core_.server.lock();
  core_.server.objects().abort(fetch.entry);
  fetch.entry = kNoEntry;
}

// --- What comes next ---

bool Fetches::is_reading(const Fetch& fetch) {
  return std::any_of(fetch.asks.begin(), fetch.asks.end(),
                     [](const auto& ask) { return ask->is_reading; });
}

// Takes all steps that are possible now. The fetch may be gone afterwards.
void Fetches::advance(Fetch& fetch) {
  const bool reads = is_reading(fetch);
  if (!fetch.is_wanted && fetch.replica_requests.empty()) {
    if (!reads) forget(fetch);
    return;
  }
  if (fetch.has_place && fetch.missing.empty()) {
    if (!reads) finish(fetch);
    return;
  }
  for (std::size_t i = fetch.asks.size(); i-- > 0;) {
    const Ask& ask = *fetch.asks[i];
    if (ask.has_offered && !ask.is_reading && !is_in_time(ask)) end_ask(fetch, ask, !ask.has_given);
  }
  const auto offered = std::find_if(fetch.asks.begin(), fetch.asks.end(),
                                    [](const auto& ask) { return ask->has_offered; });
  if (!fetch.has_place && offered != fetch.asks.end() && !make_place(fetch, (*offered)->sizes))
    return;
  if (fetch.has_place) {
    if (fetch.missing.empty() && !reads) return finish(fetch);
    for (std::size_t i = fetch.asks.size(); i-- > 0;) {
      Ask& ask = *fetch.asks[i];
      if (!ask.has_offered || ask.is_reading || fetch.missing.empty()) continue;
      if (ask.sizes != fetch.sizes || !read_piece(fetch, ask)) end_ask(fetch, ask, true);
    }
  }
  if (!ask_more(fetch)) forget(fetch);
}

// The size of a holder's next piece: half of its share, so that a slow one does not keep the others
// waiting at the end.
std::uint64_t Fetches::piece_bytes(const Fetch& fetch) const {
  if (fetch.bytes < kManyBytes) return fetch.bytes;
  std::size_t num_holders = 0;
  for (const std::uint64_t holder : fetch.holders)
    num_holders += members_.has_link(holder) && !fetch.failed.contains(holder);
  num_holders = std::min(num_holders, kMostHolders);
  if (num_holders < 2) return kMostPiece;
  std::uint64_t missing = 0;
  for (const Range& range : fetch.missing) missing += range.bytes;
  return std::clamp(missing / (2 * num_holders), kLeastPiece, kMostPiece);
}

// False: the holder is gone.
bool Fetches::read_piece(Fetch& fetch, Ask& ask) {
  const Peer* peer = members_.link(ask.holder);
  if (peer == nullptr) return false;
  Range& next = fetch.missing.front();
  ask.piece = {next.begin, std::min(next.bytes, piece_bytes(fetch))};
  next.begin += ask.piece.bytes;
  next.bytes -= ask.piece.bytes;
  if (next.bytes == 0) fetch.missing.pop_front();
  std::vector<Transfer> transfers;
  ask.memories.clear();
  ask.memories.reserve(ask.parts.size());
  const std::uint64_t end = ask.piece.begin + ask.piece.bytes;
  std::uint64_t part_begin = 0;
  for (const OfferPart& part : ask.parts) {
    const std::uint64_t part_end = part_begin + part.bytes;
    std::uint64_t at = std::max(part_begin, ask.piece.begin);
    if (at < std::min(part_end, end)) ask.memories.push_back(core_.node->memory(*peer, part.key));
    while (at < std::min(part_end, end)) {
      const std::uint64_t length = std::min(kMostRead, std::min(part_end, end) - at);
      transfers.push_back({&ask.memories.back(), part.offset + (at - part_begin),
                           fetch.to + (at - fetch.begin), length});
      at += length;
    }
    part_begin = part_end;
  }
  ask.is_reading = true;
  reading_.insert(&fetch);
  core_.node->get_all(transfers, ask.read);
  return true;
}

void Fetches::end_reads() {
  std::vector<std::pair<Fetch*, Ask*>> ended;
  for (Fetch* fetch : reading_)
    for (const auto& ask : fetch->asks)
      if (ask->is_reading && ask->read.is_done()) ended.emplace_back(fetch, ask.get());
  std::set<Fetch*> changed;
  for (const auto& [fetch, ask] : ended) {
    ask->is_reading = false;
    ask->memories.clear();
    changed.insert(fetch);
    if (ask->read.code() == Code::ok && is_in_time(*ask)) {
      ask->has_given = true;
      fetch->givers.insert(ask->holder);
      continue;
    }
    fetch->missing.push_front(ask->piece);
    // An expired lease is no failure of a holder that has given until then.
    end_ask(*fetch, *ask, ask->read.code() != Code::ok || !ask->has_given);
  }
  for (Fetch* fetch : changed) {
    if (!is_reading(*fetch)) reading_.erase(fetch);
    advance(*fetch);
  }
}

// --- The end ---

// Compares the checksum of the received bytes. A range that is not all of the data has none. False:
// it is fetched anew, from others if there are any, or the fetch has ended and is gone.
bool Fetches::is_right(Fetch& fetch) {
  if (fetch.sizes.checksum == 0) return true;
  const bool is_whole = fetch.begin == 0 && fetch.bytes >= fetch.sizes.data_bytes;
  if (fetch.into != nullptr && !is_whole) return true;
  const std::uint64_t got = checksum_of(fetch.to, fetch.sizes.data_bytes,
                                        fetch.into != nullptr ? 0 : fetch.sizes.metadata_bytes);
  const std::uint64_t mask = fetch.into != nullptr ? UINT32_MAX : UINT64_MAX;
  if ((got & mask) == (fetch.sizes.checksum & mask)) return true;
  {
    const std::lock_guard lock(core_.mutex);
    ++core_.counters.wrong;
  }
  if (fetch.givers.size() == 1) fetch.failed.insert(*fetch.givers.begin());
  end_asks(fetch);
  lose_place(fetch);
  if (++fetch.num_wrong < kMostWrong) {
    advance(fetch);
    return false;
  }
  fetch.outcome = {Code::corrupt, Reason::wrong_checksum};
  if (fetch.into == nullptr) {
    const auto lock = core_.server.lock();
    core_.server.fail_waits(fetch.id, Code::corrupt, Reason::wrong_checksum);
  }
  forget(fetch);
  return false;
}

void Fetches::finish(Fetch& fetch) {
  if (!is_right(fetch)) return;
  // Asks that were answered by data are ended.
  const bool is_one_sided = !fetch.asks.empty();
  {
    const auto lock = core_.server.lock();
    {
      // Counted before it is visible.
      const std::lock_guard counters(core_.mutex);
      ++core_.counters.fetched;
      core_.counters.fetched_bytes += fetch.bytes;
      core_.counters.fetched_one_sided += is_one_sided;
      core_.counters.fetched_of_several += fetch.givers.size() > 1;
    }
    if (fetch.into != nullptr) {
      core_.server.into_ended(std::exchange(fetch.into_number, 0), {}, fetch.sizes.data_bytes);
    } else {
      directory_.note_copy(fetch.id);
      core_.server.objects().seal(fetch.entry, 0, false, fetch.sizes.stamp);
      core_.server.objects().set_checksum(fetch.entry, fetch.sizes.checksum);
      fetch.entry = kNoEntry;
    }
  }
  forget(fetch);
}

// Ends a fetch, complete or not; no read of it is under way.
void Fetches::forget(Fetch& fetch) {
  end_asks(fetch);
  lose_place(fetch);
  const ObjectId id = fetch.id;
  if (fetch.into != nullptr && fetch.into_number != 0) {
    const auto lock = core_.server.lock();
    core_.server.into_ended(fetch.into_number, fetch.outcome, 0);
  }
  if (!fetch.replica_requests.empty()) answer_replica_requests(fetch);
  const auto [begin, end] = fetches_.equal_range(id);
  const bool was_watched = fetch.is_watched;
  fetches_.erase(
      std::find_if(begin, end, [&](const auto& one) { return one.second.get() == &fetch; }));
  const std::vector<Fetch*> others = fetches_of(id);
  if (was_watched && std::none_of(others.begin(), others.end(),
                                  [](const Fetch* other) { return other->is_watched; }))
    directory_.directory().unwatch(id);
}

void Fetches::abort_all() {
  for (auto& [id, fetch] : fetches_)
    if (fetch->entry != kNoEntry) core_.server.objects().abort(fetch->entry);
}

}  // namespace weft::objstore
