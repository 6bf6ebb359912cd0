#pragma once
// PushGroup: this host's part in the group of hosts that an object is pushed through
// (weft/multicast.hpp). A thread of its own makes the group, sends or receives the one message, and
// waits until the group has ended, so that the manager's thread does not block.
#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "weft/multicast.hpp"

namespace weft::objstore {

struct PushGroupSettings {
  std::uint64_t group = 0;
  std::vector<std::string> members = {};  // the first one sends
  int self = 0;
  std::size_t block_bytes = 1 << 20;
  // The object: read at the first member, written at the others.
  std::byte* place = nullptr;
  std::uint64_t bytes = 0;
};

class PushGroup {
 public:
  // Neither callback may block on the manager's thread. arrived: at a receiver all bytes are there,
  // and nobody writes any more. ended: the last callback; the group is gone, and with it every use
  // of the object's memory. no_memory, from within the constructor: no thread can be started.
  PushGroup(Multicast& multicast, PushGroupSettings settings, std::function<void()> arrived,
            std::function<void(const Status&)> ended);
  // Leaves the group if it has not ended; blocks until it has, which the Node's timeout bounds.
  ~PushGroup();
  PushGroup(const PushGroup&) = delete;
  PushGroup& operator=(const PushGroup&) = delete;

  // The group fails, here and at the others. Does not block.
  void stop() { is_stopped_.store(true, std::memory_order_relaxed); }

 private:
  Status take_part(Multicast& multicast, const PushGroupSettings& settings,
                   const std::function<void()>& arrived);

  std::atomic<bool> is_stopped_{false};
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace weft::objstore
