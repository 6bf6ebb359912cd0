// The board of a process that was started with WEFT_RENDEZVOUS: a client of the rendezvous server,
// which rank 0 runs itself if no launcher does.
#include <arpa/inet.h>
#include <errno.h>
#include <fmt/core.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <charconv>
#include <map>
#include <thread>

#include "base/log.hpp"
#include "base/os/host_name.hpp"
#include "base/os/thread.hpp"
#include "base/wait.hpp"
#include "job/boards.hpp"
#include "job/crash.hpp"
#include "job/rendezvous_link.hpp"
#include "job/rendezvous_server.hpp"
#include "job/rendezvous_wire.hpp"

namespace weft {
namespace {

using namespace rendezvous;

// The server is given up if it answers this much later than promised.
constexpr int kGraceMs = 5000;
constexpr int kRetryMs = 20;

Status read_whole_number(const char* variable, int& out) {
  const char* text = getenv(variable);
  if (text == nullptr)
    return {Code::bad_setting,
            fmt::format("{} is set, but {} is not", kRendezvousVariable, variable)};
  const char* end = text + strlen(text);
  const auto [rest, error] = std::from_chars(text, end, out);
  if (error != std::errc{} || rest != end || out < 0)
    return {Code::bad_setting, fmt::format("{}={} is not a whole number", variable, text)};
  return {};
}

// The server in a thread of rank 0. It ends once `stop` was called and all have left.
class ServerThread {
 public:
  static Status start(const RendezvousParameters& parameters, std::unique_ptr<ServerThread>& out) {
    Server::Options options;
    if (!split_address(parameters.address, options.host, options.port))
      return {Code::bad_setting, fmt::format("{} is not host:port", parameters.address)};
    // A host's own name often stands for a loopback address there, for another one elsewhere.
    in_addr_t v4;
    char v6[16];
    if (!is_loopback(options.host) && inet_pton(AF_INET, options.host.c_str(), &v4) != 1 &&
        inet_pton(AF_INET6, options.host.c_str(), v6) != 1)
      options.host.clear();
    options.size = parameters.size;
    options.key = parameters.key;
    options.silence_ms = parameters.silence_ms;
    std::unique_ptr<ServerThread> opened(new ServerThread);
    Status status = Server::listen(options, opened->server_);
    if (!status) return status;
    opened->wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (opened->wake_ < 0) return {Code::no_memory, fmt::format("eventfd: {}", strerror(errno))};
    opened->linger_ms_ = parameters.close_timeout_ms;
    if (status = start_thread(opened->thread_, [raw = opened.get()] { raw->run(); }); !status)
      return status;
    out = std::move(opened);
    return {};
  }

  ~ServerThread() {
    if (thread_.joinable()) {
      const std::uint64_t one = 1;
      if (write(wake_, &one, sizeof one) < 0) log_line(LogLevel::error, 0, "eventfd write failed");
      thread_.join();
    }
    if (wake_ >= 0) ::close(wake_);
  }

 private:
  void run() {
    bool stopping = false;
    Deadline end(0);
    while (!stopping || (!server_->quiet() && end.left_ms() > 0)) {
      pollfd ready[] = {{server_->poll_fd(), POLLIN, 0}, {wake_, POLLIN, 0}};
      int timeout_ms = server_->timeout_ms();
      if (stopping && (timeout_ms < 0 || timeout_ms > end.left_ms())) timeout_ms = end.left_ms();
      poll(ready, stopping ? 1 : 2, timeout_ms);
      server_->serve();
      log_notices();
      if (!stopping && (ready[1].revents & POLLIN)) {
        stopping = true;
        end = Deadline(linger_ms_);
      }
    }
  }

  // Not at the price of waiting for standard error's reader: lines that find no room are dropped.
  void log_notices() {
    for (const std::string& notice : server_->take_notices()) {
      pollfd room{STDERR_FILENO, POLLOUT, 0};
      if (poll(&room, 1, 0) == 1) log_line(LogLevel::warn, 0, "{}", notice);
    }
    if (!server_->failure() && !std::exchange(reported_failure_, true))
      log_line(LogLevel::error, 0, "{}", server_->failure().text());
  }

