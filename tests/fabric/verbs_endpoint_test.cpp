// The endpoint over verbs with a device that fails, and without what it needs; skipped without a
// device (tests/softroce/run has one).
#include "fabric/verbs/endpoint.hpp"

#include <dirent.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "tests/devices/device.hpp"
#include "tests/fabric/conformance.hpp"
#include "tests/support/named_device.hpp"

using namespace weft;
using namespace weft::fabric;
using namespace weft::fabric::testing;

namespace {

// The device of all endpoints here: the real one, until it is told to fail.
devices::Device& device() {
  static const devices::Described made("");
  return *made.operator->();
}

Status make(std::unique_ptr<Endpoint>& endpoint) {
  (void)device();
  Settings settings;
  REQUIRE(settings.set("PEER_TIMEOUT_MS", "4000").ok());
  REQUIRE(settings.set("DEVICE", weft::testing::named_device()).ok());
  return fabric::verbs::make_endpoint(settings, endpoint);
}
const FabricRow kVerbs{"verbs", [] {
                         std::unique_ptr<Endpoint> endpoint;
                         Status status = make(endpoint);
                         INFO(status.text());
                         REQUIRE(status.ok());
                         return endpoint;
                       }};

bool has_device() {
  std::unique_ptr<Endpoint> endpoint;
  Status status = make(endpoint);
  if (!status) WARN("skipped: " << status.text());
  return status.ok();
}

int num_descriptors() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

struct Memory {
  explicit Memory(Side& owner, std::uint32_t rights = kRead | kWrite) : owner_(owner) {
    REQUIRE(
        owner.endpoint->register_memory(words.data(), words.size() * 8, rights, registration).ok());
  }
  ~Memory() { owner_.endpoint->deregister(registration); }
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(4096);
  Registration registration;

 private:
  Side& owner_;
};

}  // namespace

TEST_CASE("a post that the device refuses ends its link, and no other") {
  if (!has_device()) return;
  Pair pair(kVerbs);
  Memory memory(pair.b);
  std::vector<std::uint64_t> copy(4096);
  const auto [here, there] = pair.connect();
  const auto [other, other_there] = pair.connect();
  Waiting first, second, third;
  Endpoint& a = *pair.a.endpoint;
  REQUIRE(a.get(*here, copy.data(), 32768, memory.registration.key, 0, first) == Code::ok);
  device().fail("ibv_post_send", ENOMEM);
  CHECK(a.get(*here, copy.data(), 32768, memory.registration.key, 0, second) == Code::peer_lost);
  device().stop_failing("ibv_post_send");
  CHECK(a.message(*here, bytes_of("x"), {}) == Code::peer_lost);
  REQUIRE(pair.poll_until([&] { return pair.a.downs == 1 && pair.b.downs == 1; }));
  CHECK(pair.a.last_down == here);
  CHECK(first.times == 1);
  CHECK(second.times == 0);
  REQUIRE(a.get(*other, copy.data(), 32768, memory.registration.key, 0, third) == Code::ok);
  CHECK(pair.wait(third) == Code::ok);
}

TEST_CASE("a completion queue that fails ends all links, and new ones are made") {
  if (!has_device()) return;
  Pair pair(kVerbs);
  pair.connect();
  pair.connect();
  device().raise(IBV_EVENT_CQ_ERR);
  REQUIRE(pair.poll_until([&] { return pair.a.downs == 2 && pair.b.downs == 2; }));
  Link* here = pair.connect().first;
  REQUIRE(pair.a.endpoint->message(*here, bytes_of("again"), {}) == Code::ok);
  CHECK(pair.poll_until([&] { return pair.b.messages.size() == 1; }));
}

TEST_CASE("a confirmation that is lost does not hold up the peer's messages for ever") {
  if (!has_device()) return;
  Pair pair(kVerbs);
  device().lose_confirms(true);
  Link* here = nullptr;
  REQUIRE(pair.a.endpoint->open(bytes_of(pair.b.endpoint->address()), {}, here).ok());
  pair.a.links.push_back(here);
  REQUIRE(pair.poll_until([&] { return pair.a.ups == 1; }));
  REQUIRE(pair.a.endpoint->message(*here, bytes_of("I am here"), {}) == Code::ok);
  REQUIRE(pair.poll_until([&] { return pair.b.messages.size() == 1; }));
  device().lose_confirms(false);
  REQUIRE(pair.b.endpoint->message(*pair.b.links.back(), bytes_of("so am I"), {}) == Code::ok);
  CHECK(pair.poll_until([&] { return pair.a.messages.size() == 1; }));
}

TEST_CASE("what the asking side says first may lie unread until it says more") {
  if (!has_device()) return;
  Pair pair(kVerbs);
  if (pair.a.endpoint->kind() != "verbs/iWARP") return;  // elsewhere the connection tells of itself
  for (const int count : {1, 2}) {
    device().hold_posts(count);
    const auto [here, there] = pair.connect();
    device().hold_posts(0);
    pair.b.messages.clear();
    REQUIRE(pair.a.endpoint->message(*here, bytes_of("and this"), {}) == Code::ok);
    REQUIRE(pair.poll_until([&] { return pair.b.messages.size() == 1; }));
    REQUIRE(pair.b.endpoint->message(*there, bytes_of("yes"), {}) == Code::ok);
    REQUIRE(pair.poll_until([&] { return !pair.a.messages.empty(); }));
    pair.a.messages.clear();
  }
}

