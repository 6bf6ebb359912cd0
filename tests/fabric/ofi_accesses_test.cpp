// Puts, gets and atomics by libfabric's providers: when links end under them, and whose processor
// they need.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iostream>

#include "base/log.hpp"
#include "tests/fabric/conformance.hpp"
#include "tests/support/native_ofi.hpp"
#include "tests/support/process.hpp"

using namespace weft;
using namespace weft::fabric;
using namespace weft::fabric::testing;
using weft::testing::has_ofi_provider;
using weft::testing::make_ofi;
using weft::testing::Process;

namespace {

FabricRow row_of(const std::string& provider) {
  return {provider, [provider] { return make_ofi(provider, true); }};
}

template <class F>
void over_each(F&& body) {
  for (const std::string& provider : weft::testing::kNativeProviders) {
    if (!has_ofi_provider(provider)) {
      std::cout << "skipped: libfabric has no " << provider << '\n';
      continue;
    }
    INFO("by " << provider);
    body(provider);
  }
}

template <class F>
void poll_for(Side& side, std::uint64_t ns, F&& until) {
  for (const std::uint64_t limit = now_ns() + ns; now_ns() < limit && !until();)
    side.endpoint->poll(side);
}
void poll_for(Side& side, std::uint64_t ns) {
  poll_for(side, ns, [] { return false; });
}

// Memory of b that a may do all with, and a link whose puts are connected.
struct Owned {
  explicit Owned(Pair& pair, std::size_t bytes = 1 << 17)
      : pair(pair), memory(bytes), link(pair.connect().first) {
    REQUIRE(
        pair.b.endpoint
            ->register_memory(memory.data(), memory.size(), kRead | kWrite | kAtomic, registration)
            .ok());
    std::byte zero{};
    Waiting first;
    REQUIRE(pair.post([&] { return put(*link, &zero, 1, 0, first); }) == Code::ok);
    REQUIRE(pair.wait(first) == Code::ok);
  }
  ~Owned() { pair.b.endpoint->deregister(registration); }
  Code put(Link& over, const void* from, std::size_t bytes, std::uint64_t offset,
           WorkRequest& request) {
    return pair.a.endpoint->put(over, from, bytes, registration.key, offset, request);
  }
  Code get(Link& over, void* to, std::size_t bytes, std::uint64_t offset, WorkRequest& request) {
    return pair.a.endpoint->get(over, to, bytes, registration.key, offset, request);
  }

  Pair& pair;
  std::vector<std::byte> memory;
  Link* link;
  Registration registration;
};

// An endpoint in a process of its own, which reads, writes and waits for nothing but it.
struct OtherProcess {
  explicit OtherProcess(const std::string& provider)
      : process({"/proc/self/exe", "an owner in a process of its own"},
                {{"OFI_OWNER_OF_TEST", provider}}) {
    const std::string text = weft::testing::line_of(process, "owner: ");
    address = bytes_of_hex(text.substr(0, text.find(' ')));
    const std::string bytes = bytes_of_hex(text.substr(text.find(' ') + 1));
    REQUIRE(bytes.size() == sizeof key);
    std::memcpy(&key, bytes.data(), sizeof key);
  }
  ~OtherProcess() { weft::testing::end_owner(process); }
  static std::string bytes_of_hex(const std::string& text) {
    std::string bytes;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2)
      bytes.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
    return bytes;
  }
  Link* open(Side& side) {
    Link* link = nullptr;
    REQUIRE(side.endpoint->open(bytes_of(address), bytes_of("hello"), link).ok());
    side.links.push_back(link);
    return link;
  }
  void stop() {
    process.signal(SIGSTOP);
    int status = 0;
    REQUIRE(::waitpid(process.pid(), &status, WUNTRACED) == process.pid());
    REQUIRE(WIFSTOPPED(status));
  }

  Process process;
  std::string address;
  Key key{};
};

constexpr std::size_t kOwnedBytes = 1 << 16;
constexpr std::uint64_t kMs = 1'000'000;

}  // namespace