  std::unique_ptr<Server> server_;
  bool reported_failure_ = false;
  int wake_ = -1;
  int linger_ms_ = 0;
  std::thread thread_;
};

class RendezvousBoard final : public Board {
 public:
  RendezvousBoard(const RendezvousParameters& parameters, std::unique_ptr<ServerThread> server)
      : parameters_(parameters), server_(std::move(server)) {
    link_.set_silence(parameters.silence_ms);
  }

  Status join(int timeout_ms);

  int rank() const noexcept override { return parameters_.rank; }
  int size() const noexcept override { return parameters_.size; }
  int app_number() const noexcept override { return parameters_.app_number; }
  std::string_view launcher() const noexcept override {
    return parameters_.server_is_launcher ? "weftrun" : "rendezvous";
  }
  Status put(std::string_view key, std::string_view value) override;
  Status fence(int timeout_ms) override;
  Status get(int rank, std::string_view key, std::string& value) override;
  Status spawn(const SpawnRequest& request, std::unique_ptr<Spawned>& spawned) override;
  Status publish(std::string_view service, std::string_view port) override;
  Status look_up(std::string_view service, std::string& port) override;
  Status unpublish(std::string_view service) override;
  void abort(int exit_code, std::string_view message) override;
  Status close() override;
  Status ask(Type type, std::string_view body, std::string& text);

 private:
  Status connect_once(const Deadline& deadline);
  Status lost() {
    return {Code::peer_lost,
            fmt::format("the rendezvous server at {} is gone", parameters_.address)};
  }
  Status take_release(std::string_view body);

