// The requester's side of a transfer. A fetch asks holders, makes room for the object once the size
// is known, reads into it what each of them offers, and ends: sealed, so that nobody sees half of
// an object, or in a client's memory. A range whose read from one holder fails is read from
// another: the stamp shows that both have the same object, not two objects of the same id.
#include <algorithm>
#include <cstring>

#include "manager.hpp"
#include "objstore/shared/checksum.hpp"
#include "objstore/shared/clock.hpp"

namespace weft::objstore {
namespace {

constexpr std::uint64_t kRetryNs = 20'000'000;
constexpr std::uint64_t kAskAgainNs = 500'000'000;  // when all holders failed
constexpr std::uint64_t kMostPiece = 256 << 20;     // so that a lease need not last for all of it
// An object of so many bytes is asked of several holders, each of which gives pieces as fast as it
// can.
constexpr std::uint64_t kManyBytes = 8 << 20, kLeastPiece = 2 << 20;
constexpr std::size_t kMostHolders = 4;
constexpr int kMostWrong = 4;  // wrong checksums of an object; then it counts as corrupt everywhere
constexpr std::uint64_t kMostRead = 1 << 30;  // the limit of one get

}  // namespace

Manager::Fetch* Manager::fetch_of(const ObjectId& id) {
  const auto [begin, end] = fetches_.equal_range(id);
  for (auto it = begin; it != end; ++it)
    if (it->second->into == nullptr) return it->second.get();
  return nullptr;
}

std::vector<Manager::Fetch*> Manager::fetches_of(const ObjectId& id) {
  std::vector<Fetch*> fetches;
  const auto [begin, end] = fetches_.equal_range(id);
  for (auto it = begin; it != end; ++it) fetches.push_back(it->second.get());
  return fetches;
}

// An object is fetched once for all local waits: the store requests it once.
void Manager::start(const ObjectId& id) {
  if (Fetch* fetch = fetch_of(id)) {
    fetch->is_wanted = true;
    if (!fetch->is_watched) watch(*fetch);
    return;
  }
  {
    const auto lock = server_.lock();
    // It arrived meanwhile, or nobody wants it any longer.
    if (server_.objects().is_here(id) || !server_.is_wanted(id)) return;
  }
  auto fetch = std::make_unique<Fetch>();
  fetch->id = id;
  watch(*fetches_.emplace(id, std::move(fetch))->second);
}

void Manager::start_into(std::uint64_t number, IntoTarget target) {
  auto fetch = std::make_unique<Fetch>();
  fetch->id = target.id;
  fetch->into = std::make_unique<IntoTarget>(std::move(target));
  fetch->into_number = number;
  const ObjectId id = fetch->id;
  watch(*fetches_.emplace(id, std::move(fetch))->second);
}

// Ends the interest of this host: nobody wants the object any longer, or it does not exist.
void Manager::leave(Fetch& fetch, Outcome outcome) {
  fetch.is_wanted = false;
  fetch.outcome = outcome;
  advance(fetch);
}

// --- Holders ---

// The id's answerer may hold the object, too, and is asked for it at once.
void Manager::watch(Fetch& fetch) {
  fetch.is_watched = true;
  const std::uint64_t answerer = sockets_ == nullptr ? directory_->answerer(fetch.id) : 0;
  PeerMessage ask;
  if (fetch.asks.empty() && peers_.contains(answerer)) ask = new_ask(fetch, answerer);
  directory_->watch(fetch.id, ask);
}

// Registers an ask and returns its message, to be sent to the holder.
PeerMessage Manager::new_ask(Fetch& fetch, std::uint64_t holder) {
  auto ask = std::make_unique<Ask>();
  ask->number = next_number_++;
  ask->holder = holder;
  ask->asked_ns = monotonic_ns();
  asks_.emplace(ask->number, &fetch);
  PeerMessage message;
  message.kind = PeerKind::ask;
  message.id = fetch.id;
  message.number = ask->number;
  const auto own = settings_.thresholds.find(std::string(peers_.at(holder).fabric()));
  message.threshold = own != settings_.thresholds.end() ? own->second : settings_.threshold_bytes;
  message.wants_checksum = settings_.verifies;
  fetch.asks.push_back(std::move(ask));
  return message;
}

// The id's answerer has sent the holders instead of the object.
void Manager::not_given(std::uint64_t from, std::uint64_t number) {
  const auto found = asks_.find(number);
  if (found == asks_.end()) return;
  Fetch& fetch = *found->second;
  const auto ask = std::find_if(fetch.asks.begin(), fetch.asks.end(),
                                [&](const auto& one) { return one->number == number; });
  if ((*ask)->holder != from || (*ask)->has_offered) return;
  (*ask)->owes_fin = false;
  end_ask(fetch, **ask, false);
}

// Asks holders that have not failed until enough are asked; if all failed, all again after a while.
// False: there is no holder to ask, and a replica request does not wait for one.
bool Manager::ask_more(Fetch& fetch) {
  // After wrong bytes one at a time, which shows the holder that they come from.
  const bool is_for_many =
      fetch.has_place && fetch.bytes >= kManyBytes && sockets_ == nullptr && fetch.num_wrong == 0;
  const std::size_t enough = is_for_many ? kMostHolders : 1;
  if (fetch.asks.size() >= enough) return true;
  const std::vector<std::uint64_t> holders(fetch.holders.begin(), fetch.holders.end());
  // Hosts begin with different holders.
  const std::size_t first = std::hash<ObjectId>()(fetch.id) ^ self_;
  for (std::size_t i = 0; i < holders.size() && fetch.asks.size() < enough; ++i) {
    const std::uint64_t holder = holders[(first + i) % holders.size()];
    const bool is_asked = std::any_of(fetch.asks.begin(), fetch.asks.end(),
                                      [&](const auto& ask) { return ask->holder == holder; });
    if (is_asked || fetch.failed.contains(holder) || !peers_.contains(holder)) continue;
    if (sockets_ != nullptr && !socket_addresses_.contains(holder)) continue;  // its address comes
    const PeerMessage message = new_ask(fetch, holder);
    if (sockets_ == nullptr) {
      send(holder, message);
    } else {
      fetch.asks.back()->owes_fin = false;
      sockets_->ask(socket_addresses_.at(holder), fetch.id, message.number);
    }
  }
  if (!fetch.asks.empty()) return true;
  const std::uint64_t now_ns = monotonic_ns();
  if (!fetch.is_wanted && (fetch.holders.empty() || now_ns > fetch.keep_until_ns)) return false;
  if (!fetch.holders.empty()) retry_at(fetch, now_ns + kAskAgainNs);
  return true;
}

// Ends an ask that has no read under way. has_failed: the holder is asked again only when all
// others failed.
void Manager::end_ask(Fetch& fetch, const Ask& ask, bool has_failed) {
  if (has_failed) {
    fetch.failed.insert(ask.holder);
    const std::lock_guard lock(inbox_mutex_);
    ++counters_.retried;
  }
  asks_.erase(ask.number);
  if (sockets_ != nullptr) sockets_->cancel(ask.number);
  if (ask.owes_fin) {
    PeerMessage fin;
    fin.kind = PeerKind::fin;
    fin.number = ask.number;
    send(ask.holder, fin);
  }
  std::erase_if(fetch.asks, [&](const auto& one) { return one.get() == &ask; });
}

void Manager::end_asks(Fetch& fetch) {
  while (!fetch.asks.empty()) end_ask(fetch, *fetch.asks.back(), false);
}

bool Manager::is_in_time(const Ask& ask) {
  return monotonic_ns() - ask.asked_ns <= ask.lease_ms * std::uint64_t{1'000'000};
}

// Processes the answer to an ask. The fetch may be gone afterwards.
void Manager::answered(Fetch& fetch, std::uint64_t from, const PeerMessage& message) {
  const auto found = std::find_if(fetch.asks.begin(), fetch.asks.end(),
                                  [&](const auto& one) { return one->number == message.number; });
  Ask& ask = **found;
  if (ask.holder != from || ask.has_offered) return;
  if (message.kind == PeerKind::absent) {
    fetch.holders.erase(from);
    ask.owes_fin = false;
    end_ask(fetch, ask, true);
    return advance(fetch);
  }
  fetch.holders.insert(from);  // the answerer gives without a notice that it holds
  const Sizes sizes{message.data_bytes, message.metadata_bytes, message.stamp,
                    settings_.verifies ? message.checksum : 0};
  if (fetch.has_place && fetch.sizes != sizes) {
    end_ask(fetch, ask, true);  // another object of the same name
    return advance(fetch);
  }
  if (message.kind == PeerKind::offer) {
    ask.has_offered = true;
    ask.sizes = sizes;
    ask.parts = message.parts;
    ask.lease_ms = message.lease_ms;
    return advance(fetch);
  }
  ask.owes_fin = false;
  fetch.givers.insert(from);
  end_ask(fetch, ask, false);
  if (!fetch.has_place && !make_place(fetch, sizes)) return;
  for (const Range& range : fetch.missing)
    if (range.bytes != 0)
      std::memcpy(fetch.to + (range.begin - fetch.begin), message.contents.data() + range.begin,
                  range.bytes);
  fetch.missing.clear();
  advance(fetch);
}

// --- Room for the object ---

// False: there is no room yet, and it is tried again later; or the fetch has ended, and is gone.
bool Manager::make_place(Fetch& fetch, const Sizes& sizes) {
  const std::uint64_t total = sizes.data_bytes + sizes.metadata_bytes;
  if (total > kLongBytes && !fetch.is_long) fetch.is_long.emplace(num_long_);
  if (fetch.into != nullptr) {
    const IntoTarget& into = *fetch.into;
    fetch.to = into.to;
    fetch.begin = std::min(into.offset, sizes.data_bytes);
    fetch.bytes = std::min(into.bytes, sizes.data_bytes - fetch.begin);
  } else {
    auto lock = server_.lock();
    std::uint32_t entry = kNoEntry;
    const Outcome outcome =
        server_.create_in_place(fetch.id, sizes.data_bytes, sizes.metadata_bytes, entry);
    const std::uint64_t now_ns = monotonic_ns();
    server_.set_lacks_room(fetch.id, outcome.code == Code::again);
    if (outcome.code == Code::again && (fetch.is_wanted || now_ns <= fetch.keep_until_ns)) {
      retry_at(fetch, now_ns + kRetryNs);
      return false;
    }
    // A local client that creates the object may still abort it.
    if (outcome.code == Code::exists && fetch.is_wanted && !server_.objects().is_here(fetch.id)) {
      retry_at(fetch, now_ns + kRetryNs);
      return false;
    }
    if (!outcome.ok()) {
      if (outcome.code != Code::exists && outcome.code != Code::again)
        server_.fail_waits(fetch.id, outcome.code, outcome.reason);
      lock.unlock();
      forget(fetch);
      return false;
    }
    fetch.entry = entry;
    fetch.to = server_.objects().place(entry);
    fetch.begin = 0;
    fetch.bytes = total;
  }
  fetch.has_place = true;
  fetch.sizes = sizes;
  fetch.missing.clear();
  if (fetch.bytes != 0) fetch.missing.push_back({fetch.begin, fetch.bytes});
  return true;
}

void Manager::lose_place(Fetch& fetch) {
  fetch.has_place = false;
  fetch.givers.clear();
  fetch.missing.clear();
  if (fetch.entry == kNoEntry) return;
  const auto lock = server_.lock();
  server_.objects().abort(fetch.entry);
  fetch.entry = kNoEntry;
}

// --- What comes next ---

bool Manager::is_reading(const Fetch& fetch) {
  return std::any_of(fetch.asks.begin(), fetch.asks.end(),
                     [](const auto& ask) { return ask->is_reading; });
}

// Takes all steps that are possible now. The fetch may be gone afterwards.
void Manager::advance(Fetch& fetch) {
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
std::uint64_t Manager::piece_bytes(const Fetch& fetch) const {
  if (fetch.bytes < kManyBytes) return fetch.bytes;
  std::size_t num_holders = 0;
  for (const std::uint64_t holder : fetch.holders)
    num_holders += peers_.contains(holder) && !fetch.failed.contains(holder);
  num_holders = std::min(num_holders, kMostHolders);
  if (num_holders < 2) return kMostPiece;
  std::uint64_t missing = 0;
  for (const Range& range : fetch.missing) missing += range.bytes;
  return std::clamp(missing / (2 * num_holders), kLeastPiece, kMostPiece);
}

// False: the holder is gone.
bool Manager::read_piece(Fetch& fetch, Ask& ask) {
  const auto peer = peers_.find(ask.holder);
  if (peer == peers_.end()) return false;
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
    if (at < std::min(part_end, end)) ask.memories.push_back(node_->memory(peer->second, part.key));
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
  node_->get_all(transfers, ask.read);
  return true;
}

void Manager::end_reads() {
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

void Manager::retry_at(Fetch& fetch, std::uint64_t ns) {
  fetch.retry_ns = ns;
  retries_.emplace(ns, fetch.id);
}

void Manager::retry_fetches(std::uint64_t now_ns) {
  std::vector<Fetch*> due;
  while (!retries_.empty() && retries_.begin()->first <= now_ns) {
    const auto [due_ns, id] = *retries_.begin();
    retries_.erase(retries_.begin());
    for (Fetch* fetch : fetches_of(id))
      if (fetch->retry_ns == due_ns) {
        fetch->retry_ns = 0;
        due.push_back(fetch);
      }
  }
  for (Fetch* fetch : due) {
    if (fetch->asks.empty()) {
      // From the start: there may be another object of that id by now.
      fetch->failed.clear();
      lose_place(*fetch);
    }
    advance(*fetch);
  }
}

// --- The end ---

// Compares the checksum of the received bytes. A range that is not all of the data has none. False:
// it is fetched anew, from others if there are any, or the fetch has ended and is gone.
bool Manager::is_right(Fetch& fetch) {
  if (fetch.sizes.checksum == 0) return true;
  const bool is_whole = fetch.begin == 0 && fetch.bytes >= fetch.sizes.data_bytes;
  if (fetch.into != nullptr && !is_whole) return true;
  const std::uint64_t got = checksum_of(fetch.to, fetch.sizes.data_bytes,
                                        fetch.into != nullptr ? 0 : fetch.sizes.metadata_bytes);
  const std::uint64_t mask = fetch.into != nullptr ? UINT32_MAX : UINT64_MAX;
  if ((got & mask) == (fetch.sizes.checksum & mask)) return true;
  {
    const std::lock_guard lock(inbox_mutex_);
    ++counters_.wrong;
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
    const auto lock = server_.lock();
    server_.fail_waits(fetch.id, Code::corrupt, Reason::wrong_checksum);
  }
  forget(fetch);
  return false;
}

void Manager::finish(Fetch& fetch) {
  if (!is_right(fetch)) return;
  // Asks that were answered by data are ended.
  const bool is_one_sided = !fetch.asks.empty();
  {
    const auto lock = server_.lock();
    {
      // Counted before it is visible.
      const std::lock_guard counters(inbox_mutex_);
      ++counters_.fetched;
      counters_.fetched_bytes += fetch.bytes;
      counters_.fetched_one_sided += is_one_sided;
      counters_.fetched_of_several += fetch.givers.size() > 1;
    }
    if (fetch.into != nullptr) {
      server_.into_ended(std::exchange(fetch.into_number, 0), {}, fetch.sizes.data_bytes);
    } else {
      copies_.insert(fetch.id);
      server_.objects().seal(fetch.entry, 0, false, fetch.sizes.stamp);
      server_.objects().set_checksum(fetch.entry, fetch.sizes.checksum);
      fetch.entry = kNoEntry;
    }
  }
  forget(fetch);
}

// Ends a fetch, complete or not; no read of it is under way.
void Manager::forget(Fetch& fetch) {
  end_asks(fetch);
  lose_place(fetch);
  const ObjectId id = fetch.id;
  if (fetch.into != nullptr && fetch.into_number != 0) {
    const auto lock = server_.lock();
    server_.into_ended(fetch.into_number, fetch.outcome, 0);
  }
  if (!fetch.replica_requests.empty()) answer_replica_requests(fetch);
  const auto [begin, end] = fetches_.equal_range(id);
  const bool was_watched = fetch.is_watched;
  fetches_.erase(
      std::find_if(begin, end, [&](const auto& one) { return one.second.get() == &fetch; }));
  const std::vector<Fetch*> others = fetches_of(id);
  if (was_watched && std::none_of(others.begin(), others.end(),
                                  [](const Fetch* other) { return other->is_watched; }))
    directory_->unwatch(id);
}

}  // namespace weft::objstore
