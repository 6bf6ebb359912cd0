#include "base/os/thread.hpp"

#include <fmt/core.h>
#include <pthread.h>

#include <system_error>
#include <utility>

namespace weft {

SignalsBlocked::SignalsBlocked() noexcept {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

Status start_thread(std::thread& thread, std::function<void()> body) {
  const SignalsBlocked blocked;
  try {
    thread = std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return {Code::no_memory,
            fmt::format("cannot start a thread: {} (see ulimit -u)", error.what())};
  }
  return {};
}

}  // namespace weft