  const RendezvousParameters parameters_;
  Link link_;
  std::string pending_;  // encoded (key, value) since the last fence
  std::uint32_t num_pending_ = 0;
  std::map<std::pair<int, std::string>, std::string> values_;
  // Last, so that it is destroyed first: the server thread ends before anything else does.
  std::unique_ptr<ServerThread> server_;
};

// again: worth another try.
Status RendezvousBoard::connect_once(const Deadline& deadline) {
  std::string hello;
  append_word(hello, kVersion);
  append_word(hello, static_cast<std::uint32_t>(parameters_.rank));
  append_word(hello, static_cast<std::uint32_t>(parameters_.size));
  append_word(hello, static_cast<std::uint32_t>(getpid()));
  append_word(hello, static_cast<std::uint32_t>(parameters_.party));
  append_text(hello, parameters_.key);
  Status status = link_.greet(parameters_.address, make_frame(Type::hello, hello), deadline);
  if (status.code() == Code::not_permitted)
    return {Code::not_permitted,
            fmt::format("rank {} was refused by the rendezvous server at {}: {}", parameters_.rank,
                        parameters_.address, status.text())};
  if (status.code() == Code::bad_setting)
    return {Code::bad_setting, fmt::format("{}={}", kRendezvousVariable, status.text())};
  if (status.code() == Code::unsupported)
    return {Code::unsupported, fmt::format("rank {} on {} cannot reach the rendezvous server at {}",
                                           parameters_.rank, host_name(), status.text())};
  return status;
}

Status RendezvousBoard::join(int timeout_ms) {
  const Deadline deadline(timeout_ms);
  for (;;) {
    Status status = connect_once(deadline);
    if (status.code() != Code::again) return status;
    if (deadline.left_ms() == 0)
      return {
          Code::timed_out,
          fmt::format("rank {} on {} found no rendezvous server at {} within {} ms: {} ({})",
                      parameters_.rank, host_name(), parameters_.address, timeout_ms, status.text(),
                      parameters_.server_is_launcher ? "weftrun runs it" : "rank 0 runs it")};
    // Rank 0 may not listen yet; there is nothing to wait on but time.
    poll(nullptr, 0, std::min(kRetryMs, deadline.left_ms()));
  }
}

Status RendezvousBoard::put(std::string_view key, std::string_view value) {
  const std::size_t bytes = pending_.size() + key.size() + value.size() + 16;
  if (bytes > kMaxBodyBytes)
    return {Code::no_memory, fmt::format("rank {} publishes more than {} bytes before a fence",
                                         parameters_.rank, kMaxBodyBytes)};
  append_text(pending_, key);
  append_text(pending_, value);
  ++num_pending_;
  return {};
}

Status RendezvousBoard::fence(int timeout_ms) {
  if (!link_.is_open()) return lost();
  std::string body;
  append_word(body, static_cast<std::uint32_t>(timeout_ms));
  append_word(body, num_pending_);
  body += pending_;
  const Deadline deadline(timeout_ms + kGraceMs);
  Status status = link_.send_frame(Type::fence, body, deadline);
  if (!status) return status;
  pending_.clear();
  num_pending_ = 0;
  Type type{};
  status = link_.receive_frame(type, body, deadline);
  if (!status) {
    // An answer that came later would be taken for that to another question.
    link_.close();
    return status;
  }
  if (type == Type::release) return take_release(body);
  BodyReader reader(body);
  const std::uint32_t code = reader.word();
  const std::string_view why = reader.text();
  if (type != Type::failed || !reader.complete() || code == 0 ||
      code > static_cast<std::uint32_t>(Code::internal))
    return {Code::corrupt, "the rendezvous server answers what was not asked"};
  return {static_cast<Code>(code), std::string(why)};
}

Status RendezvousBoard::take_release(std::string_view body) {
  BodyReader reader(body);
  const std::uint32_t count = reader.word();
  // All of it or nothing.
  std::map<std::pair<int, std::string>, std::string> values;
  bool good = true;
  for (std::uint32_t i = 0; i < count && good; ++i) {
    const std::uint32_t rank = reader.word();
    std::string key(reader.text());
    values.insert_or_assign({static_cast<int>(rank), std::move(key)}, std::string(reader.text()));
    good = reader.ok() && rank < static_cast<std::uint32_t>(parameters_.size);
  }
  if (!good || !reader.complete())
    return {Code::corrupt, "the rendezvous server sent a malformed release"};
  for (auto& [name, value] : values) values_.insert_or_assign(name, std::move(value));
  return {};
}

Status RendezvousBoard::get(int rank, std::string_view key, std::string& value) {
  const auto found = values_.find({rank, std::string(key)});
  if (found == values_.end())
    return {Code::not_found, fmt::format("rank {} has published no \"{}\"", rank, key)};
  value = found->second;
  return {};
}

Status RendezvousBoard::ask(Type type, std::string_view body, std::string& text) {
  if (!link_.is_open()) return lost();
  Status status = link_.ask(type, body, Deadline(parameters_.close_timeout_ms + kGraceMs), text);
  if (status == Code::timed_out || status == Code::corrupt) link_.close();
  return status;
}

// A job that the launcher has started for this rank.
class SpawnedByLauncher final : public Spawned {
 public:
  SpawnedByLauncher(RendezvousBoard& board, std::uint32_t id) : board_(board), id_(id) {}
  Status check() override {
    const std::uint64_t now = now_ns();
    if (now < next_ns_) return {};
    constexpr std::uint64_t kPeriodNs = 50'000'000;
    next_ns_ = now + kPeriodNs;
    return ask(false);
  }
  void give_up() override { (void)ask(true); }

 private:
  Status ask(bool gives_up) {
    std::string body, text;
    append_word(body, id_);
    append_word(body, gives_up ? 1 : 0);
    return board_.ask(Type::check_spawned, body, text);
  }

