#pragma once
// A device that fails as told. Programs linked with failing_device.cpp call it in place of
// libibverbs; it passes everything on but what is to fail.
#include <atomic>
#include <climits>

namespace weft {

struct FailingDevice {
  std::atomic<int> taken{0};      // so many more requests are posted,
  std::atomic<int> refused{0};    // and so many after them are not (ENOMEM)
  std::atomic<int> confirmed{0};  // connections that their askers have said to be there,
  std::atomic<bool> confirmations_lost{false};  // and nobody hears that
  std::atomic<int> max_entries{0};          // of a completion queue; 0: as many as the device says
  std::atomic<int> first_entries{INT_MAX};  // and, with that, of one that is new, at most
  std::atomic<bool> queue_fails{false};     // some completion queue is to overrun
};
extern FailingDevice failing_device;

}  // namespace weft
