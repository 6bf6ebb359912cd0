// What Weft makes of devices unlike the one there is: its choices, and what it says of them. Each
// case needs a device (tests/softroce/run has one) and is skipped without.
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <numeric>

#include "fabric/registry.hpp"
#include "fabric/verbs/device.hpp"
#include "fabric/verbs/endpoint.hpp"
#include "tests/devices/device.hpp"
#include "tests/fabric/conformance.hpp"

using namespace weft;
using namespace weft::fabric;
using namespace weft::fabric::testing;
using devices::Described;

namespace {

Settings settings_of(const std::string& device = {}) {
  Settings settings;
  REQUIRE(settings.set("PEER_TIMEOUT_MS", "20000").ok());  // a guest may be slow
  if (!device.empty()) REQUIRE(settings.set("DEVICE", device).ok());
  return settings;
}

Status open_endpoint(std::unique_ptr<Endpoint>& endpoint, const std::string& device = {}) {
  return fabric::verbs::make_endpoint(settings_of(device), endpoint);
}

std::unique_ptr<Endpoint> made() {
  std::unique_ptr<Endpoint> endpoint;
  const Status status = open_endpoint(endpoint);
  INFO(status.text());
  REQUIRE(status.ok());
  return endpoint;
}
const FabricRow kVerbs{"verbs", made};

// The first endpoint of a pair is of one device, the second of another.
FabricRow row_of(const char* first, const char* second) {
  return {"verbs", [=, number = 0]() mutable {
            const Described described(number++ % 2 == 0 ? first : second);
            return made();
          }};
}

bool has_device() {
  static const bool has = [] {
    std::unique_ptr<Endpoint> endpoint;
    const Status status = open_endpoint(endpoint);
    if (!status) WARN("skipped: " << status.text());
    return status.ok();
  }();
  return has;
}

constexpr std::size_t kWords = 32768;

struct Memory {
  explicit Memory(Side& owner, std::uint32_t rights = kRead | kWrite) : owner_(owner) {
    std::iota(words.begin(), words.end(), 1);
    const Status status =
        owner.endpoint->register_memory(words.data(), words.size() * 8, rights, registration);
    INFO(status.text());
    REQUIRE(status.ok());
  }
  ~Memory() { owner_.endpoint->deregister(registration); }
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(kWords);
  Registration registration;

