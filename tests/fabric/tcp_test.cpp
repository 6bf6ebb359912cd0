// What the fabric tcp does beyond the contract: with bytes that no endpoint sends, with memory that
// is withdrawn in the middle of a transfer, and with addresses where nobody listens.
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "fabric/tcp/endpoint.hpp"
#include "fabric/tcp/wire.hpp"
#include "tests/fabric/conformance.hpp"

using namespace weft;
using namespace weft::fabric;
using namespace weft::fabric::testing;
using tcp::Access;
using tcp::Frame;
using tcp::Kind;

namespace {

const FabricRow kTcp{"tcp", on_loopback<tcp::make_endpoint>};

// A peer that writes what it likes.
struct Raw {
  explicit Raw(Side& side) : side(side) {
    const std::string address = side.endpoint->address();
    socket = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    constexpr int kRoom = 1 << 20;  // the kernel takes no more
    REQUIRE(::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &kRoom, sizeof kRoom) == 0);
    REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(address.data()),
                      static_cast<socklen_t>(address.size())) == 0);
  }
  void write(const void* data, std::size_t bytes) {
    REQUIRE(::send(socket.get(), data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes));
  }
  void write(const Frame& frame) { write(&frame, sizeof frame); }
  void write(const Frame& frame, const Access& access) {
    write(frame);
    write(&access, sizeof access);
  }
  void poll() {
    for (int i = 0; i < 50; ++i) side.endpoint->poll(side);
  }
  void greet() {
    const int ups = side.ups;
    write({Kind::hello, Code::ok, 0, 0, tcp::kMagic});
    for (const std::uint64_t limit = now_ns() + kDeadlineNs; side.ups == ups && now_ns() < limit;)
      side.endpoint->poll(side);
    REQUIRE(side.ups == ups + 1);
    Frame accept;
    read(accept);
    CHECK(accept.kind == Kind::accept);
  }
  void read(Frame& frame) {
    ssize_t count = -1;
    for (const std::uint64_t limit = now_ns() + kDeadlineNs; now_ns() < limit;) {
      side.endpoint->poll(side);
      count = ::recv(socket.get(), &frame, sizeof frame, MSG_DONTWAIT | MSG_PEEK);
      if (count == sizeof frame || count == 0) break;
    }
    REQUIRE(count == sizeof frame);
    REQUIRE(::recv(socket.get(), &frame, sizeof frame, 0) == sizeof frame);
  }
  // Returns true once the endpoint has closed the connection.
  bool is_refused() {
    std::vector<char> bytes(1 << 20);
    for (const std::uint64_t limit = now_ns() + kDeadlineNs; now_ns() < limit;) {
      side.endpoint->poll(side);
      const ssize_t count = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (count == 0 || (count < 0 && errno != EAGAIN)) return true;
    }
    return false;
  }

  Side& side;
  Descriptor socket;
};

}  // namespace

TEST_CASE("tcp: where nobody listens, and where another program does, no link comes up", "[tcp]") {
  Side side(kTcp);
  const Descriptor other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof place;
  REQUIRE(::bind(other.get(), reinterpret_cast<sockaddr*>(&place), sizeof place) == 0);
  REQUIRE(::getsockname(other.get(), reinterpret_cast<sockaddr*>(&place), &length) == 0);
  struct Told final : Events {
    bool on_incoming(Link&, Bytes) override { return false; }
    void on_up(Link&) override { FAIL("up"); }
    void on_down(Link&, Code code) override { why = code; }
    void on_message(Link&, Bytes) override {}
    Code why = Code::ok;
  };
  const Bytes address(reinterpret_cast<const std::byte*>(&place), sizeof place);
  for (const bool listens : {false, true}) {
    if (listens) REQUIRE(::listen(other.get(), 1) == 0);
    Told told;
    Link* link = nullptr;
    REQUIRE(side.endpoint->open(address, {}, link).ok());
    Descriptor accepted;
    if (listens) {
      accepted = Descriptor(::accept4(other.get(), nullptr, nullptr, SOCK_CLOEXEC));
      REQUIRE(::send(accepted.get(), "HTTP/1.1 400 Bad Request\r\n\r\n", 28, 0) == 28);
    }
    for (const std::uint64_t limit = now_ns() + kDeadlineNs;
         told.why == Code::ok && now_ns() < limit;)
      side.endpoint->poll(told);
    CHECK(told.why == Code::not_found);
    side.endpoint->close(*link);
  }
}

