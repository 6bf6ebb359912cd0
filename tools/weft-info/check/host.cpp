#include "tools/weft-info/check/host.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/os/own_program.hpp"
#include "base/wait.hpp"

namespace weft::check {
namespace {

// weftrun ends its ranks within half a second, and waits two for the launch command.
constexpr std::uint64_t kLeaveNs = 4'000'000'000, kKillNs = 8'000'000'000;
constexpr int kLookMs = 100;  // for is_interrupted
constexpr std::size_t kMostComplaints = 4000;

// Installed it stands beside weft-info, else where it is built.
std::string weftrun_beside(const std::string& own) {
  const std::string folder = own.substr(0, own.rfind('/') + 1);
  for (const char* place : {"weftrun", "../weftrun/weftrun"})
    if (access((folder + place).c_str(), X_OK) == 0) return folder + place;
  return "weftrun";
}

}  // namespace

std::atomic<bool> is_interrupted = false;

Host::~Host() {
  stop();
  const std::uint64_t begin_ns = now_ns();
  bool asked = false;
  while (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == 0) {
    read_complaints();  // so that it is not held up by them
    const std::uint64_t waited_ns = now_ns() - begin_ns;
    if (waited_ns > kKillNs) {
      kill(-pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
      break;
    }
    if (waited_ns > kLeaveNs && !std::exchange(asked, true)) kill(pid_, SIGTERM);
    poll(nullptr, 0, 10);
  }
  for (const int fd : {out_, err_})
    if (fd >= 0) close(fd);
}

void Host::stop() {
  // Its standard input ends, so the member does, and with it weftrun; one without a member yet is
  // told so.
  if (in_ >= 0) close(std::exchange(in_, -1));
  if (pid_ > 0 && (!is_there_ || is_interrupted)) kill(pid_, SIGTERM);
}

Status Host::start() {
  std::string own = own_program();
  if (own.empty()) own = "weft-info";
  const std::string weftrun = weftrun_beside(own);
  const std::vector<std::string> words = {weftrun, "--quiet", "--hosts", name_, "-n",
                                          "1",     "--bind",  "none",    own,   "--serve-check"};
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  int pipes[3][2];
  for (auto& one : pipes)
    if (pipe2(one, O_CLOEXEC) != 0)
      return {Code::no_memory, fmt::format("pipe: {} (see ulimit -n)", strerror(errno))};
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    // A group of its own: a terminal's ctrl-C is for this process to pass on.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    dup2(pipes[0][0], 0);
    dup2(pipes[1][1], 1);
    dup2(pipes[2][1], 2);
    execvp(pointers[0], pointers.data());
    dprintf(2, "cannot start %s: %s\n", pointers[0], strerror(errno));
    _exit(127);
  }
  in_ = pipes[0][1];
  out_ = pipes[1][0];
  err_ = pipes[2][0];
  for (const int fd : {pipes[0][0], pipes[1][1], pipes[2][1]}) close(fd);
  if (pid_ < 0) return {Code::no_memory, fmt::format("fork: {}", strerror(errno))};
  setpgid(pid_, pid_);
  for (const int fd : {out_, err_}) fcntl(fd, F_SETFL, O_NONBLOCK);
  return {};
}

void Host::read_complaints() {
  char buffer[4096];
  for (ssize_t length; err_ >= 0 && (length = read(err_, buffer, sizeof buffer)) > 0;)
    complaints_.append(buffer, static_cast<std::size_t>(length));
  if (complaints_.size() > kMostComplaints)
    complaints_.erase(0, complaints_.size() - kMostComplaints);
}

// With the last that weftrun or the launch command has said, in one line.
Status Host::lost(Code code, const std::string& what) {
  const bool was_there = std::exchange(is_there_, false);
  poll(nullptr, 0, kLookMs);  // the reason may come right after the end
  read_complaints();
  std::string said = complaints_;
  while (!said.empty() && said.back() == '\n') said.pop_back();
  if (const std::size_t line = said.rfind('\n'); line != std::string::npos) {
    // The last two: ssh's own words, and weftrun's of its end.
    const std::size_t before = said.rfind('\n', line - 1);
    said.erase(0, before == std::string::npos ? 0 : before + 1);
  }
  std::ranges::replace(said, '\n', ' ');
  return {code, fmt::format("{}{}{}", was_there ? what : "weft-info did not start there, " + what,
                            said.empty() ? "" : ": ", said)};
}

Status Host::read_line(std::string& line, int timeout_ms) {
  const std::uint64_t end_ns = now_ns() + static_cast<std::uint64_t>(timeout_ms) * 1'000'000;
  for (;;) {
    if (const std::size_t end = output_.find('\n'); end != std::string::npos) {
      line = output_.substr(0, end);
      output_.erase(0, end + 1);
      if (line.starts_with('{')) return {};
      continue;  // a login shell's greeting
    }
    if (is_interrupted) return {Code::cancelled, "interrupted"};
    if (now_ns() > end_ns)
      return lost(Code::timed_out, fmt::format("no answer in {} s", timeout_ms / 1000));
    pollfd polls[] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
    poll(polls, 2, kLookMs);
    read_complaints();
    char buffer[65536];
    const ssize_t length = read(out_, buffer, sizeof buffer);
    if (length > 0)
      output_.append(buffer, static_cast<std::size_t>(length));
    else if (length == 0)
      return lost(Code::peer_lost, "it has ended");
    else if (errno != EAGAIN && errno != EINTR)
      return lost(Code::peer_lost, strerror(errno));
  }
}

Status Host::meet(int timeout_ms) {
  std::string line;
  if (Status status = read_line(line, timeout_ms); !status) return status;
  facts_ = Json::parse(line, nullptr, false);
  if (!facts_.is_object() || !facts_.contains("weft")) return lost(Code::corrupt, "no weft-info");
  is_there_ = true;
  return {};
}

Status Host::ask(const Json& question, Json& answer, int timeout_ms) {
  if (!is_there_) return {Code::peer_lost, "it has ended"};
  const std::string text = question.dump() + "\n";
  if (write(in_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return lost(Code::peer_lost, "it has ended");
  std::string line;
  if (Status status = read_line(line, timeout_ms); !status) return status;
  answer = Json::parse(line, nullptr, false);
  if (!answer.is_object()) return lost(Code::corrupt, "what answers is no weft-info");
  if (const auto error = answer.find("error"); error != answer.end() && error->is_string())
    return {Code::not_found, error->get<std::string>()};
  return {};
}

std::string Host::address() const {
  for (const Json& end : facts_.value("ends", Json::array()))
    if (end.value("fabric", "") != "verbs" && !end.value("ip", "").empty()) return end["ip"];
  for (const Json& end : facts_.value("ends", Json::array()))
    if (!end.value("ip", "").empty()) return end["ip"];
  const Json interfaces = facts_.value("interfaces", Json::array());
  return interfaces.empty() ? "" : interfaces[0].value("address", "");
}

}  // namespace weft::check
