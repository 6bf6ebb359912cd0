#include "objects.hpp"

#include <sys/random.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "objstore/shared/clock.hpp"

namespace weft::objstore {

Status Objects::open(const ObjectsSettings& settings) {
  if (Status status =
          segment_.open(settings.memory_bytes, settings.piece_bytes, settings.huge_pages);
      !status)
    return status;
  if (::getrandom(&first_stamp_, sizeof first_stamp_, 0) != sizeof first_stamp_)
    return system_error("taking random bytes");
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const auto generation = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
                          static_cast<std::uint64_t>(now.tv_nsec);
  if (Status status = index_.open(settings.max_objects, segment_.capacity(), generation); !status)
    return status;
  if (settings.spill.folder.empty()) return Code::ok;
  index_.header().spills = 1;
  return spill_.open(settings.spill);
}

// --- Lists ---

void Objects::push(List& list, std::uint32_t entry) {
  Hidden& hidden = hidden_[entry];
  hidden.newer = kNoEntry;
  hidden.older = list.newest;
  if (list.newest != kNoEntry) hidden_[list.newest].newer = entry;
  list.newest = entry;
  if (list.oldest == kNoEntry) list.oldest = entry;
  list.bytes += Allocator::rounded(bytes_of(entry));
}

void Objects::unlink(List& list, std::uint32_t entry) {
  const Hidden& hidden = hidden_[entry];
  (hidden.newer != kNoEntry ? hidden_[hidden.newer].older : list.newest) = hidden.older;
  (hidden.older != kNoEntry ? hidden_[hidden.older].newer : list.oldest) = hidden.newer;
  list.bytes -= Allocator::rounded(bytes_of(entry));
}

// --- Room ---

bool Objects::names_sealed(std::uint64_t object, std::uint32_t& entry) {
  entry = static_cast<std::uint32_t>(object) - 1;  // of 0 it is too large
  return entry < hidden_.size() && hidden_[entry].state == State::sealed &&
         index_.entry(entry).version.load(std::memory_order_relaxed) == object >> 32;
}

// The references that are held, sorted; used objects come to the front of the order of eviction,
// held ones before all.
void Objects::read_references(std::vector<std::uint64_t>& held) {
  std::vector<std::uint64_t> used;
  references_.read(held, used);
  counters_.uses += used.size();
  std::sort(held.begin(), held.end());
  const auto touch = [this](std::uint64_t object) {
    std::uint32_t entry;
    if (!names_sealed(object, entry) || !may_be_evicted(entry)) return;
    unlink(list_of(entry), entry);
    push(list_of(entry), entry);
  };
  std::for_each(used.begin(), used.end(), touch);
  std::for_each(held.begin(), held.end(), touch);
}

void Objects::refresh() {
  std::vector<std::uint64_t> held;
  read_references(held);
}

bool Objects::find_room(std::uint64_t bytes, std::uint64_t& offset) {
  for (;;) {
    if (const auto found = allocator_.allocate(bytes)) {
      offset = *found;
      missed_bytes_ = 0;
      return true;
    }
    if (num_dying_ != 0) {
      const std::uint64_t before = num_dying_;
      sweep();
      if (num_dying_ != before) continue;
    }
    std::uint64_t begin, grown;
    if (segment_.grow(Allocator::rounded(bytes), begin, grown)) {
      allocator_.add(begin, grown);
    } else if (!evict(bytes)) {
      missed_bytes_ = bytes;
      const bool was_kept = must_not_vanish();
      spill_ahead();
      if (was_kept && !must_not_vanish()) continue;  // the spill has just been found full
      return false;
    }
  }
}

// Marks objects of a list that nobody holds, eldest first.
void Objects::choose_victims(const List& list, std::uint64_t goal,
                             std::span<const std::uint64_t> held, std::uint64_t& sum,
                             std::vector<std::uint64_t>& chosen) {
  for (std::uint32_t entry = list.oldest; entry != kNoEntry && sum < goal;
       entry = hidden_[entry].newer) {
    const std::uint32_t version = index_.entry(entry).version.load(std::memory_order_relaxed);
    const std::uint64_t object = object_number(version, entry);
    if (std::binary_search(held.begin(), held.end(), object)) continue;
    chosen.push_back(object);
    sum += Allocator::rounded(bytes_of(entry));
    index_.entry(entry).version.store(version + 1, std::memory_order_relaxed);
  }
}

// Frees the least recently used objects that nobody holds, `bytes` of them and a little more, so
// that not each create has to read all slots.
bool Objects::evict(std::uint64_t bytes) {
  std::vector<std::uint64_t> held;
  read_references(held);
  const std::uint64_t goal = std::max(bytes, segment_.capacity() / 128);
  std::vector<std::uint64_t> chosen, used;
  std::uint64_t sum = 0;
  try {
    choose_victims(on_disk_, goal, held, sum, chosen);
    if (!must_not_vanish()) choose_victims(evictable_, goal, held, sum, chosen);
    if (chosen.empty()) return false;
    // seq_cst: a client that publishes a slot after this sees the odd version, one that did before
    // is seen here; pairs with the fence in ObjectStore's take().
    std::atomic_thread_fence(std::memory_order_seq_cst);
    held.clear();
    references_.read(held, used);
  } catch (const std::bad_alloc&) {
    // release: as below.
    for (const std::uint64_t object : chosen)
      index_.entry(static_cast<std::uint32_t>(object) - 1)
          .version.store(static_cast<std::uint32_t>(object >> 32), std::memory_order_release);
    throw;
  }
  counters_.uses += used.size();
  std::sort(held.begin(), held.end());
  bool has_freed = false;
  for (const std::uint64_t object : chosen) {
    const std::uint32_t entry = static_cast<std::uint32_t>(object) - 1;
    unlink(list_of(entry), entry);
    if (std::binary_search(held.begin(), held.end(), object)) {
      // release: for readers that take it again; nothing of it has changed.
      index_.entry(entry).version.store(static_cast<std::uint32_t>(object >> 32),
                                        std::memory_order_release);
      push(list_of(entry), entry);
      continue;
    }
    has_freed = true;
    if (hidden_[entry].is_on_disk) {
      leave_on_disk(entry);
      continue;
    }
    ++counters_.evicted;
    counters_.evicted_bytes += bytes_of(entry);
    const ObjectId id = index_.id_of(entry);
    index_.remove(entry);
    release(entry);
    observer_.gone(id, false);
  }
  return has_freed;
}

// Gives memory and entry back; the entry is in no list and not in the table.
void Objects::release(std::uint32_t entry) {
  forget_range(entry);
  Hidden& hidden = hidden_[entry];
  const std::uint64_t bytes = bytes_of(entry);
  allocator_.free(index_.entry(entry).offset, bytes);
  const std::uint32_t owner = hidden.owner;
  hidden = Hidden{};
  index_.recycle(entry);
  observer_.freed(owner, Allocator::rounded(bytes));
}

// --- An object's life ---

// Reserves memory so that one more entry needs no more of it. May throw std::bad_alloc.
void Objects::reserve_hidden() {
  const std::size_t needed = index_.num_entries() + 1;
  if (hidden_.capacity() < needed) hidden_.reserve(std::max(needed, 2 * hidden_.capacity()));
}

Outcome Objects::create(const ObjectId& id, std::uint64_t data_bytes, std::uint32_t metadata_bytes,
                        std::uint32_t owner, std::uint32_t& number) {
  if (index_.find(id) != kNoEntry) return {Code::exists, Reason::exists};
  if (data_bytes > segment_.capacity() || metadata_bytes > segment_.capacity() - data_bytes)
    return {Code::no_memory, Reason::too_large};
  std::uint64_t offset;
  try {
    reserve_hidden();
    if (!find_room(data_bytes + metadata_bytes, offset)) return {Code::again, Reason::no_room};
  } catch (const std::bad_alloc&) {
    return {Code::no_memory, Reason::short_of_memory};
  }
  if (!index_.insert(id, number)) {
    allocator_.free(offset, data_bytes + metadata_bytes);
    return {Code::no_memory, Reason::no_room};
  }
  if (number >= hidden_.size()) hidden_.resize(number + 1);
  Entry& entry = index_.entry(number);
  entry.offset = offset;
  entry.data_bytes = data_bytes;
  entry.metadata_bytes = metadata_bytes;
  entry.expires_ns = 0;
  hidden_[number] = Hidden{};
  hidden_[number].owner = owner;
  hidden_[number].state = State::creating;
  ++counters_.created;
  return {};
}

// S. Vigna's splitmix64: distinct for distinct numbers.
std::uint64_t Objects::next_stamp() {
  std::uint64_t mixed = first_stamp_ + ++num_stamps_ * 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
  return (mixed ^ mixed >> 31) | 1;
}

void Objects::seal(std::uint32_t number, std::uint64_t ttl_ms, bool is_pinned,
                   std::uint64_t stamp) {
  Entry& entry = index_.entry(number);
  const std::uint32_t version = entry.version.load(std::memory_order_relaxed) + 1;
  if (ttl_ms != 0) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
    entry.expires_ns = ttl_ms > kMost / 1'000'000 ? kMost : monotonic_ns() + ttl_ms * 1'000'000;
    add_expiry({entry.expires_ns, object_number(version, number)});
  }
  hidden_[number].state = State::sealed;
  hidden_[number].is_pinned = is_pinned;
  hidden_[number].stamp = stamp != 0 ? stamp : next_stamp();
  if (is_pinned) pinned_bytes_ += bytes_of(number);
  if (may_be_evicted(number)) push(list_of(number), number);
  // release: the object's bytes and its entry; pairs with IndexView::find.
  entry.version.store(version, std::memory_order_release);
  ++counters_.sealed;
  spill_ahead();
  observer_.sealed(index_.id_of(number), number);
}

