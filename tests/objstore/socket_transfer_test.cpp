// The socket protocol: between two stores, and against others that don't keep to it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <map>

#include "fixture.hpp"
#include "objstore/manager/manager.hpp"
#include "objstore/manager/socket_transfer.hpp"

using namespace weft;
using namespace weft::objstore;
using namespace weft::testing;

namespace {

constexpr std::int64_t kWaitMs = 30000;

struct SocketHost {
  explicit SocketHost(std::vector<std::string> peers = {}) {
    ManagerSettings settings;
    settings.listen = {"127.0.0.1:0"};
    settings.peers = std::move(peers);
    settings.secret = "of the socket test";
    settings.name = "host";
    settings.protocol = "socket";
    manager = std::make_unique<Manager>(store.server, settings);
    const Status status = manager->open();
    INFO(status.text());
    REQUIRE(status.ok());
    thread = std::thread([this] { manager->run(); });
  }
  ~SocketHost() {
    manager->stop();
    thread.join();
  }
  std::string address() {
    std::string text;
    REQUIRE(manager->address(text));
    return text;
  }

  StoreFixture store;
  std::unique_ptr<Manager> manager;
  std::thread thread;
};

// One side of a SocketTransfer by itself: holds one object, and takes what it is sent.
struct Side final : SocketUser {
  explicit Side(std::uint32_t idle_ms = 20000) : transfer(*this, idle_ms) {}
  bool hold(const ObjectId& id, HeldObject& object) override {
    if (id != id_of(1)) return false;
    ++num_held;
    ++num_asked;
    object.bytes = held.data();
    object.data_bytes = held.size();
    return true;
  }
  void drop(const HeldObject&) override { --num_held; }
  std::byte* make_room(std::uint64_t number, std::uint64_t data_bytes, std::uint32_t) override {
    if (refuses) return nullptr;
    taken[number].resize(data_bytes);
    return taken[number].data();
  }
  void arrived(std::uint64_t number) override { ends[number] = "arrived"; }
  void failed(std::uint64_t number, bool is_absent) override {
    ends[number] = is_absent ? "absent" : "failed";
  }

