#include "launcher/places/aside.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>

namespace weft::weftrun {
namespace {

[[noreturn]] void run_work(const std::function<std::string()>& work, int limit_ms, int result,
                           pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it has died before the line above
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  signal(SIGALRM, SIG_DFL);
  sigprocmask(SIG_UNBLOCK, &alarm, nullptr);
  const itimerval limit{{0, 0}, {limit_ms / 1000, limit_ms % 1000 * 1000}};
  setitimer(ITIMER_REAL, &limit, nullptr);
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, 0);
  dup2(result, 1);
  dup2(nothing, 2);
  close_range(3, ~0u, 0);
  try {
    const std::string text = work();
    std::size_t written = 0;
    while (written < text.size()) {
      const ssize_t length = write(1, text.data() + written, text.size() - written);
      if (length < 0 && errno != EINTR) break;
      if (length > 0) written += static_cast<std::size_t>(length);
    }
  } catch (const std::exception&) {
    _exit(1);  // there is no result then
  }
  _exit(0);
}

}  // namespace

bool Aside::start(const std::function<std::string()>& work, int limit_ms) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  const pid_t own = getpid();
  pid_ = fork();
  if (pid_ == 0) run_work(work, limit_ms, ends[1], own);
  close(ends[1]);
  result_ = Descriptor(ends[0]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return pid_ > 0;
}

bool Aside::read_some() {
  char buffer[4096];
  for (;;) {
    const ssize_t length = read(result_.get(), buffer, sizeof buffer);
    if (length > 0)
      text_.append(buffer, static_cast<std::size_t>(length));
    else if (length == 0 || (errno != EINTR && errno != EAGAIN))
      return true;
    else if (errno == EAGAIN)
      return false;
  }
}

const std::string& Aside::wait() {
  while (!read_some()) {
    pollfd ready{result_.get(), POLLIN, 0};
    poll(&ready, 1, -1);  // the kernel ends the child, and with it the pipe
  }
  end();
  return text_;
}

void Aside::end() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_ = -1;
  result_ = Descriptor();
}

}  // namespace weft::weftrun
