#include "base/os/process_id.hpp"

#include <pthread.h>
#include <unistd.h>

namespace weft {

namespace detail {
std::atomic<pid_t> process_id{0};
}

pid_t keep_process_id() noexcept {
  const auto store = [] { detail::process_id.store(::getpid(), std::memory_order_relaxed); };
  [[maybe_unused]] static const int kept = ::pthread_atfork(nullptr, nullptr, store);
  store();
  return process_id();
}

}  // namespace weft
