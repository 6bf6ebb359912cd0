#include "lanes/mapped/region.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/os/shared_memory.hpp"
#include "base/shortage.hpp"
#include "lanes/mapped/arena.hpp"

namespace weft::shm {
namespace {

constexpr std::uint64_t kRegionMagic = 0x3130'6e6f'6967'6572u;  // version 1

// First page of a region; the memory that the user gets starts behind it.
struct RegionHeader {
  std::uint64_t magic;
  std::uint64_t address;  // of the user's memory in the owner
  std::uint64_t bytes;
  // The region's number while it is allocated, 0 once it is released. Owner writes, peers read.
  std::atomic<std::uint64_t> number;
};

// A number (MemoryName's region and extra) holds the descriptor and 42 secret bits, so that a
// process that has one key cannot make that of another region from it, and that a descriptor that
// is used again has another number. Bit 30 keeps the region from being 0, bit 31 marks shared
// memory.
constexpr int kFdBits = 20;
std::uint64_t make_number(int fd, std::uint64_t secret) noexcept {
  constexpr std::uint64_t kPublic = ((std::uint64_t{1} << kFdBits) - 1) | std::uint64_t{3} << 30;
  return (secret & ~kPublic) | 1u << 30 | static_cast<std::uint32_t>(fd);
}
int descriptor_of(const MemoryName& memory) noexcept {
  return static_cast<int>(memory.region & ((1u << kFdBits) - 1));
}

constexpr char kRegionName[] = "weft-region";
constexpr std::string_view kRegionLink = "/memfd:weft-region";

// Opens a region that another process has as `fd`; -1: see errno. If the descriptor has become
// another file by now, that must not be opened, as it could be anything, and this user may have no
// right to: so the file is examined first, through a descriptor that keeps it the same.
int open_region(int pid, int fd) noexcept {
  const int place = open_of(pid, fd, O_PATH);
  if (place < 0) return -1;
  char path[64], target[64];
  *fmt::format_to_n(path, sizeof path - 1, "/proc/self/fd/{}", place).out = '\0';
  const ssize_t length = readlink(path, target, sizeof target);
  int opened = -1;
  if (length < 0)
    errno = EACCES;
  else if (std::string_view(target, static_cast<std::size_t>(length)).starts_with(kRegionLink))
    opened = ::open(path, O_RDWR | O_CLOEXEC);
  else
    errno = ENOENT;
  const int error = errno;
  close(place);
  errno = error;
  return opened;
}

}  // namespace

Status make_secret(std::uint64_t& secret) {
  if (getrandom(&secret, sizeof secret, 0) == sizeof secret) return {};
  return {Code::unsupported, fmt::format("no random numbers: {}", std::strerror(errno))};
}

Status OwnRegions::allocate(std::size_t bytes, void*& address, MemoryName& memory) {
  if (bytes == 0 || bytes > (std::size_t{1} << 46))
    return {Code::bad_argument, fmt::format("cannot allocate {} bytes", bytes)};
  std::uint64_t secret = 0;
  if (Status status = make_secret(secret); !status) return status;
  const std::size_t total = kPageBytes + ArenaLayout::round_to_pages(bytes);
  Region region;
  if (Status status = make_shared_file(kRegionName, total, region.file); !status) return status;
  const int fd = region.file.get();
  if (fd >= 1 << kFdBits)
    return {Code::no_memory, "cannot create shared memory: too many open files"};
  if (Status status = region.mapping.map_file(fd, total); !status) return status;
  auto* header = reinterpret_cast<RegionHeader*>(region.mapping.data());
  const auto start = reinterpret_cast<std::uintptr_t>(header) + kPageBytes;
  header->magic = kRegionMagic;
  header->address = start;
  header->bytes = bytes;
  const std::uint64_t number = make_number(fd, secret);
  // release: pairs with the acquire in PeerRegions::find.
  header->number.store(number, std::memory_order_release);
  const std::unique_lock lock(mutex_);
  if (const Code code = or_no_memory([&] { regions_.emplace(start, std::move(region)); });
      code != Code::ok)
    return code;
  address = reinterpret_cast<void*>(start);
  memory = named(start, bytes, number);
  return {};
}

Status OwnRegions::release(void* address, bool for_others) {
  const std::unique_lock lock(mutex_);
  const auto found = regions_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == regions_.end())
    return {Code::bad_argument, "this address was not allocated here, or is free already"};
  auto* header = reinterpret_cast<RegionHeader*>(found->first - kPageBytes);
  header->number.store(0, std::memory_order_release);
  // Peers may keep their mapping; the memory itself is freed at once.
  if (!for_others)
    fallocate(found->second.file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kPageBytes,
              static_cast<off_t>(found->second.mapping.bytes() - kPageBytes));
  regions_.erase(found);
  return {};
}

