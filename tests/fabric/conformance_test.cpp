// What fabric/endpoint.hpp promises, over every fabric.
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <iostream>
#include <random>

#include "tests/fabric/conformance.hpp"

using namespace weft;
using namespace weft::fabric;
using namespace weft::fabric::testing;

namespace {

// Runs the body over every fabric.
template <class F>
void over_each(F&& body) {
  for (const FabricRow& row : fabrics()) {
    INFO("over " << row.name);
    Pair pair(row);
    body(pair);
  }
}

}  // namespace

TEST_CASE("a link comes up at both ends, with the hello") {
  over_each([](Pair& pair) {
    REQUIRE(pair.a.endpoint->limits().message_max >= 256);
    const auto [here, there] = pair.connect("who I am");
    if (!pair.b.endpoint->address().empty()) CHECK(pair.b.last_hello == "who I am");
    CHECK(here != there);
    CHECK(pair.a.downs == 0);
  });
}

TEST_CASE("an address that is none, or nobody's, is an error, and so is a refusal") {
  over_each([](Pair& pair) {
    const std::string address = pair.b.endpoint->address();
    if (address.empty()) return;
    Link* link = nullptr;
    CHECK(pair.a.endpoint->open(bytes_of("no address"), {}, link).code() == Code::bad_argument);
    pair.b.refuse = true;
    REQUIRE(pair.a.endpoint->open(bytes_of(address), {}, link).ok());
    CHECK(pair.poll_until([&] { return pair.a.downs == 1; }));
    pair.a.endpoint->close(*link);
    CHECK(pair.a.ups == 0);
  });
}

TEST_CASE("a link that is closed while it comes in does not come up") {
  over_each([](Pair& pair) {
    const std::string address = pair.b.endpoint->address();
    if (address.empty()) return;
    pair.b.closes_incoming = true;
    Link* link = nullptr;
    REQUIRE(pair.a.endpoint->open(bytes_of(address), bytes_of("hello"), link).ok());
    REQUIRE(pair.poll_until([&] { return !pair.b.last_hello.empty() || pair.a.downs == 1; }));
    pair.a.endpoint->close(*link);
    CHECK(pair.a.ups == 0);
    pair.b.closes_incoming = false;
    pair.connect();
  });
}

// Both ends of two links would take different ones for theirs, and wait for the other.
TEST_CASE("a link that is given up before it is up does not stay at the other end") {
  over_each([](Pair& pair) {
    const std::string address = pair.b.endpoint->address();
    // Over verbs the device tells it, of what is posted.
    if (address.empty() || pair.a.endpoint->name() == "verbs") return;
    pair.connect();
    for (int round = 0; round < 20; ++round) {
      const int ups = pair.b.ups;
      Link* link = nullptr;
      REQUIRE(pair.a.endpoint->open(bytes_of(address), {}, link).ok());
      if (round % 2 == 0) {  // the other end has let it in by then
        const std::uint64_t began = now_ns();
        while (pair.b.ups == ups && now_ns() < began + kDeadlineNs) {
          pair.b.endpoint->poll(pair.b);
          // Some say hello in poll() only.
          if (now_ns() > began + 50'000'000) pair.a.endpoint->poll(pair.a);
        }
      }
      pair.a.endpoint->close(*link);
    }
    pair.connect();
    CHECK(pair.b.ups >= 12);
    CHECK(pair.poll_until([&] { return pair.b.downs == pair.b.ups - 2; }));
  });
}

