#include "job/sharing.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string_view>

#include "base/os/host_name.hpp"
#include "base/os/shared_memory.hpp"

namespace weft {
namespace {

constexpr std::string_view kBlind = "no /proc ";

std::string first_line(const char* path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

std::string link_target(const char* path) {
  char target[128];
  const ssize_t length = readlink(path, target, sizeof target);
  return length < 0 ? "" : std::string(target, static_cast<std::size_t>(length));
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) number = 0;
  return number;
}

// The process's permitted capabilities count: the kernel refuses access to a process that has more.
std::string permitted_capabilities() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("CapPrm:")) return line.substr(line.find_last_of(" \t") + 1);
  return {};
}

}  // namespace

SharingProbe::SharingProbe() : content_(random_number()) {
  if (content_ == 0 || !make_shared_file("weft-probe", sizeof content_, file_) ||
      pwrite(file_.get(), &content_, sizeof content_, 0) != static_cast<ssize_t>(sizeof content_))
    file_ = {};
}

bool can_share(int pid, int fd, std::uint64_t content) {
  if (fd < 0) return false;
  const Descriptor theirs(open_of(pid, fd, O_NONBLOCK));
  std::uint64_t found = 0;
  return theirs && pread(theirs.get(), &found, sizeof found, 0) == sizeof found && found == content;
}

std::string machine_identity() {
  const std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  if (!boot.empty()) return boot;
  return host_name();
}

std::string sharing_view() {
  const std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  const std::string pids = link_target("/proc/self/ns/pid");
  // That of another process-id namespace has other numbers, if it knows this process at all.
  const bool own = atoi(link_target("/proc/self").c_str()) == getpid();
  if (boot.empty() || pids.empty() || !own) {
    static const std::uint64_t process = random_number();
    return fmt::format("{}{:x} {}", kBlind, process, getpid());
  }
  return fmt::format("{} {} {} {} {}:{} {} {}", boot, pids, link_target("/proc/self/ns/ipc"),
                     link_target("/proc/self/ns/user"), geteuid(), getegid(),
                     permitted_capabilities(), first_line("/proc/self/attr/current"));
}

bool is_blind(const std::string& view) { return view.starts_with(kBlind); }

}  // namespace weft
