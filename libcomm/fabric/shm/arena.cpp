#include "fabric/shm/arena.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

namespace weft::shm {
namespace {

Status map(int fd, std::size_t bytes, std::byte*& base) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (address == MAP_FAILED)
    return {
        Code::no_memory,
        fmt::format("cannot map {} bytes of shared memory: {} (is the address space limited? see "
                    "ulimit -v, or lower WEFT_RING_MAX_BYTES)",
                    bytes, std::strerror(errno))};
  base = static_cast<std::byte*>(address);
  return {};
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

Status Arena::create(const ArenaLayout& layout, std::shared_ptr<Arena>& arena) {
  const int fd = memfd_create("weft-arena", MFD_CLOEXEC);
  if (fd < 0)
    return {Code::no_memory, fmt::format("cannot create shared memory: {} (does a seccomp profile "
                                         "refuse memfd_create, or is ulimit -n too low?)",
                                         std::strerror(errno))};
  if (ftruncate(fd, static_cast<off_t>(layout.total())) != 0) {
    const int error = errno;
    close(fd);
    return {Code::no_memory,
            fmt::format("cannot size shared memory to {} bytes: {} (see ulimit -f)", layout.total(),
                        std::strerror(error))};
  }
  std::byte* base = nullptr;
  if (Status status = map(fd, layout.total(), base); !status) {
    close(fd);
    return status;
  }
  arena.reset(new Arena(base, fd, layout));
  auto& header = arena->header();  // the rest of the memory is zero
  header.total_bytes = layout.total();
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
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, fd);
  const int opened = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0)
    return {
        errno == ENOENT ? Code::peer_lost : Code::not_permitted,
        fmt::format("cannot open the shared memory of process {}: {} (the processes of a job must "
                    "run as one user, in one pid namespace, and be dumpable)",
                    pid, std::strerror(errno))};
  struct stat info {};
  if (fstat(opened, &info) != 0 || static_cast<std::size_t>(info.st_size) != layout.total()) {
    close(opened);
    return {Code::corrupt, fmt::format("the shared memory of process {} has {} bytes, not {}", pid,
                                       info.st_size, layout.total())};
  }
  std::byte* base = nullptr;
  Status status = map(opened, layout.total(), base);
  close(opened);
  if (!status) return status;
  std::shared_ptr<Arena> mapped(new Arena(base, -1, layout));
  const auto& header = mapped->header();
  if (header.magic != kArenaMagic || header.num_local != layout.num_local ||
      header.ring_bytes != layout.ring_bytes)
    return {Code::corrupt,
            fmt::format("the shared memory of process {} is laid out differently: do all processes "
                        "use the same Weft and the same settings?",
                        pid)};
  arena = std::move(mapped);
  return {};
}

Arena::~Arena() {
  munmap(base_, layout_.total());
  if (fd_ >= 0) close(fd_);
}

}  // namespace weft::shm
