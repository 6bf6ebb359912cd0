// The promises of both kinds of directory to managers. The embedded one's members are joined by
// queues here; the one in Redis is a real redis-server's.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "objstore/directory/embedded.hpp"
#include "objstore/shared/clock.hpp"
#ifdef WEFT_HAVE_HIREDIS
#include "objstore/directory/redis.hpp"
#include "tests/support/slow_names.hpp"
#endif

using namespace weft;
using namespace weft::objstore;

namespace {

class RedisServer {
 public:
  RedisServer() {
    char folder[] = "/tmp/weft-redis-test-XXXXXX";
    REQUIRE(::mkdtemp(folder) != nullptr);
    folder_ = folder;
    // Below the ports that the system gives to others.
    port_ = 12000 + static_cast<int>(::getpid()) % 20000;
  }
  ~RedisServer() {
    stop();
    ::rmdir(folder_.c_str());
  }
  // False: there is no redis-server on this machine.
  bool start() {
    const std::string port = std::to_string(port_), file = folder_ + "/redis";
    child_ = ::fork();
    if (child_ == 0) {
      const int null = ::open("/dev/null", O_RDWR);
      for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
      ::execlp("redis-server", "redis-server", "--port", port.c_str(), "--bind", "127.0.0.1",
               "--save", "", "--appendonly", "no", "--dir", folder_.c_str(), nullptr);
      ::_exit(127);
    }
    ::usleep(20000);
    int status;
    if (::waitpid(child_, &status, WNOHANG) != child_) return true;
    child_ = -1;
    return false;
  }
  void stop() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
  }
  std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_) + "/test"; }

 private:
  std::string folder_;
  int port_;
  pid_t child_ = -1;
};

class World;

// A host of which only the directory is there.
struct Host final : DirectoryUser {
  Host(World& world, std::uint64_t self) : world(world), self(self) {}
  std::vector<ObjectId> local_objects() override { return {objects.begin(), objects.end()}; }
  void has_holders(const ObjectId& id, std::span<const std::uint64_t> holders) override {
    reported[id].insert(holders.begin(), holders.end());
  }
  void was_deleted(const ObjectId& id) override { deleted.insert(id); }
  void confirmed(std::uint64_t) override {}
  void must_drop(const ObjectId& id, Dropped) override {
    if (objects.erase(id) != 0) directory->withdraw(id);
  }
  void send_to(std::uint64_t member, const PeerMessage& message) override;
  bool give_to(std::uint64_t, const PeerMessage&) override { return false; }
  void learned(const Member& member) override { members[member.generation] = member.address; }
  void put(const ObjectId& id, Announced what = Announced::sealed) {
    objects.insert(id);
    directory->announce(id, what);
  }

  World& world;
  const std::uint64_t self;
  std::unique_ptr<Directory> directory;
  std::set<ObjectId> objects, deleted;
  std::map<ObjectId, std::set<std::uint64_t>> reported;
  std::map<std::uint64_t, std::string> members;
};

