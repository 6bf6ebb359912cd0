#include "launcher/supervisor.hpp"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <new>
#include <string>
#include <system_error>

#include "job/boards.hpp"
#include "launcher/processes/descendants.hpp"

namespace weft::weftrun {
namespace {

// The interval between two checks for processes that should be dead by now; an end of a child wakes
// at once.
constexpr int kRetryMs = 50;
constexpr int kMaxAttempts = 200;  // of a process without memory for them

class Supervisor {
 public:
  explicit Supervisor(const SupervisorPlan& plan) : plan_(plan) {}
  [[noreturn]] void run();

 private:
  void take_orders();
  void start_rank(std::size_t place);
  [[noreturn]] void become_rank(std::size_t place, int out, int err);
  void forget_input();
  void report(const Report& report, int out = -1, int err = -1) const;
  void signal(int number);
  bool reap();
  bool kill_all();

  SupervisorPlan plan_;
  const pid_t pid_ = getpid();
  std::map<pid_t, int> ranks_;  // the running ones
  bool orphaned_ = false;       // weftrun is gone, or wants this process to go
  bool killing_ = false;
};

void Supervisor::run() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGCHLD);
  const int signals = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
  for (;;) {
    // Once orphaned, the socket would be ready for ever.
    pollfd ready[] = {{signals, POLLIN, 0}, {orphaned_ ? -1 : plan_.socket, POLLIN, 0}};
    poll(ready, 2, killing_ || signals < 0 ? kRetryMs : -1);
    signalfd_siginfo info;
    while (signals >= 0 && read(signals, &info, sizeof info) == sizeof info) continue;
    if (ready[1].revents != 0) take_orders();
    const bool any_left = reap();
    if (killing_ && any_left && kill_all()) continue;
    if (orphaned_) break;
  }
  // Without /proc descendants cannot be found: at least the process group is killed.
  if (!can_see_descendants()) kill(0, SIGKILL);
  _exit(0);
}

void Supervisor::take_orders() {
  Order order;
  for (;;) {
    const ssize_t length = recv(plan_.socket, &order, sizeof order, MSG_DONTWAIT);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && errno == EAGAIN) return;
    if (length != sizeof order) {
      orphaned_ = killing_ = true;
      return;
    }
    if (order.kind == Order::Kind::start)
      start_rank(static_cast<std::size_t>(order.value));
    else
      signal(order.value);
  }
}

void Supervisor::start_rank(std::size_t place) {
  const int rank = plan_.assignment.ranks[place];
  int out[2] = {-1, -1}, err[2] = {-1, -1};
  const bool piped = pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0;
  const pid_t pid = piped ? fork() : -1;
  if (pid == 0) become_rank(place, out[1], err[1]);
  if (pid < 0) {
    report({Report::Kind::failed, rank, errno});
  } else {
    ranks_[pid] = rank;
    report({Report::Kind::started, rank, pid}, out[0], err[0]);
    if (rank == 0) forget_input();
  }
  for (int fd : {out[0], out[1], err[0], err[1]})
    if (fd >= 0) close(fd);
}

