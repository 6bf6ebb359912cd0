#include "job/weftrun/launcher.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/topology.hpp"
#include "base/wait.hpp"
#include "job/boards.hpp"

namespace weft::weftrun {
namespace {

using rendezvous::Server;

// Time between asking the ranks to end (SIGTERM) and ending them (SIGKILL).
constexpr std::uint64_t kGraceNs = 500'000'000;
// How long the last output is waited for after the last rank has ended.
constexpr std::uint64_t kDrainNs = 1'000'000'000;
// A rank's death is told to the others with its cause, once weftrun has seen the cause itself.
constexpr int kLossGraceMs = 500;
constexpr int kTimeoutStatus = 124;  // as timeout(1)

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

Status system_error(std::string_view what) {
  return {Code::no_memory, fmt::format("{}: {}", what, strerror(errno))};
}

std::string random_key() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return {};
  std::string key;
  for (unsigned char byte : bytes) key += fmt::format("{:02x}", byte);
  return key;
}

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

Launcher::Launcher(const Options& options)
    : options_(options), ranks_(static_cast<std::size_t>(options.num_ranks)) {}

Launcher::~Launcher() {
  if (guardian_ > 0) {
    kill_group(SIGKILL);
    for (Rank& rank : ranks_)
      if (rank.running) waitpid(rank.pid, nullptr, 0);
    waitpid(guardian_, nullptr, 0);
  }
  for (int fd : {guardian_pipe_, signals_, stdin_pipe_, stdin_sink_})
    if (fd >= 0) close(fd);
}

Status Launcher::start() {
  Status status = check_program(options_.command[0]);
  if (!status) return status;
  sigset_t mask;
  sigemptyset(&mask);
  for (int signal : kForwarded) sigaddset(&mask, signal);
  for (int signal : {SIGCHLD, SIGTSTP, SIGCONT}) sigaddset(&mask, signal);
  sigprocmask(SIG_BLOCK, &mask, &old_mask_);
  signal(SIGPIPE, SIG_IGN);
  signals_ = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0) return system_error("signalfd");

  key_ = random_key();
  if (key_.empty()) return system_error("getrandom");
  choose_cores();
  Server::Options server;
  server.size = options_.num_ranks;
  server.key = key_;
  server.loss_grace_ms = kLossGraceMs;
  status = start_guardian();
  if (!status) return status;
  raise_file_limit();
  status = Server::listen(server, server_);
  if (status) status = open_stdin();
  for (int rank = 0; rank < options_.num_ranks && status; ++rank) status = start_rank(rank);
  if (options_.timeout_s > 0)
    timeout_at_ns_ = now_ns() + static_cast<std::uint64_t>(options_.timeout_s * 1e9);
  return status;
}

void Launcher::choose_cores() {
  if (options_.bind == Bind::none) return;
  // Cheap look first: with more ranks than processors there is nothing to share out.
  if (options_.bind == Bind::automatic && options_.num_ranks > num_usable_cpus()) return;
  Topology topology;
  if (Status status = Topology::read(topology); !status) {
    if (options_.bind == Bind::core) say("cannot bind to cores: " + status.text());
    return;
  }
  const int num_cores = topology.num_cores();
  const int num_ranks = options_.num_ranks;
  if (options_.bind == Bind::automatic && num_ranks > num_cores) return;
  cpus_.resize(static_cast<std::size_t>(num_ranks));
  for (int rank = 0; rank < num_ranks; ++rank) {
    // More ranks than cores share them in turn.
    const int first = num_ranks > num_cores ? rank % num_cores : rank * num_cores / num_ranks;
    const int last = num_ranks > num_cores ? first + 1 : (rank + 1) * num_cores / num_ranks;
    for (int core = first; core < last; ++core) {
      const auto& cpus = topology.cores()[static_cast<std::size_t>(core)];
      auto& mine = cpus_[static_cast<std::size_t>(rank)];
      mine.insert(mine.end(), cpus.begin(), cpus.end());
    }
  }
}

Status Launcher::start_guardian() {
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
    // Keeps nothing open but the pipe, whose other end closes when weftrun ends.
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

Status Launcher::open_stdin() {
  if (!isatty(0)) return {};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe");
  stdin_pipe_ = ends[0];
  stdin_sink_ = ends[1];
  fcntl(stdin_sink_, F_SETFL, O_NONBLOCK);
  stdin_open_ = true;
  return {};
}

Status Launcher::start_rank(int rank) {
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0) return system_error("pipe");
  if (pipe2(err, O_CLOEXEC) != 0) {
    const Status status = system_error("pipe");
    close(out[0]);
    close(out[1]);
    return status;
  }
  Rank& entry = ranks_[static_cast<std::size_t>(rank)];
  const std::string prefix = options_.tag_output ? fmt::format("[{}] ", rank) : std::string();
  const bool whole_lines = options_.num_ranks > 1;
  entry.out = std::make_unique<Source>(out[0], &stdout_, prefix, whole_lines);
  entry.err = std::make_unique<Source>(err[0], &stderr_, prefix, whole_lines);
  const int in = rank > 0 ? -1 : stdin_pipe_ >= 0 ? stdin_pipe_ : 0;
  entry.pid = fork();
  if (entry.pid == 0) become_rank(rank, in, out[1], err[1]);
  const Status status = entry.pid < 0 ? system_error("fork") : Status();
  entry.running = entry.pid > 0;
  close(out[1]);
  close(err[1]);
  if (rank == 0 && stdin_pipe_ >= 0) {
    close(stdin_pipe_);
    stdin_pipe_ = -1;
  }
  return status;
}

