#include "launcher/remote_host.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/wait.hpp"

namespace weft::weftrun {
namespace {

// The longest time that the launch command may take to end after its work is done.
constexpr std::uint64_t kLeaveNs = 2'000'000'000;

}  // namespace

RemoteHost::RemoteHost(HostEvents& events, int number, std::string name,
                       std::vector<std::string> command, const sigset_t& mask)
    : events_(events),
      number_(number),
      name_(std::move(name)),
      command_(std::move(command)),
      mask_(mask) {}

RemoteHost::~RemoteHost() {
  finish();
  if (pid_ > 0) {
    const std::uint64_t until_ns = now_ns() + kLeaveNs;
    while (waitpid(pid_, nullptr, WNOHANG) == 0) {
      if (now_ns() > until_ns) {
        kill(-pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        break;
      }
      poll(nullptr, 0, 5);
    }
  }
  for (int fd : {out_, err_})
    if (fd >= 0) close(fd);
}

void RemoteHost::finish() {
  channel_.stop_writing();
  if (in_ >= 0) close(in_);
  in_ = -1;
}

Status RemoteHost::start(const Assignment& assignment) {
  std::vector<char*> words;
  for (const std::string& word : command_) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  int pipes[3][2];
  for (int i = 0; i < 3; ++i) {
    if (pipe2(pipes[i], O_CLOEXEC) == 0) continue;
    const Status status{Code::no_memory, fmt::format("pipe: {}", strerror(errno))};
    for (int j = 0; j < i; ++j)
      for (int fd : pipes[j]) close(fd);
    return status;
  }
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    // A group of its own: the terminal's signals are for this process to pass on.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // It may have died before the line above.
    if (getppid() != parent) _exit(1);
    dup2(pipes[0][0], 0);
    dup2(pipes[1][1], 1);
    dup2(pipes[2][1], 2);
    for (const int number : {SIGPIPE, SIGXFSZ}) ::signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &mask_, nullptr);
    execvp(words[0], words.data());
    dprintf(2, "cannot start %s: %s\n", words[0], strerror(errno));
    _exit(127);
  }
  in_ = pipes[0][1];
  out_ = pipes[1][0];
  err_ = pipes[2][0];
  for (int fd : {pipes[0][0], pipes[1][1], pipes[2][1]}) close(fd);
  if (pid_ < 0) return {Code::no_memory, fmt::format("fork: {}", strerror(errno))};
  setpgid(pid_, pid_);
  fcntl(err_, F_SETFL, O_NONBLOCK);
  channel_.attach(out_, in_);
  channel_.send(encode(assignment));
  return {};
}

void RemoteHost::add_polls(std::vector<pollfd>& polls) {
  if (gone_) return;
  if (events_.has_room()) channel_.add_polls(polls);
  if (err_ >= 0) polls.push_back({err_, POLLIN, 0});
}

void RemoteHost::serve() {
  if (gone_ || pid_ < 0) return;
  read_complaints();
  channel_.write_some();
  if (!events_.has_room()) return;
  channel_.read_some();
  if (!greeted_) {
    std::string before;
    greeted_ = channel_.skip_past(kGreeting, before);
    if (greeted_ && !before.empty()) events_.said(fmt::format("{}: {}", name_, before));
  }
  if (greeted_)
    while (auto message = channel_.next()) handle(*message);
  if (gone_) return;
  if (channel_.state() == Channel::State::broken)
    give_up({Code::corrupt, "what answers is no agent of weftrun"});
  else if (channel_.state() == Channel::State::ended)
    take_end();
}

