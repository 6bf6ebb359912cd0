#include "tools/weft-check/state/windows.hpp"

#include <fmt/core.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "tools/weft-check/program/memory.hpp"
#include "tools/weft-check/program/variables.hpp"
#include "tools/weft-check/report.hpp"

namespace weft::check {
namespace {

constexpr std::size_t kMostBytes = 64u << 20;  // of gets that go through this library's memory
constexpr std::size_t kMostAccesses = 1024;    // of a window that are looked at

struct Window {
  Call call;
  std::uintptr_t begin = 0, end = 0;
  std::vector<std::shared_ptr<WindowAccess>> accesses;
  bool has_fence = false;  // the last fence may have opened an epoch
  Call fence;
  bool has_locked = false;  // since the last fence
  Call lock;
  std::uintptr_t exposed_begin = 0, exposed_end = UINTPTR_MAX;  // until it is known: all memory
  std::vector<int> world;  // the members' ranks in MPI_COMM_WORLD
  std::uint32_t number = 0, num_fences = 0, serial = 0;
  bool is_passive = false;  // since the last fence, or was started
};

struct Windows {
  std::mutex mutex;
  std::unordered_map<MPI_Win, Window> all;
  std::atomic<std::size_t> number{0};
  std::atomic<std::size_t> bytes{0};  // of gets
};
Windows& windows() {
  static Windows& all = *new Windows;
  return all;
}

Window* find(Windows& all, MPI_Win handle) {
  const auto at = all.all.find(handle);
  return at == all.all.end() ? nullptr : &at->second;
}

std::uint64_t sum_of(const void* buffer, std::size_t bytes) {
  std::uint64_t sum = bytes;
  const char* at = static_cast<const char*>(buffer);
  for (; bytes >= 8; at += 8, bytes -= 8) {
    std::uint64_t word;
    memcpy(&word, at, 8);
    sum = (sum ^ word ^ sum >> 29) * 0x9e3779b97f4a7c15ull;
  }
  for (; bytes > 0; ++at, --bytes) sum = (sum ^ static_cast<unsigned char>(*at)) * 0x100000001b3ull;
  return sum;
}

void check_destination(const WindowAccess& access) {
  if (access.data == nullptr || sum_of(access.destination, access.data->size()) == access.checksum)
    return;
  report(
      access.call, "changed",
      fmt::format("the program has changed its buffer (from {:#x}, {} bytes) before the data were "
                  "there, by {}: they overwrite the change",
                  reinterpret_cast<std::uintptr_t>(access.destination), access.data->size(),
                  text_of(current_call)));
}

}  // namespace

void add_window(MPI_Win handle, const void* base, MPI_Aint bytes, bool is_own_memory,
                const Comm* comm, std::uint32_t number) {
  Windows& all = windows();
  const std::lock_guard lock(all.mutex);
  Window window;
  window.call = current_call;
  window.number = number;
  if (comm != nullptr) window.world = comm->world;
  if (is_own_memory && bytes > 0 && base != nullptr) {
    window.begin = reinterpret_cast<std::uintptr_t>(base);
    window.end = window.begin + static_cast<std::uintptr_t>(bytes);
  }
  all.all[handle] = std::move(window);
  all.number = all.all.size();
}

void note_exposed(MPI_Win handle, const void* base, MPI_Aint bytes) {
  Windows& all = windows();
  const std::lock_guard lock(all.mutex);
  if (Window* window = find(all, handle)) {
    window->exposed_begin = reinterpret_cast<std::uintptr_t>(base);
    window->exposed_end = window->exposed_begin + static_cast<std::uintptr_t>(bytes);
  }
}

void end_window(MPI_Win handle) {
  Windows& all = windows();
  Window ended;
  {
    const std::lock_guard lock(all.mutex);
    Window* window = find(all, handle);
    if (window == nullptr) return;
    ended = std::move(*window);
    all.all.erase(handle);
    all.number = all.all.size();
  }
  if (ended.begin != 0 && is_of_ended_function(ended.begin))
    report(ended.call, "lifetime",
           "its memory is a variable of a function that has returned since: use memory that lives "
           "until MPI_Win_free");
  if (!ended.accesses.empty()) {
    const WindowAccess& first = *ended.accesses.front();
    report("window", fmt::format("{} to rank {} is not complete: {} is missing before",
                                 text_of(first.call), first.target,
                                 ended.has_fence ? "MPI_Win_fence"
                                                 : "MPI_Win_flush, or the end of its epoch,"));
  }
  for (const auto& access : ended.accesses) finish_access(*access);
}

void* redirect(WindowAccess& access, void* buffer, std::uint64_t count, const Layout& layout) {
  const std::uint64_t bytes = count * static_cast<std::uint64_t>(layout.bytes);
  if (buffer == nullptr || !layout.is_contiguous || bytes == 0) return buffer;
  Windows& all = windows();
  {
    const std::lock_guard lock(all.mutex);
    const auto begin = reinterpret_cast<std::uintptr_t>(buffer);
    for (const auto& [handle, window] : all.all)
      if (window.exposed_begin < begin + bytes && begin < window.exposed_end) return buffer;
  }
  if (all.bytes.fetch_add(bytes) + bytes > kMostBytes) {
    all.bytes -= bytes;
    return buffer;
  }
  access.data = std::make_shared<std::vector<char>>(bytes);
  access.destination = buffer;
  access.checksum = sum_of(buffer, bytes);
  return access.data->data();
}

void finish_access(WindowAccess& access) {
  for (const Use use : access.uses) end_use(use);
  access.uses.clear();
  if (const auto data = std::exchange(access.data, nullptr)) {
    if (access.destination != nullptr) memcpy(access.destination, data->data(), data->size());
    windows().bytes -= data->size();
  }
}

bool has_room(MPI_Win handle) {
  Windows& all = windows();
  const std::lock_guard lock(all.mutex);
  const Window* window = find(all, handle);
  return window != nullptr && window->accesses.size() < kMostAccesses;
}

void add_access(MPI_Win handle, std::shared_ptr<WindowAccess> access) {
  Windows& all = windows();
  const std::lock_guard lock(all.mutex);
  if (Window* window = find(all, handle)) window->accesses.push_back(std::move(access));
}

AccessTime time_of_access(MPI_Win handle, int target) {
  Windows& all = windows();
  const std::lock_guard lock(all.mutex);
  const Window* window = find(all, handle);
  if (window == nullptr || window->number == 0 || target < 0 ||
      static_cast<std::size_t>(target) >= window->world.size())
    return {};
  AccessTime time{window->world[static_cast<std::size_t>(target)], window->number, 0,
                  window->serial};
  if (window->has_fence && !window->is_passive) time.fence = window->num_fences;
  return time;
}

void check_before_sync(MPI_Win handle) {
  Windows& all = windows();
  const std::lock_guard lock(all.mutex);
  if (const Window* window = find(all, handle))
    for (const auto& access : window->accesses) check_destination(*access);
}

void note_sync(MPI_Win handle, Sync sync, int target, int assertion) {
  Windows& all = windows();
  std::vector<std::shared_ptr<WindowAccess>> complete;
  {
    const std::lock_guard lock(all.mutex);
    Window* window = find(all, handle);
    if (window == nullptr) return;
    ++window->serial;
    switch (sync) {
      case Sync::fence:
        ++window->num_fences;
        window->is_passive = false;
        if (window->has_fence && window->has_locked && (assertion & MPI_MODE_NOPRECEDE) == 0)
          report(window->lock, "window",
                 fmt::format("locks while the epoch that {} has opened goes on until {}: give the "
                             "first fence MPI_MODE_NOSUCCEED and the second MPI_MODE_NOPRECEDE",
                             text_of(window->fence), text_of(current_call)));
        window->has_fence = (assertion & MPI_MODE_NOSUCCEED) == 0;
        window->fence = current_call;
        window->has_locked = false;
        break;
      case Sync::lock:
        window->has_locked = true;
        window->lock = current_call;
        window->is_passive = true;
        return;
      case Sync::start:
        window->is_passive = true;
        return;
      default:
        break;
    }
    for (std::size_t i = 0; i < window->accesses.size();) {
      if (target != kAllTargets && window->accesses[i]->target != target) {
        ++i;
        continue;
      }
      complete.push_back(std::move(window->accesses[i]));
      window->accesses.erase(window->accesses.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  for (const auto& access : complete) finish_access(*access);
}

void forget_access(MPI_Win handle, const std::shared_ptr<WindowAccess>& access) {
  finish_access(*access);
  Windows& all = windows();
  const std::lock_guard lock(all.mutex);
  if (Window* window = find(all, handle)) std::erase(window->accesses, access);
}

void note_barrier() {
  Windows& all = windows();
  if (all.number.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(all.mutex);
  for (auto& [handle, window] : all.all) window.has_locked = false;
}

void check_freed_window(std::uintptr_t begin, std::uintptr_t end, const void* caller) {
  Windows& all = windows();
  if (all.number.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(all.mutex);
  for (const auto& [handle, window] : all.all)
    if (window.begin < end && begin < window.end)
      report({"free", caller}, "freed",
             fmt::format("gives the memory of the window made by {} back: MPI_Win_free comes first",
                         text_of(window.call)));
}

}  // namespace weft::check
