// The rendezvous server against strangers: wrong keys, garbage, silence, half messages. The ranks
// of the job must not notice.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <random>
#include <thread>

#include "base/log.hpp"
#include "job/boards.hpp"
#include "job/rendezvous_server.hpp"
#include "job/rendezvous_wire.hpp"

using namespace weft;
using namespace weft::rendezvous;

namespace {

constexpr int kTimeoutMs = 20000;

// A server that is served by a thread until the end of the test.
class Running {
 public:
  explicit Running(Server::Options options) {
    log::set_level(LogLevel::error);  // refused strangers are expected here
    options.key = "right";
    REQUIRE(Server::listen(options, server_).ok());
    port_ = server_->port();
    REQUIRE(pipe(stop_) == 0);
    thread_ = std::thread([this] {
      for (;;) {
        pollfd ready[] = {{server_->poll_fd(), POLLIN, 0}, {stop_[0], POLLIN, 0}};
        poll(ready, 2, server_->timeout_ms());
        if (ready[1].revents != 0) return;
        server_->serve();
      }
    });
  }
  ~Running() {
    close(stop_[1]);
    thread_.join();
    close(stop_[0]);
  }

  RendezvousParameters place(int rank, int size, const std::string& key = "right") const {
    RendezvousParameters place;
    place.rank = rank;
    place.size = size;
    place.address = "127.0.0.1:" + std::to_string(port_);
    place.key = key;
    place.server_is_launcher = true;
    return place;
  }
  std::uint16_t port() const { return port_; }

 private:
  std::unique_ptr<Server> server_;
  std::uint16_t port_ = 0;
  int stop_[2];
  std::thread thread_;
};

Server::Options options_of(int size) {
  Server::Options options;
  options.size = size;
  return options;
}

// A connection that says what it likes.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    const timeval limit{kTimeoutMs / 1000, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~RawClient() { close(fd_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void say(std::string_view bytes) const {
    // A refusal may come before everything is said.
    (void)send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Everything the server says until it ends the connection; "?" if it does not end it.
  std::string hear() const {
    std::string heard;
    char buffer[4096];
    for (;;) {
      const ssize_t length = recv(fd_, buffer, sizeof buffer, 0);
      if (length == 0 || (length < 0 && errno == ECONNRESET)) return heard;
      if (length < 0) return "?";
      heard.append(buffer, static_cast<std::size_t>(length));
    }
  }

 private:
  int fd_;
};

std::string hello(std::uint32_t version, std::uint32_t rank, std::uint32_t size,
                  std::string_view key, std::uint32_t party = 0) {
  std::string body;
  for (std::uint32_t word : {version, rank, size, 1u, party}) append_word(body, word);
  append_text(body, key);
  return make_frame(Type::hello, body);
}

// Two ranks that join and exchange: the job is unharmed.
void check_job_works(const Running& running) {
  std::unique_ptr<Board> boards[2];
  Status results[2];
  std::thread threads[2];
  for (int rank : {0, 1})
    threads[rank] = std::thread([&, rank] {
      Status& status = results[rank];
      status = make_rendezvous_board(running.place(rank, 2), kTimeoutMs, boards[rank]);
      if (status) status = boards[rank]->put("key", "value");
      if (status) status = boards[rank]->fence(kTimeoutMs);
      std::string value;
      if (status) status = boards[rank]->get(1 - rank, "key", value);
      if (status && value != "value") status = Code::corrupt;
      if (status) status = boards[rank]->close();
    });
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : results) {
    INFO(status.text());
    CHECK(status.ok());
  }
}

}  // namespace

TEST_CASE("a wrong key is refused, with the reason, and the job goes on") {
  const std::string key = GENERATE("", "wrong", "righ", "rightright", "Right");
  const Running running(options_of(2));
  std::unique_ptr<Board> board;
  const Status status = make_rendezvous_board(running.place(0, 2, key), kTimeoutMs, board);
  INFO(status.text());
  CHECK(status == Code::not_permitted);
  CHECK(status.text().find("rank 0 was refused") == 0);
  CHECK(status.text().find("WEFT_JOB_KEY") != std::string::npos);
  check_job_works(running);
}

TEST_CASE("a rank that does not belong is refused") {
  const Running running(options_of(2));
  std::unique_ptr<Board> board;
  CHECK(make_rendezvous_board(running.place(0, 3), kTimeoutMs, board) == Code::not_permitted);
  CHECK(make_rendezvous_board(running.place(2, 2), kTimeoutMs, board) == Code::not_permitted);
  check_job_works(running);
  // Both have been here.
  const Status status = make_rendezvous_board(running.place(1, 2), kTimeoutMs, board);
  CHECK(status == Code::not_permitted);
  CHECK(status.text().find("has joined before") != std::string::npos);
}