MemoryName OwnRegions::describe(const void* address, std::size_t bytes) const noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  const std::shared_lock lock(mutex_);
  auto after = regions_.upper_bound(start);
  if (after != regions_.begin()) {
    --after;
    const auto* header = reinterpret_cast<const RegionHeader*>(after->first - kPageBytes);
    if (start - after->first < header->bytes && bytes <= header->bytes - (start - after->first))
      return named(start, bytes, header->number.load(std::memory_order_relaxed));
  }
  return {start, bytes, 0, 0};
}

const std::atomic<std::uint64_t>& PeerRegion::number() const noexcept {
  return reinterpret_cast<const RegionHeader*>(mapping.data())->number;
}

std::byte* PeerRegion::data() const noexcept { return mapping.data() + kPageBytes; }

Code PeerRegions::open(int pid, const MemoryName& memory, std::unique_ptr<PeerRegion>& region) {
  region = std::make_unique<PeerRegion>();
  const Descriptor file(open_region(pid, descriptor_of(memory)));
  if (!file) {
    switch (errno) {
      case EMFILE:
      case ENFILE:
      case ENOMEM:
        return Code::no_memory;
      case EACCES:
      case EPERM:
        return is_ending(pid) ? Code::peer_lost : Code::not_permitted;
      default:
        return is_ending(pid) ? Code::peer_lost : Code::bad_argument;
    }
  }
  const std::size_t bytes = fixed_bytes(file.get());
  if (bytes <= kPageBytes) return Code::bad_argument;
  if (!region->mapping.map_file(file.get(), bytes)) return Code::no_memory;
  const auto* header = reinterpret_cast<const RegionHeader*>(region->mapping.data());
  region->address = header->address;
  region->room = header->bytes;
  return header->magic == kRegionMagic && region->room <= bytes - kPageBytes ? Code::ok
                                                                             : Code::bad_argument;
}

PeerRegion* PeerRegions::use(int pid, const MemoryName& memory, std::size_t offset,
                             std::size_t bytes, std::byte*& data, Code& code) noexcept {
  const std::lock_guard lock(mutex_);
  auto found = regions_.find(number_of(memory));
  if (found == regions_.end()) {
    std::unique_ptr<PeerRegion> region;
    code = or_no_memory([&] {
      const Code opened = open(pid, memory, region);
      if (opened != Code::ok) return opened;
      if (regions_.size() >= sweep_at_) sweep();
      found = regions_.emplace(number_of(memory), std::move(region)).first;
      return opened;
    });
    if (code != Code::ok) return nullptr;
  }
  PeerRegion& region = *found->second;
  code = Code::bad_argument;
  // acquire: pairs with the release in OwnRegions::release.
  if (region.number().load(std::memory_order_acquire) != number_of(memory)) {
    // Without memory to keep it apart it stays where it is, until its number is used again.
    if (region.num_users > 0 && or_no_memory([&] { make_room(released_); }) != Code::ok)
      return nullptr;
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

// Unmaps regions that were released and are not used here. Done once there are twice as many as
// were left the last time, so that it costs each region a constant.
void PeerRegions::sweep() noexcept {
  std::erase_if(regions_, [](const auto& entry) {
    const auto& [number, region] = entry;
    return region->num_users == 0 && region->number().load(std::memory_order_acquire) != number;
  });
  sweep_at_ = std::max(kFewRegions, 2 * regions_.size());
}

void PeerRegions::done(PeerRegion* region, bool drops) noexcept {
  const std::lock_guard lock(mutex_);
  if (--region->num_users > 0) return;
  if (std::erase_if(released_, [=](const auto& other) { return other.get() == region; }) == 0 &&
      drops)
    std::erase_if(regions_, [=](const auto& entry) { return entry.second.get() == region; });
}

}  // namespace weft::shm