TEST_CASE("links beyond what the completion queue holds are refused, and the others live") {
  if (!has_device()) return;
  const devices::Described few("max_cqe 1200\nfirst_cqe 600\n");
  {
    Pair pair(kVerbs);
    std::vector<Link*> links;
    for (int i = 0; i < 40; ++i) {
      Link* here = nullptr;
      REQUIRE(pair.a.endpoint->open(bytes_of(pair.b.endpoint->address()), {}, here).ok());
      pair.a.links.push_back(here);
      const int ups = pair.a.ups, downs = pair.a.downs;
      REQUIRE(pair.poll_until([&] { return pair.a.ups > ups || pair.a.downs > downs; }));
      if (pair.a.ups > ups) links.push_back(here);
    }
    CHECK(pair.a.downs > 0);
    CHECK(links.size() >= 4);  // the queue may not grow (siw)
    for (Link* link : links)
      REQUIRE(pair.a.endpoint->message(*link, bytes_of("hello"), {}) == Code::ok);
    CHECK(pair.poll_until([&] { return pair.b.messages.size() == links.size(); }));
  }
}

TEST_CASE("a request longer than the device takes at once arrives whole") {
  if (!has_device()) return;
  Pair pair(kVerbs);
  constexpr std::size_t kWords = (20 << 20) / 8;
  std::vector<std::uint64_t> memory(kWords), source(kWords), copy(kWords);
  for (std::size_t i = 0; i < kWords; ++i) source[i] = i * 5 + 3;
  Registration registration;
  REQUIRE(pair.b.endpoint->register_memory(memory.data(), kWords * 8, kRead | kWrite, registration)
              .ok());
  Link* here = pair.connect().first;
  Waiting put, get, ended;
  bool is_whole = false;
  pair.b.at_message = [&] { is_whole = memory == source; };
  REQUIRE(pair.a.endpoint->put(*here, source.data(), kWords * 8, registration.key, 0, put) ==
          Code::ok);
  Code code;
  while ((code = pair.a.endpoint->message(*here, bytes_of("done"), {})) == Code::again) {
    pair.a.endpoint->poll(pair.a);
    pair.b.endpoint->poll(pair.b);
  }
  REQUIRE(pair.poll_until([&] { return pair.b.messages.size() == 1; }));
  CHECK(is_whole);
  CHECK(pair.wait(put) == Code::ok);
  REQUIRE(pair.a.endpoint->get(*here, copy.data(), kWords * 8, registration.key, 0, get) ==
          Code::ok);
  CHECK(pair.wait(get) == Code::ok);
  CHECK(copy == source);
  // One whose later parts are still to be posted ends once.
  REQUIRE(pair.a.endpoint->get(*here, copy.data(), kWords * 8, registration.key, 0, ended) ==
          Code::ok);
  pair.a.close(here);
  CHECK(ended.times == 1);
  pair.b.endpoint->deregister(registration);
}

TEST_CASE("without descriptors, or locked memory, an endpoint says what is missing") {
  if (!has_device()) return;
  const int before = num_descriptors();
  rlimit files{}, memory{};
  getrlimit(RLIMIT_NOFILE, &files);
  int made = 0;
  for (rlim_t more = 0; more < 24; ++more) {
    const rlimit few{static_cast<rlim_t>(before) + more - 2, files.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
    std::unique_ptr<Endpoint> endpoint;
    Status status = make(endpoint);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &files) == 0);
    made += status.ok();
    if (!status) CHECK(status.text().size() > 10);
  }
  CHECK(made > 0);
  CHECK(made < 24);
  CHECK(num_descriptors() == before);

  // Root may lock more than the limit by a capability, which is put aside for the moment.
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> all{}, without{};
  REQUIRE(syscall(SYS_capget, &header, all.data()) == 0);
  without = all;
  without[0].effective &= ~(1u << CAP_IPC_LOCK);
  getrlimit(RLIMIT_MEMLOCK, &memory);
  REQUIRE(syscall(SYS_capset, &header, without.data()) == 0);
  const rlimit small{128 << 10, memory.rlim_max};
  REQUIRE(setrlimit(RLIMIT_MEMLOCK, &small) == 0);
  {
    Side side(kVerbs);
    std::vector<std::byte> much(1 << 20);
    Registration registration;
    const Status status =
        side.endpoint->register_memory(much.data(), much.size(), kRead, registration);
    CHECK(status.code() == Code::no_memory);
    CHECK(status.text().find("ulimit -l") != std::string::npos);
  }
  REQUIRE(syscall(SYS_capset, &header, all.data()) == 0);
  REQUIRE(setrlimit(RLIMIT_MEMLOCK, &memory) == 0);
  CHECK(num_descriptors() == before);
}