  RendezvousBoard& board_;
  const std::uint32_t id_;
  std::uint64_t next_ns_ = 0;
};

Status RendezvousBoard::spawn(const SpawnRequest& request, std::unique_ptr<Spawned>& spawned) {
  if (!parameters_.server_is_launcher) return start_weftrun(request, spawned);
  std::vector<std::string> words;
  if (Status status = weftrun_words(request, words); !status) return status;
  if (!request.path.empty()) words.insert(words.begin(), {"--path", request.path});
  std::string body, text;
  append_word(body, static_cast<std::uint32_t>(request.environment.size()));
  for (const auto& [name, value] : request.environment)
    append_text(body, fmt::format("{}={}", name, value));
  append_word(body, static_cast<std::uint32_t>(words.size()));
  for (const std::string& word : words) append_text(body, word);
  if (body.size() > kMaxBodyBytes) return {Code::no_memory, "its arguments are too long"};
  if (Status status = ask(Type::spawn, body, text); !status) return status;
  std::uint32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc{}) return {Code::corrupt, "weftrun answers what was not asked"};
  spawned = std::make_unique<SpawnedByLauncher>(*this, id);
  return {};
}

Status RendezvousBoard::publish(std::string_view service, std::string_view port) {
  std::string body, text;
  append_text(body, service);
  append_text(body, port);
  return ask(Type::publish, body, text);
}

Status RendezvousBoard::look_up(std::string_view service, std::string& port) {
  std::string body;
  append_text(body, service);
  return ask(Type::look_up, body, port);
}

Status RendezvousBoard::unpublish(std::string_view service) {
  std::string body, text;
  append_text(body, service);
  return ask(Type::unpublish, body, text);
}

void RendezvousBoard::abort(int exit_code, std::string_view message) {
  if (!link_.is_open()) return;
  const Deadline deadline(kGraceMs);
  std::string body;
  append_word(body, static_cast<std::uint32_t>(exit_code));
  append_text(body, message.substr(0, kMaxBodyBytes / 2));
  if (!link_.send_frame(Type::abort, body, deadline) || !parameters_.server_is_launcher) return;
  // weftrun ends this process, too. Until then it waits, and for no longer than this.
  Type type{};
  (void)link_.receive_frame(type, body, deadline);
}

Status RendezvousBoard::close() {
  if (!link_.is_open()) return {};
  const Deadline deadline(parameters_.close_timeout_ms);
  Type type{};
  std::string body;
  Status status = link_.send_frame(Type::goodbye, {}, deadline);
  if (status) status = link_.receive_frame(type, body, deadline);
  link_.close();
  server_.reset();
  if (status && type != Type::farewell)
    return {Code::corrupt, "the rendezvous server answers what was not asked"};
  return status;
}

}  // namespace

Status read_rendezvous_parameters(RendezvousParameters& parameters) {
  const char* address = getenv(kRendezvousVariable);
  if (address == nullptr) return Code::not_found;
  RendezvousParameters read;
  read.address = address;
  Status status = read_whole_number(kRankVariable, read.rank);
  if (status) status = read_whole_number(kSizeVariable, read.size);
  if (!status) return status;
  if (read.size < 1 || read.size > kMaxRanks || read.rank >= read.size)
    return {Code::bad_setting,
            fmt::format("{}={} and {}={} do not fit: a job has 1 to {} ranks, "
                        "counted from 0",
                        kRankVariable, read.rank, kSizeVariable, read.size, kMaxRanks)};
  std::string host;
  std::uint16_t port = 0;
  if (!split_address(read.address, host, port))
    return {Code::bad_setting, fmt::format("{}={} is not host:port", kRendezvousVariable, address)};
  if (const char* key = getenv(kJobKeyVariable)) read.key = key;
  if (read.key.size() > kMaxHelloBytes / 2)
    return {Code::bad_setting,
            fmt::format("{} is longer than {} bytes", kJobKeyVariable, kMaxHelloBytes / 2)};
  if (read.key.empty())
    return {Code::bad_setting,
            fmt::format("{} must be set to the same secret for all ranks, because others can "
                        "reach {}, too",
                        kJobKeyVariable, address)};
  if (getenv(kAppNumberVariable) != nullptr) {
    status = read_whole_number(kAppNumberVariable, read.app_number);
    if (!status) return status;
  }
  const char* launcher = getenv(kLauncherVariable);
  read.server_is_launcher = launcher != nullptr && std::string_view(launcher) == "weftrun";
  parameters = std::move(read);
  return {};
}

Status make_rendezvous_board(const RendezvousParameters& parameters, int timeout_ms,
                             std::unique_ptr<Board>& board) {
  if (parameters.server_is_launcher) crash::tell_launcher(parameters.rank);
  std::unique_ptr<ServerThread> server;
  if (parameters.rank == 0 && !parameters.server_is_launcher) {
    Status status = ServerThread::start(parameters, server);
    // Another process listens there already: presumably this process's other party.
    if (!status && status.code() != Code::not_permitted) return status;
    if (!status) log_line(LogLevel::info, 0, "{}; joining who does", status.text());
  }
  auto opened = std::make_unique<RendezvousBoard>(parameters, std::move(server));
  Status status = opened->join(timeout_ms);
  if (status) board = std::move(opened);
  return status;
}

}  // namespace weft
