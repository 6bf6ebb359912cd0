#pragma once
// Spill: a file for objects that have no room in memory. It has no name in the folder that the user
// chose: the system takes it back whatever becomes of the store, and stores that share a folder
// never see each other's.
//
// Threads. All calls by one at a time (Objects, under the server's lock); reading, writing and
// giving space back are done by a thread of the spill's own, in the order of the requests.
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "objstore/shared/allocator.hpp"
#include "objstore/shared/memory.hpp"

namespace weft::objstore {

struct SpillSettings {
  std::string folder;             // empty: none
  std::uint64_t limit_bytes = 0;  // of the file; 0: as much as the folder takes
  std::function<void()> on_done;  // by the spill's thread: take_done() has something
};

class Spill {
 public:
  // A range of the file, and the checksum of its bytes.
  struct FileRange {
    std::uint64_t offset = 0, bytes = 0;
    std::uint32_t checksum = 0;
  };
  struct Done {
    std::uint32_t entry = 0;
    bool is_write = false;
    FileRange range;
    Status status;
  };

  Spill() = default;
  ~Spill() { stop(); }
  Spill(const Spill&) = delete;
  Spill& operator=(const Spill&) = delete;

  // not_found, not_permitted: the folder.
  Status open(const SpillSettings& settings);
  bool is_open() const { return thread_.joinable(); }
  // Completes the current job and drops the others.
  void stop();

  // The memory stays as it is, or belongs to the spill, until take_done() gives the entry.
  // False: the limit is reached.
  bool write(std::uint32_t entry, const std::byte* from, std::uint64_t bytes);
  // corrupt: the file has other bytes than were written.
  void read(std::uint32_t entry, const FileRange& range, std::byte* to);
  void free(const FileRange& range);
  // relaxed: the list is taken under a lock; on_done() wakes the store's thread.
  bool has_done() const { return has_done_.load(std::memory_order_relaxed); }
  std::vector<Done> take_done();

  // The last write failed a short while ago, and nothing is spilled for the time being.
  bool is_full(std::uint64_t now_ns) const { return now_ns < full_until_ns_; }
  void note_full(const std::string& why, std::uint64_t now_ns);
  void note_written() { trouble_.clear(); }
  const std::string& trouble() const { return trouble_; }
  std::uint64_t used_bytes() const { return end_ - space_.free_bytes(); }

 private:
  struct Job {
    enum class Kind { write, read, free } kind;
    std::uint32_t entry;
    std::byte* memory;
    FileRange range;
  };
  void post(const Job& job);
  void run();
  Status carry_out(Job& job);

  SpillSettings settings_;
  Descriptor file_;
  Allocator space_;
  std::uint64_t end_ = 0;  // of what was ever given out
  std::uint64_t full_until_ns_ = 0;
  std::string trouble_;

  std::thread thread_;
  std::mutex mutex_;  // all below
  std::condition_variable wakes_;
  std::deque<Job> jobs_;
  std::vector<Done> done_;
  bool is_over_ = false;
  std::atomic<bool> has_done_{false};
};

}  // namespace weft::objstore
