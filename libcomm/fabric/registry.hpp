#pragma once
// Registry: the fabrics of this process, and which of them leads to which peer. Order of choice:
// shm inside a host, then verbs, then ofi, as far as WEFT_FABRIC allows and both ends have it.
//
// Clients: the engine and the transport, at their start. Threads: open() and the destructor: one;
// the rest: any.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric.hpp"
#include "fabric/watcher.hpp"
#include "job/job.hpp"

namespace weft {

class Fabrics {
 public:
  // Collective over the job. Makes what this process can have; what it can't have and why is told
  // to the peers and shown by explain(). Without remote peers no remote fabric is made.
  static Status open(Job& job, std::unique_ptr<Fabrics>& fabrics);
  ~Fabrics();

  // The way to a peer; null where the two have no fabric in common.
  Fabric* to(int peer) const noexcept { return to_[static_cast<std::size_t>(peer)]; }
  // For the error at first contact: what each of the two has.
  std::string explain(int peer) const;

  // The fabric inside the host, which also holds this process's doorbells. Always there, reaches at
  // least this process itself.
  Fabric& local() const noexcept { return *local_; }
  // Those that lead to at least one peer and need poll().
  const std::vector<Fabric*>& remote() const noexcept { return remote_; }
  // Waits for the remote ones while this process sleeps; null if there are none.
  Watcher* watcher() const noexcept { return watcher_.get(); }

 private:
  explicit Fabrics(Job& job) : job_(job) {}
  Status start();

  Job& job_;
  std::unique_ptr<Fabric> local_;
  std::vector<std::unique_ptr<Fabric>> others_;  // in the order of choice
  std::vector<Fabric*> to_;
  std::vector<Fabric*> remote_;
  std::unique_ptr<Watcher> watcher_;
};

// Factories of remote fabrics. Each opens the device, publishes on the job's board how this process
// can be reached, and returns without a fence; the registry makes one for all. Afterwards reaches()
// may look at the board. An error's text says why this process cannot have the fabric, which is no
// failure as long as another leads to the peer. `local` has the process's doorbells.
using MakeFabric = Status (*)(Job& job, Fabric& local, std::unique_ptr<Fabric>& fabric);

// The lanes of transport/lanes over libfabric, over RDMA devices, and over the loopback: ranks that
// are threads of one process.
Status make_ofi_fabric(Job& job, Fabric& local, std::unique_ptr<Fabric>& fabric);
Status make_verbs_fabric(Job& job, Fabric& local, std::unique_ptr<Fabric>& fabric);
Status make_loopback_fabric(Job& job, Fabric& local, std::unique_ptr<Fabric>& fabric);

struct FabricRow {
  std::string_view name;
  MakeFabric make;
};
// Those of this build, in the order of choice; shm, which comes first, is not among them.
const std::vector<FabricRow>& remote_fabrics();
inline constexpr std::size_t kNumRemoteFabrics = 3;

// For weft-info: what each fabric can do on this machine.
std::string fabrics_text(const Settings& settings);

// WEFT_FABRIC: whether it names this fabric. bad_setting for a name that is none.
Status check_fabric_setting(const Settings& settings);
bool fabric_allowed(const Settings& settings, std::string_view name);

}  // namespace weft
