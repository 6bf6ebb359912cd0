#pragma once
// Device: a described device in place of the real one. This folder's sources stand between a
// program and libibverbs, in front of it (LD_PRELOAD) or linked into it; what a program does with
// contexts that it opened while a device was described meets that device.
//
// A program that is linked with them describes devices by Described. In front of one,
// DEVICE_DESCRIPTION names the file. Any thread.
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/devices/description.hpp"

namespace weft::devices {

struct Context;

struct Device {
  explicit Device(Description description) : described(std::move(description)) {}

  // Beside what is described: of the calls from now on, or posts ("ibv_post_send"), so many fail
  // after those that are skipped; fewer than 0: all.
  void fail(const std::string& call, int error, int skipped = 0, int count = 1);
  void stop_failing(const std::string& call);
  int num_calls(const std::string& call);
  void lose_confirms(bool lose);
  void hold_posts(int count);           // of each queue pair, the first
  void set_port(ibv_port_state state);  // with its event
  void raise(ibv_event_type type);      // in each of its contexts
  // It is gone: IBV_EVENT_DEVICE_FATAL, no completion ever, and EIO.
  void vanish();

  // The rest is of this folder's sources.
  int enter(const std::string& call);  // counts a call and takes its time; the errno, or 0
  ibv_port_state port_state(ibv_port_state real);

  std::mutex lock;
  // Under the lock:
  Description described;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  std::map<std::string, int> calls;
  std::vector<Context*> contexts;
  int num_pairs = 0, num_regions = 0, num_sent = 0;
  std::int64_t num_reads = 0;  // that its queue pairs answer at once
  bool is_gone = false;
};

// As long as it lives, contexts that are opened are of this device; then of the one before.
class Described {
 public:
  explicit Described(std::string_view text);
  ~Described();
  Described(const Described&) = delete;
  Device* operator->() const noexcept { return device_.get(); }

 private:
  const std::shared_ptr<Device> device_;
  std::shared_ptr<Device> before_;
};

}  // namespace weft::devices