class World {
 public:
  explicit World(bool is_redis) : is_redis_(is_redis) {
    if (is_redis) has_started_ = redis.start();
  }
  bool has_started() const { return has_started_; }
  Host& add() {
    const std::uint64_t self = 1000 + ++num_;
    auto host = std::make_unique<Host>(*this, self);
#ifdef WEFT_HAVE_HIREDIS
    if (is_redis_)
      host->directory = std::make_unique<RedisDirectory>(
          *host, self, "address of " + std::to_string(self), redis.url());
#endif
    if (!is_redis_) host->directory = std::make_unique<EmbeddedDirectory>(*host, self);
    host->directory->open();
    Host& added = *host;
    for (auto& [other, one] : hosts) {
      one->directory->joined(self);
      added.directory->joined(other);
    }
    hosts.emplace(self, std::move(host));
    settle();
    return added;
  }
  void kill(Host& host) {
    const std::uint64_t self = host.self;
    hosts.erase(self);
    for (auto& [other, one] : hosts) one->directory->lost(self);
  }
  bool settle_until(const std::function<bool()>& is_so) {
    const std::uint64_t end_ns = monotonic_ns() + 60'000'000'000;
    while (!is_so()) {
      if (monotonic_ns() > end_ns) return false;
      step();
    }
    return true;
  }
  // Until nothing is on its way: all that was said before has been answered.
  void settle() {
    if (!is_redis_) {
      while (!messages.empty()) step();
      return;
    }
    // Redis answers each connection in order, and publishes to its listeners before it answers.
    for (auto& [self, host] : hosts) {
      const ObjectId probe = probe_of(++num_probes_);
      host->directory->announce(probe, Announced::again);
      host->directory->watch(probe);
      Host& last = *hosts.begin()->second;
      last.directory->watch(probe);
      REQUIRE(settle_until([&] {
        if (&last == host.get()) return true;
        if (last.reported[probe].contains(self)) return true;
        // Said again, as what is said before there is a connection is lost.
        host->directory->announce(probe, Announced::again);
        last.directory->watch(probe);
        return false;
      }));
      host->directory->unwatch(probe);
      last.directory->unwatch(probe);
      host->directory->withdraw(probe);
    }
    for (int i = 0; i < 50; ++i) step();
  }
  void step() {
    for (auto& [self, host] : hosts) host->directory->progress(monotonic_ns());
    if (messages.empty()) {
      std::vector<pollfd> descriptors;
      for (auto& [self, host] : hosts) host->directory->await(descriptors);
      ::poll(descriptors.data(), descriptors.size(), 1);
      return;
    }
    const auto [from, to, bytes] = messages.front();
    messages.pop_front();
    const auto host = hosts.find(to);
    PeerMessage message;
    REQUIRE(decode(std::as_bytes(std::span(bytes)), message));
    if (host != hosts.end() && hosts.contains(from))
      host->second->directory->received(from, message);
  }
  static ObjectId probe_of(int number) {
    ObjectId id;
    ObjectId::parse("probe-" + std::to_string(number), id);
    return id;
  }

  RedisServer redis;
  std::map<std::uint64_t, std::unique_ptr<Host>> hosts;
  std::deque<std::tuple<std::uint64_t, std::uint64_t, std::string>> messages;

 private:
  const bool is_redis_;
  bool has_started_ = true;
  std::uint64_t num_ = 0;
  int num_probes_ = 0;
};

void Host::send_to(std::uint64_t member, const PeerMessage& message) {
  world.messages.emplace_back(self, member, encode(message));
}

ObjectId id_of(int number) {
  ObjectId id;
  ObjectId::parse("object-" + std::to_string(number), id);
  return id;
}

}  // namespace

#ifdef WEFT_HAVE_HIREDIS
#define KINDS GENERATE(false, true)
#else
#define KINDS GENERATE(false)
#endif

#define MAKE_WORLD(world)                             \
  const bool is_redis = KINDS;                        \
  World world(is_redis);                              \
  if (!world.has_started()) {                         \
    WARN("skipped: no redis-server on this machine"); \
    return;                                           \
  }                                                   \
  INFO((is_redis ? "in Redis" : "embedded"))

TEST_CASE("a watch reports an object's holders, then and later") {
  MAKE_WORLD(world);
  Host &a = world.add(), &b = world.add(), &c = world.add();
  for (int i = 0; i < 20; ++i) {
    a.put(id_of(i));
    world.settle();
    c.directory->watch(id_of(i));
    REQUIRE(world.settle_until([&] { return c.reported[id_of(i)].contains(a.self); }));
    b.put(id_of(i), Announced::copy);
    REQUIRE(world.settle_until([&] { return c.reported[id_of(i)].contains(b.self); }));
    CHECK_FALSE(c.reported[id_of(i)].contains(c.self));
  }
  // Objects that are no longer watched are no longer reported.
  c.directory->unwatch(id_of(0));
  c.reported.clear();
  world.settle();
  a.put(id_of(0), Announced::again);
  world.settle();
  CHECK(c.reported[id_of(0)].empty());
}

