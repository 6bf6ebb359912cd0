#include "tests/support/process.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

extern char** environ;

namespace weft::testing {
namespace {

using Clock = std::chrono::steady_clock;

int left_ms(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return std::max(0, static_cast<int>(left.count()) + 1);
}

void make_pipe(int (&ends)[2]) {
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error(strerror(errno));
}

}  // namespace

Process::Process(const std::vector<std::string>& command, const Environment& environment,
                 std::string_view input) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!std::string_view(*entry).starts_with("WEFT_")) variables.emplace_back(*entry);
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  std::vector<char*> envp, argv;
  for (std::string& variable : variables) envp.push_back(variable.data());
  envp.push_back(nullptr);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);

  int in[2], out[2], err[2];
  make_pipe(in);
  make_pipe(out);
  make_pipe(err);
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error(strerror(errno));
  if (pid_ == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    dup2(err[1], 2);
    // Whoever started the tests may ignore some, as shells do for what runs in the background.
    for (int number : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1}) ::signal(number, SIG_DFL);
    execvpe(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  for (int fd : {in[0], out[1], err[1]}) close(fd);
  if (write(in[1], input.data(), input.size()) != static_cast<ssize_t>(input.size()))
    throw std::runtime_error("the input does not fit into a pipe");
  close(in[1]);
  out_pipe_ = out[0];
  err_pipe_ = err[0];
}

Process::~Process() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (int fd : {out_pipe_, err_pipe_})
    if (fd >= 0) close(fd);
}

// False if nothing came in time, or there is nothing more to come.
bool Process::read_some(int timeout_ms) {
  pollfd ready[] = {{out_pipe_, POLLIN, 0}, {err_pipe_, POLLIN, 0}};
  if (poll(ready, 2, timeout_ms) <= 0) return false;
  const auto take = [](pollfd& from, int& pipe, std::string& to) {
    char buffer[16 << 10];
    if (from.revents == 0) return;
    const ssize_t length = read(pipe, buffer, sizeof buffer);
    if (length > 0) {
      to.append(buffer, static_cast<std::size_t>(length));
    } else {
      close(pipe);
      pipe = -1;
    }
  };
  take(ready[0], out_pipe_, out_);
  take(ready[1], err_pipe_, err_);
  return out_pipe_ >= 0 || err_pipe_ >= 0;
}

bool Process::wait_for_lines(int num_lines, int timeout_ms) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  while (std::ranges::count(out_, '\n') < num_lines)
    if (Clock::now() >= deadline || !read_some(left_ms(deadline))) return false;
  return true;
}

void Process::signal(int number) const { kill(pid_, number); }

int Process::wait(int timeout_ms) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  while (read_some(left_ms(deadline))) continue;
  if (!ends_within(pid_, left_ms(deadline))) return -1;
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool ends_within(pid_t pid, int timeout_ms) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return errno == ESRCH;
  pollfd ended{fd, POLLIN, 0};
  const bool result = poll(&ended, 1, timeout_ms) == 1;
  close(fd);
  return result;
}

}  // namespace weft::testing