void Launcher::become_rank(int rank, int in, int out, int err) {
  const pid_t launcher = getppid();
  setpgid(0, guardian_);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It may have died before the line above.
  if (launcher == 1 || getppid() != launcher) _exit(1);
  if (in < 0) in = open("/dev/null", O_RDONLY);
  dup2(in, 0);
  dup2(out, 1);
  dup2(err, 2);
  if (!cpus_.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu : cpus_[static_cast<std::size_t>(rank)])
      if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  const auto set_variable = [](const char* name, const std::string& value) {
    setenv(name, value.c_str(), 1);
  };
  for (const auto& [name, value] : options_.environment) set_variable(name.c_str(), value);
  set_variable(kRankVariable, std::to_string(rank));
  set_variable(kSizeVariable, std::to_string(options_.num_ranks));
  set_variable(kRendezvousVariable, fmt::format("127.0.0.1:{}", server_->port()));
  set_variable(kJobKeyVariable, key_);
  set_variable(kLauncherVariable, "weftrun");

  std::vector<char*> arguments;
  for (const std::string& word : options_.command)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  dprintf(2, "weftrun: cannot start %s: %s\n", arguments[0], strerror(error));
  _exit(error == ENOENT ? 127 : 126);
}

int Launcher::run() {
  while (num_running() > 0 ||
         ((outputs_open() || !stdout_.empty() || !stderr_.empty()) && now_ns() < drain_until_ns_)) {
    wait_for_something();
    take_signals();
    reap();
    server_->serve();
    take_abort_request();
    check_deadlines();
    if (num_running() == 0 && !killed_) {
      // What the ranks have started and left behind.
      kill_group(SIGKILL);
      killed_ = true;
    }
    // Nobody waits for a reader that has stopped reading once there is no job any more and the
    // user asks for the end.
    if (num_running() == 0 && (num_stop_signals_ > 0 || ending_) && drain_until_ns_ == UINT64_MAX)
      drain_until_ns_ = now_ns() + kDrainNs;
  }
  for (Rank& rank : ranks_) {
    rank.out->close();
    rank.err->close();
  }
  stdout_.write_some();
  stderr_.write_some();
  return exit_status_.value_or(0);
}

