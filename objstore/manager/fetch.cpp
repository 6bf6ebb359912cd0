// The requester's side of a transfer. A fetch asks holders, makes room for the object once the size
// is known, reads into it what each of them offers, and ends: sealed, so that nobody sees half of
// an object, or in a client's memory. A range whose read from one holder fails is read from
// another: the stamp shows that both have the same object, not two objects of the same id.
#include <algorithm>
#include <cstring>

#include "directory_duties.hpp"
#include "fetch.hpp"
#include "objstore/shared/clock.hpp"
#include "sockets.hpp"

namespace weft::objstore {
namespace {

constexpr std::uint64_t kAskAgainNs = 500'000'000;  // when all holders failed
// A replica holder waits so long for room before it answers that it has none.
constexpr std::uint64_t kRoomNs = 2'000'000'000;

}  // namespace

Fetch* Fetches::fetch_of(const ObjectId& id) {
  const auto [begin, end] = fetches_.equal_range(id);
  for (auto it = begin; it != end; ++it)
    if (it->second->into == nullptr) return it->second.get();
  return nullptr;
}

std::vector<Fetch*> Fetches::fetches_of(const ObjectId& id) {
  std::vector<Fetch*> fetches;
  const auto [begin, end] = fetches_.equal_range(id);
  for (auto it = begin; it != end; ++it) fetches.push_back(it->second.get());
  return fetches;
}

// An object is fetched once for all local waits: the store requests it once.
void Fetches::start(const ObjectId& id) {
  if (Fetch* fetch = fetch_of(id)) {
    fetch->is_wanted = true;
    if (!fetch->is_watched) watch(*fetch);
    return;
  }
  {
    const auto lock = core_.server.lock();
    // It arrived meanwhile, or nobody wants it any longer.
    if (core_.server.objects().is_here(id) || !core_.server.is_wanted(id)) return;
  }
  auto fetch = std::make_unique<Fetch>();
  fetch->id = id;
  watch(*fetches_.emplace(id, std::move(fetch))->second);
}

void Fetches::start_into(std::uint64_t number, IntoTarget target) {
  auto fetch = std::make_unique<Fetch>();
  fetch->id = target.id;
  fetch->into = std::make_unique<IntoTarget>(std::move(target));
  fetch->into_number = number;
  const ObjectId id = fetch->id;
  watch(*fetches_.emplace(id, std::move(fetch))->second);
}

// Ends the interest of this host: nobody wants the object any longer, or it does not exist.
void Fetches::leave(Fetch& fetch, Outcome outcome) {
  fetch.is_wanted = false;
  fetch.outcome = outcome;
  advance(fetch);
}

void Fetches::unwanted(const ObjectId& id) {
  if (Fetch* fetch = fetch_of(id)) leave(*fetch, {Code::cancelled});
}

void Fetches::no_more_into(std::uint64_t number) {
  for (const auto& [id, fetch] : fetches_)
    if (fetch->into_number == number) return leave(*fetch, {Code::cancelled});
}

// --- Holders ---

// The id's answerer may hold the object, too, and is asked for it at once.
void Fetches::watch(Fetch& fetch) {
  fetch.is_watched = true;
  const std::uint64_t answerer =
      !sockets_.is_used() ? directory_.directory().answerer(fetch.id) : 0;
  PeerMessage ask;
  if (fetch.asks.empty() && members_.has_link(answerer)) ask = new_ask(fetch, answerer);
  directory_.directory().watch(fetch.id, ask);
}

// Registers an ask and returns its message, to be sent to the holder.
PeerMessage Fetches::new_ask(Fetch& fetch, std::uint64_t holder) {
  auto ask = std::make_unique<Ask>();
  ask->number = next_number_++;
  ask->holder = holder;
  ask->asked_ns = monotonic_ns();
  asks_.emplace(ask->number, &fetch);
  PeerMessage message;
  message.kind = PeerKind::ask;
  message.id = fetch.id;
  message.number = ask->number;
  const auto own = core_.settings.thresholds.find(std::string(members_.link(holder)->fabric()));
  message.threshold =
      own != core_.settings.thresholds.end() ? own->second : core_.settings.threshold_bytes;
  message.wants_checksum = core_.settings.verifies;
  fetch.asks.push_back(std::move(ask));
  return message;
}

// The id's answerer has sent the holders instead of the object.
void Fetches::not_given(std::uint64_t from, std::uint64_t number) {
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
bool Fetches::ask_more(Fetch& fetch) {
  // After wrong bytes one at a time, which shows the holder that they come from.
  const bool is_for_many =
      fetch.has_place && fetch.bytes >= kManyBytes && !sockets_.is_used() && fetch.num_wrong == 0;
  const std::size_t enough = is_for_many ? kMostHolders : 1;
  if (fetch.asks.size() >= enough) return true;
  const std::vector<std::uint64_t> holders(fetch.holders.begin(), fetch.holders.end());
  // Hosts begin with different holders.
  const std::size_t first = std::hash<ObjectId>()(fetch.id) ^ core_.self;
  for (std::size_t i = 0; i < holders.size() && fetch.asks.size() < enough; ++i) {
    const std::uint64_t holder = holders[(first + i) % holders.size()];
    const bool is_asked = std::any_of(fetch.asks.begin(), fetch.asks.end(),
                                      [&](const auto& ask) { return ask->holder == holder; });
    if (is_asked || fetch.failed.contains(holder) || !members_.has_link(holder)) continue;
    if (sockets_.is_used() && !sockets_.can_ask(holder)) continue;  // its address comes
    const PeerMessage message = new_ask(fetch, holder);
    if (!sockets_.is_used()) {
      members_.send(holder, message);
    } else {
      fetch.asks.back()->owes_fin = false;
      sockets_.ask(holder, fetch.id, message.number);
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
void Fetches::end_ask(Fetch& fetch, const Ask& ask, bool has_failed) {
  if (has_failed) {
    fetch.failed.insert(ask.holder);
    const std::lock_guard lock(core_.mutex);
    ++core_.counters.retried;
  }
  asks_.erase(ask.number);
  sockets_.cancel(ask.number);
  if (ask.owes_fin) {
    PeerMessage fin;
    fin.kind = PeerKind::fin;
    fin.number = ask.number;
    members_.send(ask.holder, fin);
  }
  std::erase_if(fetch.asks, [&](const auto& one) { return one.get() == &ask; });
}

void Fetches::end_asks(Fetch& fetch) {
  while (!fetch.asks.empty()) end_ask(fetch, *fetch.asks.back(), false);
}

bool Fetches::is_in_time(const Ask& ask) {
  return monotonic_ns() - ask.asked_ns <= ask.lease_ms * std::uint64_t{1'000'000};
}

void Fetches::received_answer(std::uint64_t from, const PeerMessage& message) {
  if (sockets_.is_used()) return;  // nothing was asked over the Node
  // Only a holder that was asked may answer.
  const auto asked = asks_.find(message.number);
  if (asked == asks_.end()) {
    if (message.kind == PeerKind::offer) {
      PeerMessage fin;
      fin.kind = PeerKind::fin;
      fin.number = message.number;
      members_.send(from, fin);
    }
    return;
  }
  answered(*asked->second, from, message);
}

// Processes the answer to an ask. The fetch may be gone afterwards.
void Fetches::answered(Fetch& fetch, std::uint64_t from, const PeerMessage& message) {
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
  const ObjectSizes sizes{message.data_bytes, message.metadata_bytes, message.stamp,
                          core_.settings.verifies ? message.checksum : 0};
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

// --- News of holders ---

void Fetches::has_holders(const ObjectId& id, std::span<const std::uint64_t> holders) {
  for (Fetch* fetch : fetches_of(id)) {
    for (const std::uint64_t holder : holders) {
      fetch->holders.insert(holder);
      fetch->failed.erase(holder);  // it has announced anew
    }
    advance(*fetch);
  }
}

void Fetches::was_deleted(const ObjectId& id) {
  {
    const auto lock = core_.server.lock();
    core_.server.fail_waits(id, Code::not_found, Reason::deleted);
  }
  for (Fetch* fetch : fetches_of(id))
    if (fetch->into != nullptr) leave(*fetch, {Code::not_found, Reason::deleted});
}

void Fetches::lost_holder(std::uint64_t generation) {
  std::vector<Fetch*> concerned;
  for (const auto& [id, fetch] : fetches_) {
    const bool is_asked =
        std::any_of(fetch->asks.begin(), fetch->asks.end(),
                    [generation](const auto& ask) { return ask->holder == generation; });
    if (fetch->replica_requests.erase(generation) + fetch->holders.erase(generation) != 0 ||
        is_asked)
      concerned.push_back(fetch.get());
  }
  for (Fetch* fetch : concerned) {
    for (std::size_t i = fetch->asks.size(); i-- > 0;) {
      const Ask& ask = *fetch->asks[i];
      // Reads end by themselves.
      if (ask.holder == generation && !ask.is_reading) end_ask(*fetch, ask, true);
    }
    advance(*fetch);
  }
}

// Advances fetches of objects that this host holds: it can be asked now.
void Fetches::advance_those_of(std::uint64_t holder) {
  std::vector<Fetch*> known;
  for (const auto& [id, fetch] : fetches_)
    if (fetch->holders.contains(holder)) known.push_back(fetch.get());
  for (Fetch* fetch : known) advance(*fetch);
}

// --- Replicas that other hosts want here ---

void Fetches::keep(std::uint64_t from, const ObjectId& id, std::uint64_t number) {
  Fetch* fetch = fetch_of(id);
  if (fetch == nullptr) {
    auto made = std::make_unique<Fetch>();
    fetch = made.get();
    fetch->id = id;
    fetch->is_wanted = false;
    fetches_.emplace(id, std::move(made));
  }
  fetch->replica_requests[from].insert(number);
  fetch->keep_until_ns = monotonic_ns() + kRoomNs;
  fetch->holders.insert(from);
  fetch->failed.erase(from);
  advance(*fetch);
}

// Answers with whether the object is here now, by this fetch or otherwise.
void Fetches::answer_replica_requests(const Fetch& fetch) {
  bool is_kept;
  {
    const auto lock = core_.server.lock();
    is_kept = core_.server.objects().is_here(fetch.id);
  }
  PeerMessage answer;
  answer.kind = is_kept ? PeerKind::kept : PeerKind::unkept;
  answer.id = fetch.id;
  for (const auto& [host, numbers] : fetch.replica_requests)
    for (const std::uint64_t number : numbers) {
      answer.number = number;
      members_.send(host, answer);
    }
}

// --- Retries ---

void Fetches::retry_at(Fetch& fetch, std::uint64_t ns) {
  fetch.retry_ns = ns;
  retries_.emplace(ns, fetch.id);
}

void Fetches::retry_fetches(std::uint64_t now_ns) {
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

}  // namespace weft::objstore
