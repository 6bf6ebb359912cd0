// Objects on their way. The receiver creates the object, takes its bytes in, seals, and says FIN;
// nobody sees half of one.
#include <algorithm>
#include <cstring>

#include "clock.hpp"
#include "manager.hpp"

namespace weft::objstore {
namespace {

constexpr std::uint64_t kRetryNs = 20'000'000;
constexpr std::uint64_t kAskAgainNs = 500'000'000;  // when all holders failed

}  // namespace

// One object that many ask for is fetched once: the store says so once.
void Manager::start(const ObjectId& id) {
  auto& fetch = fetches_[id];
  if (fetch != nullptr) {
    fetch->is_wanted = true;
    return;
  }
  {
    const auto lock = server_.lock();
    // It came meanwhile, or nobody wants it any longer.
    if (server_.objects().find_sealed(id) != kNoEntry || !server_.is_wanted(id)) {
      fetches_.erase(id);
      return;
    }
  }
  fetch = std::make_unique<Fetch>();
  fetch->id = id;
  directory_->watch(id);
}

// Asks a holder that has not failed; if all have, some time later all of them again.
void Manager::ask_next(Fetch& fetch) {
  for (const std::uint64_t holder : fetch.holders) {
    if (fetch.failed.contains(holder) || !peers_.contains(holder)) continue;
    if (sockets_ != nullptr && !socket_addresses_.contains(holder)) continue;  // will be told
    fetch.number = next_number_++;
    fetch.holder = holder;
    fetch.asked_ns = monotonic_ns();
    asks_.emplace(fetch.number, fetch.id);
    if (sockets_ != nullptr)
      return sockets_->ask(socket_addresses_.at(holder), fetch.id, fetch.number);
    PeerMessage ask;
    ask.kind = PeerKind::ask;
    ask.id = fetch.id;
    ask.number = fetch.number;
    ask.threshold = settings_.threshold_bytes;
    send(holder, ask);
    return;
  }
  if (!fetch.holders.empty()) retry_at(fetch, monotonic_ns() + kAskAgainNs);
}

// The ask under way, if any, is over; what was created for it goes.
void Manager::give_up_ask(Fetch& fetch, bool holder_failed) {
  if (fetch.number == 0) return;
  asks_.erase(fetch.number);
  if (sockets_ != nullptr) sockets_->cancel(fetch.number);
  if (fetch.entry != kNoEntry) {
    const auto lock = server_.lock();
    server_.objects().abort(fetch.entry);
    fetch.entry = kNoEntry;
  }
  PeerMessage fin;
  fin.kind = PeerKind::fin;
  fin.number = fetch.number;
  send(fetch.holder, fin);
  if (holder_failed) {
    fetch.failed.insert(fetch.holder);
    const std::lock_guard lock(inbox_mutex_);
    ++counters_.retried;
  }
  fetch.number = 0;
  fetch.offer.reset();
}

// --- The holder's side ---

// The segment only grows, and each piece of it is registered once.
Status Manager::register_pieces() {
  std::uint64_t bytes;
  std::byte* data;
  {
    const auto lock = server_.lock();
    bytes = server_.objects().segment().bytes();
    data = server_.objects().segment().data();
  }
  const std::uint64_t begin = pieces_.empty() ? 0 : pieces_.back().begin + pieces_.back().bytes;
  if (begin == bytes) return Code::ok;
  Piece piece{begin, bytes - begin, {}};
  if (Status status = node_->register_memory(data + begin, bytes - begin); !status) return status;
  if (Status status = node_->key(data + begin, kRead, piece.key); !status) return status;
  pieces_.push_back(piece);
  return Code::ok;
}

void Manager::give(std::uint64_t to, const PeerMessage& ask) {
  PeerMessage answer;
  answer.id = ask.id;
  answer.number = ask.number;
  std::uint32_t entry = kNoEntry;
  std::uint64_t offset = 0, bytes = 0;
  const std::byte* from = nullptr;
  {
    const auto lock = server_.lock();
    Objects& objects = server_.objects();
    entry = objects.find_sealed(ask.id);
    if (entry != kNoEntry) {
      objects.hold(entry);
      const Entry& object = objects.index().entry(entry);
      offset = object.offset;
      answer.data_bytes = object.data_bytes;
      answer.metadata_bytes = object.metadata_bytes;
      bytes = objects.bytes_of(entry);
      from = objects.place(entry);
    }
  }
  const auto drop = [&] {
    const auto lock = server_.lock();
    server_.objects().drop(entry);
  };
  if (entry != kNoEntry && bytes < ask.threshold) {
    answer.kind = PeerKind::data;
    answer.contents = {from, bytes};
    send(to, answer);
    drop();
  } else if (entry != kNoEntry) {
    if (register_pieces()) {
      answer.kind = PeerKind::offer;
      answer.lease_ms = settings_.lease_ms;
      for (const Piece& piece : pieces_) {
        const std::uint64_t begin = std::max(offset, piece.begin);
        const std::uint64_t end = std::min(offset + bytes, piece.begin + piece.bytes);
        if (begin < end) answer.parts.push_back({piece.key, begin - piece.begin, end - begin});
      }
      // The holder keeps it a little longer than it says.
      leases_.push_back(
          {to, ask.number, entry, monotonic_ns() + settings_.lease_ms * std::uint64_t{1'100'000}});
      send(to, answer);
    } else {
      drop();
      answer.kind = PeerKind::absent;
      send(to, answer);
      return;
    }
  } else {
    answer.kind = PeerKind::absent;
    send(to, answer);
    return;
  }
  const std::lock_guard lock(inbox_mutex_);
  ++counters_.given;
  counters_.given_bytes += bytes;
}

// Those whose time is over, and those of a peer that is lost.
void Manager::end_leases(std::uint64_t now_ns, std::uint64_t of_peer) {
  if (leases_.empty()) return;
  std::erase_if(leases_, [&](const Lease& lease) {
    if (lease.ends_ns > now_ns && lease.peer != of_peer) return false;
    if (lease.ends_ns != 1 && lease.peer != of_peer) {
      const std::lock_guard lock(inbox_mutex_);
      ++counters_.leases_ended;
    }
    const auto lock = server_.lock();
    server_.objects().drop(lease.entry);
    return true;
  });
}

// --- The asker's side ---

// The object that bytes are about to come for; nullptr: they are not to be taken.
Manager::Fetch* Manager::create_for(const PeerMessage& sizes) {
  Fetch& fetch = *fetches_.at(asks_.at(sizes.number));
  const auto lock = server_.lock();
  std::uint32_t entry;
  const Outcome outcome =
      server_.create_in_place(fetch.id, sizes.data_bytes, sizes.metadata_bytes, entry);
  if (outcome.ok()) {
    fetch.entry = entry;
    return &fetch;
  }
  asks_.erase(fetch.number);
  if (outcome.code == Code::again) {
    fetch.number = 0;
    retry_at(fetch, monotonic_ns() + kRetryNs);  // asked for anew when there may be room
    return nullptr;
  }
  if (outcome.code != Code::exists) server_.fail_waits(fetch.id, outcome.code, outcome.reason);
  fetches_.erase(ObjectId(fetch.id));
  return nullptr;
}

void Manager::take_data(const PeerMessage& message) {
  Fetch* fetch = create_for(message);
  if (fetch == nullptr) return;
  if (!message.contents.empty()) {
    const auto lock = server_.lock();
    std::memcpy(server_.objects().place(fetch->entry), message.contents.data(),
                message.contents.size());
  }
  finish(*fetch);
}

void Manager::take_offer(const PeerMessage& message) {
  Fetch& fetch = *fetches_.at(asks_.at(message.number));
  fetch.offer = std::make_unique<PeerMessage>(message);
  fetch.lease_ms = message.lease_ms;
  if (!begin_read(fetch)) retry_at(fetch, monotonic_ns() + kRetryNs);
}

// False: there is no room yet. Else the fetch may be over, and gone.
bool Manager::begin_read(Fetch& fetch) {
  const auto peer = peers_.find(fetch.holder);
  if (peer == peers_.end() ||
      monotonic_ns() - fetch.asked_ns > fetch.lease_ms * std::uint64_t{1'000'000}) {
    give_up_ask(fetch, true);
    ask_next(fetch);
    return true;
  }
  std::byte* to;
  {
    const auto lock = server_.lock();
    std::uint32_t entry;
    const Outcome outcome = server_.create_in_place(fetch.id, fetch.offer->data_bytes,
                                                    fetch.offer->metadata_bytes, entry);
    if (outcome.code == Code::again) return false;
    if (!outcome.ok() && outcome.code != Code::exists)
      server_.fail_waits(fetch.id, outcome.code, outcome.reason);
    if (!outcome.ok()) entry = kNoEntry;
    fetch.entry = entry;
    to = entry == kNoEntry ? nullptr : server_.objects().place(entry);
  }
  if (fetch.entry == kNoEntry) {
    give_up_ask(fetch, true);
    fetches_.erase(ObjectId(fetch.id));
    return true;
  }
  std::vector<Transfer> transfers;
  fetch.memories.clear();
  fetch.memories.reserve(fetch.offer->parts.size());
  for (const OfferPart& part : fetch.offer->parts) {
    // A get takes 1 GiB at most.
    constexpr std::uint64_t kMost = 1 << 30;
    fetch.memories.push_back(node_->memory(peer->second, part.key));
    for (std::uint64_t done = 0; done < part.bytes; done += kMost) {
      const std::uint64_t length = std::min(kMost, part.bytes - done);
      transfers.push_back({&fetch.memories.back(), part.offset + done, to, length});
      to += length;
    }
  }
  if (transfers.empty()) {
    finish(fetch);
    return true;
  }
  fetch.is_reading = true;
  reading_.insert(fetch.id);
  node_->get_all(transfers, fetch.read);
  return true;
}

void Manager::retry_at(Fetch& fetch, std::uint64_t ns) {
  fetch.retry_ns = ns;
  retries_.emplace(ns, fetch.id);
}

void Manager::retry_fetches(std::uint64_t now_ns) {
  while (!retries_.empty() && retries_.begin()->first <= now_ns) {
    const auto [due_ns, id] = *retries_.begin();
    retries_.erase(retries_.begin());
    const auto found = fetches_.find(id);
    if (found == fetches_.end() || found->second->retry_ns != due_ns) continue;
    Fetch& fetch = *found->second;
    fetch.retry_ns = 0;
    if (fetch.offer != nullptr) {
      if (!begin_read(fetch)) retry_at(fetch, now_ns + kRetryNs);
    } else if (fetch.number == 0) {
      fetch.failed.clear();
      ask_next(fetch);
    }
  }
}

void Manager::end_reads() {
  std::vector<ObjectId> ended;
  for (const ObjectId& id : reading_)
    if (fetches_.at(id)->read.is_done()) ended.push_back(id);
  for (const ObjectId& id : ended) {
    Fetch& fetch = *fetches_.at(id);
    fetch.is_reading = false;
    reading_.erase(id);
    fetch.memories.clear();
    const bool is_in_time =
        monotonic_ns() - fetch.asked_ns <= fetch.lease_ms * std::uint64_t{1'000'000};
    if (fetch.read.code() == Code::ok && is_in_time) {
      finish(fetch);
      continue;
    }
    give_up_ask(fetch, true);
    if (fetch.is_wanted)
      ask_next(fetch);
    else
      fetches_.erase(id);
  }
}

void Manager::finish(Fetch& fetch) {
  const bool is_one_sided = fetch.offer != nullptr;
  {
    const auto lock = server_.lock();
    copies_.insert(fetch.id);
    {
      // Whoever has the object finds it counted.
      const std::lock_guard counters(inbox_mutex_);
      ++counters_.fetched;
      counters_.fetched_bytes += server_.objects().bytes_of(fetch.entry);
      counters_.fetched_one_sided += is_one_sided;
    }
    server_.objects().seal(fetch.entry, 0, false);
    fetch.entry = kNoEntry;
  }
  if (is_one_sided) {
    PeerMessage fin;
    fin.kind = PeerKind::fin;
    fin.number = fetch.number;
    send(fetch.holder, fin);
  }
  directory_->unwatch(fetch.id);
  asks_.erase(fetch.number);
  fetches_.erase(ObjectId(fetch.id));
}

}  // namespace weft::objstore