TEST_CASE("messages arrive once, whole and in order, whatever their length") {
  over_each([](Pair& pair) {
    const auto [here, there] = pair.connect();
    const std::size_t most = pair.a.endpoint->limits().message_max;
    std::mt19937 random(7);
    std::vector<std::string> sent;
    for (int i = 0; i < 3000; ++i) {
      std::string text(i % 10 == 0 ? most : random() % 200, static_cast<char>('a' + i % 26));
      const std::size_t head = text.size() < 16 ? text.size() : 16;
      Code code;
      while ((code = pair.a.endpoint->message(*here, bytes_of(text).first(head),
                                              bytes_of(text).subspan(head))) == Code::again) {
        pair.a.endpoint->poll(pair.a);
        pair.b.endpoint->poll(pair.b);
      }
      REQUIRE(code == Code::ok);
      sent.push_back(std::move(text));
    }
    REQUIRE(pair.poll_until([&] { return pair.b.messages.size() == sent.size(); }));
    CHECK(pair.b.messages == sent);
    CHECK(pair.b.endpoint->message(*there, bytes_of("back"), {}) == Code::ok);
    CHECK(pair.poll_until([&] { return pair.a.messages.size() == 1; }));
    const std::string longer(most + 1, 'x');
    CHECK(pair.a.endpoint->message(*here, {}, bytes_of(longer)) == Code::bad_argument);
  });
}

TEST_CASE("a peer that does not poll is back-pressure, not memory") {
  over_each([](Pair& pair) {
    const auto [here, there] = pair.connect();
    const std::string text(200, 'x');
    std::size_t posted = 0;
    while (pair.a.endpoint->message(*here, bytes_of(text), {}) == Code::ok && posted < 10'000'000)
      ++posted;
    CHECK(posted < 10'000'000);
    CHECK(pair.poll_until([&] { return pair.b.messages.size() == posted; }));
    CHECK(pair.poll_until(
        [&] { return pair.a.endpoint->message(*here, bytes_of(text), {}) == Code::ok; }));
  });
}

TEST_CASE("put, get and atomics reach registered memory, and a message comes after the puts") {
  over_each([](Pair& pair) {
    const Limits& limits = pair.a.endpoint->limits();
    const auto [here, there] = pair.connect();
    std::vector<std::uint64_t> memory(1 << 15), source(memory.size()), copy(memory.size());
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = i * 3 + 1;
    Registration registration;
    REQUIRE(pair.b.endpoint
                ->register_memory(memory.data(), memory.size() * 8, kRead | kWrite | kAtomic,
                                  registration)
                .ok());
    const std::size_t bytes = memory.size() * 8 - 8;
    Waiting put, get, add, swap;
    if (limits.puts) {
      bool seen = false;
      pair.b.at_message = [&] {
        seen = memory[1] == 1 && memory.back() == source[memory.size() - 2];
      };
      REQUIRE(pair.post([&] {
        return pair.a.endpoint->put(*here, source.data(), bytes, registration.key, 8, put);
      }) == Code::ok);
      REQUIRE(pair.a.endpoint->message(*here, bytes_of("it is there"), {}) == Code::ok);
      CHECK(pair.wait(put) == Code::ok);
      REQUIRE(pair.poll_until([&] { return pair.b.messages.size() == 1; }));
      CHECK(seen);
    } else {
      CHECK(pair.a.endpoint->put(*here, source.data(), 8, registration.key, 8, put) ==
            Code::unsupported);
    }
    if (limits.gets) {
      REQUIRE(pair.post([&] {
        return pair.a.endpoint->get(*here, copy.data(), bytes + 8, registration.key, 0, get);
      }) == Code::ok);
      CHECK(pair.wait(get) == Code::ok);
      CHECK(copy == memory);
    }
    if (limits.atomics) {
      memory[5] = 40;
      std::uint64_t previous = 0;
      REQUIRE(pair.post([&] {
        return pair.a.endpoint->atomic(*here, Atomic::fetch_add, registration.key, 40, 2, 0,
                                       previous, add);
      }) == Code::ok);
      CHECK(pair.wait(add) == Code::ok);
      CHECK(previous == 40);
      REQUIRE(pair.a.endpoint->atomic(*here, Atomic::compare_swap, registration.key, 40, 7, 42,
                                      previous, swap) == Code::ok);
      CHECK(pair.wait(swap) == Code::ok);
      CHECK(previous == 42);
      CHECK(memory[5] == 7);
    }
    CHECK(put.times + get.times + add.times + swap.times ==
          int(limits.puts) + int(limits.gets) + 2 * int(limits.atomics));
    pair.b.endpoint->deregister(registration);
  });
}

