#pragma once
// Registry: the fabrics of this process, and which of them leads to which peer. Order of choice:
// shm inside a host, then verbs, then ofi, as far as WEFT_FABRIC allows and both ends have it.
//
// Clients: the engine and the transport, at their start. Threads: open() and the destructor: one;
// the rest: any.
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric.hpp"
#include "fabric/watcher.hpp"
#include "job/members.hpp"

namespace weft {

inline constexpr std::size_t kNumRemoteFabrics = 3;
// With those to strangers.
inline constexpr std::size_t kMaxRemoteFabrics = 2 * kNumRemoteFabrics;

class Fabrics {
 public:
  // Collective over the job. Makes what this process can have; what it can't have and why is told
  // to the peers and shown by explain(). Without remote peers no remote fabric is made.
  static Status open(Members& job, std::unique_ptr<Fabrics>& fabrics);
  ~Fabrics();

  // The way to a peer; null where the two have no fabric in common.
  Fabric* to(int peer) const noexcept { return to_[static_cast<std::size_t>(peer)]; }
  // For the error at first contact: what each of the two has.
  std::string explain(int peer) const;

  // The fabric inside the host, which also holds this process's doorbells. Always there, reaches at
  // least this process itself.
  Fabric& local() const noexcept { return *local_; }
  // Those that lead to at least one peer and need poll(). Any thread.
  std::span<Fabric* const> remote() const noexcept {
    return {remote_, num_remote_.load(std::memory_order_acquire)};
  }
  // Waits for the remote ones while this process sleeps; null if there are none.
  Watcher* watcher() const noexcept { return watcher_.get(); }

  // Ways to strangers, made at the first call; more in remote() and a watcher afterwards. One
  // thread at a time calls this and admit(). unsupported, and why: there are none.
  Status open_to_strangers();
  // How this process is reached over them: lines of a fabric's name and its card.
  std::string cards() const;
  // The way to a stranger with such cards, which is told of its number.
  Status admit(int number, const ProcessName& name, std::string_view cards, Fabric*& fabric);

 private:
  explicit Fabrics(Members& job) : job_(job) {}
  Status start();
  Status add_remote(Fabric& fabric);

  Members& job_;
  std::unique_ptr<Fabric> local_;
  std::vector<std::unique_ptr<Fabric>> others_;  // in the order of choice
  std::vector<Fabric*> to_;
  // Strangers come while others look.
  Fabric* remote_[kMaxRemoteFabrics] = {};
  std::atomic<std::size_t> num_remote_{0};
  std::vector<std::unique_ptr<Fabric>> to_strangers_;
  std::unique_ptr<Watcher> watcher_;
};

// Factories of remote fabrics. Each opens the device, publishes on the job's board how this process
// can be reached, and returns without a fence; the registry makes one for all. Afterwards reaches()
// may look at the board. An error's text says why this process cannot have the fabric, which is no
// failure as long as another leads to the peer. `local` has the process's doorbells.
// With To::strangers it publishes nothing, and card() says how it can be reached.
enum class To { members, strangers };
using MakeFabric = Status (*)(Members& job, Fabric& local, To to, std::unique_ptr<Fabric>& fabric);

// The lanes of transport/lanes over libfabric, over RDMA devices, and over the loopback: ranks that
// are threads of one process.
Status make_ofi_fabric(Members& job, Fabric& local, To to, std::unique_ptr<Fabric>& fabric);
Status make_verbs_fabric(Members& job, Fabric& local, To to, std::unique_ptr<Fabric>& fabric);
Status make_loopback_fabric(Members& job, Fabric& local, To to, std::unique_ptr<Fabric>& fabric);

struct FabricRow {
  std::string_view name;
  MakeFabric make;
};
// Those of this build, in the order of choice; shm, which comes first, is not among them.
const std::vector<FabricRow>& remote_fabrics();

// For weft-info: what each fabric can do on this machine.
std::string fabrics_text(const Settings& settings);

// WEFT_FABRIC: whether it names this fabric. bad_setting for a name that is none.
Status check_fabric_setting(const Settings& settings);
bool fabric_allowed(const Settings& settings, std::string_view name);

}  // namespace weft
