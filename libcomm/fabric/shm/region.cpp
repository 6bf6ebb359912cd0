#include "fabric/shm/region.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
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
// used again has another number.
std::uint32_t make_number(int fd) noexcept {
  static std::atomic<std::uint32_t> counter{0};
  const std::uint32_t count = counter.fetch_add(1, std::memory_order_relaxed) % 0xffffu + 1;
  return count << 16 | static_cast<std::uint32_t>(fd);
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
  const int fd = memfd_create("weft-region", MFD_CLOEXEC);
  if (fd < 0 || fd > 0xffff) {
    if (fd >= 0) close(fd);
    return {Code::no_memory, fmt::format("cannot create shared memory: {} (see ulimit -n)",
                                         fd < 0 ? std::strerror(errno) : "too many open files")};
  }
  void* base = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(total)) == 0)
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

PeerRegions::~PeerRegions() {
  for (auto& [number, mapping] : mappings_) munmap(mapping.base, mapping.bytes);
}

std::byte* PeerRegions::find(int pid, const RemoteMemory& memory, std::size_t offset,
                             std::size_t bytes, Code& code) noexcept {
  const std::lock_guard lock(mutex_);
  auto found = mappings_.find(memory.region);
  if (found == mappings_.end()) {
    char path[64];
    *fmt::format_to(path, "/proc/{}/fd/{}", pid, memory.region & 0xffff) = '\0';
    const int fd = ::open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
      code = errno == ENOENT ? Code::bad_argument : Code::not_permitted;
      return nullptr;
    }
    struct stat info {};
    void* base = MAP_FAILED;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
        static_cast<std::size_t>(info.st_size) > kPageBytes)
      base = mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ | PROT_WRITE,
                  MAP_SHARED, fd, 0);
    close(fd);
    if (base == MAP_FAILED) {
      code = Code::no_memory;
      return nullptr;
    }
    const auto size = static_cast<std::size_t>(info.st_size);
    const auto* header = static_cast<const RegionHeader*>(base);
    if (header->magic != kRegionMagic || header->bytes > size - kPageBytes ||
        header->number.load(std::memory_order_acquire) != memory.region) {
      munmap(base, size);
      code = Code::bad_argument;
      return nullptr;
    }
    found = mappings_.emplace(memory.region, Mapping{static_cast<std::byte*>(base), size}).first;
  }
  const auto* header = reinterpret_cast<const RegionHeader*>(found->second.base);
  // acquire: pairs with the release in OwnRegions::release.
  if (header->number.load(std::memory_order_acquire) != memory.region) {
    munmap(found->second.base, found->second.bytes);
    mappings_.erase(found);
    code = Code::bad_argument;  // released by its owner
    return nullptr;
  }
  const std::uint64_t first = memory.address - header->address;
  const std::size_t room = found->second.bytes - kPageBytes;
  if (memory.address < header->address || first > room || memory.bytes > room - first ||
      offset > memory.bytes || bytes > memory.bytes - offset) {
    code = Code::bad_argument;
    return nullptr;
  }
  return found->second.base + kPageBytes + first + offset;
}

}  // namespace weft::shm
