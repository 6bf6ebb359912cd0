#pragma once
// A device that fails as told. Programs linked with failing_device.cpp call it in place of
// libibverbs; it passes everything on but what is to fail.
#include <atomic>

namespace weft {

struct FailingDevice {
  std::atomic<int> taken{0};      // so many more requests are posted,
  std::atomic<int> refused{0};    // and so many after them are not (ENOMEM)
  std::atomic<int> confirmed{0};  // connections that their askers have said to be there,
  std::atomic<bool> confirmations_lost{false};  // and nobody hears that
};
extern FailingDevice failing_device;

}  // namespace weft