TEST_CASE("an owner in a process of its own", "[.]") {
  const char* provider = std::getenv("OFI_OWNER_OF_TEST");
  REQUIRE(provider != nullptr);
  Side side({"", [&] { return make_ofi(provider, true); }});
  std::vector<std::uint64_t> memory(kOwnedBytes / 8);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = i;
  Registration registration;
  REQUIRE(side.endpoint
              ->register_memory(memory.data(), kOwnedBytes, kRead | kWrite | kAtomic, registration)
              .ok());
  const auto hex = [](const void* data, std::size_t bytes) {
    std::string text;
    for (std::size_t i = 0; i < bytes; ++i)
      text += fmt::format("{:02x}", static_cast<const unsigned char*>(data)[i]);
    return text;
  };
  const std::string address = side.endpoint->address();
  std::printf("owner: %s %s\n", hex(address.data(), address.size()).c_str(),
              hex(&registration.key, sizeof registration.key).c_str());
  std::fflush(stdout);
  poll_for(side, 120'000 * kMs, [] { return ::getppid() == 1; });
}

TEST_CASE("after a close the memory of its puts and gets is the program's alone") {
  over_each([](const std::string& provider) {
    const FabricRow row = row_of(provider);
    Pair pair(row);
    Owned owned(pair);
    constexpr std::size_t kSizes[] = {8, 1000, 5000, 100'000};
    std::vector<std::vector<std::byte>> here;
    std::vector<Waiting> requests(8);
    // The owner does nothing meanwhile.
    for (std::size_t i = 0; i < requests.size(); ++i) {
      here.emplace_back(kSizes[i % 4], std::byte{1});
      Code code = Code::again;
      poll_for(pair.a, 2'000 * kMs, [&] {
        code = i < 4 ? owned.get(*owned.link, here[i].data(), here[i].size(), 0, requests[i])
                     : owned.put(*owned.link, here[i].data(), here[i].size(), 0, requests[i]);
        return code != Code::again;
      });
      // Not all providers take that much then.
      if (code == Code::again) requests[i].times = 1;
      CHECK((code == Code::ok || code == Code::again));
    }
    const std::uint64_t began = now_ns();
    pair.a.close(owned.link);
    CHECK(now_ns() - began < 2'000 * kMs);
    for (const Waiting& request : requests) CHECK(request.times == 1);
    std::ranges::fill(owned.memory, std::byte{7});
    for (auto& bytes : here) std::ranges::fill(bytes, std::byte{2});
    for (int i = 0; i < 1000; ++i) {
      pair.b.endpoint->poll(pair.b);
      pair.a.endpoint->poll(pair.a);
    }
    for (const auto& bytes : here)
      CHECK(std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{2}; }));
    for (const Waiting& request : requests) CHECK(request.times == 1);
    // What was put is as it was when it was posted, or is not there.
    CHECK(std::ranges::none_of(owned.memory, [](std::byte byte) { return byte == std::byte{2}; }));
    // The next link to the same peer does what that one did.
    Link& next = *pair.connect().first;
    Waiting put;
    const std::byte value{9};
    REQUIRE(pair.post([&] { return owned.put(next, &value, 1, 3, put); }) == Code::ok);
    CHECK(pair.wait(put) == Code::ok);
    for (int i = 0; i < 1000; ++i) {
      pair.b.endpoint->poll(pair.b);
      pair.a.endpoint->poll(pair.a);
    }
    CHECK(owned.memory[3] == std::byte{9});
  });
}

