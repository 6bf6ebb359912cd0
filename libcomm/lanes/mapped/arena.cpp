#include "lanes/mapped/arena.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "base/os/shared_memory.hpp"
#include "base/shortage.hpp"

namespace weft::shm {
namespace {

Status open_file(int pid, int fd, Descriptor& opened) {
  opened = Descriptor(open_of(pid, fd));
  if (opened) return {};
  const int error = errno;
  if (error == ENOENT || ((error == EACCES || error == EPERM) && is_ending(pid)))
    return {Code::peer_lost, fmt::format("the shared memory of process {} is gone", pid)};
  return {
      error == EMFILE || error == ENFILE ? Code::no_memory : Code::not_permitted,
      fmt::format("cannot open the shared memory of process {}: {} (the processes of a job must "
                  "run as one user, in one pid namespace with its /proc, and be dumpable)",
                  pid, std::strerror(error))};
}

// The arenas made in this process, by descriptor.
class Made {
 public:
  void add(int fd, const std::shared_ptr<Arena>& arena) {
    const std::lock_guard lock(mutex_);
    arenas_[fd] = arena;
  }
  std::shared_ptr<Arena> find(int fd) {
    const std::lock_guard lock(mutex_);
    const auto found = arenas_.find(fd);
    return found == arenas_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  std::map<int, std::weak_ptr<Arena>> arenas_;
};

Made& made() {
  static Made arenas;
  return arenas;
}

}  // namespace

Status Arena::create(const ArenaLayout& layout, std::size_t lane_limit,
                     std::shared_ptr<Arena>& arena) {
  // The memory for lanes is an address range until it is used, and may be any size the limits
  // allow; going over them would end the process with SIGXFSZ.
  std::size_t total = layout.mapped() + kLaneAddresses;
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  getrlimit(RLIMIT_FSIZE, &limit);
  total = std::max<std::size_t>(layout.mapped(),
                                std::min<std::size_t>(total, limit.rlim_cur / 4096 * 4096));
  Descriptor file;
  if (Status status = make_shared_file("weft-arena", total, file); !status) return status;
  Mapping mapping;
  if (Status status = mapping.map_file(file.get(), layout.mapped()); !status) return status;
  if (const Code code =
          or_no_memory([&] { arena.reset(new Arena(std::move(mapping), layout, total)); });
      code != Code::ok)
    return code;
  arena->file_ = std::move(file);
  auto& header = arena->header();  // all other memory is zero
  header.total_bytes = total;
  header.lane_limit = lane_limit;
  header.num_local = layout.num_local;
  header.ring_bytes = layout.ring_bytes;
  header.magic = kArenaMagic;
  made().add(arena->fd(), arena);
  return {};
}

Status Arena::open(int pid, int fd, const ArenaLayout& layout, std::shared_ptr<Arena>& arena) {
  if (pid == getpid()) {
    arena = made().find(fd);
    if (arena) return {};
    return {Code::peer_lost, "the rank, a thread of this process, is gone"};
  }
  Descriptor opened;
  if (Status status = open_file(pid, fd, opened); !status) return status;
  const std::size_t total = fixed_bytes(opened.get());
  if (total < layout.mapped())
    return {Code::corrupt, fmt::format("the shared memory of process {} has {} bytes, not {}", pid,
                                       total, layout.mapped())};
  Mapping mapping;
  if (Status status = mapping.map_file(opened.get(), layout.mapped()); !status) return status;
  std::shared_ptr<Arena> mapped;
  if (const Code code =
          or_no_memory([&] { mapped.reset(new Arena(std::move(mapping), layout, total)); });
      code != Code::ok)
    return code;
  mapped->pid_ = pid;
  mapped->fd_ = fd;
  const auto& header = mapped->header();
  if (header.magic != kArenaMagic || header.num_local != layout.num_local ||
      header.ring_bytes != layout.ring_bytes || header.total_bytes != total)
    return {Code::corrupt,
            fmt::format("the shared memory of process {} is laid out differently: do all processes "
                        "use the same Weft and the same settings?",
                        pid)};
  arena = std::move(mapped);
  return {};
}

Status Arena::map_slice(std::uint64_t offset, std::uint32_t ring_bytes, std::byte*& ring) {
  const std::lock_guard lock(lanes_mutex_);
  MappedLane* found = nullptr;
  const Code code = or_no_memory([&] { found = &lanes_[{offset, ring_bytes}]; });
  if (code != Code::ok) return code;
  MappedLane& lane = *found;
  if (lane.users == 0) {
    Descriptor opened;
    if (pid_ != 0)
      if (Status status = open_file(pid_, fd_, opened); !status) return status;
    Status status =
        lane.ring.map_file(pid_ != 0 ? opened.get() : file_.get(), ArenaLayout::stride(ring_bytes),
                           true, layout_.mapped() + offset);
    if (!status) return status;
  }
  ++lane.users;
  ring = lane.ring.data();
  return {};
}

void Arena::unmap_lane(const std::byte* ring) noexcept {
  const std::lock_guard lock(lanes_mutex_);
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(), [ring](const auto& entry) {
    return entry.second.ring.data() == ring && entry.second.users > 0;
  });
  if (lane != lanes_.end() && --lane->second.users == 0) lanes_.erase(lane);
}

// Takes a free entry, if possible one whose room has so many bytes; null: there is none.
LaneEntry* Arena::take_entry(std::size_t bytes) noexcept {
  const auto take = [](LaneEntry& entry, std::uint32_t state) {
    // acquire: the memory that the owner cleared; pairs with the release in free_lane().
    return entry.state.load(std::memory_order_relaxed) == state &&
           entry.state.compare_exchange_strong(state, LaneEntry::kTaken, std::memory_order_acquire);
  };
  auto& num_entries = header().num_entries;
  const std::uint32_t num = std::min(kMaxLanes, num_entries.load(std::memory_order_acquire));
  for (std::uint32_t i = 0; i < num; ++i)
    if (std::atomic_ref(entry(i).room).load(std::memory_order_relaxed) >= bytes &&
        take(entry(i), LaneEntry::kFree))
      return &entry(i);
  for (std::uint32_t i = 0; i < kMaxLanes; ++i) {
    if (std::uint32_t count = i; num_entries.load(std::memory_order_relaxed) == count)
      (void)num_entries.compare_exchange_strong(count, i + 1, std::memory_order_acq_rel);
    if (take(entry(i), LaneEntry::kUnused) || take(entry(i), LaneEntry::kFree)) return &entry(i);
  }
  return nullptr;
}

Status Arena::take_lane(std::uint32_t ring_bytes, bool is_limited, LaneEntry*& entry,
                        std::byte*& ring) {
  const std::size_t bytes = ArenaLayout::stride(ring_bytes);
  const std::size_t counted = is_limited ? bytes : 0;
  entry = nullptr;
  // relaxed, here and below: only the numbers matter.
  auto& in_use = header().lane_bytes;
  std::uint64_t before = in_use.load(std::memory_order_relaxed);
  do {
    if (const std::uint64_t limit = header().lane_limit;
        counted != 0 && (before > limit || bytes > limit - before))
      return {Code::no_memory, "no room for another ring (see WEFT_LANE_MEMORY_BYTES)"};
  } while (!in_use.compare_exchange_weak(before, before + counted, std::memory_order_relaxed));

  entry = take_entry(bytes);
  if (entry == nullptr) {
    in_use.fetch_sub(counted, std::memory_order_relaxed);
    return {Code::no_memory, fmt::format("more than {} lanes to one process", kMaxLanes)};
  }
  const auto give_back = [&](Status status) {
    in_use.fetch_sub(counted, std::memory_order_relaxed);
    entry->state.store(LaneEntry::kFree, std::memory_order_release);
    return status;
  };
  // Each is read once: any peer may write to the directory.
  std::uint64_t offset = std::atomic_ref(entry->offset).load(std::memory_order_relaxed);
  if (std::atomic_ref(entry->room).load(std::memory_order_relaxed) < bytes ||
      !is_inside(offset, ring_bytes)) {
    const std::uint64_t room = std::bit_ceil(bytes);
    auto& end = header().lane_end;
    offset = end.load(std::memory_order_relaxed);
    do {
      if (!is_inside(offset, ring_bytes))
        return give_back({Code::no_memory, "no addresses for another ring (see ulimit -f)"});
    } while (!end.compare_exchange_weak(offset, offset + room, std::memory_order_relaxed));
    std::atomic_ref(entry->offset).store(offset, std::memory_order_relaxed);
    std::atomic_ref(entry->room).store(room, std::memory_order_relaxed);
  }
  std::atomic_ref(entry->ring_bytes).store(ring_bytes, std::memory_order_relaxed);
  Status status = map_slice(offset, ring_bytes, ring);
  return status ? status : give_back(status);
}

// Finds the entry's ring; false: it has none. Read once: a peer may change it after the check.
bool Arena::read_lane(LaneEntry& entry, std::uint64_t& offset,
                      std::uint32_t& ring_bytes) const noexcept {
  ring_bytes = std::atomic_ref(entry.ring_bytes).load();
  offset = std::atomic_ref(entry.offset).load();
  return ring_bytes >= kPageBytes && ring_bytes <= kMaxRingBytes && ring_bytes % kPageBytes == 0 &&
         is_inside(offset, ring_bytes);
}

Status Arena::map_lane(LaneEntry& entry, std::uint32_t& ring_bytes, std::byte*& ring) {
  std::uint64_t offset = 0;
  if (!read_lane(entry, offset, ring_bytes))
    return {Code::corrupt, "a peer connected with a ring that does not exist"};
  return map_slice(offset, ring_bytes, ring);
}

void Arena::free_lane(LaneEntry& entry) noexcept {
  std::uint64_t offset = 0;
  std::uint32_t ring_bytes = 0;
  if (!read_lane(entry, offset, ring_bytes)) return;
  const std::size_t bytes = ArenaLayout::stride(ring_bytes);
  fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(layout_.mapped() + offset), static_cast<off_t>(bytes));
  entry.consumed.store(0, std::memory_order_relaxed);
  // release: pairs with the acquire in take_entry().
  entry.state.store(LaneEntry::kFree, std::memory_order_release);
  header().lane_bytes.fetch_sub(bytes, std::memory_order_relaxed);
}

}  // namespace weft::shm
