#include "tools/weft-check/state/buffers.hpp"

#include <fmt/core.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tools/weft-check/report.hpp"

namespace weft::check {
namespace {

constexpr std::size_t kMostCompared = 64;  // of uses that are near
constexpr std::size_t kMostSegments = 4096;
constexpr std::uintptr_t kAllSummed = 1 << 16;  // of longer buffers parts are
constexpr std::uintptr_t kPiece = 256;
constexpr std::uintptr_t kNumPieces = 128;

struct Entry {
  Use number;
  Memory memory;
  Call call;
  std::uint64_t checksum;
};

struct Uses {
  std::mutex mutex;  // of all threads: any may free memory
  Use last = 0;
  std::multimap<std::uintptr_t, Entry> by_begin;
  std::unordered_map<Use, std::multimap<std::uintptr_t, Entry>::iterator> by_number;
  std::uintptr_t longest = 0;
  std::atomic<std::size_t> number{0};
};
Uses& uses() {
  static Uses& all = *new Uses;
  return all;
}

// Eight bytes at a time; the change of one bit changes the result.
std::uint64_t sum_of(std::uintptr_t begin, std::uintptr_t end, std::uint64_t sum) {
  std::uint64_t lanes[4] = {sum, 1, 2, 3};
  std::uintptr_t at = begin;
  for (; at + 32 <= end; at += 32) {
    std::uint64_t words[4];
    memcpy(words, reinterpret_cast<const void*>(at), 32);
    for (int i = 0; i < 4; ++i) lanes[i] = (lanes[i] ^ words[i]) * 0x9e3779b97f4a7c15ull;
  }
  for (; at < end; ++at)
    lanes[0] = (lanes[0] ^ *reinterpret_cast<const unsigned char*>(at)) * 0x100000001b3ull;
  for (int i = 1; i < 4; ++i)
    lanes[0] = (lanes[0] ^ lanes[i] ^ lanes[i] >> 29) * 0xbf58476d1ce4e5b9ull;
  return lanes[0];
}

std::uint64_t sum_of_span(std::uintptr_t begin, std::uintptr_t end, std::uint64_t sum) {
  if (end - begin <= kAllSummed) return sum_of(begin, end, sum);
  const std::uintptr_t half = kAllSummed / 4;
  sum = sum_of(begin, begin + half, sum);
  sum = sum_of(end - half, end, sum);
  const std::uintptr_t step = (end - begin - 2 * half) / kNumPieces;
  for (std::uintptr_t i = 0; i < kNumPieces; ++i) {
    const std::uintptr_t at = begin + half + i * step;
    sum = sum_of(at, std::min(at + kPiece, end), sum);
  }
  return sum;
}

struct Segment {
  std::uintptr_t begin, end;
};

// The bytes that are accessed; false: too many pieces.
bool segments_of(const Memory& memory, std::vector<Segment>& out) {
  const Layout& layout = *memory.layout;
  if (layout.is_contiguous) {
    out.push_back({memory.begin, memory.end});
    return true;
  }
  if (!layout.has_runs || layout.runs.size() * memory.count > kMostSegments) return false;
  const auto base = reinterpret_cast<std::intptr_t>(memory.buffer);
  for (std::uint64_t i = 0; i < memory.count; ++i)
    for (const Run& run : layout.runs) {
      const auto begin = static_cast<std::uintptr_t>(
          base + static_cast<std::int64_t>(i) * layout.extent + run.offset);
      const std::uint64_t bytes = run.number * (run.basic == 0 ? 1 : bytes_of(run.basic));
      out.push_back({begin, begin + bytes});
    }
  std::ranges::sort(out, {}, &Segment::begin);
  return true;
}

// The first byte that both access; 0: none, or it is not known.
std::uintptr_t common_byte(const Memory& first, const Memory& second) {
  if (first.begin >= second.end || second.begin >= first.end) return 0;
  std::vector<Segment> a, b;
  if (!segments_of(first, a) || !segments_of(second, b)) return 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].begin < b[j].end && b[j].begin < a[i].end) return std::max(a[i].begin, b[j].begin);
    if (a[i].end <= b[j].end)
      ++i;
    else
      ++j;
  }
  return 0;
}

std::uint64_t checksum_of(const Memory& memory) {
  if (memory.layout->is_contiguous) return sum_of_span(memory.begin, memory.end, 0);
  std::vector<Segment> segments;
  if (!segments_of(memory, segments)) return 0;
  std::uint64_t sum = 0;
  for (const Segment& segment : segments) sum = sum_of(segment.begin, segment.end, sum);
  return sum;
}

