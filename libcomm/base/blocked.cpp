#include "base/blocked.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/stats.hpp"
#include "base/wait.hpp"

namespace weft::blocked {
namespace {

std::atomic<std::uint32_t> taken{0};  // a bit for each slot
std::atomic<std::uint64_t> num_waits{0};

int take_slot() noexcept {
  std::uint32_t now = taken.load(std::memory_order_relaxed);
  for (;;) {
    const int index = __builtin_ctz(~now);
    if (static_cast<std::size_t>(index) >= kNumSlots) return -1;
    if (taken.compare_exchange_weak(now, now | 1u << index, std::memory_order_acquire))
      return index;
  }
}

// The reader takes what it has copied only if the version has not changed meanwhile.
void put(Place& place, const Record& record) noexcept {
  const std::uint32_t version = place.version.load(std::memory_order_relaxed);
  place.version.store(version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  place.record = record;
  place.version.store(version + 2, std::memory_order_release);
}

}  // namespace

void Slot::write(Record& record) noexcept {
  Area* area = stats::blocked_area();
  if (area == nullptr) return;
  if (index_ < 0) {
    index_ = take_slot();
    if (index_ < 0) return;
    number_ = num_waits.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  record.number = number_;
  put((*area)[static_cast<std::size_t>(index_)], record);
}

void Slot::clear() noexcept {
  if (index_ < 0) return;
  Place& place = (*stats::blocked_area())[static_cast<std::size_t>(index_)];
  const std::uint32_t version = place.version.load(std::memory_order_relaxed);
  place.version.store(version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  place.record.number = 0;
  place.version.store(version + 2, std::memory_order_release);
  taken.fetch_and(~(1u << index_), std::memory_order_release);
  index_ = -1;
}

Status Reader::open(pid_t process) {
  file_ = Descriptor();
  return stats::open(process, file_);
}

std::vector<Found> Reader::read() const {
  std::vector<Found> found;
  constexpr int kAttempts = 100;
  for (std::size_t i = 0; i < kNumSlots && file_; ++i) {
    const auto at = static_cast<off_t>(stats::blocked_offset() + i * sizeof(Place));
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      std::uint32_t before = 0, after = 0;
      Found one;
      const auto get = [this](void* to, std::size_t bytes, off_t from) {
        return pread(file_.get(), to, bytes, from) == static_cast<ssize_t>(bytes);
      };
      if (!get(&before, sizeof before, at) || before == 0) break;  // never written
      if (!get(&one.record, sizeof one.record, at + offsetof(Place, record)) ||
          !get(&after, sizeof after, at))
        break;
      if (before != after || before % 2 != 0) continue;
      const std::uint64_t now = now_ns();
      Record& record = one.record;
      if (record.number == 0) break;
      one.waited_ns = now - std::min(now, record.since_ns);
      one.age_ns = now - std::min(now, record.seen_ns);
      found.push_back(one);
      break;
    }
  }
  return found;
}

}  // namespace weft::blocked
