// Meeting: addresses, the handshake alone, and bootstrap sockets with strangers of all kinds.
#include <dirent.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <set>

#include "base/wait.hpp"
#include "peer/bootstrap.hpp"
#include "peer/sockets.hpp"
#include "support/slow_names.hpp"

using namespace weft;
using namespace weft::peer;
using weft::testing::SlowNames;

namespace {

constexpr std::uint64_t kDeadlineNs = 20'000'000'000;

NodeAddress address_of(std::string name) {
  NodeAddress address;
  address.name = std::move(name);
  address.generation = random_word();
  address.host = host_identity();
  address.fabrics = {{"shm", ""}, {"loopback", std::string("\1\0\2", 3)}};
  return address;
}

struct Met final : Bootstrap::Events {
  bool on_met(Connection& connection, bool) override {
    met.push_back(&connection);
    return accept;
  }
  void on_failed(Connection&, const Status& status) override { failures.push_back(status); }
  bool on_frame(Connection&, FrameType, std::string_view body, std::span<int> given) override {
    frames.emplace_back(body);
    for (int& descriptor : given) descriptors.push_back(std::exchange(descriptor, -1));
    return true;
  }
  void on_end(Connection& connection, const Status& why) override {
    std::erase(met, &connection);
    ends.push_back(why.code());
  }
  ~Met() {
    for (const int descriptor : descriptors) ::close(descriptor);
  }
  std::vector<Connection*> met;
  std::vector<Status> failures;
  std::vector<std::string> frames;
  std::vector<int> descriptors;
  std::vector<Code> ends;
  bool accept = true;
};

struct Party {
  Party(std::string name, std::string_view secret)
      : bootstrap(Secret(secret), address_of(std::move(name))) {}
  Status connect(const std::string& to, std::uint64_t within_ns = kDeadlineNs) {
    return bootstrap.connect(to, now_ns() + within_ns, this);
  }
  Met events;
  Bootstrap bootstrap;
};

template <class F>
bool poll_until(std::initializer_list<Party*> parties, F&& done) {
  for (const std::uint64_t limit = now_ns() + kDeadlineNs; !done();) {
    for (Party* party : parties) party->bootstrap.poll(party->events);
    if (now_ns() > limit) return false;
  }
  return true;
}

int count_descriptors() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

std::string unix_name() { return "unix:@weft-test-" + std::to_string(random_word()); }

void meet(Party& server, Party& client) {
  const std::string at = unix_name();
  REQUIRE(server.bootstrap.listen(at).ok());
  REQUIRE(client.connect(at).ok());
  REQUIRE(poll_until({&server, &client}, [&] {
    return server.events.met.size() == 1 && client.events.met.size() == 1;
  }));
}

// A socket that is connected to the address, for bytes of a stranger's own.
int raw_connect(const std::string& to) {
  SocketAddress address;
  REQUIRE(resolve(to, address).ok());
  const int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::connect(fd, address.raw(), address.length) == 0);
  return fd;
}

}  // namespace

TEST_CASE("an address survives its text, and nothing else is one") {
  NodeAddress address = address_of("server");
  address.bootstraps = {"10.0.0.1:7000", "unix:/tmp/x"};
  NodeAddress read;
  const std::string text = to_text(address);
  REQUIRE(from_text(text + "\n", read).ok());
  CHECK(read == address);
  const std::string bytes = encode(address);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    CHECK(decode(bytes.substr(0, length), read).code() == Code::corrupt);
  CHECK(decode(bytes + "x", read).code() == Code::corrupt);
  for (const char* wrong : {"", "weft:", "weft:!!!", "host:1", "weft:AAAA"})
    CHECK(from_text(wrong, read).code() == Code::corrupt);
  std::string newer = bytes;
  newer[0] = 9;
  CHECK(decode(newer, read).text().find("version 9") != std::string::npos);
}

