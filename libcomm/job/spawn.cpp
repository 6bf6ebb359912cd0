#include "job/spawn.hpp"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

extern char** environ;

namespace weft {
namespace {

// weftrun in the background holds the other end of a pipe for as long as it runs.
class Started final : public Spawned {
 public:
  explicit Started(int fd) : fd_(fd) {}
  ~Started() override { ::close(fd_); }
  Status check() override {
    pollfd end{fd_, POLLIN, 0};
    if (poll(&end, 1, 0) <= 0 || (end.revents & (POLLHUP | POLLIN)) == 0) return {};
    return {Code::not_found, "weftrun has ended; its output has the reason"};
  }

 private:
  const int fd_;
};

std::string find_weftrun() {
  Dl_info info{};
  std::error_code error;
  if (dladdr(reinterpret_cast<const void*>(&start_weftrun), &info) != 0 &&
      info.dli_fname != nullptr) {
    const auto library = std::filesystem::canonical(info.dli_fname, error);
    // Installed: lib/ (or lib/ARCHITECTURE/) beside bin/; not installed: where it is built.
    for (const char* place : {"../bin/weftrun", "../../bin/weftrun", "../../tools/weftrun/weftrun",
                              "../tools/weftrun/weftrun"}) {
      const auto path = (library.parent_path() / place).lexically_normal();
      if (access(path.c_str(), X_OK) == 0) return path.string();
    }
  }
  return "weftrun";
}

}  // namespace

Status weftrun_words(const SpawnRequest& request, std::vector<std::string>& words) {
  words.clear();
  const auto add = [&words](std::initializer_list<std::string> some) {
    words.insert(words.end(), some);
  };
  if (!request.folder.empty()) add({"--wdir", request.folder});
  if (!request.hosts.empty()) add({"--hosts", request.hosts});
  add({"--oversubscribe", "--bind", "none"});
  bool is_first = true;
  for (const SpawnRequest::Program& program : request.programs) {
    if (!std::exchange(is_first, false)) add({":"});
    add({"-n", std::to_string(program.num), "--"});
    for (const std::string& word : program.command) {
      if (word == ":")
        return {Code::bad_argument,
                "an argument of a spawned program is ':', which weftrun takes for the end of it"};
      words.push_back(word);
    }
  }
  return {};
}

Status start_weftrun(const SpawnRequest& request, std::unique_ptr<Spawned>& spawned) {
  std::vector<std::string> words;
  if (Status status = weftrun_words(request, words); !status) return status;
  const std::string program = find_weftrun();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return {Code::no_memory, fmt::format("pipe: {}", strerror(errno))};
  // Its descriptor number there: none that posix_spawn uses otherwise.
  const int kept = fcntl(ends[1], F_DUPFD, 10);
  ::close(ends[1]);
  if (kept < 0) {
    ::close(ends[0]);
    return {Code::no_memory, fmt::format("pipe: {}", strerror(errno))};
  }
  words.insert(words.begin(), {program, "--background", std::to_string(kept)});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::string path = "PATH=";
  std::vector<char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    // The variables that this process itself was started with.
    const auto is_given = [&](const auto& pair) {
      return text.starts_with(pair.first) && text.substr(pair.first.size()).starts_with('=');
    };
    if (std::ranges::any_of(request.environment, is_given)) continue;
    if (text.starts_with("WEFT_RENDEZVOUS=") || text.starts_with("WEFT_JOB_KEY=") ||
        text.starts_with("PMIX_") || text.starts_with("PMI_"))
      continue;
    if (!request.path.empty() && text.starts_with("PATH=")) {
      path = fmt::format("PATH={}:{}", request.path, text.substr(5));
      continue;
    }
    environment.push_back(*entry);
  }
  if (!request.path.empty()) environment.push_back(path.data());
  std::vector<std::string> given;
  for (const auto& [name, value] : request.environment)
    given.push_back(fmt::format("{}={}", name, value));
  for (std::string& entry : given) environment.push_back(entry.data());
  environment.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, program.c_str(), &files, &attributes, arguments.data(),
                                 environment.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  ::close(kept);
  auto started = std::make_unique<Started>(ends[0]);
  if (error != 0)
    return {Code::not_found, fmt::format("cannot start {}: {}", program, strerror(error))};
  // It leaves a process in the background and ends at once.
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  spawned = std::move(started);
  return {};
}

}  // namespace weft