TEST_CASE("each message finds the bytes of all puts before it") {
  over_each([](Pair& pair) {
    if (!pair.a.endpoint->limits().puts) return;
    constexpr std::size_t kRounds = 200, kSlot = 70'000;
    Link& link = *pair.connect().first;
    std::vector<std::byte> memory(4 * kSlot), source(4 * kSlot);
    Registration registration;
    REQUIRE(
        pair.b.endpoint->register_memory(memory.data(), memory.size(), kWrite, registration).ok());
    std::vector<Waiting> requests(kRounds);
    std::mt19937 random(3);
    std::vector<std::size_t> sizes(kRounds);
    std::size_t num_seen = 0;
    pair.b.at_message = [&] {
      const std::size_t round = std::stoul(pair.b.messages.back());
      const std::byte* const slot = &memory[round % 4 * kSlot];
      num_seen += slot[0] == static_cast<std::byte>(round) &&
                  slot[sizes[round] - 1] == static_cast<std::byte>(round);
    };
    for (std::size_t round = 0; round < kRounds; ++round) {
      // The slot is free once the message about it has been read.
      if (round >= 4)
        REQUIRE(pair.poll_until(
            [&] { return pair.b.messages.size() > round - 4 && requests[round - 4].times > 0; }));
      sizes[round] = round % 3 == 0 ? 8 : 1 + random() % kSlot;
      std::byte* const from = &source[round % 4 * kSlot];
      std::fill_n(from, sizes[round], static_cast<std::byte>(round));
      REQUIRE(pair.post([&] {
        return pair.a.endpoint->put(link, from, sizes[round], registration.key, round % 4 * kSlot,
                                    requests[round]);
      }) == Code::ok);
      REQUIRE(pair.post([&] {
        return pair.a.endpoint->message(link, bytes_of(std::to_string(round)), {});
      }) == Code::ok);
    }
    CHECK(pair.poll_until([&] { return pair.b.messages.size() == kRounds; }));
    CHECK(num_seen == kRounds);
    CHECK(pair.poll_until([&] { return requests.back().times == 1; }));
    for (const Waiting& request : requests) CHECK(request.times == 1);
    pair.b.endpoint->deregister(registration);
  });
}

TEST_CASE("writes arrive in order with messages, with their bytes, and are back-pressure") {
  over_each([](Pair& pair) {
    Endpoint& a = *pair.a.endpoint;
    const auto [here, there] = pair.connect();
    std::vector<std::byte> memory(1 << 16), source(memory.size());
    Registration to, from;
    REQUIRE(pair.b.endpoint->register_memory(memory.data(), memory.size(), kWrite, to).ok());
    REQUIRE(a.register_memory(source.data(), source.size(), 0, from).ok());
    std::vector<Waiting> requests(600);
    if (!a.limits().writes) {
      CHECK(a.write(*here, {source.data(), 64}, from, to.key, 0, 1, requests[0]) ==
            Code::unsupported);
    } else {
      std::vector<std::string> expected;
      std::mt19937 random(5);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        const std::size_t bytes = 64 * (1 + random() % (i % 20 == 0 ? 500 : 5));
        const std::size_t at = 64 * (random() % ((memory.size() - bytes) / 64 + 1));
        const auto number = static_cast<std::uint32_t>(random());
        for (std::size_t k = 0; k < bytes; ++k) source[at + k] = static_cast<std::byte>(i);
        bool seen = false;
        pair.b.at_message = [&] {
          seen = std::equal(&source[at], &source[at] + bytes, &memory[at]);
        };
        Code code;
        while ((code = a.write(*here, {&source[at], bytes}, from, to.key, at, number,
                               requests[i])) == Code::again) {
          a.poll(pair.a);
          pair.b.endpoint->poll(pair.b);
        }
        REQUIRE(code == Code::ok);
        expected.push_back("written " + std::to_string(number) + " " + std::to_string(bytes));
        if (i % 3 == 0) {
          REQUIRE(pair.poll_until([&] { return pair.b.messages.size() == expected.size(); }));
          CHECK(seen);
        } else {
          // Its bytes stay as they are until it is there.
          pair.b.at_message = nullptr;
          REQUIRE(pair.poll_until([&] { return pair.b.messages.size() >= expected.size(); }));
        }
        if (i % 7 == 0) {
          while (a.message(*here, bytes_of("between"), {}) == Code::again) a.poll(pair.a);
          expected.push_back("between");
          REQUIRE(pair.poll_until([&] { return pair.b.messages.size() == expected.size(); }));
        }
      }
      CHECK(pair.b.messages == expected);
      CHECK(memory == source);
      // A peer that does not poll.
      pair.b.at_message = nullptr;
      std::vector<Waiting> more(100'000);
      std::size_t posted = 0;
      while (posted < more.size() &&
             a.write(*here, {source.data(), 64}, from, to.key, 0, 1, more[posted]) == Code::ok)
        ++posted;
      CHECK(posted < more.size());
      CHECK(pair.poll_until([&] { return pair.b.messages.size() == expected.size() + posted; }));
      // What it may not write.
      Waiting beyond;
      const Code code =
          a.write(*here, {source.data(), 128}, from, to.key, memory.size() - 64, 1, beyond);
      CHECK((code == Code::bad_argument || pair.wait(beyond) != Code::ok));
      pair.a.close(here);
      for (const Waiting& request : requests) CHECK(request.times == 1);
      for (std::size_t i = 0; i < posted; ++i) CHECK(more[i].times == 1);
    }
    a.deregister(from);
    pair.b.endpoint->deregister(to);
  });
}