void Objects::abort(std::uint32_t entry) {
  index_.remove(entry);
  release(entry);
  ++counters_.aborted;
}

std::uint32_t Objects::find_sealed(const ObjectId& id) const {
  const std::uint32_t entry = index_.find(id);
  return entry != kNoEntry && hidden_[entry].state == State::sealed ? entry : kNoEntry;
}

void Objects::hold(std::uint32_t entry) {
  if (may_be_evicted(entry)) unlink(list_of(entry), entry);
  ++hidden_[entry].holds;
}

void Objects::drop(std::uint32_t entry) {
  --hidden_[entry].holds;
  if (may_be_evicted(entry)) push(list_of(entry), entry);
}

Outcome Objects::pin(const ObjectId& id, bool is_pinned) {
  if (is_spilled(id)) {
    // From when it is in memory again.
    hidden_[index_.find(id)].is_pinned = is_pinned;
    return {};
  }
  const std::uint32_t entry = find_sealed(id);
  if (entry == kNoEntry) return {Code::not_found};
  Hidden& hidden = hidden_[entry];
  if (hidden.is_pinned == is_pinned) return {};
  if (may_be_evicted(entry)) unlink(list_of(entry), entry);
  hidden.is_pinned = is_pinned;
  pinned_bytes_ += is_pinned ? bytes_of(entry) : -bytes_of(entry);
  if (may_be_evicted(entry)) push(list_of(entry), entry);
  return {};
}

