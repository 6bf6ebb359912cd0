#pragma once
// Destroys queue pairs without waiting for ever. rxe's ibv_destroy_qp does not return before every
// packet of the queue pair has left the host, or 50 s have passed: a network device that has
// stopped sending, as it does when the host it is connected to is gone or pauses it, keeps them.
// Meanwhile the kernel lets nothing end that thread, so it must not be one that others wait for.
//
// siw's rdma_connect and rdma_destroy_id wait likewise, for a host that does not answer.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <functional>
#include <future>
#include <vector>

namespace weft::verbs {

// From here on it takes nothing that arrives, and the requests in its queues end with errors.
void put_in_error_state(ibv_qp* qp) noexcept;

// Guarded by its owner.
class Reaper {
 public:
  // Returns true when `qp` is gone, or soon false: then it is in its error state, and a thread of
  // its own continues.
  bool destroy(ibv_qp* qp) noexcept;
  // Likewise, once `asked`, of run() or none, is there, for which this does not wait.
  void destroy(rdma_cm_id* cm, const std::shared_future<int>& asked) noexcept;
  // Runs this in a thread of its own, and without memory for one in this.
  static std::shared_future<int> run(std::function<int()> body);
  // Returns true if all are gone. The device must not be closed before: these threads use it.
  bool idle() noexcept;

 private:
  bool end(const std::function<void()>& body, bool waits = true) noexcept;

  std::vector<std::future<void>> late_;
};

}  // namespace weft::verbs