void find_overlaps(Uses& all, const Memory& memory) {
  auto at = all.by_begin.lower_bound(memory.end);
  for (std::size_t i = 0; i < kMostCompared && at != all.by_begin.begin(); ++i) {
    --at;
    if (at->first + all.longest <= memory.begin) break;
    const Entry& other = at->second;
    if (other.memory.access == Access::reads && memory.access == Access::reads) continue;
    // Receives into exactly one place are meant so: nobody looks at the data, as in benchmarks.
    if (other.memory.access == memory.access && other.memory.begin == memory.begin &&
        other.memory.end == memory.end)
      continue;
    const std::uintptr_t byte = common_byte(memory, other.memory);
    if (byte == 0) continue;
    report("overlap",
           fmt::format(
               "its buffer ({}, from {:#x}) overlaps from {:#x} on the buffer that {} {} "
               "({}, from {:#x}), which is still under way: complete that one before (MPI_Wait)",
               text_of(memory.count, *memory.layout), memory.begin, byte, text_of(other.call),
               other.memory.access == Access::writes ? "receives into" : "reads from",
               text_of(other.memory.count, *other.memory.layout), other.memory.begin));
  }
}

}  // namespace

Memory memory_of(const void* buffer, std::uint64_t count, const Layout& layout, Access access) {
  Memory memory;
  if (count == 0 || layout.bytes == 0 || buffer == MPI_BOTTOM || buffer == MPI_IN_PLACE)
    return memory;
  memory.buffer = buffer;
  memory.count = count;
  memory.access = access;
  memory.layout = std::shared_ptr<const Layout>(std::shared_ptr<void>(), &layout);
  const auto base = reinterpret_cast<std::intptr_t>(buffer);
  const std::int64_t last = static_cast<std::int64_t>(count - 1) * layout.extent;
  memory.begin =
      static_cast<std::uintptr_t>(base + layout.true_lb + std::min<std::int64_t>(0, last));
  memory.end = static_cast<std::uintptr_t>(base + layout.true_lb + layout.true_extent +
                                           std::max<std::int64_t>(0, last));
  return memory;
}

bool leaves(const Memory& memory, const Block& block) {
  const std::uintptr_t end = block.begin + block.bytes;
  if (memory.begin >= block.begin && memory.end <= end) return false;
  if (memory.layout->is_contiguous) return true;
  std::vector<Segment> segments;
  if (!segments_of(memory, segments)) return false;  // not known
  return std::ranges::any_of(segments, [&](const Segment& segment) {
    if (segment.begin >= block.begin && segment.end <= end) return false;
    Block other;
    return !block_of(segment.begin, other) || segment.end > other.begin + other.bytes;
  });
}

Use begin_use(const Memory& memory) {
  if (memory.buffer == nullptr) return 0;
  Uses& all = uses();
  const std::lock_guard lock(all.mutex);
  find_overlaps(all, memory);
  const std::uint64_t checksum = memory.access == Access::reads ? checksum_of(memory) : 0;
  const Use number = ++all.last;
  const auto at = all.by_begin.emplace(memory.begin, Entry{number, memory, current_call, checksum});
  all.by_number.emplace(number, at);
  all.longest = std::max(all.longest, memory.end - memory.begin);
  all.number.store(all.by_number.size(), std::memory_order_relaxed);
  return number;
}

void end_use(Use use, bool is_sure) {
  if (use == 0) return;
  Uses& all = uses();
  const std::lock_guard lock(all.mutex);
  const auto at = all.by_number.find(use);
  if (at == all.by_number.end()) return;
  const Entry& entry = at->second->second;
  if (is_sure && entry.memory.access == Access::reads &&
      checksum_of(entry.memory) != entry.checksum)
    report(entry.call, "changed",
           fmt::format("the program has changed its buffer ({}, from {:#x}) before it was complete "
                       "by {}: the other side may have got either",
                       text_of(entry.memory.count, *entry.memory.layout), entry.memory.begin,
                       text_of(current_call)));
  all.by_begin.erase(at->second);
  all.by_number.erase(at);
  if (all.by_number.empty()) all.longest = 0;
  all.number.store(all.by_number.size(), std::memory_order_relaxed);
}

void check_use(const void* buffer, std::uint64_t count, const Layout& layout, Access access) {
  Uses& all = uses();
  if (all.number.load(std::memory_order_relaxed) == 0) return;
  const Memory memory = memory_of(buffer, count, layout, access);
  if (memory.buffer == nullptr) return;
  const std::lock_guard lock(all.mutex);
  find_overlaps(all, memory);
}

void check_freed(std::uintptr_t begin, std::uintptr_t end, const void* caller) {
  Uses& all = uses();
  if (all.number.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(all.mutex);
  auto at = all.by_begin.lower_bound(end);
  while (at != all.by_begin.begin()) {
    --at;
    if (at->first + all.longest <= begin) break;
    const Entry& entry = at->second;
    if (entry.memory.end <= begin) continue;
    report({"free", caller}, "freed",
           fmt::format("gives memory back that {} still uses ({}, from {:#x}): complete it before",
                       text_of(entry.call), text_of(entry.memory.count, *entry.memory.layout),
                       entry.memory.begin));
  }
}

void check_disjoint(const Memory& first, const Memory& second, const char* names) {
  if (first.buffer == nullptr || second.buffer == nullptr) return;
  if (const std::uintptr_t byte = common_byte(first, second))
    report("aliased", fmt::format("its {} overlap at {:#x} ({} from {:#x}, {} from {:#x}): "
                                  "MPI_IN_PLACE is meant for that",
                                  names, byte, text_of(first.count, *first.layout), first.begin,
                                  text_of(second.count, *second.layout), second.begin));
}

}  // namespace weft::check
