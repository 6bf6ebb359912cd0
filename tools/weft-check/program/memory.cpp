#include "tools/weft-check/program/memory.hpp"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <atomic>
#include <map>
#include <mutex>
#include <new>

namespace weft::check {
namespace {

// initial-exec: the general model would allocate at a thread's first use, in malloc.
#define WEFT_THREAD thread_local __attribute__((tls_model("initial-exec")))
WEFT_THREAD int own_depth = 0;
WEFT_THREAD bool is_removing = false;

struct Real {
  void* (*malloc)(std::size_t);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void (*free)(void*);
  void* (*memalign)(std::size_t, std::size_t);
};

// What is asked for while the real functions are looked up.
alignas(16) char early[16384];
std::atomic<std::size_t> early_used{0};
bool is_early(const void* block) {
  return block >= static_cast<void*>(early) && block < static_cast<void*>(early + sizeof early);
}
void* take_early(std::size_t bytes) {
  const std::size_t at = early_used.fetch_add((bytes + 15) / 16 * 16);
  return at + bytes <= sizeof early ? early + at : nullptr;
}

template <class Function>
void look_up(Function& function, const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  memcpy(&function, &found, sizeof function);
}

Real real_functions{};
std::atomic<bool> is_ready{false};
WEFT_THREAD bool is_looking_up = false;

const Real* real() {
  if (is_ready.load(std::memory_order_acquire)) return &real_functions;
  if (is_looking_up) return nullptr;
  is_looking_up = true;
  Real found{};
  look_up(found.malloc, "malloc");
  look_up(found.calloc, "calloc");
  look_up(found.realloc, "realloc");
  look_up(found.free, "free");
  look_up(found.memalign, "memalign");
  real_functions = found;
  is_ready.store(true, std::memory_order_release);
  is_looking_up = false;
  return &real_functions;
}

struct Blocks {
  std::mutex mutex;
  std::map<std::uintptr_t, std::size_t> sizes;
};
// Never destroyed: functions of atexit free, too.
Blocks& blocks() {
  alignas(Blocks) static char place[sizeof(Blocks)];
  static Blocks* all = new (place) Blocks;
  return *all;
}

std::atomic<OnFree> on_free{nullptr};
std::atomic<std::uint64_t> freed{0};

// Another thread may hold the lock while a process forks, or one of those behind on_free.
void before_fork() { blocks().mutex.lock(); }
void after_fork() { blocks().mutex.unlock(); }
void in_child() {
  on_free = nullptr;
  after_fork();
}

void add(void* block, std::size_t bytes) {
  if (block == nullptr || own_depth > 0) return;
  const OwnMemory own;
  Blocks& all = blocks();
  const std::lock_guard lock(all.mutex);
  all.sizes[reinterpret_cast<std::uintptr_t>(block)] = bytes;
}

// What the program frees in a function that a call of MPI has called goes without a word.
void remove(void* block, const void* caller) {
  if (block == nullptr || is_removing) return;
  const bool is_quiet = own_depth > 0;
  const OwnMemory own;
  Block ended;
  std::map<std::uintptr_t, std::size_t>::node_type node;
  {
    Blocks& all = blocks();
    const std::lock_guard lock(all.mutex);
    const auto at = all.sizes.find(reinterpret_cast<std::uintptr_t>(block));
    if (at == all.sizes.end()) return;
    ended = {at->first, at->second};
    node = all.sizes.extract(at);
  }
  is_removing = true;  // the node is freed, too
  node = {};
  is_removing = false;
  freed.fetch_add(1, std::memory_order_relaxed);
  const OnFree function = on_free.load(std::memory_order_acquire);
  if (function != nullptr && !is_quiet) function(ended, caller);
}

}  // namespace

OwnMemory::OwnMemory() { ++own_depth; }
OwnMemory::~OwnMemory() { --own_depth; }

bool block_of(std::uintptr_t address, Block& out) {
  Blocks& all = blocks();
  const OwnMemory own;
  const std::lock_guard lock(all.mutex);
  auto at = all.sizes.upper_bound(address);
  if (at == all.sizes.begin()) return false;
  --at;
  if (address - at->first >= at->second) return false;
  out = {at->first, at->second};
  return true;
}

std::uint64_t num_freed() { return freed.load(std::memory_order_relaxed); }

void begin_memory() { pthread_atfork(before_fork, after_fork, in_child); }

void set_on_free(OnFree function) { on_free.store(function, std::memory_order_release); }

}  // namespace weft::check

#pragma GCC visibility push(default)

extern "C" {

void* malloc(std::size_t bytes) {
  const auto* real = weft::check::real();
  if (real == nullptr) return weft::check::take_early(bytes);
  void* block = real->malloc(bytes);
  weft::check::add(block, bytes);
  return block;
}

void* calloc(std::size_t number, std::size_t bytes) {
  const auto* real = weft::check::real();
  if (real == nullptr) return weft::check::take_early(number * bytes);
  void* block = real->calloc(number, bytes);
  weft::check::add(block, number * bytes);
  return block;
}

void* realloc(void* old, std::size_t bytes) {
  const auto* real = weft::check::real();
  if (real == nullptr || weft::check::is_early(old)) {
    void* block = malloc(bytes);
    if (block != nullptr && old != nullptr)
      memcpy(
          block, old,
          std::min(bytes, static_cast<std::size_t>(weft::check::early + sizeof weft::check::early -
                                                   static_cast<char*>(old))));
    return block;
  }
  weft::check::remove(old, __builtin_return_address(0));
  void* block = real->realloc(old, bytes);
  weft::check::add(block, bytes);
  return block;
}

void free(void* block) {
  if (block == nullptr || weft::check::is_early(block)) return;
  const auto* real = weft::check::real();
  weft::check::remove(block, __builtin_return_address(0));
  if (real != nullptr) real->free(block);
}

void* memalign(std::size_t alignment, std::size_t bytes) {
  const auto* real = weft::check::real();
  if (real == nullptr) return nullptr;
  void* block = real->memalign(alignment, bytes);
  weft::check::add(block, bytes);
  return block;
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  void* block = memalign(alignment, bytes);
  if (block == nullptr) return ENOMEM;
  *out = block;
  return 0;
}

}  // extern "C"

#pragma GCC visibility pop