 private:
  Side& owner_;
};

// Bytes move by a put, a get and messages of all sizes, from this side of the link to the other.
void move(Pair& pair, Side& from, Link* link, Memory& memory) {
  std::vector<std::uint64_t> source(kWords), copy(kWords);
  std::iota(source.begin(), source.end(), 1000);
  Waiting put, get;
  REQUIRE(from.endpoint->put(*link, source.data(), kWords * 8, memory.registration.key, 0, put) ==
          Code::ok);
  CHECK(pair.wait(put) == Code::ok);
  Code code;
  while ((code = from.endpoint->get(*link, copy.data(), kWords * 8, memory.registration.key, 0,
                                    get)) == Code::again)
    REQUIRE(pair.poll_until([] { return true; }));
  REQUIRE(code == Code::ok);
  CHECK(pair.wait(get) == Code::ok);
  CHECK(copy == source);
  Side& to = &from == &pair.a ? pair.b : pair.a;
  const std::size_t before = to.messages.size();
  std::size_t sent = 0;
  REQUIRE(pair.poll_until([&] {
    const std::string text(1 + sent * 35 % 4000, 'm');
    if (sent < 200 && from.endpoint->message(*link, bytes_of(text), {}) == Code::ok) ++sent;
    return to.messages.size() == before + 200;
  }));
  for (std::size_t i = 0; i < 200; ++i) CHECK(to.messages[before + i].size() == 1 + i * 35 % 4000);
}

void move_both_ways(const FabricRow& row) {
  Pair pair(row);
  Memory here(pair.a), there(pair.b);
  const auto [link, back] = pair.connect();
  move(pair, pair.a, link, there);
  move(pair, pair.b, back, here);
  CHECK(pair.a.downs == 0);
  CHECK(pair.b.downs == 0);
}
void move_both_ways(const char* description) {
  const Described described(description);
  move_both_ways(kVerbs);
}

void move_over_links(const char* description, int num_links) {
  const Described described(description);
  Pair pair(kVerbs);
  Memory memory(pair.b);
  for (int i = 0; i < num_links; ++i) move(pair, pair.a, pair.connect().first, memory);
}

std::string why_unusable() {
  std::vector<weft::verbs::Port> ports;
  const Status status = weft::verbs::find_ports(ports);
  return status ? ports.front().why_unusable : status.text();
}
weft::verbs::Port first_port() {
  std::vector<weft::verbs::Port> ports;
  REQUIRE(weft::verbs::find_ports(ports).ok());
  return ports.front();
}

// What `f` writes to standard error.
template <class F>
std::string told_by(F&& f) {
  std::FILE* file = std::tmpfile();
  const int before = ::dup(2);
  REQUIRE(::dup2(fileno(file), 2) == 2);
  f();
  REQUIRE(::dup2(before, 2) == 2);
  ::close(before);
  std::string text(static_cast<std::size_t>(std::ftell(file) + 100000), '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

}  // namespace

// In a process of its own: librdmacm asks a device for its limits once.
TEST_CASE("a device that answers many reads and asks for one at a time", "[.reads]") {
  const Described described("max_qp_rd_atom 16\nmax_qp_init_rd_atom 1\n");
  if (has_device()) move_both_ways(kVerbs);
}
TEST_CASE("a device that answers and asks for one read at a time") {
  if (has_device()) move_both_ways("max_qp_rd_atom 1\nmax_qp_init_rd_atom 1\n");
}

TEST_CASE("the path MTU is the smaller one of both ends, whoever asks") {
  if (!has_device()) return;
  move_both_ways(row_of("active_mtu 4096\n", "active_mtu 1024\n"));
  move_both_ways(row_of("active_mtu 512\n", "active_mtu 4096\n"));
}

TEST_CASE("a port that takes less than its device could") {
  if (!has_device()) return;
  move_both_ways("max_mtu 4096\nactive_mtu 256\n");
}

TEST_CASE("a device without atomics registers memory for them, and its owner does them") {
  if (!has_device()) return;
  const Described described("atomic_cap none\n");
  Pair pair(kVerbs);
  CHECK_FALSE(pair.a.endpoint->limits().atomics);
  Memory memory(pair.b, kRead | kWrite | kAtomic);
  move(pair, pair.a, pair.connect().first, memory);
}

TEST_CASE("devices without inline data, by a refusal or by giving none") {
  if (!has_device()) return;
  move_both_ways("max_inline_data 0\n");
  move_both_ways("max_inline_data 0\ncuts_inline\n");
  move_both_ways("max_inline_data 60\ncuts_inline\n");
}

TEST_CASE("one piece in each request, and few requests in a queue") {
  if (!has_device()) return;
  move_both_ways("max_sge 1\n");
  move_both_ways("max_qp_wr 16\n");
}

TEST_CASE("a device whose reads all queue pairs share") {
  if (has_device())
    move_over_links("max_qp_rd_atom 16\nmax_qp_init_rd_atom 16\nmax_res_rd_atom 16\n", 6);
}

TEST_CASE("many links where completion queues cannot grow") {
  if (has_device()) move_over_links("fails ibv_resize_cq EOPNOTSUPP\n", 30);
}

TEST_CASE("queue pairs with receives of their own, where none can be shared") {
  if (!has_device()) return;
  const Described described("max_srq 0\n");
  Pair pair(kVerbs);
  Memory here(pair.a), there(pair.b);
  for (int round = 0; round < 6; ++round) {
    std::vector<std::pair<Link*, Link*>> links;
    for (int i = 0; i < 4; ++i) links.push_back(pair.connect());
    for (const auto& [link, back] : links) {
      move(pair, pair.a, link, there);
      move(pair, pair.b, back, here);
    }
    const int downs = pair.b.downs;
    // One side closes them while messages are under way.
    for (const auto& [link, back] : links) {
      (void)pair.a.endpoint->message(*link, bytes_of("last"), {});
      (void)pair.b.endpoint->message(*back, bytes_of("last"), {});
      pair.a.close(link);
    }
    REQUIRE(pair.poll_until([&] { return pair.b.downs == downs + 4; }));
    for (const auto& [link, back] : links) pair.b.close(back);
  }
}

TEST_CASE("a device with few queue pairs says so, and its links live") {
  if (!has_device()) return;
  const Described described("max_qp 9\n");
  Pair pair(kVerbs);
  Memory memory(pair.b);
  std::vector<Link*> links;
  const std::string address = pair.b.endpoint->address();
  const auto open = [&] {
    Link* link = nullptr;
    REQUIRE(pair.a.endpoint->open(bytes_of(address), {}, link).ok());
    pair.a.links.push_back(link);
    const int ups = pair.a.ups, downs = pair.a.downs;
    REQUIRE(pair.poll_until([&] { return pair.a.ups > ups || pair.a.downs > downs; }));
    if (pair.a.downs > downs) return static_cast<Link*>(nullptr);
    return link;
  };
  const std::string told = told_by([&] {
    for (Link* link = open(); link != nullptr; link = open()) links.push_back(link);
  });
  CHECK(links.size() == 4);
  // The asker had the last one.
  CHECK(pair.b.last_why == Code::no_memory);
  CHECK(pair.a.last_why == Code::again);
  CHECK(told.find("gives no queue pair") != std::string::npos);
  CHECK(told.find("of 9 that the device has") != std::string::npos);
  for (Link* link : links) move(pair, pair.a, link, memory);
  const std::string way = pair.a.endpoint->way_to(bytes_of(address)) +
                          pair.b.endpoint->way_to(bytes_of(pair.a.endpoint->address()));
  CHECK(way.find("gives no queue pair") != std::string::npos);
  CHECK(way.find("WEFT_DEVICE chooses another port") != std::string::npos);
  const int downs = pair.b.downs;
  pair.a.close(links.back());
  REQUIRE(pair.poll_until([&] { return pair.b.downs > downs; }));
  pair.b.close(pair.b.last_down);
  Link* const again = open();
  REQUIRE(again != nullptr);
  move(pair, pair.a, again, memory);
}

TEST_CASE("memory that cannot be registered: the error says what to do") {
  if (!has_device()) return;
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const Described described("max_mr_size 0x1000000\n");
  Side side(kVerbs);
  std::vector<std::byte> much(32 << 20);
  const auto text_of = [&](std::size_t bytes) {
    Registration registration;
    const Status status = side.endpoint->register_memory(much.data(), bytes, kRead, registration);
    CHECK(status.code() == Code::no_memory);
    return status.text();
  };
  CHECK(text_of(much.size()).find("takes 16777216 bytes at once") != std::string::npos);
  for (const int error : {ENOMEM, EAGAIN}) {
    described->fail("ibv_reg_mr", error, 0, -1);
    const std::string text = text_of(65536);
    CHECK(text.find(limit.rlim_cur == RLIM_INFINITY ? "WEFT_VERBS_CACHE_BYTES" : "ulimit -l") !=
          std::string::npos);
  }
}

TEST_CASE("a named device that is not there is an error, whatever else could be used") {
  if (!has_device()) return;
  const Described described("name mlx5_0\nphys_port_cnt 2\n");
  const auto open = [](const char* device) {
    std::vector<std::unique_ptr<Endpoint>> endpoints;
    return fabric::make_endpoints("shm,verbs", settings_of(device), endpoints);
  };
  CHECK(open("mlx5_0").ok());
  CHECK(open("mlx5_0:1").ok());
  CHECK(open("mlx5_9,mlx5_0").ok());
  for (const char* wrong : {"mlx5_9", "mlx5_0:2", "mlx5_0:3", "mlx5_0:x"}) {
    const Status status = open(wrong);
    INFO(status.text());
    CHECK(status.code() == Code::bad_setting);
    CHECK(status.text().find(wrong) != std::string::npos);
  }
  CHECK(open("mlx5_0:2").text().find("the port is down") != std::string::npos);
}

TEST_CASE("a device that is there and not used: one line says why") {
  if (!has_device()) return;
  const Described described("link_layer infiniband\nport_state init\n");
  const std::string told = told_by([] {
    for (int i = 0; i < 2; ++i) {
      std::vector<std::unique_ptr<Endpoint>> endpoints;
      CHECK(fabric::make_endpoints("shm,verbs", settings_of(), endpoints).ok());
    }
  });
  const std::size_t at = told.find("verbs is here and not used: ");
  CHECK(at != std::string::npos);
  CHECK(told.find("subnet manager") != std::string::npos);
  CHECK(told.find("is here and not used", at + 20) == std::string::npos);
}

TEST_CASE("a port that a subnet manager comes to later") {
  if (!has_device()) return;
  const Described described("link_layer infiniband\nport_state init 300 active\n");
  CHECK(why_unusable().find("subnet manager") != std::string::npos);
  const std::uint64_t limit = now_ns() + kDeadlineNs;
  while (!why_unusable().empty()) REQUIRE(now_ns() < limit);
  move_both_ways(kVerbs);
}

TEST_CASE("the GID by which the kernel connects, of a table with all kinds") {
  if (!has_device()) return;
  const std::string address = first_port().address;
  for (const char* gids :
       {"gids v1:link_local v2:link_local v1:ipv4 v2:ipv4\n",
        "gids v2:169.254.3.4 v2:192.0.2.7 v2:link_local v2:ipv4 v1:ipv4\n",  // of interfaces
                                                                             // elsewhere
        "gids v2:600 v2:ipv4\n"}) {
    INFO(gids);
    const Described described(gids);
    const weft::verbs::Port port = first_port();
    CHECK(port.why_unusable == "");
    CHECK(port.address == address);
    move_both_ways(kVerbs);
  }
  const Described v1("gids v1:link_local v1:ipv4\n");
  CHECK(why_unusable().find("speaks RoCE v1 only") != std::string::npos);
  const Described elsewhere("gids v2:192.0.2.7\n");
  CHECK(why_unusable().find("192.0.2.7") != std::string::npos);
}

TEST_CASE("an InfiniBand port is reached by the IP address over it") {
  if (!has_device()) return;
  const std::string address = first_port().address;
  const Described described("link_layer infiniband\ngids ib:fe80::2:c903:1:2\n");
  CHECK(first_port().address == address);
  move_both_ways(kVerbs);
}

TEST_CASE("completions of several queues come in any order") {
  if (!has_device()) return;
  const Described described("reorders\n");
  Pair pair(kVerbs);
  Memory here(pair.a), there(pair.b);
  std::vector<std::pair<Link*, Link*>> links;
  for (int i = 0; i < 4; ++i) links.push_back(pair.connect());
  for (const auto& [link, back] : links) {
    move(pair, pair.a, link, there);
    move(pair, pair.b, back, here);
  }
}

TEST_CASE("a request that fails in the device ends its link, and no other") {
  if (!has_device()) return;
  const Described described("completion 6 RETRY_EXC_ERR\n");
  Pair pair(kVerbs);
  Memory memory(pair.b);
  Link* const failing = pair.connect().first;
  Link* const other = pair.connect().first;
  std::vector<std::uint64_t> copy(kWords);
  Code code = Code::ok;
  for (int i = 0; i < 7 && code == Code::ok; ++i) {
    Waiting get;
    REQUIRE(pair.a.endpoint->get(*failing, copy.data(), 4096, memory.registration.key, 0, get) ==
            Code::ok);
    code = pair.wait(get);
  }
  CHECK(code == Code::peer_lost);
  REQUIRE(pair.poll_until([&] { return pair.a.downs == 1 && pair.b.downs == 1; }));
  CHECK(pair.a.last_down == failing);
  move(pair, pair.a, other, memory);
}

TEST_CASE("a device that disappears ends its links, and takes no processor after that") {
  if (!has_device()) return;
  const Described described("");
  Pair pair(kVerbs);
  Memory memory(pair.b);
  std::vector<std::uint64_t> copy(kWords);
  Link* const link = pair.connect().first;
  pair.connect();
  Waiting get;
  REQUIRE(pair.a.endpoint->get(*link, copy.data(), kWords * 8, memory.registration.key, 0, get) ==
          Code::ok);
  described->vanish();
  REQUIRE(pair.poll_until([&] { return pair.a.downs == 2 && pair.b.downs == 2; }));
  CHECK(get.times == 1);
  CHECK(get.code != Code::ok);
  Link* another = nullptr;
  const Status status = pair.a.endpoint->open(bytes_of(pair.b.endpoint->address()), {}, another);
  CHECK_FALSE(status.ok());
  CHECK(status.text().find("was removed") != std::string::npos);
  // What is left of the links' end.
  for (const std::uint64_t end = now_ns() + 300'000'000; now_ns() < end;)
    pair.a.endpoint->poll(pair.a);
  CHECK(pair.a.endpoint->arm());
  pollfd ready{pair.a.endpoint->wait_fd(), POLLIN, 0};
  CHECK(::poll(&ready, 1, 100) == 0);
}

TEST_CASE("calls of the device that take long hold up links, and end none") {
  if (!has_device()) return;
  move_both_ways("takes_ms ibv_modify_qp 60\ntakes_ms ibv_create_qp 120\ntakes_ms ibv_reg_mr 40\n");
}
