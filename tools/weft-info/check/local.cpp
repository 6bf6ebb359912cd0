#include "tools/weft-info/check/local.hpp"

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include "base/os/descriptor.hpp"
#include "base/os/lock_limit.hpp"
#include "base/os/topology.hpp"
#include "fabric/registry.hpp"

namespace weft::check {
namespace {

using Level = Finding::Level;

constexpr rlim_t kFewFiles = 1024, kFewProcesses = 1024;

std::string count_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit);
}

std::string line_of(const char* path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

Finding locked_memory() {
  constexpr std::size_t kGood = 1u << 30;
  const std::size_t limit = lock_limit_bytes();
  if (limit == std::numeric_limits<std::size_t>::max())
    return {Level::ok, "locked memory", "unlimited", ""};
  const std::string text = fmt::format("{} KiB", limit >> 10);
  if (limit >= kGood) return {Level::ok, "locked memory", text, ""};
  return {Level::warning, "locked memory", text + " may be, and RDMA devices need what is sent",
          "ulimit -l unlimited; for logins \"* - memlock unlimited\" in /etc/security/limits.conf, "
          "for services LimitMEMLOCK=infinity, for containers --ulimit memlock=-1"};
}

Finding open_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const std::string text =
      fmt::format("{}, {} where asked for", count_text(limit.rlim_cur), count_text(limit.rlim_max));
  if (limit.rlim_max > kFewFiles) return {Level::ok, "open files", text, ""};
  return {Level::warning, "open files",
          text + "; over TCP a process has up to two for each peer on other hosts",
          "ulimit -Hn 1048576 as root; for logins \"* - nofile 1048576\" in "
          "/etc/security/limits.conf, for services LimitNOFILE=1048576"};
}

Finding processes() {
  rlimit limit{};
  getrlimit(RLIMIT_NPROC, &limit);
  const std::string group = line_of("/sys/fs/cgroup/pids.max");
  std::string text = count_text(limit.rlim_cur);
  bool is_few = limit.rlim_cur < kFewProcesses;
  if (!group.empty() && group != "max") {
    text += ", " + group + " by the cgroup";
    is_few = is_few || strtoull(group.c_str(), nullptr, 10) < kFewProcesses;
  }
  if (!is_few) return {Level::ok, "processes and threads", text, ""};
  return {Level::warning, "processes and threads", text + " at once, of all jobs of this user",
          "ulimit -u 65536; for services TasksMax=infinity, for containers --pids-limit=-1"};
}

Finding shared_memory() {
  const Descriptor file(memfd_create("weft-check", MFD_CLOEXEC));
  if (file && ftruncate(file.get(), 1 << 20) == 0)
    return {Level::ok, "shared memory", "memfd_create works (/dev/shm is not used)", ""};
  return {Level::error, "shared memory", fmt::format("memfd_create: {}", strerror(errno)),
          "let the seccomp profile allow it (containers: --security-opt seccomp=unconfined), and "
          "see ulimit -n and -f"};
}

Finding copies() {
  std::uint64_t from = 1, to = 0;
  const iovec mine{&to, sizeof to}, theirs{&from, sizeof from};
  if (process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0) != sizeof to)
    return {Level::warning, "copies between processes",
            fmt::format("process_vm_readv: {}: long messages inside the host are copied twice",
                        strerror(errno)),
            "let the seccomp profile allow it (containers: --cap-add=SYS_PTRACE)"};
  const std::string scope = line_of("/proc/sys/kernel/yama/ptrace_scope");
  const std::string text = scope.empty() ? "allowed" : "allowed, Yama's ptrace_scope " + scope;
  if (scope != "2" && scope != "3") return {Level::ok, "copies between processes", text, ""};
  return {Level::warning, "copies between processes",
          "Yama's ptrace_scope " + scope +
              " forbids them: long messages inside the host are "
              "copied twice",
          scope == "2" ? "sysctl kernel.yama.ptrace_scope=1, for good in /etc/sysctl.d"
                       : "set kernel.yama.ptrace_scope=1 in /etc/sysctl.d and boot again"};
}

Finding large_pages() {
  const std::string line = line_of("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::size_t begin = line.find('['), end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos)
    return {Level::note, "large pages", "this kernel has no transparent ones", ""};
  const std::string mode = line.substr(begin + 1, end - begin - 1);
  if (mode != "never") return {Level::ok, "large pages", mode, ""};
  return {Level::note, "large pages", "never: weft-graph's buffers take more time to reach",
          "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled"};
}

}  // namespace

void inspect_limits(std::vector<Finding>& findings) {
  for (const auto& look : {locked_memory, open_files, processes}) findings.push_back(look());
}

void inspect_kernel(std::vector<Finding>& findings) {
  for (const auto& look : {shared_memory, copies, large_pages}) findings.push_back(look());
}

std::vector<Fabric> inspect_fabrics(const Settings& settings) {
  std::vector<Fabric> fabrics;
  for (const fabric::Row& row : fabric::rows()) {
    if (row.reach != fabric::Row::network || !fabric::is_allowed(settings, row.name)) continue;
    Fabric& found = fabrics.emplace_back();
    found.name = row.name;
    if (!fabric::inspect(settings, row.name, found.inspection))
      found.inspection.findings.push_back(
          {Level::note, found.name, "not in this build of Weft",
           fmt::format("meson setup --reconfigure -D{}=enabled, where it is wanted", found.name)});
  }
  return fabrics;
}

}  // namespace weft::check