TEST_CASE("the parties of a rank join, meet and leave for themselves") {
  Running running(options_of(1));
  std::unique_ptr<Board> boards[2];
  for (const Party party : {Party::mpi, Party::transport}) {
    auto place = running.place(0, 1);
    place.party = party;
    auto& board = boards[static_cast<std::size_t>(party)];
    REQUIRE(make_rendezvous_board(place, kTimeoutMs, board).ok());
    std::unique_ptr<Board> second;
    CHECK(make_rendezvous_board(place, kTimeoutMs, second) == Code::not_permitted);
    REQUIRE(board->put("key", party == Party::mpi ? "of mpi" : "of transport").ok());
  }
  std::string value;
  for (const int i : {1, 0}) {
    REQUIRE(boards[i]->fence(kTimeoutMs).ok());
    REQUIRE(boards[i]->get(0, "key", value).ok());
    CHECK(value == (i == 0 ? "of mpi" : "of transport"));
  }
  REQUIRE(boards[0]->close().ok());
  CHECK(boards[1]->fence(kTimeoutMs).ok());
  CHECK(boards[1]->close().ok());
}

TEST_CASE("malformed messages end the connection that sent them and nothing else") {
  const Running running(options_of(2));
  std::string huge;
  append_word(huge, kMagic);
  append_word(huge, static_cast<std::uint32_t>(Type::hello));
  append_word(huge, 0xffffffff);
  std::string key_too_long = hello(kVersion, 0, 2, "right");
  key_too_long[kHeadBytes + 16] = '\x7f';
  const std::string messages[] = {
      "GET / HTTP/1.1\r\nHost: weft\r\n\r\n",
      std::string(100, '\0'),
      huge,
      key_too_long,
      hello(kVersion, 0, 2, "right") + "no frame, this",
      hello(kVersion, 0xffffffff, 2, "right"),
      hello(kVersion + 1, 0, 2, "right"),
      hello(kVersion, 0, 2, "right", kNumParties),
      make_frame(Type::hello, ""),
      make_frame(Type::hello, std::string(900, 'x')),
      make_frame(Type::fence, std::string(8, '\0')),
      make_frame(Type::goodbye, ""),
      make_frame(Type::abort, std::string(8, '\0')),
      make_frame(static_cast<Type>(77), ""),
  };
  for (std::size_t i = 0; i < std::size(messages); ++i) {
    if (i == 4) continue;  // would take rank 0's place: see the next test
    INFO("message " << i);
    const RawClient stranger(running.port());
    stranger.say(messages[i]);
    CHECK(stranger.hear() != "?");
  }
  check_job_works(running);
}

TEST_CASE("a rank that sends a malformed message is lost, and the others hear of it") {
  const Running running(options_of(2));
  std::string count_too_high;
  append_word(count_too_high, 1000);
  append_word(count_too_high, 0xffffffff);
  const std::string message =
      GENERATE_COPY(std::string("no frame, this"), make_frame(Type::fence, count_too_high),
                    make_frame(Type::hello, ""), make_frame(Type::release, ""));
  RawClient rank_0(running.port());
  rank_0.say(hello(kVersion, 0, 2, "right") + message);
  std::unique_ptr<Board> board;
  REQUIRE(make_rendezvous_board(running.place(1, 2), kTimeoutMs, board).ok());
  const Status status = board->fence(kTimeoutMs);
  CHECK(status == Code::peer_lost);
  CHECK(status.text() == "rank 0 died");
}

TEST_CASE("random bytes, before and after a valid start, do no harm") {
  std::mt19937 random(12345);
  const Running running(options_of(2));
  for (int i = 0; i < 300; ++i) {
    std::string bytes = i % 3 == 0 ? std::string() : hello(kVersion, 7, 2, "right");
    if (i % 3 == 2) bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
    // Never rank 0 or 1 of 2 with the right key: one changed byte cannot do that to rank 7, except
    // in the word of the rank itself, which is put back.
    for (std::size_t j = 0; j < 4 && bytes.size() > kHeadBytes + 8; ++j)
      bytes[kHeadBytes + 4 + j] = j == 0 ? 7 : 0;
    for (std::size_t n = random() % 600; n > 0; --n) bytes.push_back(static_cast<char>(random()));
    const RawClient stranger(running.port());
    stranger.say(bytes);
  }
  check_job_works(running);
}

TEST_CASE("silent strangers, more than there is room for, keep nobody out and are dropped") {
  Server::Options options = options_of(2);
  options.hello_timeout_ms = 300;
  const Running running(options);
  std::vector<std::unique_ptr<RawClient>> strangers;
  for (int i = 0; i < 200; ++i) strangers.push_back(std::make_unique<RawClient>(running.port()));
  check_job_works(running);
  for (const auto& stranger : strangers) CHECK(stranger->hear().empty());
}