TEST_CASE("threads write from both ends of a link at once, beside messages") {
  over_each([](Pair& pair) {
    if (!pair.a.endpoint->limits().writes) return;
    constexpr std::size_t kThreads = 2, kCount = 400;
    const auto [here, there] = pair.connect();
    struct End {
      Side& side;
      Link* link;
      std::vector<std::byte> memory = std::vector<std::byte>(kThreads * 64), source = memory;
      Registration to = {}, from = {};
      std::vector<Waiting> requests = std::vector<Waiting>(kThreads * kCount);
    };
    End ends[2] = {{pair.a, here}, {pair.b, there}};
    for (End& end : ends) {
      Endpoint& endpoint = *end.side.endpoint;
      REQUIRE(endpoint.register_memory(end.memory.data(), end.memory.size(), kWrite, end.to).ok());
      REQUIRE(endpoint.register_memory(end.source.data(), end.source.size(), 0, end.from).ok());
    }
    std::atomic<bool> is_over{false};
    std::atomic<int> refused{0};
    std::vector<std::thread> threads;
    for (std::size_t side = 0; side < 2; ++side)
      for (std::size_t number = 0; number < kThreads; ++number)
        threads.emplace_back([&, side, number] {
          End& end = ends[side];
          for (std::size_t i = 0; i < kCount && !is_over;) {
            const Code code = end.side.endpoint->write(*end.link, {&end.source[64 * number], 64},
                                                       end.from, ends[1 - side].to.key, 64 * number,
                                                       static_cast<std::uint32_t>(number << 16 | i),
                                                       end.requests[number * kCount + i]);
            if (code == Code::ok)
              ++i;
            else if (code == Code::again)
              std::this_thread::yield();
            else
              ++refused, i = kCount;
          }
        });
    std::size_t said[2] = {};
    const bool have_all = pair.poll_until([&] {
      for (std::size_t side = 0; side < 2; ++side)
        if (said[side] < 50 && ends[side].side.endpoint->message(
                                   *ends[side].link, bytes_of("between"), {}) == Code::ok)
          ++said[side];
      return refused > 0 || (pair.a.messages.size() == kThreads * kCount + said[1] &&
                             pair.b.messages.size() == kThreads * kCount + said[0] &&
                             said[0] == 50 && said[1] == 50);
    });
    is_over = true;
    for (std::thread& thread : threads) thread.join();
    CHECK(have_all);
    CHECK(refused == 0);
    for (const End& end : ends) {
      std::size_t next[kThreads] = {};
      for (const std::string& text : end.side.messages) {
        if (text == "between") continue;
        const unsigned long number = std::stoul(text.substr(sizeof "written"));
        REQUIRE(number >> 16 < kThreads);
        CHECK((number & 0xffff) == next[number >> 16]++);
      }
    }
    for (End& end : ends) end.side.close(end.link);
    for (End& end : ends) {
      for (const Waiting& request : end.requests) CHECK(request.times == 1);
      end.side.endpoint->deregister(end.to);
      end.side.endpoint->deregister(end.from);
    }
  });
}