TEST_CASE("tcp: who says no hello, or a wrong one, is refused, and hinders nobody", "[tcp]") {
  Pair pair(kTcp);
  Raw silent(pair.b), of_another_version(pair.b), long_hello(pair.b), text(pair.b);
  of_another_version.write({Kind::hello, Code::ok, 0, 0, tcp::kMagic + 1});
  CHECK(of_another_version.is_refused());
  long_hello.write({Kind::hello, Code::ok, 0, kMaxHelloBytes + 1, tcp::kMagic});
  CHECK(long_hello.is_refused());
  text.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35);
  CHECK(text.is_refused());
  pair.connect();
  CHECK(pair.b.ups == 1);
  CHECK(pair.b.downs == 0);
}

TEST_CASE("tcp: a sleeper accepts who came while no descriptors were left", "[tcp]") {
  Side side(kTcp);
  Raw raw(side);
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit none{3, limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  side.endpoint->poll(side);
  const bool sleeps = side.endpoint->arm();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  REQUIRE(sleeps);
  pollfd wait{side.endpoint->wait_fd(), POLLIN, 0};
  CHECK(::poll(&wait, 1, static_cast<int>(kDeadlineNs / 1'000'000)) == 1);
  raw.greet();
}

TEST_CASE("tcp: frames that no endpoint sends end their link, and no other", "[tcp]") {
  Pair pair(kTcp);
  const auto [here, there] = pair.connect();
  std::vector<std::byte> memory(4096);
  Registration readable;
  REQUIRE(pair.b.endpoint->register_memory(memory.data(), memory.size(), kRead, readable).ok());
  int downs = 0;
  const auto refused = [&](const Frame& frame) {
    Raw raw(pair.b);
    raw.greet();
    raw.write(frame);
    CHECK(raw.is_refused());
    CHECK(pair.b.downs == ++downs);
  };
  refused({Kind::hello, Code::ok, 0, 0, tcp::kMagic});  // a second one
  refused({Kind::accept, Code::ok, 0, 0, tcp::kMagic});
  refused({Kind::message, Code::ok, 0, tcp::kMessageMax + 1, 0});
  refused({Kind{0}, Code::ok, 0, 0, 0});
  refused({Kind{200}, Code::ok, 0, 0, 0});
  refused({Kind::data, Code::ok, 0, 8, 1ull << 32});  // of no get
  refused({Kind::done, Code::ok, 0, 0, 1ull << 32});
  refused({Kind::done, Code::ok, 0, 0, ~0ull});
  for (const Kind kind : {Kind::put, Kind::get}) {
    Raw raw(pair.b);
    raw.greet();
    const std::uint64_t secret = parts_of(readable.key).secret;
    raw.write({kind, Code::ok, 0, static_cast<std::uint32_t>(tcp::kMostBytes + 1), 1},
              {parts_of(readable.key).address, secret});
    CHECK(raw.is_refused());
    CHECK(pair.b.downs == ++downs);
  }
  REQUIRE(pair.a.endpoint->message(*here, bytes_of("still there"), {}) == Code::ok);
  CHECK(pair.poll_until([&] { return pair.b.messages.size() == 1; }));
  pair.b.endpoint->deregister(readable);
}

TEST_CASE("tcp: a put of a peer stays in the memory and the rights that it was given", "[tcp]") {
  Side side(kTcp);
  std::vector<std::byte> memory(3 * 8192);  // the middle is registered
  Registration middle, readable;
  REQUIRE(side.endpoint->register_memory(memory.data() + 8192, 8192, kWrite, middle).ok());
  REQUIRE(side.endpoint->register_memory(memory.data(), 8192, kRead, readable).ok());
  const auto [address, bytes, secret] = parts_of(middle.key);
  const std::vector<std::byte> data(8192, std::byte{7});
  struct Try {
    std::uint64_t address, secret;
    std::size_t bytes;
    bool is_good;
  };
  for (const Try& one :
       {Try{address, secret, 8192, true}, Try{address + 1, secret, 8192, false},
        Try{address - 1, secret, 8192, false}, Try{address + 8184, secret, 8, true},
        Try{address + 8185, secret, 8, false}, Try{address, secret ^ 1, 8, false},
        Try{~0ull, secret, 8, false}, Try{0, secret, 8192, false},
        Try{parts_of(readable.key).address, parts_of(readable.key).secret, 8, false},
        Try{parts_of(readable.key).address, parts_of(readable.key).secret, 8192, false}}) {
    for (const std::size_t at_once : {std::size_t{1} << 20, std::size_t{1000}}) {
      std::fill(memory.begin(), memory.end(), std::byte{});
      Raw raw(side);
      raw.greet();
      raw.write({Kind::put, Code::ok, 0, static_cast<std::uint32_t>(one.bytes), 5},
                {one.address, one.secret});
      std::vector<std::byte> sent(data.begin(), data.begin() + static_cast<long>(one.bytes));
      sent.resize(one.bytes + tcp::padding_of(one.bytes));
      for (std::size_t at = 0; at < sent.size(); at += at_once) {
        raw.write(sent.data() + at, std::min(at_once, sent.size() - at));
        raw.poll();
      }
      raw.poll();
      Frame done;
      raw.read(done);
      CHECK(done.kind == Kind::done);
      CHECK(done.id == 5);
      CHECK((done.code == Code::ok) == one.is_good);
      const auto written =
          static_cast<std::size_t>(std::count(memory.begin(), memory.end(), std::byte{7}));
      CHECK(written == (one.is_good ? one.bytes : 0));
    }
  }
  side.endpoint->deregister(middle);
  side.endpoint->deregister(readable);
}

TEST_CASE("tcp: memory that is withdrawn during a put or a get is not touched again", "[tcp]") {
  Side side(kTcp);
  std::vector<std::byte> memory(32 << 20);
  Registration registration;
  const auto make = [&] {
    REQUIRE(
        side.endpoint->register_memory(memory.data(), memory.size(), kRead | kWrite, registration)
            .ok());
  };
  make();
  {
    Raw raw(side);
    raw.greet();
    const auto [address, bytes, secret] = parts_of(registration.key);
    raw.write({Kind::put, Code::ok, 0, 1 << 20, 9}, {address, secret});
    const std::vector<std::byte> half(1 << 19, std::byte{7});
    raw.write(half.data(), half.size());
    for (const std::uint64_t limit = now_ns() + kDeadlineNs;
         memory[half.size() - 1] != std::byte{7} && now_ns() < limit;)
      raw.poll();
    side.endpoint->deregister(registration);
    raw.write(half.data(), half.size());
    Frame done;
    raw.read(done);
    CHECK(done.kind == Kind::done);
    CHECK(done.code == Code::not_permitted);
    CHECK(memory[half.size()] == std::byte{});
  }
  make();
  {
    Raw raw(side);
    raw.greet();
    const auto [address, bytes, secret] = parts_of(registration.key);
    raw.write({Kind::get, Code::ok, 0, 32 << 20, 9}, {address, secret});
    Frame data;
    raw.read(data);
    CHECK(data.kind == Kind::data);
    side.endpoint->deregister(registration);
    CHECK(raw.is_refused());  // the bytes were promised
  }
}

TEST_CASE("tcp: a peer that asks and takes nothing is cut off before it fills the memory",
          "[tcp]") {
  Side side(kTcp);
  std::vector<std::byte> memory(1 << 20);
  Registration registration;
  REQUIRE(side.endpoint->register_memory(memory.data(), memory.size(), kRead, registration).ok());
  Raw raw(side);
  raw.greet();
  const auto [address, bytes, secret] = parts_of(registration.key);
  struct {
    Frame frame;
    Access access;
  } const get{{Kind::get, Code::ok, 0, 1 << 20, 1}, {address, secret}};
  std::size_t asked = 0;
  for (; side.downs == 0 && asked < 1'000'000; ++asked) {
    if (::send(raw.socket.get(), &get, sizeof get, MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof get)
      break;
    side.endpoint->poll(side);
  }
  for (int i = 0; i < 1000 && side.downs == 0; ++i) raw.poll();
  CHECK(side.downs == 1);
  CHECK(asked < 100'000);
  side.endpoint->deregister(registration);
}

TEST_CASE("tcp: a put is not done before its bytes have gone out, whatever the peer says",
          "[tcp]") {
  Side side(kTcp);
  std::vector<std::byte> memory(32 << 20);  // more than the socket takes
  Registration registration;
  REQUIRE(side.endpoint->register_memory(memory.data(), memory.size(), kWrite, registration).ok());
  Raw raw(side);
  raw.greet();
  Waiting put;
  REQUIRE(side.endpoint->put(*side.links.back(), memory.data(), memory.size(), registration.key, 0,
                             put) == Code::ok);
  raw.write({Kind::done, Code::ok, 0, 0, std::uint64_t{1} << 32});
  for (const std::uint64_t limit = now_ns() + kDeadlineNs; side.downs == 0 && now_ns() < limit;)
    side.endpoint->poll(side);
  CHECK(side.downs == 1);
  CHECK(put.code == Code::peer_lost);
  side.endpoint->deregister(registration);
}

TEST_CASE("tcp: frames arrive whole however the bytes are cut", "[tcp]") {
  Side side(kTcp);
  std::vector<std::byte> memory(1 << 16);
  Registration registration;
  REQUIRE(side.endpoint->register_memory(memory.data(), memory.size(), kWrite, registration).ok());
  std::mt19937 random(11);
  std::vector<std::byte> stream;
  const auto add = [&](const void* data, std::size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    stream.insert(stream.end(), from, from + bytes);
  };
  std::vector<std::string> sent;
  std::size_t num_puts = 0;
  for (int i = 0; i < 300; ++i) {
    std::string text(random() % (i % 10 == 0 ? 40'000 : 100), static_cast<char>('a' + i % 26));
    const bool is_put = i % 3 == 0;
    const Frame frame{is_put ? Kind::put : Kind::message, Code::ok, 0,
                      static_cast<std::uint32_t>(text.size()), 77};
    add(&frame, sizeof frame);
    const Access access{parts_of(registration.key).address, parts_of(registration.key).secret};
    if (is_put) add(&access, sizeof access);
    add(text.data(), text.size());
    stream.resize(stream.size() + tcp::padding_of(text.size()));
    if (is_put)
      ++num_puts;
    else
      sent.push_back(std::move(text));
  }
  Raw raw(side);
  raw.greet();
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t some =
        std::min<std::size_t>(1 + random() % (random() % 4 == 0 ? 9000 : 40), stream.size() - at);
    raw.write(stream.data() + at, some);
    at += some;
    side.endpoint->poll(side);
    side.endpoint->poll(side);
  }
  for (const std::uint64_t limit = now_ns() + kDeadlineNs;
       side.messages.size() < sent.size() && now_ns() < limit;)
    raw.poll();
  CHECK(side.messages == sent);
  for (std::size_t i = 0; i < num_puts; ++i) {
    Frame done;
    raw.read(done);
    CHECK(done.code == Code::ok);
  }
  side.endpoint->deregister(registration);
}