// Hides the object from all; its memory stays until sweep() finds no holder.
void Objects::make_dying(std::uint32_t number, bool is_deleted) {
  Hidden& hidden = hidden_[number];
  if (may_be_evicted(number)) unlink(list_of(number), number);
  if (hidden.is_pinned) pinned_bytes_ -= bytes_of(number);
  hidden.is_pinned = false;
  hidden.state = State::dying;
  Entry& entry = index_.entry(number);
  index_.remove(number);
  entry.version.store(entry.version.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  push(dying_, number);
  ++num_dying_;
  observer_.gone(index_.id_of(number), is_deleted);
}

Outcome Objects::erase(const ObjectId& id) {
  if (is_spilled(id)) {
    ++counters_.erased;
    remove_spilled(index_.find(id), true);
    return {};
  }
  const std::uint32_t entry = find_sealed(id);
  if (entry == kNoEntry) return {Code::not_found};
  ++counters_.erased;
  make_dying(entry, true);
  // Reading all slots for each would cost more than the rest; find_room() and the server's clock
  // sweep, too.
  if (++erased_since_sweep_ >= 64) sweep();
  return {};
}

bool Objects::sweep() {
  erased_since_sweep_ = 0;
  if (num_dying_ == 0) return false;
  // seq_cst: as in evict().
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::vector<std::uint64_t> held;
  read_references(held);
  for (std::uint32_t number = dying_.oldest; number != kNoEntry;) {
    const std::uint32_t newer = hidden_[number].newer;
    const std::uint32_t version = index_.entry(number).version.load(std::memory_order_relaxed) - 1;
    if (hidden_[number].holds == 0 &&
        !std::binary_search(held.begin(), held.end(), object_number(version, number))) {
      unlink(dying_, number);
      --num_dying_;
      release(number);
    }
    number = newer;
  }
  return num_dying_ != 0;
}

// Expiries of objects that were deleted earlier are dropped when the heap has twice as many as were
// alive the last time, so that each costs the same.
void Objects::add_expiry(const Expiry& expiry) {
  if (expiries_.size() >= most_expiries_) {
    std::erase_if(expiries_, [this](const Expiry& other) {
      std::uint32_t entry;
      return !names_sealed(other.object, entry) && !names_spilled(other.object, entry);
    });
    std::make_heap(expiries_.begin(), expiries_.end(), std::greater<>());
    most_expiries_ = std::max<std::size_t>(64, 2 * expiries_.size());
  }
  expiries_.push_back(expiry);
  std::push_heap(expiries_.begin(), expiries_.end(), std::greater<>());
}

std::uint64_t Objects::expire(std::uint64_t now_ns) {
  bool has_expired = false;
  while (!expiries_.empty() && expiries_.front().at_ns <= now_ns) {
    std::pop_heap(expiries_.begin(), expiries_.end(), std::greater<>());
    const std::uint64_t object = expiries_.back().object;
    expiries_.pop_back();
    std::uint32_t entry;
    if (names_sealed(object, entry)) {
      ++counters_.expired;
      make_dying(entry, false);
      has_expired = true;
    } else if (names_spilled(object, entry)) {
      ++counters_.expired;
      remove_spilled(entry, false);
    }
  }
  if (has_expired) sweep();
  return expiries_.empty() ? 0 : expiries_.front().at_ns;
}

std::uint64_t Objects::list(std::uint64_t cursor, std::size_t most,
                            std::vector<ListedObject>& objects) {
  std::vector<std::uint64_t> held;
  if (cursor == 0) read_references(held);
  for (; cursor < hidden_.size(); ++cursor) {
    const auto number = static_cast<std::uint32_t>(cursor);
    const bool is_spilled =
        hidden_[number].state == State::spilled ||
        (hidden_[number].state == State::restoring && !hidden_[number].is_doomed);
    if (hidden_[number].state != State::sealed && !is_spilled) continue;
    if (objects.size() == most) return cursor;
    const Entry& entry = index_.entry(number);
    const std::uint32_t version = entry.version.load(std::memory_order_relaxed);
    std::uint32_t flags = hidden_[number].is_pinned ? std::uint32_t{kListedPinned} : 0;
    if (hidden_[number].holds != 0 ||
        std::binary_search(held.begin(), held.end(), object_number(version, number)))
      flags |= kListedReferenced;
    if (is_spilled) flags |= kListedSpilled;
    objects.push_back({index_.id_of(number), entry.metadata_bytes, entry.data_bytes, flags, 0});
  }
  return 0;
}

}  // namespace weft::objstore
