#include "job/weftrun/local_host.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>

#include "base/topology.hpp"
#include "job/boards.hpp"

namespace weft::weftrun {

Status system_error(std::string_view what) {
  return {Code::no_memory, fmt::format("{}: {}", what, strerror(errno))};
}

namespace {

constexpr std::size_t kInputBytes = 64u << 10;  // kept for a rank 0 that reads slowly

// Before any rank starts, so that a mistyped name is one message and not one per rank.
Status check_program(const std::string& program) {
  if (program.find('/') != std::string::npos) {
    if (access(program.c_str(), X_OK) == 0) return {};
    return {Code::not_found, fmt::format("cannot start {}: {}", program, strerror(errno))};
  }
  const char* path = getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/bin:/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access(fmt::format("{}/{}", folder.empty() ? "." : folder, program).c_str(), X_OK) == 0)
      return {};
  return {Code::not_found, fmt::format("cannot start {}: it is in no folder of PATH", program)};
}

// Every rank takes two pipes and one connection.
void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

LocalHost::~LocalHost() {
  if (guardian_ > 0) {
    signal(SIGKILL);
    for (auto& [number, rank] : ranks_)
      if (rank.running) waitpid(rank.pid, nullptr, 0);
    waitpid(guardian_, nullptr, 0);
  }
  for (int fd : {guardian_pipe_, input_source_, input_sink_})
    if (fd >= 0) close(fd);
  for (auto& [number, rank] : ranks_)
    for (int fd : {rank.out, rank.err})
      if (fd >= 0) close(fd);
}

Status LocalHost::start(const Assignment& assignment) {
  assignment_ = assignment;
  Status status = check_program(assignment_.command[0]);
  if (!status) return status;
  choose_cores();
  status = start_guardian();
  if (!status) return status;
  raise_file_limit();
  if (assignment_.input == Input::given) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe");
    input_source_ = ends[0];
    input_sink_ = ends[1];
    fcntl(input_sink_, F_SETFL, O_NONBLOCK);
  }
  for (std::size_t place = 0; place < assignment_.ranks.size() && status; ++place)
    status = start_rank(assignment_.ranks[place], place);
  return status;
}

void LocalHost::choose_cores() {
  if (assignment_.bind == Bind::none) return;
  const int num_ranks = static_cast<int>(assignment_.ranks.size());
  // Cheap look first: with more ranks than processors there is nothing to share out.
  if (assignment_.bind == Bind::automatic && num_ranks > num_usable_cpus()) return;
  Topology topology;
  if (Status status = Topology::read(topology); !status) {
    if (assignment_.bind == Bind::core) events_.said("cannot bind to cores: " + status.text());
    return;
  }
  const int num_cores = topology.num_cores();
  if (assignment_.bind == Bind::automatic && num_ranks > num_cores) return;
  cpus_.resize(static_cast<std::size_t>(num_ranks));
  for (int place = 0; place < num_ranks; ++place) {
    // More ranks than cores share them in turn.
    const int first = num_ranks > num_cores ? place % num_cores : place * num_cores / num_ranks;
    const int last = num_ranks > num_cores ? first + 1 : (place + 1) * num_cores / num_ranks;
    for (int core = first; core < last; ++core) {
      const auto& cpus = topology.cores()[static_cast<std::size_t>(core)];
      auto& mine = cpus_[static_cast<std::size_t>(place)];
      mine.insert(mine.end(), cpus.begin(), cpus.end());
    }
  }
}

Status LocalHost::start_guardian() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe");
  guardian_ = fork();
  if (guardian_ < 0) return system_error("fork");
  if (guardian_ == 0) {
    setpgid(0, 0);
    prctl(PR_SET_NAME, "weftrun-guard");
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    // Keeps nothing open but the pipe, whose other end closes when this process ends.
    dup2(ends[0], 0);
    close_range(1, ~0u, 0);
    char byte;
    while (read(0, &byte, 1) < 0 && errno == EINTR) continue;
    kill(0, SIGKILL);
    _exit(0);
  }
  setpgid(guardian_, guardian_);
  close(ends[0]);
  guardian_pipe_ = ends[1];
  return {};
}