TEST_CASE("the ranks of a large job may all come before the first is served") {
  constexpr std::uint32_t kSize = 200;
  Server::Options options = options_of(kSize);
  options.key = "right";
  std::unique_ptr<Server> server;
  REQUIRE(Server::listen(options, server).ok());
  std::vector<std::unique_ptr<RawClient>> ranks;
  for (std::uint32_t rank = 0; rank < kSize; ++rank) {
    ranks.push_back(std::make_unique<RawClient>(server->port()));
    ranks.back()->say(hello(kVersion, rank, kSize, "right"));
  }
  const auto num_joined = [&] {
    std::uint32_t num = 0;
    for (std::uint32_t rank = 0; rank < kSize; ++rank)
      num += server->state(static_cast<int>(rank)) == Server::RankState::joined;
    return num;
  };
  pollfd ready{server->poll_fd(), POLLIN, 0};
  while (num_joined() < kSize && poll(&ready, 1, 5000) == 1) server->serve();
  CHECK(num_joined() == kSize);
}

TEST_CASE("without a server a rank gives up in time and says where it looked") {
  std::uint16_t port = 0;
  {
    const Running running(options_of(1));
    port = running.port();
  }
  RendezvousParameters place;
  place.rank = 1;
  place.size = 2;
  place.address = "127.0.0.1:" + std::to_string(port);
  std::unique_ptr<Board> board;
  const auto start = std::chrono::steady_clock::now();
  const Status status = make_rendezvous_board(place, 150, board);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  CHECK(status == Code::timed_out);
  CHECK(status.text().find(place.address) != std::string::npos);
  CHECK(status.text().find("rank 0 runs it") != std::string::npos);
}

TEST_CASE("what is no server is recognised") {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0);
  REQUIRE(listen(fd, 1) == 0);
  REQUIRE(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  std::thread other([fd] {
    const int client = accept(fd, nullptr, nullptr);
    const char text[] = "220 mail.example ESMTP ready\r\n";
    (void)send(client, text, sizeof text, MSG_NOSIGNAL);
    char buffer[256];
    while (recv(client, buffer, sizeof buffer, 0) > 0) continue;
    close(client);
  });
  RendezvousParameters place;
  place.size = 2;
  place.server_is_launcher = true;
  place.address = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  std::unique_ptr<Board> board;
  CHECK(make_rendezvous_board(place, 5000, board) == Code::corrupt);
  other.join();
  close(fd);
}

TEST_CASE("the environment of a rank is checked") {
  struct Case {
    const char *rank, *size, *address, *key, *complaint;
  };
  const Case bad[] = {
      {nullptr, "2", "127.0.0.1:9", "k", "WEFT_RANK is not"},
      {"0", nullptr, "127.0.0.1:9", "k", "WEFT_SIZE is not"},
      {"x", "2", "127.0.0.1:9", "k", "WEFT_RANK=x"},
      {"1x", "2", "127.0.0.1:9", "k", "WEFT_RANK=1x"},
      {"-1", "2", "127.0.0.1:9", "k", "WEFT_RANK=-1"},
      {"2", "2", "127.0.0.1:9", "k", "do not fit"},
      {"0", "0", "127.0.0.1:9", "k", "do not fit"},
      {"0", "99999999", "127.0.0.1:9", "k", "do not fit"},
      {"0", "2", "127.0.0.1", "k", "host:port"},
      {"0", "2", ":9", "k", "host:port"},
      {"0", "2", "127.0.0.1:0", "k", "host:port"},
      {"0", "2", "127.0.0.1:70000", "k", "host:port"},
      {"0", "2", "127.0.0.1:9x", "k", "host:port"},
      {"0", "2", "node7:9", nullptr, "WEFT_JOB_KEY must be set"},
      {"0", "2", "127.0.0.1:9", nullptr, "WEFT_JOB_KEY must be set"},
      {"0", "2", "localhost:9", "", "WEFT_JOB_KEY must be set"},
  };
  const auto set = [](const char* name, const char* value) {
    if (value != nullptr)
      setenv(name, value, 1);
    else
      unsetenv(name);
  };
  for (const Case& entry : bad) {
    set(kRankVariable, entry.rank);
    set(kSizeVariable, entry.size);
    set(kRendezvousVariable, entry.address);
    set(kJobKeyVariable, entry.key);
    RendezvousParameters place;
    const Status status = read_rendezvous_parameters(place);
    INFO(entry.complaint << ": " << status.text());
    CHECK(status == Code::bad_setting);
    CHECK(status.text().find(entry.complaint) != std::string::npos);
  }
  set(kRankVariable, "1");
  set(kSizeVariable, "2");
  set(kRendezvousVariable, "[::1]:9");
  set(kJobKeyVariable, "k");
  RendezvousParameters place;
  CHECK(read_rendezvous_parameters(place).ok());
  CHECK(place.rank == 1);
  set(kRendezvousVariable, nullptr);
  CHECK(read_rendezvous_parameters(place) == Code::not_found);
  for (const char* name : {kRankVariable, kSizeVariable, kJobKeyVariable}) set(name, nullptr);
}
