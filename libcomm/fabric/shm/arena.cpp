#include "fabric/shm/arena.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

namespace weft::shm {
namespace {

Status map(int fd, std::size_t offset, std::size_t bytes, std::byte*& base) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                       static_cast<off_t>(offset));
  if (address == MAP_FAILED)
    return {
        Code::no_memory,
        fmt::format("cannot map {} bytes of shared memory: {} (is the address space limited? see "
                    "ulimit -v, or lower WEFT_RING_MAX_BYTES)",
                    bytes, std::strerror(errno))};
  base = static_cast<std::byte*>(address);
  return {};
}

Status open_file(int pid, int fd, int& opened) {
  opened = open_of(pid, fd);
  if (opened >= 0) return {};
  if (errno == ENOENT)
    return {Code::peer_lost, fmt::format("the shared memory of process {} is gone", pid)};
  return {
      errno == EMFILE || errno == ENFILE ? Code::no_memory : Code::not_permitted,
      fmt::format("cannot open the shared memory of process {}: {} (the processes of a job must "
                  "run as one user, in one pid namespace, and be dumpable)",
                  pid, std::strerror(errno))};
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

int open_of(int pid, int fd, int more) noexcept {
  char path[64];
  *fmt::format_to_n(path, sizeof path - 1, "/proc/{}/fd/{}", pid, fd).out = '\0';
  return ::open(path, O_RDWR | O_CLOEXEC | more);
}

bool seal(int fd) noexcept {
  return fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

bool is_sealed(int fd) noexcept {
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

Status Arena::create(const ArenaLayout& layout, std::size_t lane_bytes,
                     std::shared_ptr<Arena>& arena) {
  const int fd = memfd_create("weft-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return {Code::no_memory, fmt::format("cannot create shared memory: {} (does a seccomp profile "
                                         "refuse memfd_create, or is ulimit -n too low?)",
                                         std::strerror(errno))};
  // The memory for lanes is an address range until it is used, and may be any size the limits
  // allow; going over them would end the process with SIGXFSZ.
  std::size_t total = layout.mapped() + ArenaLayout::round_to_pages(lane_bytes);
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  getrlimit(RLIMIT_FSIZE, &limit);
  total = std::max<std::size_t>(layout.mapped(),
                                std::min<std::size_t>(total, limit.rlim_cur / 4096 * 4096));
  const bool allowed = limit.rlim_cur >= total;
  if (!allowed || ftruncate(fd, static_cast<off_t>(total)) != 0 || !seal(fd)) {
    const int error = allowed ? errno : EFBIG;
    close(fd);
    return {Code::no_memory,
            fmt::format("cannot size shared memory to {} bytes: {} (see ulimit -f)", total,
                        std::strerror(error))};
  }
  std::byte* base = nullptr;
  if (Status status = map(fd, 0, layout.mapped(), base); !status) {
    close(fd);
    return status;
  }
  arena.reset(new Arena(base, fd, 0, layout, total));
  auto& header = arena->header();  // the rest of the memory is zero
  header.total_bytes = total;
  header.num_local = layout.num_local;
  header.ring_bytes = layout.ring_bytes;
  header.magic = kArenaMagic;
  made().add(fd, arena);
  return {};
}

Status Arena::open(int pid, int fd, const ArenaLayout& layout, std::shared_ptr<Arena>& arena) {
  if (pid == getpid()) {
    arena = made().find(fd);
    if (arena) return {};
    return {Code::peer_lost, "the rank, a thread of this process, is gone"};
  }
  int opened = -1;
  if (Status status = open_file(pid, fd, opened); !status) return status;
  struct stat info {};
  const bool known = fstat(opened, &info) == 0;
  const auto total = static_cast<std::size_t>(info.st_size);
  if (!known || total < layout.mapped() || !is_sealed(opened)) {
    close(opened);
    return {Code::corrupt, fmt::format("the shared memory of process {} has {} bytes, not {}", pid,
                                       info.st_size, layout.mapped())};
  }
  std::byte* base = nullptr;
  Status status = map(opened, 0, layout.mapped(), base);
  close(opened);
  if (!status) return status;
  std::shared_ptr<Arena> mapped(new Arena(base, fd, pid, layout, total));
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

Arena::~Arena() {
  munmap(base_, layout_.mapped());
  if (pid_ == 0) close(fd_);
}

Status Arena::map_slice(std::uint64_t offset, std::uint32_t ring_bytes, std::byte*& ring) {
  const std::lock_guard lock(lanes_mutex_);
  MappedLane& lane = lanes_[{offset, ring_bytes}];
  if (lane.users == 0) {
    int fd = fd_;
    if (pid_ != 0) {
      if (Status status = open_file(pid_, fd_, fd); !status) return status;
    }
    Status status = map(fd, layout_.mapped() + offset, ArenaLayout::stride(ring_bytes), lane.ring);
    if (pid_ != 0) close(fd);
    if (!status) return status;
  }
  ++lane.users;
  ring = lane.ring;
  return {};
}

void Arena::unmap_lane(const std::byte* ring, std::uint32_t ring_bytes) noexcept {
  const std::lock_guard lock(lanes_mutex_);
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(), [ring](const auto& entry) {
    return entry.second.ring == ring && entry.second.users > 0;
  });
  if (lane == lanes_.end() || --lane->second.users > 0) return;
  munmap(lane->second.ring, ArenaLayout::stride(ring_bytes));
  lanes_.erase(lane);
}

Status Arena::take_lane(std::uint32_t ring_bytes, LaneEntry*& entry, std::byte*& ring) {
  const std::size_t stride = ArenaLayout::stride(ring_bytes);
  entry = nullptr;
  std::uint64_t offset = 0;  // checked, and not read again: any peer may write to the directory
  // acquire: what the owner cleared; pairs with the release in free_lane().
  const std::uint32_t num_entries =
      std::min(kMaxLanes, header().num_entries.load(std::memory_order_acquire));
  for (std::uint32_t i = 0; i < num_entries && entry == nullptr; ++i) {
    LaneEntry& candidate = this->entry(i);
    std::uint32_t state = LaneEntry::kFree;
    if (candidate.state.load(std::memory_order_acquire) != state ||
        candidate.ring_bytes != ring_bytes)
      continue;
    offset = std::atomic_ref(candidate.offset).load(std::memory_order_relaxed);
    if (!is_inside(offset, ring_bytes)) continue;
    if (candidate.state.compare_exchange_strong(state, LaneEntry::kTaken,
                                                std::memory_order_acq_rel))
      entry = &candidate;
  }
  if (entry == nullptr) {
    // relaxed: only the numbers matter, what is behind them is fresh.
    offset = header().lane_bytes.load(std::memory_order_relaxed);
    do {
      if (!is_inside(offset, ring_bytes))
        return {Code::no_memory, "no room for another ring (see WEFT_LANE_MEMORY_BYTES)"};
    } while (!header().lane_bytes.compare_exchange_weak(offset, offset + stride,
                                                        std::memory_order_relaxed));
    const std::uint32_t index = header().num_entries.fetch_add(1, std::memory_order_acq_rel);
    if (index >= kMaxLanes)
      return {Code::no_memory, fmt::format("more than {} lanes to one process", kMaxLanes)};
    entry = &this->entry(index);
    entry->offset = offset;
    entry->ring_bytes = ring_bytes;
    entry->state.store(LaneEntry::kTaken, std::memory_order_relaxed);
  }
  Status status = map_slice(offset, ring_bytes, ring);
  if (!status) entry->state.store(LaneEntry::kFree, std::memory_order_release);
  return status;
}

Status Arena::map_lane(LaneEntry& entry, std::uint32_t& ring_bytes, std::byte*& ring) {
  // Read once: the peer may change them after the check.
  ring_bytes = std::atomic_ref(entry.ring_bytes).load();
  const std::uint64_t offset = std::atomic_ref(entry.offset).load();
  if (ring_bytes < kPageBytes || ring_bytes > kMaxRingBytes || ring_bytes % kPageBytes != 0 ||
      !is_inside(offset, ring_bytes))
    return {Code::corrupt, "a peer connected with a ring that does not exist"};
  return map_slice(offset, ring_bytes, ring);
}

void Arena::free_lane(LaneEntry& entry) noexcept {
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(layout_.mapped() + entry.offset),
            static_cast<off_t>(ArenaLayout::stride(entry.ring_bytes)));
  entry.consumed.store(0, std::memory_order_relaxed);
  // release: pairs with the acquire in take_lane().
  entry.state.store(LaneEntry::kFree, std::memory_order_release);
}

}  // namespace weft::shm