void Launcher::wait_for_something() {
  std::vector<pollfd> ready;
  std::vector<Source*> sources;  // of the first entries of `ready`
  for (Rank& rank : ranks_)
    for (Source* source : {rank.out.get(), rank.err.get()})
      if (source->readable()) {
        ready.push_back({source->fd(), POLLIN, 0});
        sources.push_back(source);
      }
  for (Sink* sink : {&stdout_, &stderr_})
    if (!sink->empty()) ready.push_back({sink->fd(), POLLOUT, 0});
  ready.push_back({signals_, POLLIN, 0});
  ready.push_back({server_->poll_fd(), POLLIN, 0});
  if (!stdin_pending_.empty())
    ready.push_back({stdin_sink_, POLLOUT, 0});
  else if (stdin_open_ && tcgetpgrp(0) == getpgrp())
    ready.push_back({0, POLLIN, 0});

  int timeout_ms = server_->timeout_ms();
  for (std::uint64_t at_ns : {kill_at_ns_, timeout_at_ns_, drain_until_ns_}) {
    if (at_ns == UINT64_MAX) continue;
    const std::uint64_t now = now_ns();
    const int left_ms = at_ns <= now ? 0
                                     : static_cast<int>(std::min<std::uint64_t>(
                                           (at_ns - now) / 1'000'000 + 1, 1'000'000'000));
    if (timeout_ms < 0 || left_ms < timeout_ms) timeout_ms = left_ms;
  }
  poll(ready.data(), ready.size(), timeout_ms);

  for (std::size_t i = 0; i < sources.size(); ++i)
    if (ready[i].revents != 0 && sources[i]->readable()) sources[i]->read_some();
  stdout_.write_some();
  stderr_.write_some();
  const pollfd& last = ready.back();
  if ((last.fd == 0 || last.fd == stdin_sink_) && last.revents != 0) forward_stdin();
}

void Launcher::forward_stdin() {
  if (stdin_pending_.empty()) {
    char buffer[4096];
    const ssize_t length = read(0, buffer, sizeof buffer);
    if (length > 0)
      stdin_pending_.assign(buffer, static_cast<std::size_t>(length));
    else if (length == 0 || errno != EINTR)
      stdin_open_ = false;
  }
  if (!stdin_pending_.empty()) {
    const ssize_t length = write(stdin_sink_, stdin_pending_.data(), stdin_pending_.size());
    if (length >= 0) {
      stdin_pending_.erase(0, static_cast<std::size_t>(length));
    } else if (errno != EAGAIN && errno != EINTR) {
      stdin_pending_.clear();
      stdin_open_ = false;
    }
  }
  if (!stdin_open_ && stdin_sink_ >= 0) {
    close(stdin_sink_);
    stdin_sink_ = -1;
  }
}

void Launcher::take_signals() {
  signalfd_siginfo info;
  while (read(signals_, &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;
    if (signal == SIGTSTP) {
      stop_with_terminal();
    } else if (signal == SIGCONT) {
      kill_group(SIGCONT);
    } else {
      const bool stops = signal == SIGINT || signal == SIGTERM || signal == SIGQUIT;
      if (stops && ++num_stop_signals_ > 1) {
        fail(128 + signal);
        ending_ = true;
        kill_group(SIGKILL);
      } else {
        kill_group(signal);
      }
    }
  }
}

void Launcher::stop_with_terminal() {
  kill_group(SIGTSTP);
  raise(SIGSTOP);
  kill_group(SIGCONT);
}

void Launcher::reap() {
  std::vector<Exit> exits;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    int wait_status = 0;
    if (!ranks_[i].running || waitpid(ranks_[i].pid, &wait_status, WNOHANG) != ranks_[i].pid)
      continue;
    ranks_[i].running = false;
    exits.push_back({static_cast<int>(i), wait_status});
  }
  // Of several ends seen at once a signal's is the likely cause of the others.
  std::ranges::stable_sort(exits, std::ranges::greater{},
                           [](const Exit& exit) { return WIFSIGNALED(exit.wait_status); });
  for (const Exit& exit : exits) judge(exit);
}

void Launcher::judge(const Exit& exit) {
  const int code = WEXITSTATUS(exit.wait_status);
  const auto state = server_->state(exit.rank);
  std::string how;
  int status = code;
  bool dead = true;
  if (WIFSIGNALED(exit.wait_status)) {
    const int signal = WTERMSIG(exit.wait_status);
    how = fmt::format("was killed by signal {} ({})", signal, strsignal(signal));
    status = 128 + signal;
  } else if (state == Server::RankState::left) {
    how = fmt::format("exited with code {} after it had left the job in good order", code);
    dead = false;
  } else if (state == Server::RankState::absent) {
    how = code == 0 ? "exited without joining the job" : fmt::format("exited with code {}", code);
    dead = code != 0;
  } else {
    how = fmt::format("exited with code {} without finalizing", code);
    if (status == 0) status = 1;
  }
  server_->mark_gone(exit.rank, how);
  if (status == 0 || ending_) return;
  const auto pid = ranks_[static_cast<std::size_t>(exit.rank)].pid;
  say(fmt::format("rank {} (pid {}) {}", exit.rank, pid, how));
  fail(status);
  if (dead && options_.on_death == OnDeath::kill) end_job();
}

void Launcher::take_abort_request() {
  const auto& request = server_->abort_request();
  if (!request || ending_) return;
  const int status = request->exit_code & 0xff;
  say(fmt::format("rank {} ended the job with code {}{}{}", request->rank, request->exit_code,
                  request->message.empty() ? "" : ": ", request->message));
  fail(status != 0 ? status : 1);
  end_job();
}

void Launcher::check_deadlines() {
  const std::uint64_t now = now_ns();
  if (now >= timeout_at_ns_ && num_running() > 0) {
    timeout_at_ns_ = UINT64_MAX;
    say(fmt::format("the job did not end within {:g} s; {} still {}", options_.timeout_s,
                    name_ranks(running_ranks()), num_running() == 1 ? "runs" : "run"));
    fail(kTimeoutStatus);
    if (!ending_) end_job();
  }
  if (now >= kill_at_ns_) {
    kill_at_ns_ = UINT64_MAX;
    kill_group(SIGKILL);
  }
}

void Launcher::end_job() {
  ending_ = true;
  if (const int num = num_running(); num > 0)
    say(fmt::format("ending {}", name_ranks(running_ranks())));
  kill_group(SIGTERM);
  kill_group(SIGCONT);  // a stopped process could not end
  kill_at_ns_ = now_ns() + kGraceNs;
}

// The guardian leads the group and is reaped last, so the number cannot mean another group.
void Launcher::kill_group(int signal) { kill(-guardian_, signal); }

void Launcher::say(const std::string& text) { stderr_.append("weftrun: " + text + "\n"); }

void Launcher::fail(int exit_status) {
  if (!exit_status_) exit_status_ = exit_status;
}

int Launcher::num_running() const {
  return static_cast<int>(std::ranges::count_if(ranks_, &Rank::running));
}

std::vector<int> Launcher::running_ranks() const {
  std::vector<int> running;
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i].running) running.push_back(static_cast<int>(i));
  return running;
}

bool Launcher::outputs_open() const {
  return std::ranges::any_of(
      ranks_, [](const Rank& rank) { return rank.out->fd() >= 0 || rank.err->fd() >= 0; });
}

}  // namespace weft::weftrun
