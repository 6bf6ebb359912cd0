#pragma once
// Memory that peers of this host can map: a shared file each. Any thread.
#include <cstddef>
#include <mutex>
#include <unordered_map>

#include "base/os/descriptor.hpp"
#include "base/os/mapping.hpp"
#include "weft/status.hpp"

namespace weft::fabric::shm {

// Makes a shared file of this size and maps it.
Status make_segment(const char* name, std::size_t bytes, Descriptor& file, Mapping& mapping);
// Maps a segment that a peer made with make_segment. corrupt: it is shorter, or could become so and
// end this process by SIGBUS.
Status map_segment(const Descriptor& file, std::size_t bytes, bool is_writable, Mapping& mapping);

class Segments {
 public:
  Status allocate(std::size_t bytes, void*& address);
  void release(void* address);
  Status share(const void* address, bool is_writable, int& descriptor);

 private:
  struct Segment {
    Descriptor file;
    Mapping mapping;
  };
  std::mutex mutex_;
  std::unordered_map<const void*, Segment> segments_;
};

}  // namespace weft::fabric::shm