TEST_CASE("an object that is withdrawn, or whose holder died, is not reported as held") {
  MAKE_WORLD(world);
  Host &a = world.add(), &b = world.add(), &c = world.add();
  for (int i = 0; i < 10; ++i) a.put(id_of(i));
  for (int i = 0; i < 10; ++i) b.put(id_of(i), Announced::copy);
  world.settle();
  for (int i = 0; i < 10; ++i) {
    a.objects.erase(id_of(i));
    a.directory->withdraw(id_of(i));
  }
  world.settle();
  for (int i = 0; i < 10; ++i) {
    c.directory->watch(id_of(i));
    REQUIRE(world.settle_until([&] { return c.reported[id_of(i)].contains(b.self); }));
    CHECK_FALSE(c.reported[id_of(i)].contains(a.self));
  }
}

TEST_CASE("the first of two seals of one id wins") {
  MAKE_WORLD(world);
  Host &a = world.add(), &b = world.add();
  for (int i = 0; i < 20; ++i) {
    Host &first = i % 2 == 0 ? a : b, &second = i % 2 == 0 ? b : a;
    first.put(id_of(i));
    world.settle();
    second.put(id_of(i));
    REQUIRE(world.settle_until([&] { return !second.objects.contains(id_of(i)); }));
    CHECK(first.objects.contains(id_of(i)));
  }
  // At once: one of them is left.
  for (int i = 100; i < 120; ++i) {
    a.put(id_of(i));
    b.put(id_of(i));
    REQUIRE(world.settle_until(
        [&] { return a.objects.contains(id_of(i)) != b.objects.contains(id_of(i)); }));
    world.settle();
    CHECK(a.objects.contains(id_of(i)) != b.objects.contains(id_of(i)));
  }
}

// Both go different ways, and the original was then taken for the second of two seals.
TEST_CASE("a copy may be announced before its original, and both are held") {
  MAKE_WORLD(world);
  Host &a = world.add(), &b = world.add(), &c = world.add();
  for (int i = 0; i < 10; ++i) {
    b.put(id_of(i), Announced::copy);
    world.settle();
    a.put(id_of(i));
    world.settle();
    CHECK((a.objects.contains(id_of(i)) && b.objects.contains(id_of(i))));
    c.directory->watch(id_of(i));
    REQUIRE(world.settle_until([&] {
      return c.reported[id_of(i)].contains(a.self) && c.reported[id_of(i)].contains(b.self);
    }));
    // A second original is one still.
    c.put(id_of(i));
    REQUIRE(world.settle_until([&] { return !c.objects.contains(id_of(i)); }));
    CHECK(a.objects.contains(id_of(i)));
  }
}

TEST_CASE("delete reaches all who hold an object or look for it, and copies under way") {
  MAKE_WORLD(world);
  Host &a = world.add(), &b = world.add(), &c = world.add();
  for (int i = 0; i < 20; ++i) {
    const ObjectId id = id_of(i);
    a.put(id);
    world.settle();
    b.put(id, Announced::copy);
    c.directory->watch(id);
    world.settle();
    a.objects.erase(id);
    a.directory->withdraw(id);
    a.directory->erase(id);
    REQUIRE(world.settle_until([&] { return !b.objects.contains(id) && c.deleted.contains(id); }));
    // A copy that was under way is refused.
    c.put(id, Announced::copy);
    REQUIRE(world.settle_until([&] { return !c.objects.contains(id); }));
    // The name may be used anew.
    b.put(id);
    world.settle();
    CHECK(b.objects.contains(id));
    b.objects.erase(id);
    b.directory->withdraw(id);
  }
}