TEST_CASE("beyond the memory, against the rights, under a forged or withdrawn key: refused") {
  over_each([](Pair& pair) {
    if (pair.row.refuses_nothing != nullptr) {
      std::cout << "skipped: " << pair.row.name << ": " << pair.row.refuses_nothing << '\n';
      return;
    }
    const Limits& limits = pair.a.endpoint->limits();
    std::vector<std::byte> memory(4096), copy(4096);
    Registration readable;
    REQUIRE(pair.b.endpoint->register_memory(memory.data(), 4096, kRead, readable).ok());
    Key forged = readable.key;
    forged[23] ^= std::byte{0x40};
    // The link may go down for each: a link for each.
    auto refused = [&](auto&& post) {
      Waiting request;
      Link* link = pair.connect().first;
      REQUIRE(pair.post([&] { return post(*link, request); }) == Code::ok);
      const Code code = pair.wait(request);
      CHECK((code == Code::bad_argument || code == Code::not_permitted || code == Code::peer_lost));
    };
    Endpoint& a = *pair.a.endpoint;
    if (limits.gets) {
      refused(
          [&](Link& l, WorkRequest& r) { return a.get(l, copy.data(), 2, readable.key, 4095, r); });
      refused([&](Link& l, WorkRequest& r) {
        return a.get(l, copy.data(), 2, readable.key, ~0ull, r);
      });
      refused([&](Link& l, WorkRequest& r) { return a.get(l, copy.data(), 2, forged, 0, r); });
    }
    if (limits.puts)
      refused(
          [&](Link& l, WorkRequest& r) { return a.put(l, copy.data(), 8, readable.key, 0, r); });
    std::uint64_t previous = 0;
    if (limits.atomics)
      refused([&](Link& l, WorkRequest& r) {
        return a.atomic(l, Atomic::fetch_add, readable.key, 0, 1, 0, previous, r);
      });
    pair.b.endpoint->deregister(readable);
    if (limits.gets)
      refused(
          [&](Link& l, WorkRequest& r) { return a.get(l, copy.data(), 2, readable.key, 0, r); });
    CHECK(memory == std::vector<std::byte>(4096));
  });
}

TEST_CASE("close ends what is under way, once, and the other end goes down") {
  over_each([](Pair& pair) {
    const Limits& limits = pair.a.endpoint->limits();
    const auto [here, there] = pair.connect();
    std::vector<std::byte> memory(4096);
    Registration registration;
    REQUIRE(pair.b.endpoint->register_memory(memory.data(), 4096, kRead, registration).ok());
    std::vector<Waiting> requests(8);
    if (limits.gets)
      for (Waiting& request : requests)
        REQUIRE(pair.post([&] {
          return pair.a.endpoint->get(*here, memory.data(), 8, registration.key, 8, request);
        }) == Code::ok);
    pair.a.close(here);
    for (const Waiting& request : requests) CHECK(request.times == (limits.gets ? 1 : 0));
    if (limits.breaks) {
      CHECK(pair.poll_until([&] { return pair.b.downs == 1; }));
      CHECK(pair.b.last_down == there);
      CHECK(pair.b.endpoint->message(*there, bytes_of("too late"), {}) == Code::peer_lost);
    }
    pair.b.endpoint->deregister(registration);
    // Another link does what that one did.
    Link* again = pair.connect().first;
    REQUIRE(pair.a.endpoint->message(*again, bytes_of("again"), {}) == Code::ok);
    CHECK(pair.poll_until([&] { return pair.b.messages.size() == 1; }));
  });
}

