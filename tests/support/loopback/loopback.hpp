#pragma once
// The loopback fabric: endpoints of one process, joined by a network that delays, cuts and silences
// by seed. For tests of what stands above, and for many ranks in one process. The smallest fabric;
// docs/design/fabrics.md explains the contract on it.
//
// Threads: as endpoint.hpp says, but for speed: the network has one lock.
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <unordered_map>

#include "fabric/endpoint.hpp"

namespace weft::fabric::loopback {

class LoopbackEndpoint;
struct Wire;

// What goes wrong, per packet (a message, put, get or atomic).
struct Faults {
  std::uint64_t seed = 1;
  std::uint32_t max_delay_us = 0;  // of a packet; those of one link stay in order
  std::uint32_t cut_one_in = 0;    // a link goes down with every so many packets; 0: never
  bool cuts_puts = false;          // each put takes its link down
};

// What the endpoint can do; a test takes away what the transport then asks the owner's side for.
struct Options {
  std::size_t message_max = 4096;
  bool puts = true, gets = true, atomics = true, writes = true;
  unsigned links = 1;
  // Of all peers, at once; 0: any number. LOOPBACK_LINKS sets it where a test does not.
  unsigned most_links = links_of_environment();
  static unsigned links_of_environment();
};

class Network {
 public:
  Network();
  // The one that endpoints of this process share by default.
  static std::shared_ptr<Network> of_process();

  void set_faults(const Faults& faults);
  // Of endpoints made from now on; `second`: of every second one.
  void set_options(const Options& options) { set_options(options, options); }
  void set_options(const Options& options, const Options& second);
  // Breaks every link of the endpoint with this address.
  void cut(const std::string& address);
  // As if its host had lost power or was unplugged: links stay up and carry nothing, new ones get
  // no answer; false: as before.
  void silence(const std::string& address, bool silent);
  // Of the endpoint with this address: its links, with those that are held, and the bytes of puts
  // and gets that it has served.
  struct Counts {
    std::size_t links = 0;
    std::size_t refused = 0;  // for want of room
    std::uint64_t bytes = 0;
    std::uint64_t messages = 0, writes = 0;  // that have arrived there
    std::uint64_t opened = 0;                // links, from there, ever
  };
  Counts counts(const std::string& address);
  // What asks the endpoint with this address for links waits, as at a host that is slow to take
  // them; false: it comes now, also from who has left since.
  void hold_requests(const std::string& address, bool are_held);
  // What tells the endpoint with this address that a link of its own is up waits, as where a device
  // tells that apart from messages; false: it comes now.
  void hold_ups(const std::string& address, bool are_held);
  // Called in each poll of the endpoint with this address from now on, before all else.
  void set_at_poll(const std::string& address, std::function<void()> at_poll);
  // Every link there is stays up and carries nothing any more; those to come do.
  void stall();

 private:
  friend class LoopbackEndpoint;

  std::mutex mutex_;
  std::unordered_map<std::uint64_t, LoopbackEndpoint*> endpoints_;
  std::uint64_t last_id_ = 0;
  Faults faults_;
  Options options_[2];
  unsigned num_made_ = 0;        // since those were set
  const std::uint64_t process_;  // tells addresses of other processes apart
  std::mt19937_64 random_{1};
};

std::unique_ptr<Endpoint> make_endpoint(std::shared_ptr<Network> network = Network::of_process());

}  // namespace weft::fabric::loopback
