// A peer that does not keep to what two engines have agreed on: rank 1 writes into its lane to rank
// 0 by hand.
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "lanes/fabrics.hpp"
#include "lanes/lane.hpp"
#include "tagged/engine.hpp"
#include "tagged/wire.hpp"

namespace {

using namespace weft;
using tagged::Engine;
using tagged::Request;

constexpr std::uint32_t kContext = 3;

// Calls `body` with rank 0's engine and the lane to it.
void with_lane(const std::function<void(Engine&, SendLane&)>& body) {
  auto boards = make_thread_boards(2);
  std::unique_ptr<Members> jobs[2];
  std::unique_ptr<Fabrics> fabrics;
  std::unique_ptr<Engine> engine;
  bool good[2] = {};
  std::thread other([&] {
    good[1] = Members::open({}, std::move(boards[1]), jobs[1]).ok() &&
              Fabrics::open(*jobs[1], fabrics).ok();
  });
  good[0] = Members::open({}, std::move(boards[0]), jobs[0]).ok() &&
            Engine::create(*jobs[0], engine).ok();
  other.join();
  REQUIRE(good[0]);
  REQUIRE(good[1]);
  SendMemory memory;
  REQUIRE(fabrics->local().connect(0, 0, memory).ok());
  SendLane lane;
  lane.open(fabrics->local(), memory, 64 << 10, memory.ring_bytes);
  body(*engine, lane);
}

// The first entry of a message of `bytes` bytes, with `length` of them.
bool send_first(SendLane& lane, std::uint64_t bytes, std::size_t length) {
  std::byte data[4096] = {};
  std::memcpy(data, &bytes, sizeof bytes);
  return lane.send(tagged::kEagerFirst, tagged::envelope(kContext, 5), data, sizeof bytes + length);
}

}  // namespace

TEST_CASE("more of a message that is whole closes the lane", "[engine]") {
  with_lane([](Engine& engine, SendLane& lane) {
    char buffer[100], data[100] = "";
    Request receive;
    engine.irecv(receive, 1, kContext, 5, buffer, sizeof buffer);
    REQUIRE(send_first(lane, 100, 60));
    REQUIRE(lane.send(tagged::kEagerMore, 0, data, 40));
    engine.progress();
    REQUIRE(receive.is_complete());
    REQUIRE(receive.code == Code::ok);
    REQUIRE(lane.send(tagged::kEagerMore, 0, data, 40));
    engine.progress();
    REQUIRE_FALSE(engine.is_alive(1));
  });
}

TEST_CASE("a message that was probed and never came whole ends with its sender", "[engine]") {
  with_lane([](Engine& engine, SendLane& lane) {
    REQUIRE(send_first(lane, 1000, 60));
    tagged::MessageInfo info;
    tagged::Unexpected* message = nullptr;
    REQUIRE(engine.improbe(1, kContext, 5, info, message) == Code::ok);
    REQUIRE(info.bytes == 1000);
    engine.lose(1);
    char own[8] = "own", other[8] = "", buffer[1000];
    Request send, receive, received;
    // What belongs to the probe must not be given to another message meanwhile.
    engine.isend(send, 0, kContext, 6, own, sizeof own);
    engine.progress();
    REQUIRE(engine.irecv_matched(receive, message, buffer, sizeof buffer));
    REQUIRE(receive.is_complete());
    REQUIRE(receive.code == Code::peer_lost);
    engine.irecv(received, 0, kContext, 6, other, sizeof other);
    engine.progress();
    REQUIRE(received.is_complete());
    REQUIRE(std::strcmp(other, "own") == 0);
  });
}
