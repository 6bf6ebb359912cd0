#include "mcast/copy/remote.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <sstream>
#include <utility>

#include "mcast/copy/child.hpp"

namespace weft::copy {

namespace {

constexpr std::size_t kMaxLineBytes = 64 << 20;
constexpr int kEndMs = 2000;

}  // namespace

Status Remotes::start(const std::vector<std::string>& hosts,
                      const std::vector<std::vector<std::string>>& commands) {
  ::signal(SIGPIPE, SIG_IGN);
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    Remote remote;
    remote.host = hosts[i];
    Child child;
    const int error = start_child(commands[i], child);
    if (error == EMFILE)
      return {Code::no_memory, "no file descriptors are left for another host: raise ulimit -n"};
    remote.pid = child.pid;
    remote.in = child.in;
    remote.out = child.out;
    remotes_.push_back(std::move(remote));
    if (error != 0)
      return {Code::not_found,
              fmt::format("{} can't be started: {}", commands[i][0], std::strerror(error))};
  }
  return {};
}

void Remotes::listen() {
  if (::pipe2(stop_, O_CLOEXEC) != 0) stop_[0] = stop_[1] = -1;
  thread_ = std::thread([this] { read_all(); });
}

Remotes::~Remotes() {
  for (Remote& remote : remotes_)
    if (remote.in >= 0) ::close(remote.in);
  // Receivers exit at the end of their input.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(kEndMs);
  for (Remote& remote : remotes_) {
    if (remote.pid <= 0) continue;
    while (::waitpid(remote.pid, nullptr, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > limit) ::kill(remote.pid, SIGKILL);
      ::usleep(1000);
    }
  }
  if (thread_.joinable()) {
    ::close(stop_[1]);
    thread_.join();
    ::close(stop_[0]);
  }
  for (Remote& remote : remotes_)
    if (remote.out >= 0) ::close(remote.out);
}

void Remotes::send_line(Remote& remote, const std::string& line) {
  if (remote.in < 0) return;
  write_all(remote.in, line + "\n");  // read_all() detects the receiver's end
}

void Remotes::give_up(Remote& remote, const std::string& why) {
  std::lock_guard guard(lock_);
  if (std::exchange(remote.is_given_up, true)) return;
  remote.errors.push_back(why);
  if (remote.in >= 0) ::close(std::exchange(remote.in, -1));
  if (remote.pid > 0) ::kill(remote.pid, SIGTERM);
}

void Remotes::on_line(Remote& remote, const std::string& line) {
  std::istringstream words(line);
  std::string word, text;
  words >> word;
  if (remote.address.empty() && word != "weft-copy-address" && word != "error") {
    // Login scripts may print lines before the receiver does.
    if (!word.empty()) remote.banner = line.substr(0, 200);
  } else if (word == "weft-copy-address") {
    words >> text;
    if (!unquote(text, remote.address)) remote.address.clear();
    remote.version = read_version(words);
  } else if (word == "joined") {
    words >> remote.joined;
  } else if (word == "wrote") {
    words >> remote.wrote;
  } else if (word == "held") {
    std::uint32_t file = 0;
    std::size_t first = 0;
    words >> file >> first >> text;
    auto& blocks = remote.held[file];
    // Incomplete digests are dropped: the file is sent again.
    if (first != blocks.size() || !from_hex(text, blocks)) blocks.clear();
  } else if (word == "lack") {
    words >> remote.lack;
    remote.has_lack = true;
  } else if (word == "done") {
    words >> remote.num_files >> remote.num_deleted;
    remote.is_done = true;
  } else if (word == "deletes") {
    words >> text;
    std::string plain;
    if (unquote(text, plain)) remote.deletes.push_back(plain);
  } else if (word == "error") {
    words >> text;
    std::string plain;
    remote.errors.push_back(unquote(text, plain) ? plain : text);
  } else {
    remote.errors.push_back("output of its receiver: " + line.substr(0, 200));
  }
}

void Remotes::read_all() {
  std::vector<char> bytes(65536);
  for (;;) {
    std::vector<pollfd> wait{{stop_[0], POLLIN, 0}};
    std::vector<Remote*> of{nullptr};
    for (Remote& remote : remotes_)
      if (!remote.is_gone) {
        wait.push_back({remote.out, POLLIN, 0});
        of.push_back(&remote);
      }
    if (::poll(wait.data(), wait.size(), 1000) <= 0) continue;
    if (wait[0].revents != 0) return;
    std::lock_guard guard(lock_);
    for (std::size_t i = 1; i < wait.size(); ++i) {
      if (wait[i].revents == 0) continue;
      Remote& remote = *of[i];
      const ssize_t length = ::read(remote.out, bytes.data(), bytes.size());
      if (length <= 0 || remote.unread.size() > kMaxLineBytes) {
        remote.is_gone = true;
        continue;
      }
      remote.unread.append(bytes.data(), static_cast<std::size_t>(length));
      std::size_t from = 0;
      for (std::size_t end; (end = remote.unread.find('\n', from)) != std::string::npos;
           from = end + 1)
        on_line(remote, remote.unread.substr(from, end - from));
      remote.unread.erase(0, from);
    }
    changed_.notify_all();
  }
}

}  // namespace weft::copy
