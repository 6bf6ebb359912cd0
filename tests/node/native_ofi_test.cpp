// Nodes over providers of libfabric that put and get by themselves: without the owner's processor,
// and how long it takes beside target-side emulation.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <thread>
#include <vector>

#include "base/wait.hpp"
#include "tests/support/native_ofi.hpp"
#include "tests/support/process.hpp"
#include "weft/node.hpp"

using namespace weft;
using weft::testing::has_ofi_provider;
using weft::testing::Process;

namespace {

constexpr std::size_t kBytes = 1 << 16;
constexpr std::uint64_t kMs = 1'000'000, kDeadlineNs = 20'000 * kMs;

NodeSettings settings_of(const char* name, const std::string& provider) {
  ::setenv("WEFT_OFI_PROVIDER", provider.c_str(), 1);
  if (weft::testing::is_without_owner(provider))
    ::unsetenv("WEFT_INTERFACE");
  else
    ::setenv("WEFT_INTERFACE", "lo", 1);
  return {.name = name,
          .secret = "secret",
          .timeout_ms = 10'000,
          .fabrics = "ofi",
          .progress_thread = false};
}

// A Node whose memory another may put to and get from.
struct Owner {
  explicit Owner(const std::string& provider) : node(settings_of("owner", provider)) {
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = i;
    REQUIRE(node.register_memory(memory.data(), kBytes).ok());
    REQUIRE(node.key(memory.data(), kAllRights, key).ok());
    REQUIRE(node.address(address).ok());
  }
  std::vector<std::uint64_t> memory = std::vector<std::uint64_t>(kBytes / 8);
  Node node;
  MemoryKey key;
  std::string address;
};

struct User {
  User(const std::string& provider, const std::string& address, const MemoryKey& key)
      : node(settings_of("user", provider)) {
    bool done = false;
    node.connect_async(address, [&](Status status, Peer found) {
      INFO(status.text());
      CHECK(status.ok());
      peer = found;
      done = true;
    });
    poll([&] { return done; });
    REQUIRE(done);
    REQUIRE(peer);
    remote = node.memory(peer, key);
  }
  template <class F>
  void poll(F&& until, std::uint64_t ns = kDeadlineNs) {
    for (const std::uint64_t limit = now_ns() + ns; !until() && now_ns() < limit;) node.progress();
  }
  Code wait(const Operation& operation, std::uint64_t ns = kDeadlineNs) {
    poll([&] { return operation.is_done(); }, ns);
    return operation.is_done() ? operation.code() : Code::timed_out;
  }
  Peer peer;
  Node node;
  PeerMemory remote;
};

}  // namespace

