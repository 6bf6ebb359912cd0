#pragma once
// Threads of the library's own. The program's signals are for the program's threads, so these are
// made with all signals blocked. Any thread; not on a datapath.
#include <signal.h>

#include <functional>
#include <thread>

#include "weft/status.hpp"

namespace weft {

// While it lives, threads that this thread starts (also inside other libraries) take no signals.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept;
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// Runs `body` in `thread`, which had none. no_memory: there can be no more threads.
Status start_thread(std::thread& thread, std::function<void()> body);

}  // namespace weft
