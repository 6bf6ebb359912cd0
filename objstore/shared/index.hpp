#pragma once
// The shared index as its two sides see it; layout.hpp has the protocol between them.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "layout.hpp"
#include "memory.hpp"

namespace weft::objstore {

inline constexpr std::uint32_t kNoEntry = UINT32_MAX;

// Copied out of an entry that did not change meanwhile.
struct Found {
  std::uint32_t entry = kNoEntry;
  std::uint32_t version = 0;
  std::uint64_t offset = 0, data_bytes = 0, expires_ns = 0;
  std::uint32_t metadata_bytes = 0;
};

// True if the entry and its tail have this id; they may change meanwhile.
bool is_of(const Entry& entry, const IdTail& tail, const ObjectId& id);

// The client's side. Any thread.
class IndexView {
 public:
  Status map(const Descriptor& file);
  const IndexHeader& header() const { return *reinterpret_cast<IndexHeader*>(memory_.data()); }
  const Entry& entry(std::uint32_t number) const {
    return reinterpret_cast<const Entry*>(memory_.data() + kEntriesOffset)[number];
  }
  const IdTail& tail(std::uint32_t number) const {
    return reinterpret_cast<const IdTail*>(memory_.data() + kTailsOffset)[number];
  }
  // True if the object can be taken. A miss means nothing.
  bool find(const ObjectId& id, Found& found) const;

 private:
  Mapping memory_;
};

// The store's side, under its lock. A new index with nothing in it.
class Index {
 public:
  // Entries at most; memory is taken as they come.
  Status open(std::uint32_t max_entries, std::uint64_t segment_capacity, std::uint64_t generation);
  const Descriptor& file() const { return file_; }
  IndexHeader& header() { return *reinterpret_cast<IndexHeader*>(memory_.data()); }
  Entry& entry(std::uint32_t number) {
    return reinterpret_cast<Entry*>(memory_.data() + kEntriesOffset)[number];
  }
  std::uint32_t size() const { return size_; }
  std::uint32_t num_entries() const { return num_entries_; }  // that have memory

  ObjectId id_of(std::uint32_t number) const;
  // kNoEntry if it is not in the table, sealed or not.
  std::uint32_t find(const ObjectId& id) const;
  // Enters an id that is not there; its entry's version is odd. no_memory.
  Status insert(const ObjectId& id, std::uint32_t& entry);
  // Takes the id out; the entry is the caller's still.
  void remove(std::uint32_t entry);
  // May be used for another object. Its version is odd.
  void recycle(std::uint32_t entry) { free_.push_back(entry); }
  std::uint64_t bytes() const {
    return entry_bytes_ + table_bytes_ + tail_bytes_ + free_.capacity() * 4;
  }

 private:
  Bucket* table(int bits) const {
    return reinterpret_cast<Bucket*>(memory_.data() + table_offset(bits));
  }
  const Entry& entry(std::uint32_t number) const {
    return reinterpret_cast<const Entry*>(memory_.data() + kEntriesOffset)[number];
  }
  IdTail& tail(std::uint32_t number) const {
    return reinterpret_cast<IdTail*>(memory_.data() + kTailsOffset)[number];
  }
  Status grow_table(int bits);
  Status back_tail(std::uint32_t number);

  Descriptor file_;
  Mapping memory_;
  std::uint32_t max_entries_ = 0, num_entries_ = 0, size_ = 0;
  int bits_ = 0;
  std::vector<std::uint32_t> free_;
  std::vector<bool> has_tails_;  // by pieces of entries
  std::uint64_t entry_bytes_ = 0, table_bytes_ = 0, tail_bytes_ = 0;
};

}  // namespace weft::objstore