  std::vector<std::byte> held = contents_of(id_of(1), 1'000'003);
  int num_held = 0, num_asked = 0;
  bool refuses = false;
  std::map<std::uint64_t, std::vector<std::byte>> taken;
  std::map<std::uint64_t, std::string> ends;
  SocketTransfer transfer;
};

template <class Done>
void drive(Side& a, Side& b, Done done) {
  for (int i = 0; i < 1'000'000 && !done(); ++i) {
    timespec now;
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const auto now_ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
                        static_cast<std::uint64_t>(now.tv_nsec);
    const bool has_moved = a.transfer.progress(now_ns) | b.transfer.progress(now_ns);
    if (!has_moved) ::usleep(20);
  }
  REQUIRE(done());
}

// A client or a server without a SocketTransfer.
int connect_to(const std::string& address) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  REQUIRE(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
  const timeval limit{20, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return fd;
}

}  // namespace

TEST_CASE("objects of all sizes come over the socket protocol") {
  SocketHost a, b({a.address()});
  ObjectStore from({.socket = a.store.socket()}), to({.socket = b.store.socket()});
  std::uint64_t number = 0;
  for (const std::size_t bytes : {0, 1, 4095, 4096, 4097, 100'000, 9'000'001}) {
    const ObjectId id = id_of(number++);
    REQUIRE(from.put(id, contents_of(id, bytes), contents_of(id, 10)));
    Object object;
    const Status status = to.get(id, object, kWaitMs);
    INFO(status.text() << ", " << bytes << " bytes");
    REQUIRE(status.ok());
    CHECK(equal(object.data(), contents_of(id, bytes)));
    CHECK(equal(object.metadata(), contents_of(id, 10)));
  }
  // Many at once, both ways; and one that is put after it was asked for.
  std::vector<ObjectId> here, there;
  for (std::uint64_t i = 0; i < 100; ++i) {
    here.push_back(id_of(1000 + i));
    there.push_back(id_of(2000 + i));
    REQUIRE(from.put(here.back(), contents_of(here.back(), i * 777)));
    REQUIRE(to.put(there.back(), contents_of(there.back(), i * 777)));
  }
  std::thread other([&] { CHECK(from.fetch(there, kWaitMs)); });
  CHECK(to.fetch(here, kWaitMs));
  other.join();
  for (std::uint64_t i = 0; i < 100; ++i) {
    Object object;
    REQUIRE(to.get(here[i], object));
    CHECK(equal(object.data(), contents_of(here[i], i * 777)));
    REQUIRE(from.get(there[i], object));
    CHECK(equal(object.data(), contents_of(there[i], i * 777)));
  }
  std::thread later([&] { REQUIRE(from.put(id_of(3000), contents_of(id_of(3000), 50'000))); });
  Object object;
  CHECK(to.get(id_of(3000), object, kWaitMs));
  later.join();
}

TEST_CASE("asks of the socket protocol end, whatever comes of them") {
  Side holder, asker;
  REQUIRE(holder.transfer.listen("127.0.0.1:0"));
  const std::string& address = holder.transfer.address();
  asker.transfer.ask(address, id_of(1), 1);
  asker.transfer.ask(address, id_of(2), 2);
  asker.transfer.ask(address, id_of(1), 3);
  asker.transfer.ask(address, id_of(1), 4);
  asker.transfer.cancel(3);
  drive(holder, asker, [&] { return asker.ends.contains(4); });
  CHECK(asker.ends ==
        std::map<std::uint64_t, std::string>{{1, "arrived"}, {2, "absent"}, {4, "arrived"}});
  CHECK(asker.taken.size() == 2);
  CHECK(asker.taken[1] == holder.held);
  CHECK(asker.taken[4] == holder.held);
  // An object without a place is thrown away, and what follows is in order.
  asker.refuses = true;
  asker.transfer.ask(address, id_of(1), 5);
  const int num_before = holder.num_asked;
  drive(holder, asker, [&] { return holder.num_asked > num_before && holder.num_held == 0; });
  asker.refuses = false;
  asker.transfer.ask(address, id_of(1), 6);
  drive(holder, asker, [&] { return asker.ends.contains(6); });
  CHECK(asker.taken[6] == holder.held);
  CHECK_FALSE(asker.ends.contains(5));
  // One that is cancelled midway is written to no more.
  holder.held = contents_of(id_of(1), 40'000'000);
  asker.transfer.ask(address, id_of(1), 7);
  drive(holder, asker, [&] { return asker.taken.contains(7); });
  asker.transfer.cancel(7);
  asker.taken[7] = {};
  asker.transfer.ask(address, id_of(2), 8);
  drive(holder, asker, [&] { return asker.ends.contains(8); });
  CHECK_FALSE(asker.ends.contains(7));
  // Nobody there; no address.
  std::string gone;
  {
    Side other;
    REQUIRE(other.transfer.listen("127.0.0.1:0"));
    gone = other.transfer.address();
  }
  asker.transfer.ask(gone, id_of(1), 9);
  asker.transfer.ask("nonsense", id_of(1), 10);
  drive(holder, asker, [&] { return asker.ends.contains(9) && asker.ends.contains(10); });
  CHECK(asker.ends[9] == "failed");
  CHECK(asker.ends[10] == "failed");
  CHECK(holder.num_held == 0);
}

TEST_CASE("foreign processes at the socket protocol are disconnected") {
  Side holder(300), asker(300);
  REQUIRE(holder.transfer.listen("127.0.0.1:0"));
  const std::string& address = holder.transfer.address();
  const auto is_closed = [](int fd) {
    char byte;
    const ssize_t got = ::recv(fd, &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  };
  // Garbage; silence; half a request.
  for (const std::string& words : {std::string(64, 'x'), std::string(), std::string("wst2")}) {
    const int fd = connect_to(address);
    REQUIRE(::send(fd, words.data(), words.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(words.size()));
    drive(holder, asker, [&] { return is_closed(fd); });
    ::close(fd);
  }
  // One that asks and reads nothing, and one that goes midway, keep no object.
  holder.held = contents_of(id_of(1), 40'000'000);
  char request[272] = {'w', 's', 't', '2'};
  const ObjectId id = id_of(1);
  std::memcpy(request + 16, &id, sizeof id);
  for (const bool goes : {false, true}) {
    const int fd = connect_to(address);
    REQUIRE(::send(fd, request, sizeof request, MSG_NOSIGNAL) == sizeof request);
    drive(holder, asker, [&] { return holder.num_held == 1; });
    if (goes) ::close(fd);
    drive(holder, asker, [&] { return holder.num_held == 0; });
    if (!goes) ::close(fd);
  }
  // Holders that answer nonsense, or nothing.
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
  REQUIRE(::listen(listener, 4) == 0);
  REQUIRE(::getsockname(listener, reinterpret_cast<sockaddr*>(&at), &length) == 0);
  const std::string liar = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  std::uint64_t number = 100;
  std::string huge("wst2\1\0\0\0", 8);
  huge += std::string(16, '\xff') + std::string(8, '\0');
  for (const std::string& words : {std::string(32, 'x'), huge, std::string()}) {
    asker.transfer.ask(liar, id_of(1), ++number);
    const int fd = ::accept(listener, nullptr, nullptr);
    REQUIRE(fd >= 0);
    REQUIRE(::send(fd, words.data(), words.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(words.size()));
    drive(holder, asker, [&] { return asker.ends.contains(number); });
    CHECK(asker.ends[number] == "failed");
    ::close(fd);
  }
  ::close(listener);
}

TEST_CASE("addresses that the socket protocol can't listen at are refused") {
  Side side;
  for (const char* address : {"unix:/tmp/x", "nothing", "0.0.0.0:7000", "[::]:7000"}) {
    const Status status = side.transfer.listen(address);
    CHECK(status == Code::bad_argument);
    CHECK(status.text().find(std::string("'") + address) != std::string::npos);
  }
}
