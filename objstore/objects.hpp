#pragma once
// Objects: what a store holds. Segment, allocator, index and the order of eviction in one; knows
// nothing of sockets, clients or hosts.
//
// All calls under one lock, the server's. An object is created (room and id reserved, invisible),
// then sealed (visible, never changed again), then erased or evicted: it disappears from the index
// at once, and its memory is free once no slot of any client names it.
#include <cstdint>
#include <queue>
#include <span>
#include <vector>

#include "allocator.hpp"
#include "index.hpp"
#include "segment.hpp"

namespace weft::objstore {

struct Outcome {
  Code code = Code::ok;
  Reason reason = Reason::none;
  bool ok() const { return code == Code::ok; }
};

// What references there are. The tables that it reads may be anything: only numbers that name a
// live object have an effect.
class References {
 public:
  virtual ~References() = default;
  // Appends object_number()s that clients hold, and those that were used since the last call.
  virtual void read(std::vector<std::uint64_t>& held, std::vector<std::uint64_t>& used) = 0;
};

// Hears of what others must be told.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void sealed(const ObjectId& id, std::uint32_t entry) = 0;
  // No longer to be had here. is_deleted: by somebody's wish, not for lack of room or time.
  virtual void gone(const ObjectId& id, bool is_deleted) = 0;
  // Memory that `owner` created is free.
  virtual void freed(std::uint32_t owner, std::uint64_t bytes) = 0;
};

struct ObjectsSettings {
  std::uint64_t memory_bytes = 1 << 30;
  std::uint64_t piece_bytes = 16 << 20;
  std::uint32_t max_objects = kMaxEntries;
  bool huge_pages = false;
};

struct ObjectCounters {
  std::uint64_t created = 0, sealed = 0, aborted = 0, erased = 0, expired = 0;
  std::uint64_t evicted = 0, evicted_bytes = 0, uses = 0;
};

class Objects {
 public:
  Objects(References& references, Observer& observer)
      : references_(references), observer_(observer) {}
  Status open(const ObjectsSettings& settings);

  // Evicts what it must. exists; too_large; no_room: all memory is in use, try later.
  Outcome create(const ObjectId& id, std::uint64_t data_bytes, std::uint32_t metadata_bytes,
                 std::uint32_t owner, std::uint32_t& entry);
  // Where its bytes go: data, then metadata.
  std::byte* place(std::uint32_t entry) { return segment_.data() + index_.entry(entry).offset; }
  std::uint64_t bytes_of(std::uint32_t entry) {
    return index_.entry(entry).data_bytes + index_.entry(entry).metadata_bytes;
  }
  void seal(std::uint32_t entry, std::uint64_t ttl_ms, bool is_pinned);
  void abort(std::uint32_t entry);
  Outcome erase(const ObjectId& id);
  Outcome pin(const ObjectId& id, bool is_pinned);

  // kNoEntry unless it is sealed and here.
  std::uint32_t find_sealed(const ObjectId& id) const;
  bool exists(const ObjectId& id) const { return index_.find(id) != kNoEntry; }
  // As a reference of the store's own: keeps the entry as it is until drop().
  void hold(std::uint32_t entry);
  void drop(std::uint32_t entry);

  // Frees what was erased and is no longer referenced. True if something waits still.
  bool sweep();
  // Removes what has outlived its time; when to look again (CLOCK_MONOTONIC ns), or 0.
  std::uint64_t expire(std::uint64_t now_ns);
  // Reads all slots, so that counters and the order of eviction are of now.
  void refresh();

  // Sealed objects, `most` at a time, from a cursor that begins with 0 and ends with 0.
  std::uint64_t list(std::uint64_t cursor, std::size_t most, std::vector<ListedObject>& objects);

  Segment& segment() { return segment_; }
  Index& index() { return index_; }
  const Allocator& allocator() const { return allocator_; }
  const ObjectCounters& counters() const { return counters_; }
  std::uint64_t pinned_bytes() const { return pinned_bytes_; }
  std::uint64_t num_dying() const { return num_dying_; }
  // Everything but the objects' own bytes.
  std::uint64_t overhead_bytes() const {
    return index_.bytes() + hidden_.capacity() * sizeof(Hidden) + allocator_.num_holes() * 130;
  }

 private:
  enum class State : std::uint8_t { free, creating, sealed, dying };
  // What clients need not see of an entry.
  struct Hidden {
    std::uint32_t newer = kNoEntry, older = kNoEntry;  // in list_ or dying_
    std::uint32_t owner = 0;
    std::uint32_t holds = 0;
    State state = State::free;
    bool is_pinned = false;
  };
  struct List {
    std::uint32_t newest = kNoEntry, oldest = kNoEntry;
  };
  struct Expiry {
    std::uint64_t at_ns, object;
    bool operator>(const Expiry& other) const { return at_ns > other.at_ns; }
  };

  void push(List& list, std::uint32_t entry);
  void unlink(List& list, std::uint32_t entry);
  bool may_be_evicted(std::uint32_t entry) const {
    return hidden_[entry].state == State::sealed && !hidden_[entry].is_pinned &&
           hidden_[entry].holds == 0;
  }
  bool names_sealed(std::uint64_t object, std::uint32_t& entry);
  void read_references(std::vector<std::uint64_t>& held);
  bool find_room(std::uint64_t bytes, std::uint64_t& offset);
  bool evict(std::uint64_t bytes);
  void hide(std::uint32_t entry);
  void release(std::uint32_t entry);
  void make_dying(std::uint32_t entry, bool is_deleted);

  References& references_;
  Observer& observer_;
  Segment segment_;
  Allocator allocator_;
  Index index_;
  std::vector<Hidden> hidden_;
  List evictable_;  // in the order of use
  List dying_;
  std::priority_queue<Expiry, std::vector<Expiry>, std::greater<>> expiries_;
  ObjectCounters counters_;
  std::uint64_t pinned_bytes_ = 0, num_dying_ = 0;
  std::uint32_t erased_since_sweep_ = 0;
};

}  // namespace weft::objstore