TEST_CASE("a Node in a process of its own", "[.]") {
  const char* provider = std::getenv("OFI_OWNER_OF_TEST");
  REQUIRE(provider != nullptr);
  Owner owner(provider);
  std::printf("owner: %s ", owner.address.c_str());
  for (const unsigned byte : owner.key.bytes) std::printf("%02x", byte);
  std::printf("\n");
  std::fflush(stdout);
  for (const std::uint64_t limit = now_ns() + 120'000 * kMs; now_ns() < limit && ::getppid() != 1;)
    owner.node.progress();
}

// The other providers that a machine without devices has do it by messages: there it waits.
TEST_CASE(
    "a Node puts to one that is stopped, and reads from it, where memory or a device does it") {
  weft::ofi::force_one_sided(true);
  for (const std::string& provider : weft::testing::kNativeProviders) {
    if (!has_ofi_provider(provider)) {
      std::cout << "skipped: libfabric has no " << provider << '\n';
      continue;
    }
    INFO("by " << provider);
    Process other({"/proc/self/exe", "a Node in a process of its own"},
                  {{"OFI_OWNER_OF_TEST", provider}, {"OFI_NATIVE_IN_TEST", "1"}});
    const std::string text = weft::testing::line_of(other, "owner: ");
    const std::string hex = text.substr(text.rfind(' ') + 1);
    MemoryKey key;
    REQUIRE(hex.size() == 2 * key.bytes.size());
    for (std::size_t i = 0; i < key.bytes.size(); ++i)
      key.bytes[i] = static_cast<std::uint8_t>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
    User user(provider, text.substr(0, text.rfind(' ')), key);
    std::vector<std::uint64_t> words(kBytes / 8, 5), copy(words.size());
    Operation first, put, get;
    user.node.get(user.remote, 0, copy.data(), kBytes, first);
    REQUIRE(user.wait(first) == Code::ok);
    CHECK(copy[100] == 100);

    other.signal(SIGSTOP);
    int status = 0;
    REQUIRE(::waitpid(other.pid(), &status, WUNTRACED) == other.pid());
    const bool without = weft::testing::is_without_owner(provider);
    user.node.put(user.remote, 0, words.data(), kBytes, put);
    user.node.get(user.remote, 0, copy.data(), kBytes, get);
    const std::uint64_t ns = without ? kDeadlineNs : 200 * kMs;
    CHECK(user.wait(put, ns) == (without ? Code::ok : Code::timed_out));
    CHECK(user.wait(get, ns) == (without ? Code::ok : Code::timed_out));
    if (without) CHECK(copy == words);
    other.signal(SIGCONT);
    CHECK(user.wait(put) == Code::ok);
    CHECK(user.wait(get) == Code::ok);
    weft::testing::end_owner(other);
  }
  weft::ofi::force_one_sided(weft::testing::kAllAreNative);
}

// By hand: alternating rounds, each side polling on a core of its own.
TEST_CASE("8 bytes put and 64 KiB read, by the provider and by the owner", "[.measure]") {
  constexpr int kRounds = 7, kPuts = 3000, kGets = 1000;
  for (const std::string& provider : weft::testing::kNativeProviders) {
    if (!has_ofi_provider(provider)) continue;
    struct Side {
      explicit Side(const std::string& provider, bool is_native) {
        weft::ofi::force_one_sided(is_native);
        owner = std::make_unique<Owner>(provider);
        std::atomic<bool> is_there{false};
        std::thread polls([&] {
          while (!is_there) owner->node.progress();
        });
        user = std::make_unique<User>(provider, owner->address, owner->key);
        is_there = true;
        polls.join();
        weft::ofi::force_one_sided(false);
      }
      // Microseconds of one, the median of all.
      double measure(bool puts, int count) {
        std::atomic<bool> stop{false};
        std::thread polls([&] {
          while (!stop) owner->node.progress();
        });
        std::vector<double> all;
        for (int i = 0; i < count; ++i) {
          Operation operation;
          const std::uint64_t began = now_ns();
          if (puts)
            user->node.put(user->remote, 64, here.data(), 8, operation);
          else
            user->node.get(user->remote, 0, here.data(), kBytes, operation);
          CHECK(user->wait(operation) == Code::ok);
          all.push_back(static_cast<double>(now_ns() - began) / 1000);
        }
        stop = true;
        polls.join();
        std::ranges::sort(all);
        return all[all.size() / 2];
      }
      std::vector<std::byte> here = std::vector<std::byte>(kBytes);
      std::unique_ptr<Owner> owner;
      std::unique_ptr<User> user;
    };
    // They are kept: libfabric's shm writes to an endpoint of this process that has ended.
    Side &native = *new Side(provider, true), &emulated = *new Side(provider, false);
    std::vector<double> times[4];
    for (int round = 0; round <= kRounds; ++round)
      for (int what = 0; what < 4; ++what) {
        const double us =
            (what % 2 == 0 ? native : emulated).measure(what < 2, what < 2 ? kPuts : kGets);
        if (round > 0) times[what].push_back(us);
      }
    for (auto& some : times) std::ranges::sort(some);
    for (int what = 0; what < 4; what += 2)
      std::printf(
          "%s: %s: by the provider %.2f us (%.2f to %.2f), by the owner %.2f us (%.2f to "
          "%.2f)\n",
          provider.c_str(), what == 0 ? "8 B put" : "64 KiB get", times[what][kRounds / 2],
          times[what].front(), times[what].back(), times[what + 1][kRounds / 2],
          times[what + 1].front(), times[what + 1].back());
  }
}