Status LocalHost::start_rank(int rank, std::size_t place) {
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0) return system_error("pipe");
  if (pipe2(err, O_CLOEXEC) != 0) {
    const Status status = system_error("pipe");
    close(out[0]);
    close(out[1]);
    return status;
  }
  Rank& entry = ranks_[rank];
  entry.out = out[0];
  entry.err = err[0];
  for (int fd : {entry.out, entry.err}) fcntl(fd, F_SETFL, O_NONBLOCK);  // this end's alone
  int in = -1;
  if (rank == 0 && assignment_.input == Input::inherited) in = 0;
  if (rank == 0 && assignment_.input == Input::given) in = input_source_;
  entry.pid = fork();
  if (entry.pid == 0) become_rank(rank, place, in, out[1], err[1]);
  const Status status = entry.pid < 0 ? system_error("fork") : Status();
  entry.running = entry.pid > 0;
  close(out[1]);
  close(err[1]);
  if (rank == 0 && input_source_ >= 0) {
    close(input_source_);
    input_source_ = -1;
  }
  if (entry.running) events_.started(rank, entry.pid);
  return status;
}

void LocalHost::become_rank(int rank, std::size_t place, int in, int out, int err) {
  const pid_t parent = getppid();
  setpgid(0, guardian_);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It may have died before the line above.
  if (parent == 1 || getppid() != parent) _exit(1);
  if (in < 0) in = open("/dev/null", O_RDONLY);
  dup2(in, 0);
  dup2(out, 1);
  dup2(err, 2);
  if (!cpus_.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu : cpus_[place])
      if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  const auto set_variable = [](const char* name, const std::string& value) {
    setenv(name, value.c_str(), 1);
  };
  for (const auto& [name, value] : assignment_.environment) set_variable(name.c_str(), value);
  set_variable(kRankVariable, std::to_string(rank));
  set_variable(kSizeVariable, std::to_string(assignment_.job_size));
  set_variable(kRendezvousVariable, assignment_.rendezvous[0]);
  set_variable(kJobKeyVariable, assignment_.key);
  set_variable(kLauncherVariable, "weftrun");

  std::vector<char*> arguments;
  for (const std::string& word : assignment_.command)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &mask_, nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  dprintf(2, "weftrun: cannot start %s: %s\n", arguments[0], strerror(error));
  _exit(error == ENOENT ? 127 : 126);
}

void LocalHost::add_polls(std::vector<pollfd>& polls) {
  if (events_.has_room()) {
    for (auto& [number, rank] : ranks_)
      for (int fd : {rank.out, rank.err})
        if (fd >= 0) polls.push_back({fd, POLLIN, 0});
  }
  if (!input_.empty()) polls.push_back({input_sink_, POLLOUT, 0});
}

void LocalHost::serve() {
  for (auto& [number, rank] : ranks_) {
    read_output(number, Stream::out, rank.out);
    read_output(number, Stream::err, rank.err);
  }
  write_input();
  reap();
}

void LocalHost::read_output(int rank, Stream stream, int& fd) {
  if (fd < 0 || !events_.has_room()) return;
  char buffer[64 << 10];
  const ssize_t length = read(fd, buffer, sizeof buffer);
  if (length > 0) {
    events_.wrote(rank, stream, {buffer, static_cast<std::size_t>(length)});
  } else if (length == 0 || (errno != EINTR && errno != EAGAIN)) {
    close(fd);
    fd = -1;
    events_.closed(rank, stream);
  }
}

std::size_t LocalHost::input_room() const { return input_.empty() ? kInputBytes : 0; }

void LocalHost::give_input(std::string_view bytes) {
  if (input_sink_ < 0) return;  // nobody reads any more
  input_ += bytes;
  write_input();
}

void LocalHost::end_input() {
  input_ended_ = true;
  write_input();
}

void LocalHost::write_input() {
  while (!input_.empty()) {
    const ssize_t length = write(input_sink_, input_.data(), input_.size());
    if (length >= 0) {
      input_.erase(0, static_cast<std::size_t>(length));
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      input_.clear();
      input_ended_ = true;
    }
  }
  if (input_ended_ && input_sink_ >= 0) {
    close(input_sink_);
    input_sink_ = -1;
  }
}

void LocalHost::reap() {
  for (auto& [number, rank] : ranks_) {
    int wait_status = 0;
    if (!rank.running || waitpid(rank.pid, &wait_status, WNOHANG) != rank.pid) continue;
    rank.running = false;
    events_.exited(number, wait_status);
  }
}

void LocalHost::signal(int number) {
  if (guardian_ > 0) kill(-guardian_, number);
}

}  // namespace weft::weftrun
