#pragma once
// Fabrics: a process's lanes to the ranks of its job, and which of them lead to which rank. Inside
// a host it is memory that both map, else the first fabric (fabric/registry.hpp) that WEFT_FABRIC
// allows and both ends have.
//
// Clients: the engine and exchanges, at their start. Threads: open() and the destructor: one; the
// rest: any.
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/registry.hpp"
#include "job/members.hpp"
#include "lanes/lanes.hpp"
#include "lanes/watcher.hpp"

namespace weft {

// The most lanes over fabrics that a process may have: to its job's ranks, and to foreign
// processes.
inline constexpr std::size_t kMaxRemoteFabrics = 2 * (fabric::kNumFabrics - 1);

class Fabrics {
 public:
  // Collective over the job. Opens the fabrics that this process can have; the reasons for missing
  // ones are published to the peers and shown by explain(). Without remote peers no remote fabric
  // is made.
  static Status open(Members& job, std::unique_ptr<Fabrics>& fabrics);
  ~Fabrics();

  // The lanes to a peer; null where the two have no fabric in common.
  Lanes* to(int peer) const noexcept { return to_[static_cast<std::size_t>(peer)]; }
  // For the error at first contact: the fabrics that each of the two has.
  std::string explain(int peer) const;

  // The lanes inside the host, which also hold this process's doorbells. Always there, they lead at
  // least to this process itself.
  HostLanes& local() const noexcept { return *local_; }
  // The lanes over fabrics that lead to at least one peer and need poll(). Any thread.
  std::span<transport::RemoteLanes* const> remote() const noexcept {
    return {remote_, num_remote_.load(std::memory_order_acquire)};
  }
  // The thread that waits for the remote lanes while this process sleeps; null if there are none.
  Watcher* watcher() const noexcept { return watcher_.get(); }

  // Opens lanes to foreign processes at the first call; remote() is longer and there is a watcher
  // afterwards. One thread at a time calls this and admit(). unsupported, with the reasons: there
  // are none.
  Status open_to_foreign();
  // The addresses of this process over them: lines of a fabric's name and its endpoint address.
  std::string endpoint_addresses() const;
  // The lanes to a foreign process with these endpoint addresses, under this number.
  Status admit(int number, const ProcessName& name, std::string_view addresses, Lanes*& lanes);

 private:
  explicit Fabrics(Members& job);
  Status start();
  Status add_remote(transport::RemoteLanes& lanes);

  Members& job_;
  std::unique_ptr<HostLanes> local_;
  std::vector<std::unique_ptr<transport::RemoteLanes>> others_;  // in the order of choice
  std::vector<Lanes*> to_;
  // Lanes to foreign processes are added while other threads read.
  transport::RemoteLanes* remote_[kMaxRemoteFabrics] = {};
  std::atomic<std::size_t> num_remote_{0};
  std::vector<std::unique_ptr<transport::RemoteLanes>> to_foreign_;
  std::unique_ptr<Watcher> watcher_;
};

// Opens the fabric. Publishes this process's address over it on the job's board, without a fence,
// after which reaches() may read the board; for foreign processes endpoint_address() has it. An
// error's text has the reason why this process cannot have the fabric, which is no failure as long
// as another leads to the peer. local: has the doorbells that this process sleeps on.
Status make_remote_lanes(Members& job, HostLanes& local, const fabric::Row& row, To to,
                         std::unique_ptr<transport::RemoteLanes>& lanes);

// For weft-info: the use of each fabric on this machine.
std::string fabrics_text(const Settings& settings);

}  // namespace weft
