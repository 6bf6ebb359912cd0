// Tagged messages between ranks that are threads of this process, over every path a message can
// take: sizes on both sides of each limit, with and without direct copies, in small rings.
#include "tagged/engine.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace {

using namespace weft;
using tagged::Engine;
using tagged::Request;

constexpr std::uint32_t kContext = 3;

// Runs `body` as `size` ranks. Returns how many failed; Catch's macros are for one thread only.
int run_ranks(int size, const Settings& settings, const std::function<bool(Engine&)>& body) {
  auto boards = make_thread_boards(size);
  std::atomic<int> num_failed{0};
  std::vector<std::thread> ranks;
  for (auto& board : boards)
    ranks.emplace_back([&, board = std::move(board)]() mutable {
      std::unique_ptr<Members> job;
      std::unique_ptr<Engine> engine;
      if (!Members::open(settings, std::move(board), job) || !Engine::create(*job, engine) ||
          !body(*engine) || !engine->close())
        num_failed.fetch_add(1);
      // The peers' memory stays until all are done.
      if (job && !job->board().fence(20'000)) num_failed.fetch_add(1);
    });
  for (std::thread& rank : ranks) rank.join();
  return num_failed.load();
}

std::vector<std::uint8_t> make_data(std::size_t length, int source, int number) {
  std::vector<std::uint8_t> data(length);
  for (std::size_t i = 0; i < length; ++i)
    data[i] =
        static_cast<std::uint8_t>(i * 7 + i / 251 + static_cast<std::size_t>(source * 31 + number));
  return data;
}

bool receive(Engine& engine, int source, int tag, std::size_t length, int number) {
  std::vector<std::uint8_t> got(length + 1, 0xee);
  Request request;
  engine.irecv(request, source, kContext, tag, got.data(), length);
  if (engine.wait(request) != Code::ok || request.received != length || got[length] != 0xee)
    return false;
  got.pop_back();
  return got == make_data(length, request.peer, number);
}

// Ranks that have to use tcp, over the loopback.
void use_tcp(Settings& settings) {
  for (auto [name, value] :
       {std::pair{"FABRIC", "tcp"}, {"INTERFACE", "lo"}, {"PEER_TIMEOUT_MS", "30000"}})
    REQUIRE(settings.set(name, value).ok());
}

}  // namespace

TEST_CASE("messages of every size arrive whole, in both directions at once", "[engine][threads]") {
  Settings settings;
  SECTION("as set by default") {}
  SECTION("through the rings only") { REQUIRE(settings.set("DIRECT_COPY", "0").ok()); }
  SECTION("small rings") {
    for (auto [name, value] : {std::pair{"RING_MIN_BYTES", "4K"},
                               {"RING_MAX_BYTES", "8K"},
                               {"EAGER_MAX_BYTES", "4K"},
                               {"UNEXPECTED_MAX_BYTES", "4K"}})
      REQUIRE(settings.set(name, value).ok());
  }
  SECTION("everything announced") { REQUIRE(settings.set("EAGER_MAX_BYTES", "0").ok()); }
  SECTION("over tcp") { use_tcp(settings); }
  SECTION("over the loopback") { REQUIRE(settings.set("FABRIC", "loopback").ok()); }
  SECTION("over tcp, small rings") {
    use_tcp(settings);
    for (auto [name, value] : {std::pair{"RING_MIN_BYTES", "4K"},
                               {"RING_MAX_BYTES", "16K"},
                               {"EAGER_MAX_BYTES", "8K"},
                               {"UNEXPECTED_MAX_BYTES", "4K"}})
      REQUIRE(settings.set(name, value).ok());
  }
  const std::size_t sizes[] = {0,    1,    8,    48,    49,    304,   305,    2047,    2048,
                               2049, 6143, 6144, 32768, 32769, 65536, 300000, 1048577, 3000000};
  for (const int size : {1, 2, 3})
    CHECK(run_ranks(size, settings, [&](Engine& engine) {
            // Ranks of one process are told from each other by their boards, not by their pids.
            const int to = (engine.rank() + 1) % engine.size();
            const int from = (engine.rank() + engine.size() - 1) % engine.size();
            int number = 0;
            for (const std::size_t length : sizes) {
              const auto first = make_data(length, engine.rank(), number);
              const auto second = make_data(length, engine.rank(), number + 1);
              Request sends[2];
              engine.isend(sends[0], to, kContext, 1, first.data(), length);
              engine.isend(sends[1], to, kContext, 2, second.data(), length, true);
              // The second first, so that the first waits unmatched.
              if (!receive(engine, from, 2, length, number + 1) ||
                  !receive(engine, tagged::kAnySource, tagged::kAnyTag, length, number) ||
                  engine.wait(sends[0]) != Code::ok || engine.wait(sends[1]) != Code::ok)
                return false;
              number += 2;
            }
            return true;
          }) == 0);
}

TEST_CASE("a synchronous send completes only when it is matched", "[engine]") {
  CHECK(run_ranks(1, {}, [](Engine& engine) {
          char data[4] = "abc", got[4] = "";
          Request send, receive;
          engine.isend(send, 0, kContext, 5, data, sizeof data, true);
          for (int i = 0; i < 1000; ++i) engine.progress();
          if (send.is_complete()) return false;
          engine.irecv(receive, 0, kContext, 5, got, sizeof got);
          return engine.wait(receive) == Code::ok && engine.wait(send) == Code::ok &&
                 std::strcmp(got, "abc") == 0;
        }) == 0);
}

TEST_CASE("probe, matched probe, cancel, truncation and contexts", "[engine]") {
  CHECK(run_ranks(1, {}, [](Engine& engine) {
          char data[100] = "probe me", got[100] = "";
          tagged::MessageInfo info;
          if (engine.iprobe(0, kContext, 5, info) != Code::again) return false;
          Request send, other, receive;
          engine.isend(send, 0, kContext, 5, data, sizeof data);
          engine.isend(other, 0, kContext + 1, 5, data, 10);
          Code code = Code::again;
          while (code == Code::again) code = engine.iprobe(0, kContext, tagged::kAnyTag, info);
          if (code != Code::ok || info.bytes != 100 || info.tag != 5) return false;
          tagged::Unexpected* message = nullptr;
          if (engine.improbe(tagged::kAnySource, kContext, 5, info, message) != Code::ok)
            return false;
          if (engine.iprobe(0, kContext, 5, info) != Code::again) return false;  // it was taken out
          if (!engine.irecv_matched(receive, message, got, sizeof got)) return false;
          if (engine.wait(receive) != Code::ok || std::strcmp(got, "probe me") != 0) return false;

          Request cancelled;
          engine.irecv(cancelled, 0, kContext, 6, got, sizeof got);
          if (!engine.cancel(cancelled) || cancelled.code != Code::cancelled) return false;

          Request cut;
          engine.irecv(cut, 0, kContext + 1, 5, got, 4);
          return engine.wait(cut) == Code::truncated && cut.received == 10 && !engine.cancel(cut) &&
                 engine.wait(send) == Code::ok && engine.wait(other) == Code::ok;
        }) == 0);
}

TEST_CASE("threads of one rank share its engine", "[engine][threads]") {
  CHECK(run_ranks(2, {}, [](Engine& engine) {
          engine.set_threaded(true);
          std::atomic<bool> good{true};
          std::vector<std::thread> threads;
          for (int t = 0; t < 3; ++t)
            threads.emplace_back([&, t] {
              const int peer = 1 - engine.rank();
              for (int i = 0; i < 200 && good; ++i) {
                const std::size_t length = static_cast<std::size_t>(i * i * 3 % 50000);
                const auto data = make_data(length, engine.rank(), i);
                Request send;
                engine.isend(send, peer, kContext, t, data.data(), length);
                if (!receive(engine, peer, t, length, i) || engine.wait(send) != Code::ok)
                  good = false;
              }
            });
          for (std::thread& thread : threads) thread.join();
          return good.load();
        }) == 0);
}

TEST_CASE("a receive without a request takes nothing out of its order", "[engine][threads]") {
  const auto body = [](Engine& engine) {
    char got[16] = {};
    tagged::MessageInfo info;
    if (engine.rank() == 1) {
      // Each letter is tag and data; the answer keeps the next ones from coming early.
      for (const char* word : {"ab", "cd", "ef", "g", "h", "i"}) {
        for (const char* letter = word; *letter != 0; ++letter) {
          Request request;
          engine.isend(request, 0, kContext, *letter, letter, 1);
          if (engine.wait(request) != Code::ok) return false;
        }
        Request answer;
        engine.irecv(answer, 0, kContext, 0, got, 0);
        if (engine.wait(answer) != Code::ok) return false;
      }
      return true;
    }
    const auto answer = [&engine] {
      Request request;
      engine.isend(request, 1, kContext, 0, nullptr, 0);
      return engine.wait(request) == Code::ok;
    };
    const auto receive = [&](Request& request, int source, int tag, std::size_t room) {
      engine.irecv(request, source, kContext, tag, got, room);
    };
    const auto try_receive = [&](int tag, std::size_t room) {
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (std::chrono::steady_clock::now() < limit)
        if (engine.try_receive(1, kContext, tag, got, room, info)) return true;
      return false;
    };
    // Some tries are left to the long way, and it all may take a while: 100 in vain are a no.
    const auto refuses = [&](std::uint32_t context, int tag, std::size_t room) {
      for (int i = 0; i < 100; ++i)
        if (engine.try_receive(1, context, tag, got, room, info)) return false;
      return true;
    };
    Request first, second;

    // Another tag or context than that of the next message.
    receive(first, 1, 'a', 1);
    if (engine.wait(first) != Code::ok) return false;
    if (!refuses(kContext, 'x', 1) || !refuses(kContext + 1, 'b', 1)) return false;
    if (!try_receive('b', 8) || got[0] != 'b' || info.tag != 'b' || info.bytes != 1 ||
        info.source != 1 || !answer())
      return false;

    // A receive that was posted before, here from any source, comes first.
    receive(first, tagged::kAnySource, tagged::kAnyTag, 1);
    if (!refuses(kContext, tagged::kAnyTag, 1)) return false;
    if (engine.wait(first) != Code::ok || first.tag != 'c') return false;
    receive(second, 1, 'd', 1);
    if (engine.wait(second) != Code::ok || got[0] != 'd' || !answer()) return false;

    // So does a message that was looked at.
    for (Code code = Code::again; code != Code::ok;)
      if (code = engine.iprobe(1, kContext, 'f', info); code == Code::peer_lost) return false;
    if (!refuses(kContext, 'e', 1) || !refuses(kContext, tagged::kAnyTag, 1)) return false;
    receive(first, 1, 'f', 1);
    receive(second, 1, tagged::kAnyTag, 1);
    if (engine.wait(first) != Code::ok || engine.wait(second) != Code::ok || second.tag != 'e' ||
        !answer())
      return false;

    // With any tag; what is too long is left to the receive that says so.
    if (!try_receive(tagged::kAnyTag, 1) || got[0] != 'g' || info.tag != 'g' || !answer())
      return false;
    if (!refuses(kContext, 'h', 0)) return false;
    receive(first, 1, 'h', 0);
    if (engine.wait(first) != Code::truncated || !answer()) return false;

    // Several threads: always the long way.
    engine.set_threaded(true);
    if (!refuses(kContext, 'i', 1)) return false;
    receive(first, 1, 'i', 1);
    return engine.wait(first) == Code::ok && answer();
  };
  CHECK(run_ranks(2, Settings(), body) == 0);
}
