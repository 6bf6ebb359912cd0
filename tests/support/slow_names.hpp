#pragma once
// A name server of a test's own, in one of its files: "slow.invalid" is this host, which it says
// only once the test lets it.
#include <dlfcn.h>
#include <netdb.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string_view>

namespace weft::testing {

class SlowNames {
 public:
  static SlowNames& of_process() {
    static SlowNames names;
    return names;
  }
  void answer() { set(true); }
  void fall_silent() { set(false); }
  // The name server's side. False: who asks gives up, which only a test that fails waits for.
  bool wait() {
    std::unique_lock guard(lock_);
    is_asked_ = true;
    ++num_waiting_;
    changed_.notify_all();
    const bool is_answered = changed_.wait_for(guard, kDeadline, [this] { return answers_; });
    --num_waiting_;
    return is_answered;
  }
  // Somebody has asked and has no answer yet.
  bool is_waited_for() {
    const std::lock_guard guard(lock_);
    return num_waiting_ != 0;
  }
  bool wait_until_asked() {
    std::unique_lock guard(lock_);
    return changed_.wait_for(guard, kDeadline, [this] { return is_asked_; });
  }

 private:
  static constexpr auto kDeadline = std::chrono::seconds(60);

  void set(bool answers) {
    const std::lock_guard guard(lock_);
    answers_ = answers;
    is_asked_ = false;
    changed_.notify_all();
  }
  std::mutex lock_;
  std::condition_variable changed_;
  bool answers_ = true;
  bool is_asked_ = false;
  int num_waiting_ = 0;
};

}  // namespace weft::testing

// In the place of the system's.
extern "C" int getaddrinfo(const char* host, const char* port, const addrinfo* hints,
                           addrinfo** found) {
  static const auto real =
      reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const bool is_slow = host != nullptr && std::string_view(host) == "slow.invalid";
  if (!is_slow || (hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0))
    return real(host, port, hints, found);
  if (!weft::testing::SlowNames::of_process().wait()) return EAI_AGAIN;
  return real("127.0.0.1", port, hints, found);
}
