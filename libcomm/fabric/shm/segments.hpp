#pragma once
// Memory that peers of this host can map: a sealed memfd each. Any thread.
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "weft/status.hpp"

namespace weft::fabric::shm {

// A memfd of this size that can never change its size, mapped writable.
Status make_segment(const char* name, std::size_t bytes, int& descriptor, std::byte*& at);
// Maps a segment that a peer made with make_segment. corrupt: it is shorter, or could become so and
// end this process by SIGBUS. Closes the descriptor.
Status map_segment(int descriptor, std::size_t bytes, bool writable, std::byte*& at);

class Segments {
 public:
  ~Segments();
  Status allocate(std::size_t bytes, void*& address);
  void release(void* address);
  Status share(const void* address, bool writable, int& descriptor);

 private:
  struct Segment {
    int descriptor;
    std::size_t bytes;
  };
  std::mutex mutex_;
  std::unordered_map<const void*, Segment> segments_;
};

}  // namespace weft::fabric::shm
