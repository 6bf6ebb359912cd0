#include "mcast/copy/listen.hpp"

#include <errno.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "mcast/copy/child.hpp"
#include "weft/job.hpp"
#include "weft/node.hpp"

namespace weft::copy {

namespace {

constexpr std::size_t kChunkBytes = 2048;
constexpr std::size_t kMaxReceivers = 64;  // concurrent senders
constexpr int kReceiverEndMs = 5000;

int report_error(const std::string& text) {
  fmt::print(stderr, "weft-copy: {}\n", text);
  return 1;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Forwards the bytes of `from` to the peer until end of file. False: the peer is lost.
bool forward(Node& node, const Peer& peer, int from) {
  char bytes[kChunkBytes];
  const std::size_t most = std::min(kChunkBytes, peer.message_max());
  for (;;) {
    const ssize_t length = ::read(from, bytes, most);
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) return true;
    Code code = Code::again;
    while ((code = node.send(peer, bytes, static_cast<std::size_t>(length))) == Code::again)
      ::usleep(1000);  // the Node's thread makes progress
    if (code != Code::ok) return false;
  }
}

// One sender's receiver: a process and the thread that forwards its output.
class ReceiverProcess {
 public:
  ReceiverProcess(Node& node, Peer peer, const std::string& program) {
    Child child;
    start_child({program, "--receive", "--below"}, child);
    pid_ = child.pid;
    in_ = child.in;
    out_ = child.out;
    if (out_ < 0) return;
    thread_ = std::thread([this, &node, peer = std::move(peer)] {
      forward(node, peer, out_);
      is_over_.store(true, std::memory_order_release);
    });
  }
  ~ReceiverProcess() {
    close_input();
    if (pid_ > 0) {
      // A receiver exits at the end of its input.
      for (int i = 0; ::waitpid(pid_, nullptr, WNOHANG) == 0; ++i) {
        if (i == kReceiverEndMs) ::kill(pid_, SIGKILL);
        ::usleep(1000);
      }
    }
    if (thread_.joinable()) thread_.join();
    if (out_ >= 0) ::close(out_);
  }
  ReceiverProcess(const ReceiverProcess&) = delete;
  ReceiverProcess& operator=(const ReceiverProcess&) = delete;

  bool is_over() const { return is_over_.load(std::memory_order_acquire) || pid_ < 0; }
  // Called by the Node's thread, which this may block: receivers read their input at once.
  void take(std::span<const std::byte> bytes) {
    std::lock_guard guard(lock_);
    if (in_ >= 0 && !write_all(in_, text_of(bytes))) ::close(std::exchange(in_, -1));
  }
  void close_input() {
    std::lock_guard guard(lock_);
    if (in_ >= 0) ::close(std::exchange(in_, -1));
  }

 private:
  std::mutex lock_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

}  // namespace

std::string read_secret(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  struct stat about;
  if (!file || ::stat(path.c_str(), &about) != 0) {
    report_error(fmt::format("{} can't be read: {}", path, std::strerror(errno)));
  } else if ((about.st_mode & 077) != 0) {
    report_error(fmt::format("{} is readable by others: chmod 600 {}", path, path));
  } else {
    std::getline(file, line);
    if (line.empty()) report_error(path + " has no secret in its first line");
  }
  return line;
}

int run_listener(const ListenOptions& options) {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  const int wait_fd = ::signalfd(-1, &signals, SFD_CLOEXEC);
  if (wait_fd < 0) return report_error("no file descriptors are left: raise ulimit -n");

  struct Session {
    Peer peer;
    std::shared_ptr<ReceiverProcess> receiver;
  };
  std::mutex lock;
  std::map<std::uint64_t, Session> sessions;  // by generation
  std::vector<Session> ending;
  Node node({.name = "weft-copy", .secret = options.secret});
  node.on_peer([&](const Peer& peer) {
    std::lock_guard guard(lock);
    Session session{peer, nullptr};
    if (sessions.size() < kMaxReceivers) {
      session.receiver = std::make_shared<ReceiverProcess>(node, peer, options.program);
      const std::string key = "key " + options.secret + "\n";
      session.receiver->take(std::as_bytes(std::span(key)));
    }
    sessions[peer.generation()] = std::move(session);
  });
  node.on_message([&](const Peer& peer, std::span<const std::byte> bytes) {
    std::shared_ptr<ReceiverProcess> receiver;
    {
      std::lock_guard guard(lock);
      if (const auto found = sessions.find(peer.generation()); found != sessions.end())
        receiver = found->second.receiver;
    }
    if (receiver != nullptr) receiver->take(bytes);
  });
  node.on_lost([&](const Peer& peer, const Status&) {
    std::lock_guard guard(lock);
    const auto found = sessions.find(peer.generation());
    if (found == sessions.end()) return;
    ending.push_back(std::move(found->second));
    sessions.erase(found);
  });
  if (const Status status = node.listen(options.address); !status)
    return report_error(status.text());
  if (!options.is_quiet) {
    fmt::print("waiting for senders at {}\n", options.address);
    std::fflush(stdout);
  }
  pollfd wait{wait_fd, POLLIN, 0};
  for (bool goes_on = true; goes_on;) {
    goes_on = ::poll(&wait, 1, 20) == 0 || errno == EINTR;
    std::vector<Session> over;
    {
      std::lock_guard guard(lock);
      over.swap(ending);
      for (auto item = sessions.begin(); item != sessions.end();) {
        const auto& receiver = item->second.receiver;
        if (goes_on && receiver != nullptr && !receiver->is_over()) {
          ++item;
          continue;
        }
        over.push_back(std::move(item->second));
        item = sessions.erase(item);
      }
    }
    for (Session& session : over) {
      if (session.receiver != nullptr) session.receiver->close_input();
      node.close(session.peer);
      session.receiver.reset();
    }
  }
  ::close(wait_fd);
  return 0;
}

int run_reach(const std::string& address, const std::string& secret) {
  ::signal(SIGPIPE, SIG_IGN);
  Node node({.name = "weft-copy", .secret = secret});
  node.on_message([](const Peer&, std::span<const std::byte> bytes) {
    write_all(STDOUT_FILENO, text_of(bytes));
  });
  // The sender reads end of file and then ends this process.
  node.on_lost([](const Peer&, const Status&) { ::close(STDOUT_FILENO); });
  Peer peer;
  if (const Status status = node.connect(address, peer); !status)
    return report_error(status.text());
  forward(node, peer, STDIN_FILENO);
  node.close(peer);
  return 0;
}

}  // namespace weft::copy
