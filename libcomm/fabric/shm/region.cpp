#include "fabric/shm/region.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "fabric/shm/arena.hpp"

namespace weft::shm {
namespace {

constexpr std::uint64_t kRegionMagic = 0x3130'6e6f'6967'6572u;  // version 1

// First page of a region; the memory that the user gets starts behind it.
struct RegionHeader {
  std::uint64_t magic;
  std::uint64_t address;  // of the user's memory in the owner
  std::uint64_t bytes;
  // The region's number while it is allocated, 0 once it is released. Owner writes, peers read.
  std::atomic<std::uint32_t> number;
};

// A number holds the descriptor in the low half and a counter in the high one, so that a descriptor
// used again has another number. The highest bit is free: it marks shared memory.
std::uint32_t make_number(int fd) noexcept {
  static std::atomic<std::uint32_t> counter{0};
  const std::uint32_t count = counter.fetch_add(1, std::memory_order_relaxed) % 0x7fffu + 1;
  return count << 16 | static_cast<std::uint32_t>(fd);
}

// True if the process is gone or on its way: its files are closed some time before those who watch
// it are told, and longer if it had much memory.
bool is_ending(int pid) noexcept {
  char text[512];
  *fmt::format_to_n(text, sizeof text - 1, "/proc/{}/stat", pid).out = '\0';
  const int fd = ::open(text, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT;
  const ssize_t length = ::read(fd, text, sizeof text - 1);
  close(fd);
  if (length <= 0) return true;  // gone since
  text[length] = '\0';
  // Behind the name, which may have any bytes: state, six numbers, and the flags of the task.
  const char* rest = std::strrchr(text, ')');
  char state = '?';
  unsigned flags = 0;
  if (rest == nullptr || std::sscanf(rest, ") %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2)
    return false;
  constexpr unsigned kExiting = 0x4;  // the kernel's PF_EXITING
  return state == 'Z' || state == 'X' || (flags & kExiting) != 0;
}

std::size_t round_to_pages(std::size_t bytes) noexcept {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

OwnRegions::~OwnRegions() {
  for (auto& [address, region] : regions_) {
    munmap(reinterpret_cast<void*>(address - kPageBytes), region.bytes);
    close(region.fd);
  }
}

Status OwnRegions::allocate(std::size_t bytes, void*& address, RemoteMemory& memory) {
  if (bytes == 0 || bytes > (std::size_t{1} << 46))
    return {Code::bad_argument, fmt::format("cannot allocate {} bytes", bytes)};
  const std::size_t total = kPageBytes + round_to_pages(bytes);
  const int fd = memfd_create("weft-region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || fd > 0xffff) {
    if (fd >= 0) close(fd);
    return {Code::no_memory, fmt::format("cannot create shared memory: {} (see ulimit -n)",
                                         fd < 0 ? std::strerror(errno) : "too many open files")};
  }
  void* base = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(total)) == 0 && seal(fd))
    base = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    const int error = errno;
    close(fd);
    return {Code::no_memory, fmt::format("cannot allocate {} bytes of shared memory: {}", bytes,
                                         std::strerror(error))};
  }
  auto* header = static_cast<RegionHeader*>(base);
  const auto start = reinterpret_cast<std::uintptr_t>(base) + kPageBytes;
  header->magic = kRegionMagic;
  header->address = start;
  header->bytes = bytes;
  const std::uint32_t number = make_number(fd);
  // release: pairs with the acquire in PeerRegions::find.
  header->number.store(number, std::memory_order_release);
  const std::unique_lock lock(mutex_);
  regions_[start] = {total, fd};
  address = reinterpret_cast<void*>(start);
  memory = {start, bytes, number, 0};
  return {};
}

Status OwnRegions::release(void* address) {
  const std::unique_lock lock(mutex_);
  const auto found = regions_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == regions_.end())
    return {Code::bad_argument, "this address was not allocated here, or is free already"};
  auto* header = reinterpret_cast<RegionHeader*>(found->first - kPageBytes);
  header->number.store(0, std::memory_order_release);
  // Peers may keep their mapping; the memory itself goes back at once.
  fallocate(found->second.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kPageBytes,
            static_cast<off_t>(found->second.bytes - kPageBytes));
  munmap(header, found->second.bytes);
  close(found->second.fd);
  regions_.erase(found);
  return {};
}

RemoteMemory OwnRegions::describe(const void* address, std::size_t bytes) const noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  const std::shared_lock lock(mutex_);
  auto after = regions_.upper_bound(start);
  if (after != regions_.begin()) {
    --after;
    const auto* header = reinterpret_cast<const RegionHeader*>(after->first - kPageBytes);
    if (start - after->first < header->bytes && bytes <= header->bytes - (start - after->first))
      return {start, bytes, header->number.load(std::memory_order_relaxed), 0};
  }
  return {start, bytes, 0, 0};
}

PeerRegion::~PeerRegion() {
  if (base != nullptr) munmap(base, bytes);
}

const std::atomic<std::uint32_t>& PeerRegion::number() const noexcept {
  return reinterpret_cast<const RegionHeader*>(base)->number;
}

std::byte* PeerRegion::data() const noexcept { return base + kPageBytes; }

Code PeerRegions::open(int pid, std::uint32_t number,
                       std::unique_ptr<PeerRegion>& region) noexcept {
  const int fd = open_of(pid, static_cast<int>(number & 0xffff));
  if (fd < 0) {
    if (errno == ENOENT) return is_ending(pid) ? Code::peer_lost : Code::bad_argument;
    return errno == EMFILE || errno == ENFILE ? Code::no_memory : Code::not_permitted;
  }
  struct stat info {};
  region = std::make_unique<PeerRegion>();
  Code code = Code::bad_argument;
  // Sealed: nobody can shrink it under our feet.
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
      static_cast<std::size_t>(info.st_size) > kPageBytes && is_sealed(fd)) {
    void* base = mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ | PROT_WRITE,
                      MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
      code = Code::no_memory;
    } else {
      region->base = static_cast<std::byte*>(base);
      region->bytes = static_cast<std::size_t>(info.st_size);
      const auto* header = static_cast<const RegionHeader*>(base);
      region->address = header->address;
      region->room = header->bytes;
      if (header->magic == kRegionMagic && region->room <= region->bytes - kPageBytes)
        code = Code::ok;
    }
  }
  close(fd);
  return code;
}

