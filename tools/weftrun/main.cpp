// weftrun: starts a program as a job of several processes, on this machine or several.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <chrono>
#include <new>
#include <string>

#include "launcher/agent.hpp"
#include "launcher/launcher.hpp"
#include "launcher/name_server.hpp"
#include "launcher/options.hpp"

namespace {

constexpr int kOutputStatus = 1;
constexpr int kUsageStatus = 2;
constexpr int kStartStatus = 125;

int complain(const weft::Status& status, int exit_status) {
  fprintf(stderr, "weftrun: %s\n", status.text().c_str());
  return exit_status;
}

// Output that cannot be written is an error.
int print(const std::string& text) {
  if (fputs(text.c_str(), stdout) >= 0 && fflush(stdout) == 0) return 0;
  perror("weftrun: cannot write standard output");
  return kOutputStatus;
}

// Opens closed standard descriptors, as a pipe or socket could get their numbers otherwise.
void take_standard_streams() {
  for (int fd = 0; fd < 3; ++fd)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd) _exit(kStartStatus);
}

// Ends this process; a child of it continues. Processes started there do not have the descriptor.
bool go_to_background(int descriptor) {
  if (fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0) return false;
  const pid_t pid = fork();
  if (pid > 0) _exit(0);
  return pid == 0;
}

}  // namespace

int main(int argc, char** argv) try {
  using namespace weft::weftrun;
  take_standard_streams();
  // An inherited SIG_IGN would make waitpid report no ends of children.
  signal(SIGCHLD, SIG_DFL);
  Options options;
  if (weft::Status status = parse_options(argc, argv, options); !status)
    return complain(status, kUsageStatus);
  if (options.help) return print(help_text());
  if (options.version) return print("weftrun (Weft) " WEFT_VERSION "\n");
  if (options.serve_host) return run_agent();
  if (options.serve_names) {
    const weft::Status served = serve_names(options);
    return served ? 0 : complain(served, kStartStatus);
  }
  if (options.background >= 0 && !go_to_background(options.background)) return kStartStatus;
  if (options.verbose)
    for (const std::string& words : options.ignored)
      fprintf(stderr, "weftrun: %s means nothing here and is ignored\n", words.c_str());
  if (!options.quiet)
    for (const std::string& note : options.notes) fprintf(stderr, "weftrun: %s\n", note.c_str());
  sigset_t mask;
  sigprocmask(SIG_BLOCK, nullptr, &mask);
  for (int restart = 1;; ++restart) {
    const auto start = std::chrono::steady_clock::now();
    Launcher launcher(options, mask);
    if (weft::Status status = launcher.start(); !status)
      return complain(status, status == weft::Code::not_found      ? kMissingStatus
                              : status == weft::Code::bad_argument ? kUsageStatus
                              : status == weft::Code::bad_setting  ? kUsageStatus
                                                                   : kStartStatus);
    const int exit_status = launcher.run();
    if (restart > options.restarts || !launcher.has_lost_ranks()) return exit_status;
    // --timeout is for all starts together.
    options.spent_s +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (options.timeout_s > 0 && options.spent_s >= options.timeout_s) return exit_status;
    options.is_restarted = true;
    fprintf(stderr, "weftrun: starting the job again (restart %d of %d)\n", restart,
            options.restarts);
  }
} catch (const std::bad_alloc&) {
  // The launcher and its ranks have ended.
  fputs("weftrun: out of memory\n", stderr);
  return kStartStatus;
}