TEST_CASE("no link comes up while a put of an earlier one to its peer may land") {
  over_each([](const std::string& provider) {
    if (weft::testing::is_without_owner(provider)) return;  // its puts are there at once
    OtherProcess other(provider);
    Side side(row_of(provider));
    Link* link = other.open(side);
    poll_for(side, kDeadlineNs, [&] { return side.ups == 1; });
    REQUIRE(side.ups == 1);
    std::uint64_t value = 41;
    const auto put = [&](Link& over, WorkRequest& request) {
      Code code = Code::again;
      poll_for(side, kDeadlineNs, [&] {
        code = side.endpoint->put(over, &value, 8, other.key, 64, request);
        return code != Code::again;
      });
      return code;
    };
    Waiting connected, first, second;
    REQUIRE(put(*link, connected) == Code::ok);
    poll_for(side, kDeadlineNs, [&] { return connected.times == 1; });
    REQUIRE(connected.code == Code::ok);

    other.stop();
    value = 42;
    REQUIRE(put(*link, first) == Code::ok);
    side.close(link);
    CHECK(first.code == Code::cancelled);
    link = other.open(side);
    const std::uint64_t began = now_ns();
    if (provider == "tcp;ofi_rxm") {
      // There the put ends with its endpoint, and hello is said after that.
      poll_for(side, 1'000 * kMs);
      CHECK(side.downs == 0);
    } else {
      poll_for(side, kDeadlineNs, [&] { return side.downs == 1; });
      CHECK(side.downs == 1);
      CHECK(now_ns() - began > 300 * kMs);
      CHECK(now_ns() - began < 5'000 * kMs);
      side.close(link);
      link = nullptr;
    }
    other.process.signal(SIGCONT);
    // Where the put is done at last, another link may open.
    for (int tries = 0; side.ups < 2 && tries < 50; ++tries) {
      if (link == nullptr) link = other.open(side);
      const int downs = side.downs;
      poll_for(side, 2'000 * kMs, [&] { return side.ups == 2 || side.downs > downs; });
      if (side.ups < 2) side.close(std::exchange(link, nullptr));
    }
    REQUIRE(side.ups == 2);
    value = 43;
    REQUIRE(put(*link, second) == Code::ok);
    poll_for(side, kDeadlineNs, [&] { return second.times == 1; });
    CHECK(second.code == Code::ok);
    poll_for(side, 200 * kMs);
    std::uint64_t word = 0;
    Waiting get;
    Code code = Code::again;
    poll_for(side, kDeadlineNs, [&] {
      code = side.endpoint->get(*link, &word, 8, other.key, 64, get);
      return code != Code::again;
    });
    REQUIRE(code == Code::ok);
    poll_for(side, kDeadlineNs, [&] { return get.times == 1; });
    CHECK(word == 43);
    CHECK(first.times == 1);
  });
}

TEST_CASE("what ends with the endpoint for puts and gets ends once, and new links go on") {
  const std::string provider = "tcp;ofi_rxm";
  if (weft::testing::kNativeProviders.front() != "shm" || !has_ofi_provider(provider)) return;
  const FabricRow row = row_of(provider);
  Pair pair(row);
  Side c(row);
  Owned owned(pair);
  std::vector<std::byte> memory(1 << 17), here(1 << 17), there(1 << 17);
  Registration registration;
  REQUIRE(c.endpoint->register_memory(memory.data(), memory.size(), kRead, registration).ok());
  Link* to_c = nullptr;
  REQUIRE(pair.a.endpoint->open(bytes_of(c.endpoint->address()), {}, to_c).ok());
  pair.a.links.push_back(to_c);
  const auto poll_both = [&](auto&& until) {
    for (const std::uint64_t limit = now_ns() + kDeadlineNs; now_ns() < limit && !until();) {
      pair.a.endpoint->poll(pair.a);
      c.endpoint->poll(c);
    }
  };
  poll_both([&] { return pair.a.ups == 2; });
  const auto get_from_c = [&](Waiting& request) {
    Code code = Code::again;
    poll_both([&] {
      code = pair.a.endpoint->get(*to_c, there.data(), there.size(), registration.key, 0, request);
      return code != Code::again;
    });
    return code;
  };
  Waiting first, second, third, fourth;
  REQUIRE(get_from_c(first) == Code::ok);
  poll_both([&] { return first.times == 1; });
  CHECK(first.code == Code::ok);
  // From here on neither owner does anything.
  REQUIRE(owned.get(*owned.link, here.data(), here.size(), 0, second) == Code::ok);
  REQUIRE(pair.a.endpoint->get(*to_c, there.data(), there.size(), registration.key, 0, third) ==
          Code::ok);
  pair.a.close(owned.link);
  CHECK(second.times == 1);
  CHECK(second.code == Code::cancelled);
  CHECK(third.times == 1);
  CHECK(third.code == Code::peer_lost);
  poll_for(pair.a, kDeadlineNs, [&] { return pair.a.downs == 1; });
  CHECK(pair.a.last_down == to_c);
  pair.a.close(to_c);
  const int ups = pair.a.ups;
  REQUIRE(pair.a.endpoint->open(bytes_of(c.endpoint->address()), {}, to_c).ok());
  pair.a.links.push_back(to_c);
  poll_both([&] { return pair.a.ups > ups; });
  REQUIRE(get_from_c(fourth) == Code::ok);
  poll_both([&] { return fourth.times == 1; });
  CHECK(fourth.code == Code::ok);
  CHECK(second.times + third.times == 2);
  c.endpoint->deregister(registration);
}

TEST_CASE("a message does not leave before the puts before it are there") {
  over_each([](const std::string& provider) {
    const FabricRow row = row_of(provider);
    Pair pair(row);
    Owned owned(pair);
    std::vector<std::byte> source(8), body(8000);
    Waiting put, sent, later;
    const auto message = [&](WorkRequest& request) {
      return pair.a.endpoint->message_in_place(*owned.link, bytes_of("head"), body, request);
    };
    // Without a put it leaves while the owner does nothing.
    REQUIRE(message(sent) == Code::ok);
    poll_for(pair.a, 1'000 * kMs, [&] { return sent.times == 1; });
    const bool leaves = sent.times == 1;
    REQUIRE(owned.put(*owned.link, source.data(), source.size(), 0, put) == Code::ok);
    REQUIRE(message(later) == Code::ok);
    poll_for(pair.a, 100 * kMs, [&] { return put.times == 1; });
    if (leaves && put.times == 0) CHECK(later.times == 0);
    if (provider == "tcp;ofi_rxm") CHECK(leaves);
    CHECK(pair.poll_until([&] { return pair.b.messages.size() == 2; }));
    CHECK(put.times == 1);
    CHECK(pair.poll_until([&] { return later.times == 1; }));
  });
}

TEST_CASE("messages that wait for puts end with their link") {
  over_each([](const std::string& provider) {
    const FabricRow row = row_of(provider);
    Pair pair(row);
    Owned owned(pair);
    std::vector<std::byte> source(8), body(8000);
    std::vector<Waiting> puts(4), bodies(4);
    for (Waiting& put : puts)
      CHECK(owned.put(*owned.link, source.data(), source.size(), 0, put) == Code::ok);
    for (Waiting& request : bodies)
      REQUIRE(pair.a.endpoint->message_in_place(*owned.link, bytes_of("head"), body, request) ==
              Code::ok);
    pair.a.close(owned.link);
    for (const Waiting& put : puts) CHECK(put.times == 1);
    for (const Waiting& request : bodies) CHECK(request.times == 1);
    Link& next = *pair.connect().first;
    REQUIRE(pair.a.endpoint->message(next, bytes_of("next"), {}) == Code::ok);
    CHECK(pair.poll_until(
        [&] { return !pair.b.messages.empty() && pair.b.messages.back() == "next"; }));
  });
}

TEST_CASE("more puts and gets than there is room for are back-pressure, and all end") {
  over_each([](const std::string& provider) {
    const FabricRow row = row_of(provider);
    Pair pair(row);
    Owned owned(pair);
    std::vector<std::uint64_t> words(2000), copy(words.size());
    std::vector<Waiting> puts(words.size()), gets(words.size());
    for (std::size_t i = 0; i < words.size(); ++i) {
      words[i] = i * 3 + 1;
      REQUIRE(pair.post([&] { return owned.put(*owned.link, &words[i], 8, i * 8, puts[i]); }) ==
              Code::ok);
    }
    CHECK(pair.poll_until([&] { return std::ranges::all_of(puts, &Waiting::times); }));
    for (std::size_t i = 0; i < words.size(); ++i)
      REQUIRE(pair.post([&] { return owned.get(*owned.link, &copy[i], 8, i * 8, gets[i]); }) ==
              Code::ok);
    CHECK(pair.poll_until([&] { return std::ranges::all_of(gets, &Waiting::times); }));
    for (const auto* all : {&puts, &gets})
      for (const Waiting& request : *all) {
        CHECK(request.times == 1);
        CHECK(request.code == Code::ok);
      }
    CHECK(copy == words);
  });
}

TEST_CASE("atomics are so with the owner's processor, too") {
  over_each([](const std::string& provider) {
    const FabricRow row = row_of(provider);
    Pair pair(row);
    Owned owned(pair);
    REQUIRE(pair.a.endpoint->limits().atomics);
    constexpr std::uint64_t kCount = 2000;
    std::atomic<bool> stop{false};
    std::uint64_t own = 0;
    auto& word = *reinterpret_cast<std::uint64_t*>(owned.memory.data());
    std::thread owner([&] {
      for (; !stop; ++own) apply(Atomic::fetch_add, &word, 1, 0);
    });
    std::vector<Waiting> requests(kCount);
    std::vector<std::uint64_t> previous(kCount);
    for (std::uint64_t i = 0; i < kCount; ++i)
      REQUIRE(pair.post([&] {
        return pair.a.endpoint->atomic(*owned.link, Atomic::fetch_add, owned.registration.key, 0, 1,
                                       0, previous[i], requests[i]);
      }) == Code::ok);
    CHECK(pair.poll_until([&] { return std::ranges::all_of(requests, &Waiting::times); }));
    stop = true;
    owner.join();
    CHECK(word == own + kCount);
    std::ranges::sort(previous);
    CHECK(std::ranges::adjacent_find(previous) == previous.end());
  });
}

// Over shm the process that puts or gets copies by itself, over verbs the device does. What
// libfabric emulates by messages waits for the owner, so this can fail.
TEST_CASE("a stopped owner is put to and read where memory or a device does it, and nowhere else") {
  over_each([](const std::string& provider) {
    OtherProcess other(provider);
    Side side(row_of(provider));
    Link* link = other.open(side);
    poll_for(side, kDeadlineNs, [&] { return side.ups == 1; });
    REQUIRE(side.ups == 1);
    std::vector<std::uint64_t> words(kOwnedBytes / 8, 5), copy(words.size());
    const auto post = [&](auto&& call) {
      Code code = Code::again;
      poll_for(side, kDeadlineNs, [&] { return (code = call()) != Code::again; });
      return code;
    };
    Waiting first, put, get;
    REQUIRE(post([&] {
              return side.endpoint->get(*link, copy.data(), kOwnedBytes, other.key, 0, first);
            }) == Code::ok);
    poll_for(side, kDeadlineNs, [&] { return first.times == 1; });
    REQUIRE(first.code == Code::ok);
    CHECK(copy[100] == 100);

    other.stop();
    REQUIRE(post([&] {
              return side.endpoint->put(*link, words.data(), kOwnedBytes, other.key, 0, put);
            }) == Code::ok);
    REQUIRE(post([&] {
              return side.endpoint->get(*link, copy.data(), kOwnedBytes, other.key, 0, get);
            }) == Code::ok);
    const bool without = weft::testing::is_without_owner(provider);
    poll_for(side, without ? kDeadlineNs : 300 * kMs, [&] { return put.times + get.times == 2; });
    CHECK(put.times + get.times == (without ? 2 : 0));
    if (without) {
      CHECK(put.code == Code::ok);
      CHECK(get.code == Code::ok);
      CHECK(copy == words);
    }
    other.process.signal(SIGCONT);
    poll_for(side, kDeadlineNs, [&] { return put.times + get.times == 2; });
    CHECK(put.times + get.times == 2);
  });
}
