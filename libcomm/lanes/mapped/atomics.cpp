#include "lanes/mapped/atomics.hpp"

#include "base/os/thread.hpp"
#include "base/wait.hpp"
#include "fabric/endpoint.hpp"

namespace weft::shm {
namespace {

// The longest sleep of either side before it checks whether the other has ended.
constexpr std::uint64_t kSleepUs = 50'000;
// The owner's thread has to be woken; that it answers sooner is rare, and spinning would keep it
// from a core.
constexpr int kSpins = 100;

}  // namespace

void apply(void* at, AtomicOperation& operation) noexcept {
  const bool swaps = operation.kind == AtomicRequest::kCas;
  operation.previous = fabric::apply(fabric::Atomic{swaps}, at,
                                     swaps ? operation.swap : operation.operand, operation.operand);
}

Status AtomicServer::start(std::shared_ptr<Arena> arena, std::uint32_t num_local, Serve serve,
                           std::unique_ptr<AtomicServer>& server) {
  std::unique_ptr<AtomicServer> made(new AtomicServer);
  made->arena_ = std::move(arena);
  made->num_local_ = num_local;
  made->serve_ = std::move(serve);
  Status status = start_thread(made->thread_, [raw = made.get()] { raw->run(); });
  if (status) server = std::move(made);
  return status;
}

AtomicServer::~AtomicServer() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  auto& bell = arena_->header().atomic_bell;
  bell.fetch_add(1);
  futex_wake_all(&bell);
  thread_.join();
}

void AtomicServer::run() noexcept {
  auto& bell = arena_->header().atomic_bell;
  for (;;) {
    // acquire: requests posted before it rang; pairs with the release in ask().
    const std::uint32_t seen = bell.load(std::memory_order_acquire);
    if (stopping_.load()) return;
    for (std::uint32_t i = 0; i < num_local_; ++i) answer(i);
    futex_wait(&bell, seen, kSleepUs * 20);
  }
}

void AtomicServer::answer(std::uint32_t local) noexcept {
  AtomicRequest& request = arena_->request(local);
  // acquire: its fields; pairs with the release in ask().
  if (request.state.load(std::memory_order_acquire) != AtomicRequest::kPosted) return;
  // Copied before it is checked: the peer could change it.
  AtomicOperation operation{static_cast<AtomicRequest::Kind>(request.kind), request.word,
                            request.operand, request.swap, 0};
  const Code code = serve_(local, operation);
  request.previous = operation.previous;
  request.code = static_cast<std::uint32_t>(code);
  // release: the result; pairs with the acquire in ask().
  request.state.store(AtomicRequest::kDone, std::memory_order_release);
  futex_wake_all(&request.state);
}

Code ask(Arena& arena, AtomicRequest& request, AtomicOperation& operation,
         const std::function<bool()>& alive) noexcept {
  request.kind = operation.kind;
  request.word = operation.word;
  request.operand = operation.operand;
  request.swap = operation.swap;
  // release: pairs with the acquire in answer().
  request.state.store(AtomicRequest::kPosted, std::memory_order_release);
  auto& bell = arena.header().atomic_bell;
  bell.fetch_add(1, std::memory_order_release);
  futex_wake_all(&bell);
  const auto done = [&request] {
    return request.state.load(std::memory_order_acquire) == AtomicRequest::kDone;
  };
  for (int i = 0; i < kSpins && !done(); ++i) cpu_relax();
  while (!done()) {
    futex_wait(&request.state, AtomicRequest::kPosted, kSleepUs);
    // Once the owner is gone, a last check shows whether it was done at the last moment.
    if (!done() && !alive() && !done()) return Code::peer_lost;
  }
  operation.previous = request.previous;
  const std::uint32_t code = request.code;
  request.state.store(AtomicRequest::kIdle, std::memory_order_relaxed);
  return code <= static_cast<std::uint32_t>(Code::exists) ? static_cast<Code>(code)
                                                          : Code::bad_argument;
}

}  // namespace weft::shm