TEST_CASE("members come and go, and what they answered for is known after them") {
  MAKE_WORLD(world);
  Host &a = world.add(), &b = world.add();
  for (int i = 0; i < 30; ++i) (i % 2 == 0 ? a : b).put(id_of(i));
  world.settle();
  Host& c = world.add();
  Host& d = world.add();
  for (int i = 0; i < 30; ++i) c.directory->watch(id_of(i));
  for (int i = 0; i < 30; ++i)
    REQUIRE(world.settle_until(
        [&] { return c.reported[id_of(i)].contains(i % 2 == 0 ? a.self : b.self); }));
  d.directory->watch(id_of(99));
  world.settle();
  world.kill(a);
  world.settle();
  Host& e = world.add();
  for (int i = 1; i < 30; i += 2) e.directory->watch(id_of(i));
  for (int i = 1; i < 30; i += 2)
    REQUIRE(world.settle_until([&] { return e.reported[id_of(i)].contains(b.self); }));
  // A watch from before the death is reported to after it.
  e.put(id_of(99));
  REQUIRE(world.settle_until([&] { return d.reported[id_of(99)].contains(e.self); }));
}

#ifdef WEFT_HAVE_HIREDIS
TEST_CASE("a Redis that dies and comes back with nothing receives everything again") {
  World world(true);
  if (!world.has_started()) {
    WARN("skipped: no redis-server on this machine");
    return;
  }
  Host &a = world.add(), &b = world.add();
  REQUIRE(world.settle_until([&] { return b.members.contains(a.self); }));
  CHECK(b.members[a.self] == "address of " + std::to_string(a.self));
  a.put(id_of(1));
  b.put(id_of(2));
  world.settle();
  world.redis.stop();
  b.directory->watch(id_of(1));
  b.directory->watch(id_of(3));
  a.put(id_of(3));
  b.objects.erase(id_of(2));
  b.directory->erase(id_of(2));
  const auto is_connected = [](Host& host) {
    nlohmann::json json;
    host.directory->status(json);
    return json["directory"]["connected"] == 1;
  };
  REQUIRE(world.settle_until([&] { return !is_connected(a) && !is_connected(b); }));
  REQUIRE(world.redis.start());
  REQUIRE(world.settle_until([&] {
    return b.reported[id_of(1)].contains(a.self) && b.reported[id_of(3)].contains(a.self);
  }));
  CHECK((is_connected(a) && is_connected(b)));
  a.directory->watch(id_of(2));
  world.settle();
  CHECK(a.reported[id_of(2)].empty());
}

TEST_CASE("a name server that is silent keeps nobody waiting but the directory in Redis") {
  World world(true);
  if (!world.has_started()) return;
  auto& names = weft::testing::SlowNames::of_process();
  names.fall_silent();
  Host host(world, 1);
  const std::string url = world.redis.url();
  const std::size_t at = url.find("127.0.0.1");
  host.directory = std::make_unique<RedisDirectory>(
      host, 1, "here", std::string(url).replace(at, 9, "slow.invalid"));
  host.directory->open();
  const auto is_connected = [&] {
    host.directory->progress(monotonic_ns());
    nlohmann::json json;
    host.directory->status(json);
    return json["directory"]["connected"] == 1;
  };
  CHECK_FALSE(is_connected());
  CHECK(names.wait_until_asked());
  CHECK_FALSE(is_connected());
  CHECK(names.is_waited_for());
  names.answer();
  CHECK(world.settle_until(is_connected));
}

TEST_CASE("addresses of a directory in Redis are checked") {
  World world(false);
  Host host(world, 1);
  for (const char* url : {"redis", "redis://", "redis://:1", "redis://host:0", "redis://host:70000",
                          "redis://host:x", "http://host"})
    CHECK_THROWS(RedisDirectory(host, 1, "here", url));
  RedisDirectory(host, 1, "here", "redis://host:1/prefix");
}
#endif
