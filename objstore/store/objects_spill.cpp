// Objects and the spill. Once a quarter of the memory is neither free nor on disk, the objects that
// were used least recently are written, while they stay in memory and in use: a later eviction then
// finds a copy on disk, and only puts that are faster than the disk wait for it.
#include <algorithm>

#include "log.hpp"
#include "objects.hpp"
#include "objstore/shared/clock.hpp"

namespace weft::objstore {

// Objects are not evicted for good while they can be spilled.
bool Objects::must_not_vanish() const {
  return spill_.is_open() && !spill_.is_full(monotonic_ns());
}

void Objects::spill_ahead() {
  if (!spill_.is_open()) return;
  const std::uint64_t capacity = segment_.capacity();
  const auto is_short = [&] {
    const std::uint64_t free = capacity - segment_.bytes() + allocator_.free_bytes();
    // Somebody waits, though there are so many bytes: no hole is large enough yet.
    if (missed_bytes_ != 0 && writing_bytes_ == 0) return true;
    return free + on_disk_.bytes + writing_bytes_ < std::max(capacity / 4, missed_bytes_);
  };
  if (evictable_.oldest == kNoEntry || !is_short() || spill_.is_full(monotonic_ns())) return;
  while (evictable_.oldest != kNoEntry && writing_bytes_ <= capacity / 8 && is_short()) {
    const std::uint32_t entry = evictable_.oldest;
    const std::uint64_t bytes = bytes_of(entry);
    if (!spill_.write(entry, place(entry), bytes)) {
      spill_.note_full("--spill-limit is reached", monotonic_ns());
      return;
    }
    hold(entry);
    writing_bytes_ += Allocator::rounded(bytes);
  }
}

bool Objects::take_spilled() {
  if (!spill_.is_open() || !spill_.has_done()) return false;
  for (const Spill::Done& done : spill_.take_done())
    if (done.is_write)
      written(done);
    else
      read_back(done);
  spill_ahead();
  return true;
}

void Objects::written(const Spill::Done& done) {
  const std::uint32_t entry = done.entry;
  writing_bytes_ -= Allocator::rounded(done.range.bytes);
  if (!done.status) {
    spill_.free(done.range);
    spill_.note_full(done.status.text(), monotonic_ns());
  } else if (hidden_[entry].state != State::sealed) {
    spill_.free(done.range);  // erased meanwhile
  } else {
    // Other writes that were under way say nothing about the one that found no space.
    if (!spill_.is_full(monotonic_ns())) spill_.note_written();
    ++counters_.spilled;
    // It is held, so in neither list.
    file_ranges_.emplace(entry, done.range);
    hidden_[entry].is_on_disk = true;
  }
  drop(entry);
  if (done.status || !may_be_evicted(entry)) return;
  // The eldest it was, and is still.
  List& list = list_of(entry);
  if (list.oldest == entry) return;
  unlink(list, entry);
  list.bytes += Allocator::rounded(bytes_of(entry));
  hidden_[entry].older = kNoEntry;
  hidden_[entry].newer = list.oldest;
  hidden_[list.oldest].older = entry;
  list.oldest = entry;
}

// Gives its memory back; the entry is in no list, and its version odd.
void Objects::leave_on_disk(std::uint32_t entry) {
  Hidden& hidden = hidden_[entry];
  const std::uint64_t bytes = bytes_of(entry);
  allocator_.free(index_.entry(entry).offset, bytes);
  observer_.freed(hidden.owner, Allocator::rounded(bytes));
  hidden.owner = 0;
  hidden.state = State::spilled;
  ++num_spilled_;
}

void Objects::forget_range(std::uint32_t entry) {
  if (!hidden_[entry].is_on_disk) return;
  const auto found = file_ranges_.find(entry);
  spill_.free(found->second);
  file_ranges_.erase(found);
  hidden_[entry].is_on_disk = false;
}

bool Objects::is_spilled(const ObjectId& id) const {
  if (num_spilled_ == 0) return false;
  const std::uint32_t entry = index_.find(id);
  return entry != kNoEntry &&
         (hidden_[entry].state == State::spilled || hidden_[entry].state == State::restoring);
}

// The version of a spilled one is its last one's successor.
bool Objects::names_spilled(std::uint64_t object, std::uint32_t& entry) {
  entry = static_cast<std::uint32_t>(object) - 1;
  if (entry >= hidden_.size() || hidden_[entry].is_doomed) return false;
  const State state = hidden_[entry].state;
  return (state == State::spilled || state == State::restoring) &&
         index_.entry(entry).version.load(std::memory_order_relaxed) ==
             static_cast<std::uint32_t>(object >> 32) + 1;
}

bool Objects::restore(const ObjectId& id) {
  if (!is_spilled(id)) return true;
  const std::uint32_t number = index_.find(id);
  if (hidden_[number].state == State::restoring) return true;
  std::uint64_t offset;
  if (!find_room(bytes_of(number), offset)) return false;
  index_.entry(number).offset = offset;
  hidden_[number].state = State::restoring;
  spill_.read(number, file_ranges_.at(number), segment_.data() + offset);
  return true;
}

void Objects::read_back(const Spill::Done& done) {
  const std::uint32_t number = done.entry;
  Hidden& hidden = hidden_[number];
  --num_spilled_;
  Entry& entry = index_.entry(number);
  const ObjectId id = index_.id_of(number);
  if (hidden.is_doomed || !done.status) {
    const bool was_here = !hidden.is_doomed;
    if (was_here) index_.remove(number);
    release(number);
    if (!was_here) return;
    ++counters_.unreadable;
    write_log(LogSeverity::error,
              "object " + id.text() + ": " + done.status.text() + "; it is gone",
              {{"event", "spill_unreadable"}, {"object", id.text()}, {"why", done.status.text()}});
    observer_.unreadable(id);
    return;
  }
  ++counters_.restored;
  hidden.state = State::sealed;
  if (hidden.is_pinned) pinned_bytes_ += bytes_of(number);
  if (may_be_evicted(number)) push(list_of(number), number);
  const std::uint32_t version = entry.version.load(std::memory_order_relaxed) + 1;
  if (entry.expires_ns != 0) add_expiry({entry.expires_ns, object_number(version, number)});
  // release: as in seal().
  entry.version.store(version, std::memory_order_release);
  observer_.restored(id);
}

// Erased or expired; nobody references an object that has no memory.
void Objects::remove_spilled(std::uint32_t number, bool is_deleted) {
  const ObjectId id = index_.id_of(number);
  index_.remove(number);
  if (hidden_[number].state == State::restoring) {
    hidden_[number].is_doomed = true;  // its memory is being written to
  } else {
    forget_range(number);
    hidden_[number] = Hidden{};
    index_.recycle(number);
    --num_spilled_;
  }
  observer_.gone(id, is_deleted);
}

}  // namespace weft::objstore
