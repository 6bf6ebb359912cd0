#pragma once
// Objects: the contents of a store. Segment, allocator, index and the order of eviction in one;
// knows nothing of sockets, clients or hosts.
//
// All calls under one lock, the server's. An object is created (room and id reserved, invisible),
// then sealed (visible, never changed again), then erased or evicted: it disappears from the index
// at once, and its memory is free once no slot of any client names it.
//
// With a spill (objects_spill.cpp) an object is written to it before memory is short, and stays
// where it is; evicting one that has been written gives back its memory and leaves it spilled, with
// an id but no memory, until somebody wants it restored.
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "objstore/shared/allocator.hpp"
#include "objstore/shared/index.hpp"
#include "segment.hpp"
#include "spill.hpp"

namespace weft::objstore {

struct Outcome {
  Code code = Code::ok;
  Reason reason = Reason::none;
  bool ok() const { return code == Code::ok; }
};

// The source of references. Its tables may hold anything: only numbers that name a live object have
// an effect.
class References {
 public:
  virtual ~References() = default;
  // Appends object_number()s that clients hold, and those that were used since the last call.
  virtual void read(std::vector<std::uint64_t>& held, std::vector<std::uint64_t>& used) = 0;
};

// Receives the changes that clients and other hosts are notified of.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void sealed(const ObjectId& id, std::uint32_t entry) = 0;
  // No longer available here. is_deleted: on request, not for lack of room or time.
  virtual void gone(const ObjectId& id, bool is_deleted) = 0;
  // A spilled object is in memory again; or could not be read, and is gone.
  virtual void restored(const ObjectId& id) = 0;
  virtual void unreadable(const ObjectId& id) = 0;
  // Memory that `owner` created is free.
  virtual void freed(std::uint32_t owner, std::uint64_t bytes) = 0;
};

struct ObjectsSettings {
  std::uint64_t memory_bytes = 1 << 30;
  std::uint64_t piece_bytes = 16 << 20;
  std::uint32_t max_objects = kMaxEntries;
  bool huge_pages = false;
  SpillSettings spill;
};

struct ObjectCounters {
  std::uint64_t created = 0, sealed = 0, aborted = 0, erased = 0, expired = 0;
  std::uint64_t evicted = 0, evicted_bytes = 0, uses = 0;
  std::uint64_t spilled = 0, restored = 0, unreadable = 0;
};

class Objects {
 public:
  Objects(References& references, Observer& observer)
      : references_(references), observer_(observer) {}
  Status open(const ObjectsSettings& settings);

  // Evicts what it must. exists; too_large; no_room: all memory is in use, try later.
  Outcome create(const ObjectId& id, std::uint64_t data_bytes, std::uint32_t metadata_bytes,
                 std::uint32_t owner, std::uint32_t& entry);
  // The address of its bytes: data, then metadata.
  std::byte* place(std::uint32_t entry) { return segment_.data() + index_.entry(entry).offset; }
  std::uint64_t bytes_of(std::uint32_t entry) {
    return index_.entry(entry).data_bytes + index_.entry(entry).metadata_bytes;
  }
  // stamp: that of the object that this is a copy of; 0: a new object.
  void seal(std::uint32_t entry, std::uint64_t ttl_ms, bool is_pinned, std::uint64_t stamp = 0);
  // Equal for all copies of an object on all hosts; another object of the same id has another
  // stamp.
  std::uint64_t stamp_of(std::uint32_t entry) const { return hidden_[entry].stamp; }
  // 0: not known.
  std::uint64_t checksum_of(std::uint32_t entry) const { return hidden_[entry].checksum; }
  void set_checksum(std::uint32_t entry, std::uint64_t value) { hidden_[entry].checksum = value; }
  void abort(std::uint32_t entry);
  Outcome erase(const ObjectId& id);
  Outcome pin(const ObjectId& id, bool is_pinned);

  // kNoEntry unless it is sealed and here.
  std::uint32_t find_sealed(const ObjectId& id) const;
  bool exists(const ObjectId& id) const { return index_.find(id) != kNoEntry; }
  // Sealed, but on disk: restore() brings it back.
  bool is_spilled(const ObjectId& id) const;
  bool is_here(const ObjectId& id) const { return find_sealed(id) != kNoEntry || is_spilled(id); }
  // Starts to read a spilled object back; Observer is notified at the end. False: there is no room
  // now.
  bool restore(const ObjectId& id);
  // Takes up what the spill has completed. True if there may be more room.
  bool take_spilled();
  const Spill& spill() const { return spill_; }
  // Ends the spill's thread.
  void stop_spill() { spill_.stop(); }
  std::uint64_t num_spilled() const { return num_spilled_; }
  // A reference of the store's own: keeps the entry as it is until drop().
  void hold(std::uint32_t entry);
  void drop(std::uint32_t entry);