TEST_CASE("two that share a secret meet, over TCP and Unix sockets") {
  for (const std::string& where : {std::string("127.0.0.1:0"), unix_name()}) {
    Party server("server", "secret"), client("client", "secret");
    REQUIRE(server.bootstrap.listen(where).ok());
    const std::string at = server.bootstrap.own().bootstraps.at(0);
    REQUIRE(client.connect(at).ok());
    REQUIRE(poll_until({&server, &client}, [&] {
      return server.events.met.size() == 1 && client.events.met.size() == 1;
    }));
    CHECK(server.events.met[0]->theirs() == client.bootstrap.own());
    CHECK(client.events.met[0]->theirs() == server.bootstrap.own());
    CHECK(server.events.met[0]->cookie() == client.events.met[0]->cookie());

    const int event = ::eventfd(7, EFD_CLOEXEC);
    const bool with_descriptor = client.events.met[0]->is_unix();
    CHECK(with_descriptor == (where[0] == 'u'));
    REQUIRE(client.bootstrap
                .send(*client.events.met[0], FrameType::offer, "an offer",
                      {&event, with_descriptor ? 1u : 0u})
                .ok());
    ::close(event);
    REQUIRE(poll_until({&server, &client}, [&] { return !server.events.frames.empty(); }));
    CHECK(server.events.frames[0] == "an offer");
    if (with_descriptor) {
      std::uint64_t value = 0;
      REQUIRE(server.events.descriptors.size() == 1);
      CHECK(::read(server.events.descriptors[0], &value, sizeof value) == sizeof value);
      CHECK(value == 7);
    }
    server.bootstrap.close(*server.events.met[0]);
    REQUIRE(poll_until({&server, &client}, [&] { return client.events.ends.size() == 1; }));
    CHECK(client.events.ends[0] == Code::peer_lost);
  }
}

TEST_CASE("who leaves right after its proof is met and has an end") {
  Party server("server", "secret");
  const std::string at = unix_name();
  REQUIRE(server.bootstrap.listen(at).ok());
  Handshake client(Handshake::Role::connects, Secret("secret"), encode(address_of("client")));
  const int fd = raw_connect(at);
  const std::string hello = client.start();
  REQUIRE(::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) == ssize_t(hello.size()));
  char bytes[512];
  ssize_t length = 0;
  REQUIRE(poll_until({&server}, [&] {
    length = ::recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    return length > 0;
  }));
  FrameReader reader;
  reader.feed({bytes, std::size_t(length)});
  FrameHead head;
  std::string_view body;
  REQUIRE(reader.next(head, body) == FrameReader::Next::frame);
  std::string proof;
  REQUIRE(client.on_frame(head.type, body, proof) == Handshake::State::going_on);
  REQUIRE(::send(fd, proof.data(), proof.size(), MSG_NOSIGNAL) == ssize_t(proof.size()));
  ::close(fd);
  // Both in one go.
  REQUIRE(poll_until({&server}, [&] { return server.events.ends.size() == 1; }));
  CHECK(server.events.met.empty());
}

TEST_CASE("another secret is refused by both sides, with a word why") {
  Party server("server", "secret"), client("client", "guess");
  REQUIRE(server.bootstrap.listen("127.0.0.1:0").ok());
  REQUIRE(client.connect(server.bootstrap.own().bootstraps.at(0)).ok());
  REQUIRE(poll_until({&server, &client}, [&] { return client.events.failures.size() == 1; }));
  CHECK(client.events.failures[0].code() == Code::not_permitted);
  CHECK(client.events.failures[0].text().find("secret") != std::string::npos);
  CHECK(server.events.met.empty());
}

TEST_CASE("without a secret there is no TCP, and who else listens there is not believed") {
  Party server("server", ""), client("client", "");
  CHECK(server.bootstrap.listen("127.0.0.1:0").code() == Code::not_permitted);
  CHECK(client.connect("127.0.0.1:1").code() == Code::not_permitted);
  const std::string at = unix_name();
  REQUIRE(server.bootstrap.listen(at).ok());
  REQUIRE(client.connect(at).ok());
  REQUIRE(poll_until({&server, &client}, [&] { return client.events.met.size() == 1; }));
}

TEST_CASE("addresses that lead nowhere are errors at once or by the deadline") {
  Party client("client", "secret");
  CHECK(client.connect("nowhere").code() == Code::bad_argument);
  CHECK(client.connect("host:99999").code() == Code::bad_argument);
  CHECK(client.connect("unix:").code() == Code::bad_argument);
  CHECK(client.connect("unix:@weft-nobody-listens-here").code() == Code::not_found);
  REQUIRE(client.connect("no-such-host.invalid:1").ok());
  REQUIRE(poll_until({&client}, [&] { return client.events.failures.size() == 1; }));
  CHECK(client.events.failures[0].code() == Code::not_found);
  REQUIRE(client.connect("127.0.0.1:1").ok());
  REQUIRE(poll_until({&client}, [&] { return client.events.failures.size() == 2; }));
  // Who listens and never answers.
  const int silent = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::listen(silent, 1) == 0);
  REQUIRE(client.connect(bound_text(silent), 100'000'000).ok());
  REQUIRE(poll_until({&client}, [&] { return client.events.failures.size() == 3; }));
  CHECK(client.events.failures[2].code() == Code::timed_out);
  ::close(silent);
}