void Supervisor::become_rank(std::size_t place, int out, int err) try {
  const int rank = plan_.assignment.ranks[place];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It may have died before the line above.
  if (getppid() != pid_) _exit(1);
  const int in = rank == 0 && plan_.input >= 0 ? plan_.input : open("/dev/null", O_RDONLY);
  dup2(in, 0);
  dup2(out, 1);
  dup2(err, 2);
  if (!plan_.cpus.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu : plan_.cpus[place])
      if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  const Assignment& assignment = plan_.assignment;
  const auto set_variable = [](const char* name, const std::string& value) {
    if (setenv(name, value.c_str(), 1) != 0) throw std::bad_alloc();
  };
  for (const auto& [name, value] : assignment.environment) set_variable(name.c_str(), value);
  const std::size_t index = program_of(assignment, rank);
  const Program& program = assignment.programs[index];
  for (const auto& [name, value] : program.environment) set_variable(name.c_str(), value);
  set_variable(kAppNumberVariable, std::to_string(index));
  set_variable(kRankVariable, std::to_string(rank));
  set_variable(kSizeVariable, std::to_string(assignment.job_size));
  set_variable(kRendezvousVariable, assignment.rendezvous[0]);
  set_variable(kJobKeyVariable, assignment.key);
  set_variable(kLauncherVariable, "weftrun");

  std::vector<char*> arguments;
  for (const std::string& word : program.command)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  if (rlimit limit; assignment.core && getrlimit(RLIMIT_CORE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_CORE, &limit);
  }
  for (const int number : {SIGPIPE, SIGXFSZ}) ::signal(number, SIG_DFL);
  sigprocmask(SIG_SETMASK, &plan_.mask, nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  dprintf(2, "weftrun: cannot start %s: %s\n", arguments[0], strerror(error));
  _exit(error == ENOENT ? 127 : 126);
} catch (const std::bad_alloc&) {
  dprintf(2, "weftrun: cannot start a rank: out of memory\n");
  _exit(126);
}

// Rank 0's end of the input must be the only one left, so that its writer sees when it stops
// reading.
void Supervisor::forget_input() {
  if (plan_.input < 0) return;
  close(plan_.input);
  plan_.input = -1;
}

void Supervisor::report(const Report& report, int out, int err) const {
  Report copy = report;
  iovec bytes{&copy, sizeof copy};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  const int fds[] = {out, err};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof fds)] = {};
  if (out >= 0) {
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(head), fds, sizeof fds);
  }
  // Fails once weftrun is gone, which the next read of the socket shows.
  while (sendmsg(plan_.socket, &message, MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
}

void Supervisor::signal(int number) {
  if (number == SIGKILL) {
    killing_ = true;
    return;
  }
  kill(0, number);  // which this process blocks
  try {
    signal_descendants(number, pid_);
  } catch (const std::exception&) {
    // The group has it.
  }
}

// False once there is no child any more.
bool Supervisor::reap() {
  for (;;) {
    int wait_status = 0;
    const pid_t pid = waitpid(-1, &wait_status, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) return pid == 0;
    const auto rank = ranks_.find(pid);
    if (rank == ranks_.end()) continue;
    report({Report::Kind::exited, rank->second, wait_status});
    ranks_.erase(rank);
  }
}

// False if no process is left that can be killed.
bool Supervisor::kill_all() {
  if (!can_see_descendants()) {
    for (const auto& [pid, rank] : ranks_) kill(pid, SIGKILL);
    return !ranks_.empty();
  }
  const Signalled signalled = signal_descendants(SIGKILL);
  if (signalled.num_reached > 0 || signalled.num_refused == 0) return true;
  for (const auto& [pid, rank] : std::exchange(ranks_, {})) report({Report::Kind::kept, rank, pid});
  return false;
}

// Answers an order, the first before it comes.
[[noreturn]] void give_up(const SupervisorPlan& own) {
  const Report report{Report::Kind::failed, 0, errno};
  send(own.socket, &report, sizeof report, MSG_NOSIGNAL);
  _exit(1);
}

// Weftrun's own descriptors, such as its end of the socket, are marked close-on-exec and closed
// here; ranks inherit all others from weftrun's parent.
void close_what_is_not_for_ranks(const SupervisorPlan& own) {
  std::vector<int> fds;
  if (DIR* open_fds = opendir("/proc/self/fd"); open_fds != nullptr) {
    while (const dirent* entry = readdir(open_fds)) fds.push_back(atoi(entry->d_name));
    closedir(open_fds);
  } else {
    constexpr int kMost = 1 << 16;
    for (int fd = 3; fd < kMost; ++fd) fds.push_back(fd);
  }
  for (int fd : fds) {
    if (fd <= 2 || fd == own.socket || fd == own.input) continue;
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) != 0) close(fd);
  }
}

void block_all_signals() {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
}

// Exceptions end here: this process is a copy of weftrun, and must not run its destructors. The
// supervisor's parent ends the ranks that there are.
[[noreturn]] void run_supervisor(const SupervisorPlan& plan) try {
  setpgid(0, 0);
  prctl(PR_SET_NAME, "weft-supervisor");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  SupervisorPlan own = plan;
  if (plan.input == 0) own.input = fcntl(0, F_DUPFD_CLOEXEC, 3);
  if (plan.input >= 0 && own.input < 0) give_up(own);
  close_what_is_not_for_ranks(own);
  // Readers of weftrun's output must see its end, not that of this process.
  for (int fd = 0; fd < 3; ++fd) {
    close(fd);
    if (open("/dev/null", O_RDWR) != fd) give_up(own);
  }
  Supervisor(own).run();
} catch (const std::system_error& error) {
  errno = error.code().value();
  give_up(plan);
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  give_up(plan);
}

// Without memory or descriptors to find them, the ones that end meanwhile free some.
void end_all_descendants() {
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    try {
      return end_descendants();
    } catch (const std::exception&) {
      ::poll(nullptr, 0, kRetryMs);
    }
  }
}

}  // namespace

void run_supervisor_parent(const SupervisorPlan& plan) {
  block_all_signals();
  prctl(PR_SET_NAME, "weft-sv-parent");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t supervisor = fork();
  if (supervisor == 0) run_supervisor(plan);
  if (supervisor < 0) give_up(plan);
  close_range(0, ~0u, 0);
  // Not reaped, its number stays that of the group.
  siginfo_t end{};
  while (waitid(P_PID, static_cast<id_t>(supervisor), &end, WEXITED | WNOWAIT) != 0) continue;
  if (end.si_code != CLD_EXITED || end.si_status != 0) {
    kill(-supervisor, SIGKILL);
    end_all_descendants();
  }
  _exit(0);
}

}  // namespace weft::weftrun