TEST_CASE("who sleeps on wait_fd after arm wakes for a message, and for room") {
  over_each([](Pair& pair) {
    const auto [here, there] = pair.connect();
    // True once there are so many messages, or something has happened. A poll may have taken the
    // last of them before arm() agreed: then nothing more comes.
    auto sleep = [](Side& side, std::size_t wanted) {
      while (!side.endpoint->arm()) side.endpoint->poll(side);
      pollfd wait{side.endpoint->wait_fd(), POLLIN, 0};
      return side.messages.size() >= wanted || ::poll(&wait, 1, 20'000) == 1;
    };
    for (std::size_t round = 1; round <= 100; ++round) {
      while (!pair.b.endpoint->arm()) pair.b.endpoint->poll(pair.b);
      // Credit for those before may still be on its way.
      Code code = Code::again;
      for (const std::uint64_t limit = now_ns() + kDeadlineNs;
           code == Code::again && now_ns() < limit;) {
        pair.a.endpoint->poll(pair.a);
        code = pair.a.endpoint->message(*here, bytes_of("wake up"), {});
      }
      REQUIRE(code == Code::ok);
      while (pair.b.messages.size() < round) {
        pair.a.endpoint->poll(pair.a);  // fabrics without a device move by it
        pair.b.endpoint->poll(pair.b);
        if (pair.b.messages.size() < round) REQUIRE(sleep(pair.b, round));
      }
    }
    const std::string text(200, 'x');
    Code code;
    while ((code = pair.a.endpoint->message(*here, bytes_of(text), {})) == Code::ok) continue;
    REQUIRE(code == Code::again);
    std::atomic<bool> stop{false};
    std::thread reader([&] {
      while (!stop) pair.b.endpoint->poll(pair.b);
    });
    const std::uint64_t limit = now_ns() + kDeadlineNs;
    bool slept = true;
    while (slept && (code = pair.a.endpoint->message(*here, bytes_of(text), {})) == Code::again &&
           now_ns() < limit) {
      pair.a.endpoint->poll(pair.a);
      if (pair.a.endpoint->arm()) {
        pollfd wait{pair.a.endpoint->wait_fd(), POLLIN, 0};
        // Room may have come between the try and arm().
        if (pair.a.endpoint->message(*here, bytes_of(text), {}) == Code::ok) break;
        slept = ::poll(&wait, 1, 20'000) == 1;
      }
    }
    stop = true;
    reader.join();
    CHECK(slept);
    CHECK(now_ns() < limit);
  });
}

TEST_CASE("threads post on links of their own while another polls") {
  over_each([](Pair& pair) {
    constexpr int kLinks = 3, kMessages = 2000;
    std::vector<Link*> links;
    for (int i = 0; i < kLinks; ++i) links.push_back(pair.connect().first);
    std::vector<std::thread> posters;
    const std::uint64_t limit = now_ns() + kDeadlineNs;
    for (int i = 0; i < kLinks; ++i)
      posters.emplace_back([&, i] {
        for (int n = 0; n < kMessages; ++n) {
          const std::string text = std::to_string(i) + " " + std::to_string(n);
          while (pair.a.endpoint->message(*links[i], bytes_of(text), {}) == Code::again &&
                 now_ns() < limit)
            std::this_thread::yield();
        }
      });
    const bool all = pair.poll_until([&] { return pair.b.messages.size() == kLinks * kMessages; });
    for (std::thread& poster : posters) poster.join();
    REQUIRE(all);
    std::vector<int> next(kLinks, 0);
    for (const std::string& text : pair.b.messages) {
      const int link = text[0] - '0';
      REQUIRE(text.substr(2) == std::to_string(next[link]++));
    }
  });
}

TEST_CASE("of many links, each carries after all have long been idle, and goes down alone") {
  over_each([](Pair& pair) {
    constexpr std::size_t kLinks = 40;
    std::vector<Link*> links, others;
    for (std::size_t i = 0; i < kLinks; ++i) {
      const auto [here, there] = pair.connect();
      links.push_back(here);
      others.push_back(there);
    }
    for (std::size_t round = 0; round < 3; ++round) {
      for (int i = 0; i < 20'000; ++i) {
        pair.a.endpoint->poll(pair.a);
        pair.b.endpoint->poll(pair.b);
      }
      for (Link* link : links)
        REQUIRE(pair.a.endpoint->message(*link, bytes_of("hello"), {}) == Code::ok);
      REQUIRE(pair.poll_until([&] { return pair.b.messages.size() == (round + 1) * kLinks; }));
    }
    for (std::size_t i = 0; i < kLinks; i += 2) pair.a.close(links[i]);
    REQUIRE(pair.poll_until([&] { return pair.b.downs == kLinks / 2; }));
    for (std::size_t i = 0; i < kLinks; i += 2) pair.b.close(others[i]);
    for (std::size_t i = 1; i < kLinks; i += 2)
      REQUIRE(pair.b.endpoint->message(*others[i], bytes_of("back"), {}) == Code::ok);
    REQUIRE(pair.poll_until([&] { return pair.a.messages.size() == kLinks / 2; }));
  });
}

TEST_CASE("what was sent before a close arrives before the end, where links lose nothing") {
  over_each([](Pair& pair) {
    if (pair.a.endpoint->limits().breaks) return;
    Link* here = pair.connect().first;
    for (int i = 0; i < 100; ++i)
      REQUIRE(pair.a.endpoint->message(*here, bytes_of("last words"), {}) == Code::ok);
    pair.a.close(here);
    REQUIRE(pair.poll_until([&] { return pair.b.downs == 1; }));
    CHECK(pair.b.messages.size() == 100);
  });
}

TEST_CASE("descriptors that are no link are refused, and all are closed") {
  over_each([](Pair& pair) {
    Mapped* mapped = pair.a.endpoint->mapped();
    if (mapped == nullptr) return;
    const int before = ::dup(0);
    ::close(before);
    Link* link = nullptr;
    auto accept = [&](std::vector<int> given) {
      CHECK(mapped->accept(given, link).code() == Code::corrupt);
      const int after = ::dup(0);
      ::close(after);
      CHECK(after == before);
    };
    accept({});
    accept({::dup(0)});
    accept({::dup(0), ::dup(0)});
    // Memory that could shrink under its reader.
    const int memory = ::memfd_create("not sealed", MFD_CLOEXEC);
    REQUIRE(::ftruncate(memory, 16 << 20) == 0);
    accept({memory, ::dup(0)});
    std::vector<int> offered;
    REQUIRE(mapped->offer(link, offered).ok());
    ::close(offered[1]);
    Link* other = nullptr;
    CHECK(mapped->accept(std::vector{offered[0], ::dup(0)}, other).code() == Code::corrupt);
    pair.a.endpoint->close(*link);
  });
}

TEST_CASE("mapped memory is the same on both sides, and read-only where only that was granted") {
  over_each([](Pair& pair) {
    Mapped *owner = pair.a.endpoint->mapped(), *user = pair.b.endpoint->mapped();
    if (owner == nullptr) return;
    void* memory = nullptr;
    REQUIRE(owner->allocate(10'000, memory).ok());
    const auto shared = [&](std::uint32_t rights) {
      int descriptor = -1;
      REQUIRE(owner->share(memory, rights, descriptor).ok());
      return Descriptor(descriptor);
    };
    Mapping writable, readable, refused;
    REQUIRE(user->map(shared(kRead | kWrite), 10'000, kRead | kWrite, writable).ok());
    const Descriptor read_only = shared(kRead);
    CHECK(user->map(read_only, 10'000, kRead | kWrite, refused).code() == Code::no_memory);
    CHECK(user->map(read_only, 1 << 20, kRead, refused).code() == Code::corrupt);
    REQUIRE(user->map(read_only, 10'000, kRead, readable).ok());
    static_cast<char*>(memory)[9999] = 'x';
    CHECK(readable.data()[9999] == std::byte{'x'});
    writable.data()[0] = std::byte{'y'};
    CHECK(static_cast<char*>(memory)[0] == 'y');
    owner->release(memory);
    CHECK(readable.data()[0] == std::byte{'y'});  // nobody else's as long as it is mapped
    int descriptor = -1;
    CHECK(owner->share(memory, kRead, descriptor).code() == Code::not_found);
  });
}