  // Frees erased objects that are no longer referenced. True if some are left.
  bool sweep();
  // Removes expired objects; returns when to check again (CLOCK_MONOTONIC ns), or 0.
  std::uint64_t expire(std::uint64_t now_ns);
  // Reads all slots, so that counters and the order of eviction are current.
  void refresh();

  // Sealed objects, `most` at a time, from a cursor that begins with 0 and ends with 0.
  std::uint64_t list(std::uint64_t cursor, std::size_t most, std::vector<ListedObject>& objects);

  Segment& segment() { return segment_; }
  Index& index() { return index_; }
  const Allocator& allocator() const { return allocator_; }
  const ObjectCounters& counters() const { return counters_; }
  std::uint64_t pinned_bytes() const { return pinned_bytes_; }
  std::uint64_t num_dying() const { return num_dying_; }
  // All memory but the objects' own bytes.
  std::uint64_t overhead_bytes() const {
    return index_.bytes() + file_ranges_.size() * 64 + hidden_.capacity() * sizeof(Hidden) +
           expiries_.capacity() * sizeof(Expiry) + allocator_.num_holes() * 130;
  }

 private:
  enum class State : std::uint8_t { free, creating, sealed, dying, spilled, restoring };
  // The fields of an entry that clients do not see.
  struct Hidden {
    std::uint32_t newer = kNoEntry, older = kNoEntry;  // in list_ or dying_
    std::uint32_t owner = 0;
    std::uint32_t holds = 0;
    std::uint64_t stamp = 0, checksum = 0;
    State state = State::free;
    bool is_pinned = false;
    bool is_on_disk = false;  // has a place in file_ranges_; in memory, too, or not
    bool is_doomed = false;   // erased while it was being restored
  };
  struct List {
    std::uint32_t newest = kNoEntry, oldest = kNoEntry;
    std::uint64_t bytes = 0;  // of memory
  };
  struct Expiry {
    std::uint64_t at_ns, object;
    bool operator>(const Expiry& other) const { return at_ns > other.at_ns; }
  };

  std::uint64_t next_stamp();
  void add_expiry(const Expiry& expiry);
  void push(List& list, std::uint32_t entry);
  void unlink(List& list, std::uint32_t entry);
  bool may_be_evicted(std::uint32_t entry) const {
    return hidden_[entry].state == State::sealed && !hidden_[entry].is_pinned &&
           hidden_[entry].holds == 0;
  }
  bool names_sealed(std::uint64_t object, std::uint32_t& entry);
  bool names_spilled(std::uint64_t object, std::uint32_t& entry);
  void read_references(std::vector<std::uint64_t>& held);
  bool find_room(std::uint64_t bytes, std::uint64_t& offset);
  bool evict(std::uint64_t bytes);
  void hide(std::uint32_t entry);
  void release(std::uint32_t entry);
  void reserve_hidden();
  void make_dying(std::uint32_t entry, bool is_deleted);
  // The list that an evictable object is in.
  List& list_of(std::uint32_t entry) { return hidden_[entry].is_on_disk ? on_disk_ : evictable_; }
  void choose_victims(const List& list, std::uint64_t goal, std::span<const std::uint64_t> held,
                      std::uint64_t& sum, std::vector<std::uint64_t>& chosen);
  // objects_spill.cpp
  void spill_ahead();
  bool must_not_vanish() const;
  void leave_on_disk(std::uint32_t entry);
  void forget_range(std::uint32_t entry);
  void remove_spilled(std::uint32_t entry, bool is_deleted);
  void written(const Spill::Done& done);
  void read_back(const Spill::Done& done);

  References& references_;
  Observer& observer_;
  Segment segment_;
  Allocator allocator_;
  Index index_;
  std::vector<Hidden> hidden_;
  List evictable_;  // in the order of use; objects that eviction would lose
  List on_disk_;    // the same; objects that are on disk, too
  List dying_;
  std::vector<Expiry> expiries_;  // a heap, the next one first
  std::size_t most_expiries_ = 0;
  ObjectCounters counters_;
  std::uint64_t pinned_bytes_ = 0, num_dying_ = 0;
  std::uint32_t erased_since_sweep_ = 0;
  // The file ranges of objects that are on disk.
  std::unordered_map<std::uint32_t, Spill::FileRange> file_ranges_;
  std::uint64_t writing_bytes_ = 0, missed_bytes_ = 0, num_spilled_ = 0;
  std::uint64_t first_stamp_ = 0, num_stamps_ = 0;
  Spill spill_;  // the last: its thread uses the segment
};

}  // namespace weft::objstore
