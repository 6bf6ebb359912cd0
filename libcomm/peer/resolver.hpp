#pragma once
// Resolver: names of hosts looked up by threads of their own, as a name server that does not answer
// blocks the calling thread for many seconds.
//
// Threads: one at a time. A lookup's result is valid once its descriptor is readable.
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/descriptor.hpp"
#include "peer/sockets.hpp"
#include "weft/status.hpp"

namespace weft::peer {

// Shared by the callers and the thread of the lookup, which may outlive them.
struct Lookup {
  explicit Lookup(std::string_view name) : text(name) {}

  const std::string text;
  // The thread writes, and the other one reads once it is done.
  Status status;          // as resolve()'s
  SocketAddress address;  // if it is ok
  std::atomic<bool> is_done{false};
  // The thread's ends, one for each caller; under the resolver's lock.
  std::vector<Descriptor> done_fds;
};

class Resolver {
 public:
  Resolver();
  // Begins to look up "host:port", or joins a lookup of it that is under way. `fd` becomes readable
  // when it is done; a lookup that all callers have dropped before it began is skipped. no_memory:
  // no descriptors, no threads.
  Status start(std::string_view text, std::shared_ptr<Lookup>& lookup, Descriptor& fd);

 private:
  struct Queue;
  static void serve(const std::shared_ptr<Queue>& queue);

  std::shared_ptr<Queue> queue_;  // its threads' as well
};

}  // namespace weft::peer