PeerRegion* PeerRegions::use(int pid, const RemoteMemory& memory, std::size_t offset,
                             std::size_t bytes, std::byte*& data, Code& code) noexcept {
  const std::lock_guard lock(mutex_);
  auto found = regions_.find(memory.region);
  if (found == regions_.end()) {
    std::unique_ptr<PeerRegion> region;
    code = open(pid, memory.region, region);
    if (code != Code::ok) return nullptr;
    found = regions_.emplace(memory.region, std::move(region)).first;
  }
  PeerRegion& region = *found->second;
  code = Code::bad_argument;
  // acquire: pairs with the release in OwnRegions::release.
  if (region.number().load(std::memory_order_acquire) != memory.region) {
    if (region.num_users > 0) released_.push_back(std::move(found->second));
    regions_.erase(found);
    return nullptr;  // released by its owner, or never there
  }
  if (!is_within(memory.address, memory.bytes, region.address, region.room) ||
      !is_within(offset, bytes, 0, memory.bytes))
    return nullptr;
  code = Code::ok;
  ++region.num_users;
  data = region.data() + (memory.address - region.address) + offset;
  return &region;
}

void PeerRegions::done(PeerRegion* region) noexcept {
  const std::lock_guard lock(mutex_);
  if (--region->num_users > 0) return;
  std::erase_if(released_, [region](const auto& other) { return other.get() == region; });
}

}  // namespace weft::shm