TEST_CASE("while a name server is silent others are met, and who waits for it is met later") {
  const int before = count_descriptors();
  {
    SlowNames& names = SlowNames::of_process();
    Party server("server", "secret"), client("client", "secret");
    REQUIRE(server.bootstrap.listen("127.0.0.1:0").ok());
    const std::string at = server.bootstrap.own().bootstraps.at(0);
    const std::string slow = "slow.invalid" + at.substr(at.rfind(':'));
    names.fall_silent();
    // Those of the first ones are over before there is an answer; the others are asked for once.
    for (int i = 0; i < 10; ++i)
      REQUIRE(client.connect("slow.invalid:" + std::to_string(1 + i), 1'000'000).ok());
    for (int i = 0; i < 10; ++i) REQUIRE(client.connect(slow).ok());
    REQUIRE(names.wait_until_asked());
    REQUIRE(client.connect(at).ok());
    REQUIRE(poll_until({&server, &client}, [&] {
      return client.events.met.size() == 1 && client.events.failures.size() == 10;
    }));
    for (const Status& failure : client.events.failures) CHECK(failure == Code::timed_out);
    names.answer();
    REQUIRE(poll_until({&server, &client}, [&] { return client.events.met.size() == 11; }));
    CHECK(client.events.failures.size() == 10);
    // A Node may end meanwhile.
    names.fall_silent();
    {
      Party other("other", "secret");
      REQUIRE(other.connect(slow).ok());
      REQUIRE(names.wait_until_asked());
    }
    names.answer();
  }
  // Lookups go on after their Nodes, and end with the answer.
  CHECK(poll_until({}, [&] { return count_descriptors() <= before; }));
}

TEST_CASE("a path left behind is taken over, one in use is not, and none stays") {
  const std::string path = "/tmp/weft-peer-test-" + std::to_string(random_word());
  {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    SocketAddress address;
    REQUIRE(resolve("unix:" + path, address).ok());
    REQUIRE(::bind(fd, address.raw(), address.length) == 0);
    ::close(fd);
    Party first("first", ""), second("second", "");
    CHECK(first.bootstrap.listen("unix:" + path).ok());
    CHECK(second.bootstrap.listen("unix:" + path).code() == Code::bad_argument);
  }
  CHECK(::access(path.c_str(), F_OK) != 0);
}

TEST_CASE("a peer of another version is refused, and both sides name both versions") {
  // The version is the first word of a frame's body.
  const auto with_version = [](std::string frame, std::uint32_t version) {
    std::memcpy(frame.data() + sizeof(FrameHead), &version, sizeof version);
    return frame;
  };
  const auto feed = [](Handshake& to, const std::string& frame, std::string& out) {
    FrameReader reader;
    reader.feed(frame);
    FrameHead head;
    std::string_view body;
    REQUIRE(reader.next(head, body) == FrameReader::Next::frame);
    return to.on_frame(head.type, body, out);
  };
  const auto names_both = [](const Status& status, std::uint32_t other) {
    const std::string number = std::to_string(kHandshakeVersion);
    return status.text().find("version " + std::to_string(other)) != std::string::npos &&
           status.text().find("version " + number) != std::string::npos;
  };
  for (const std::uint32_t other : {kHandshakeVersion - 1, kHandshakeVersion + 8}) {
    // A connecting peer of another version, and what reaches it.
    Handshake client(Handshake::Role::connects, Secret("secret"), encode(address_of("client")));
    Handshake server(Handshake::Role::listens, Secret("secret"), encode(address_of("server")));
    std::string out, none;
    REQUIRE(feed(server, with_version(client.start(), other), out) == Handshake::State::failed);
    CHECK(server.status().code() == Code::unsupported);
    CHECK(names_both(server.status(), other));
    REQUIRE(feed(client, out, none) == Handshake::State::failed);
    CHECK(names_both(client.status(), other));
    CHECK(none.empty());

    // A listening one.
    Handshake caller(Handshake::Role::connects, Secret("secret"), encode(address_of("caller")));
    Handshake listener(Handshake::Role::listens, Secret("secret"), encode(address_of("listener")));
    std::string challenge;
    REQUIRE(feed(listener, caller.start(), challenge) == Handshake::State::going_on);
    REQUIRE(feed(caller, with_version(challenge, other), none) == Handshake::State::failed);
    CHECK(caller.status().code() == Code::unsupported);
    CHECK(names_both(caller.status(), other));
    CHECK(none.empty());
  }
}