void RemoteHost::handle(const Channel::Received& message) {
  rendezvous::BodyReader reader(message.body);
  const auto rank_of = [&] { return static_cast<int>(reader.word()); };
  const auto stream_of = [&] { return reader.word() == 2 ? Stream::err : Stream::out; };
  switch (message.type) {
    case Message::started: {
      const int rank = rank_of();
      return events_.started(rank, static_cast<pid_t>(reader.word()));
    }
    case Message::bound: {
      const int rank = rank_of();
      return events_.bound(rank, reader.text());
    }
    case Message::output: {
      const int rank = rank_of();
      const Stream stream = stream_of();
      return events_.wrote(rank, stream, reader.text());
    }
    case Message::closed: {
      const int rank = rank_of();
      return events_.closed(rank, stream_of());
    }
    case Message::crashed: {
      Crash crash;
      if (!decode(reader, crash))
        return give_up({Code::corrupt, "the agent says what it should not"});
      return events_.crashed(crash);
    }
    case Message::exited: {
      const int rank = rank_of();
      return events_.exited(rank, static_cast<int>(reader.word()));
    }
    case Message::inspected: {
      Seen seen;
      const int number = static_cast<int>(reader.word());
      const int rank = rank_of();
      if (!decode(reader, seen))
        return give_up({Code::corrupt, "the agent says what it should not"});
      return events_.inspected(number, rank, seen);
    }
    case Message::all_inspected:
      return events_.all_inspected(static_cast<int>(reader.word()));
    case Message::waiting:
      is_waiting_ = reader.word() != 0;
      return;
    case Message::input_taken:
      input_under_way_ -= std::min<std::size_t>(input_under_way_, reader.word());
      return;
    case Message::said:
      return events_.said(fmt::format("{}: {}", name_, reader.text()));
    case Message::failed: {
      const auto code = static_cast<Code>(reader.word());
      return give_up({code, std::string(reader.text())});
    }
    default:
      return give_up({Code::corrupt, "the agent says what it should not"});
  }
}

// The launch command's own words, as "ssh: connect to host h2 port 22: Connection refused".
void RemoteHost::read_complaints() {
  char buffer[4096];
  while (err_ >= 0) {
    const ssize_t length = read(err_, buffer, sizeof buffer);
    if (length > 0) {
      complaints_.append(buffer, static_cast<std::size_t>(length));
    } else if (length == 0 || (errno != EAGAIN && errno != EINTR)) {
      close(err_);
      err_ = -1;
      if (!complaints_.empty()) complaints_ += '\n';
    } else if (errno == EAGAIN) {
      break;
    }
  }
  for (std::size_t end; (end = complaints_.find('\n')) != std::string::npos;) {
    std::string line = complaints_.substr(0, end);
    complaints_.erase(0, end + 1);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) events_.said(fmt::format("{}: {}", name_, line));
  }
}

void RemoteHost::take_end() {
  int wait_status = 0;
  const pid_t done = waitpid(pid_, &wait_status, WNOHANG);
  if (done == 0) return;  // it has closed its output, but not ended yet; SIGCHLD comes
  pid_ = -1;
  read_complaints();
  const std::string how = WIFSIGNALED(wait_status)
                              ? fmt::format("was killed by signal {}", WTERMSIG(wait_status))
                              : fmt::format("ended with exit status {}", WEXITSTATUS(wait_status));
  give_up({Code::peer_lost, fmt::format("{} '{}' {}",
                                        greeted_ ? "the agent there is gone: the launch command"
                                                 : "no agent could be started there:",
                                        command_[0], how)});
}

void RemoteHost::silent() {
  serve();  // it may have reported the reason before it fell silent
  if (pid_ > 0) kill(-pid_, SIGKILL);
  give_up({Code::timed_out, greeted_ ? "it does not answer any more"
                                     : "no agent has answered in time (WEFT_START_TIMEOUT_MS)"});
}

void RemoteHost::give_up(const Status& why) {
  if (gone_) return;
  gone_ = true;
  finish();
  events_.lost(number_, why);
}

void RemoteHost::signal(int number) {
  if (!gone_ && in_ >= 0)
    channel_.send(make_message(Message::signal, Body().word(static_cast<std::size_t>(number))));
}

void RemoteHost::inspect(int number, bool with_places) {
  if (gone_ || in_ < 0) return events_.all_inspected(number);
  channel_.send(make_message(
      Message::inspect, Body().word(static_cast<std::size_t>(number)).word(with_places ? 1 : 0)));
}

std::size_t RemoteHost::input_room() const {
  return gone_ || input_under_way_ >= kInputWindowBytes ? 0 : kInputWindowBytes - input_under_way_;
}

void RemoteHost::give_input(std::string_view bytes) {
  if (gone_ || in_ < 0) return;
  input_under_way_ += bytes.size();
  channel_.send(make_message(Message::input, Body().text(bytes)));
}

void RemoteHost::end_input() {
  if (!gone_ && in_ >= 0) channel_.send(make_message(Message::end_input));
}

void RemoteHost::stop_reading(Stream stream) {
  if (!gone_ && in_ >= 0)
    channel_.send(
        make_message(Message::stop_reading, Body().word(static_cast<std::size_t>(stream))));
}

}  // namespace weft::weftrun
