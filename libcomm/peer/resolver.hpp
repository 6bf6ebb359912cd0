#pragma once
// Resolver: names of hosts looked up by threads of their own, as a name server that does not answer
// keeps who asks it for many seconds.
//
// Threads: one at a time. A lookup's result is there once its descriptor is readable.
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "peer/sockets.hpp"
#include "weft/status.hpp"

namespace weft::peer {

// Shared by who asks and the thread that looks it up, which may outlive whoever asked.
struct Lookup {
  explicit Lookup(std::string_view name) : text(name) {}
  ~Lookup();
  Lookup(const Lookup&) = delete;

  const std::string text;
  // The thread writes, and the other one reads once it is done.
  Status status;          // as resolve()'s
  SocketAddress address;  // if it is ok
  std::atomic<bool> is_done{false};
  std::vector<int> done_fds;  // the thread's ends, one for each who asks; under the resolver's lock
};

class Resolver {
 public:
  Resolver();
  // Begins to look up "host:port", or joins a lookup of it that is under way. `fd`, the caller's to
  // close, becomes readable when it is done; what all have let go of before it began is not looked
  // up. no_memory: no descriptors, no threads.
  Status start(std::string_view text, std::shared_ptr<Lookup>& lookup, int& fd);

 private:
  struct Queue;
  static void serve(const std::shared_ptr<Queue>& queue);

  std::shared_ptr<Queue> queue_;  // its threads' as well
};

}  // namespace weft::peer