TEST_CASE("garbage, truncated and half-open handshakes end alone, and leave nothing") {
  const int before = count_descriptors();
  {
    Party server("server", "secret");
    const std::string at = unix_name();
    REQUIRE(server.bootstrap.listen(at).ok());
    Handshake client(Handshake::Role::connects, Secret("secret"), encode(address_of("client")));
    const std::string hello = client.start();
    std::string newer = hello;
    newer[sizeof(FrameHead)] = 9;
    std::string long_one = hello;
    long_one[8] = long_one[9] = long_one[10] = '\x7f';
    std::vector<int> strangers;
    for (const std::string& bytes :
         {std::string("GET / HTTP/1.0\r\n\r\n"), newer, long_one, hello + hello,
          make_frame(FrameType::proof, "x"), make_frame(FrameType::offer, ""),
          std::string(100'000, '\0')}) {
      strangers.push_back(raw_connect(at));
      if (::send(strangers.back(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        continue;  // it has been thrown out before all was sent
    }
    // Those are closed by the server; these are, too, once too many others come.
    for (const int stranger : strangers) {
      char answer[512];
      ssize_t length = 1;
      REQUIRE(poll_until({&server}, [&] {
        length = ::recv(stranger, answer, sizeof answer, MSG_DONTWAIT);
        return length == 0 || (length < 0 && errno == ECONNRESET);
      }));
      ::close(stranger);
    }
    std::vector<int> half_open;
    for (std::size_t i = 0; i < 3 * kMaxHalfOpen; ++i) {
      half_open.push_back(raw_connect(at));
      const std::size_t part = i % hello.size();
      REQUIRE(::send(half_open.back(), hello.data(), part, MSG_NOSIGNAL) == ssize_t(part));
      server.bootstrap.poll(server.events);
    }
    Party friendly("friend", "secret");
    REQUIRE(friendly.connect(at).ok());
    REQUIRE(poll_until({&server, &friendly}, [&] { return friendly.events.met.size() == 1; }));
    CHECK(count_descriptors() <= before + int(4 * kMaxHalfOpen) + 8);
    for (const int fd : half_open) ::close(fd);
    CHECK(server.events.met.size() == 1);
  }
  CHECK(count_descriptors() <= before);  // a lookup of before may have ended
}

TEST_CASE("descriptors of a stranger are closed, and so is the stranger") {
  Party server("server", "secret");
  const std::string at = unix_name();
  REQUIRE(server.bootstrap.listen(at).ok());
  const int stranger = raw_connect(at);
  poll_until({&server}, [n = 0]() mutable { return ++n > 3; });
  const int before = count_descriptors();
  char byte = 'x', control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(head), &stranger, sizeof(int));
  REQUIRE(::sendmsg(stranger, &message, MSG_NOSIGNAL) == 1);
  REQUIRE(poll_until({&server}, [&] { return count_descriptors() < before; }));
  ::close(stranger);
}

TEST_CASE("without descriptors left a server refuses nobody for good") {
  Party server("server", "secret"), client("client", "secret");
  const std::string at = unix_name();
  REQUIRE(server.bootstrap.listen(at).ok());
  REQUIRE(client.connect(at).ok());
  rlimit old{};
  ::getrlimit(RLIMIT_NOFILE, &old);
  const rlimit none{0, old.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  for (int i = 0; i < 10; ++i) server.bootstrap.poll(server.events);
  Party late("late", "secret");
  CHECK(server.events.met.empty());
  CHECK(client.connect(at).code() == Code::no_memory);
  ::setrlimit(RLIMIT_NOFILE, &old);
  CHECK(poll_until({&server, &client}, [&] { return client.events.met.size() == 1; }));
}

TEST_CASE("who has no descriptors left for what a peer passes is told that") {
  Party server("server", "secret"), client("client", "secret");
  meet(server, client);
  const int zero = 0;
  REQUIRE(
      server.bootstrap.send(*server.events.met[0], FrameType::mapping, "memory", {&zero, 1}).ok());
  rlimit old{};
  ::getrlimit(RLIMIT_NOFILE, &old);
  const rlimit none{0, old.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  const bool has_ended = poll_until({&client}, [&] { return client.events.ends.size() == 1; });
  ::setrlimit(RLIMIT_NOFILE, &old);
  REQUIRE(has_ended);
  CHECK(client.events.ends[0] == Code::no_memory);
}

TEST_CASE("a peer that reads nothing is back-pressure") {
  Party server("server", "secret"), client("client", "secret");
  meet(server, client);
  const std::string body(4096, 'x');
  std::size_t sent = 0;
  Status status;
  while ((status = client.bootstrap.send(*client.events.met[0], FrameType::offer, body)).ok() &&
         sent < 100'000)
    ++sent;
  CHECK(status.code() == Code::again);
  CHECK(poll_until({&server, &client}, [&] { return server.events.frames.size() == sent; }));
}
