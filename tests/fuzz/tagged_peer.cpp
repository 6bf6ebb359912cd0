// What a hostile peer tells the tagged engine: entries of every kind, the control messages of the
// rendezvous among them, and the record of a copy that both sides share; while this side sends,
// receives, probes and cancels. Every request must end, once, at the latest when the peer is lost,
// and no byte beyond a buffer may be written.
//
// The input is a row of steps, each a byte and what belongs to it (see Script). A number of a
// message below 8 names the message that the victim announced so-manieth, and addresses lie in
// memory of the peer: what is read or written there is the peer's own harm.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "job/members.hpp"
#include "lanes/fabrics.hpp"
#include "lanes/lane.hpp"
#include "script.hpp"
#include "tagged/engine.hpp"
#include "tagged/wire.hpp"

using namespace weft;
using namespace weft::tagged;

namespace {

constexpr std::size_t kSizes[] = {0, 8, 200, 5000, 40'000, 300'000};
constexpr std::size_t kLargest = 300'000;
constexpr std::size_t kMaxRequests = 24;

void must(bool good) {
  if (!good) std::abort();
}

// Two ranks in this process: 0 has the engine, 1 is what the input says.
struct Ranks {
  std::unique_ptr<weft::Members> jobs[2];
  std::vector<std::byte> own = std::vector<std::byte>(2 * kLargest);  // of rank 1

  Ranks() {
    auto boards = make_thread_boards(2);
    Settings settings;
    const auto open = [&](std::size_t rank) {
      must(weft::Members::open(settings, std::move(boards[rank]), jobs[rank]).ok());
    };
    std::thread other(open, 1);
    open(0);
    other.join();
  }
};

// Half of them are packed and unpacked, as a datatype's elements are.
struct OwnRequest final : Request, Packer {
  std::unique_ptr<std::byte[]> memory;  // of exactly the length, so that the sanitizer guards it
  std::size_t bytes = 0;

  void pack(std::byte* to, std::size_t skip, std::size_t length) const noexcept override {
    check(skip, length);
    std::memcpy(to, memory.get() + skip, length);
  }
  void unpack(const std::byte* from, std::size_t skip, std::size_t length) const noexcept override {
    check(skip, length);
    std::memcpy(memory.get() + skip, from, length);
  }
  void check(std::size_t skip, std::size_t length) const noexcept {
    must(!is_complete() && skip <= bytes && length <= bytes - skip);
  }
};

struct Scene {
  explicit Scene(Ranks& ranks) : own(ranks.own) {
    std::thread other([&] { must(Fabrics::open(*ranks.jobs[1], fabrics).ok()); });
    must(Engine::create(*ranks.jobs[0], engine).ok());
    other.join();
    SendMemory memory;
    must(fabrics->local().connect(0, 0, memory).ok());
    lane.open(fabrics->local(), memory, 1 << 20, 2 << 20);
  }

  OwnRequest& request(std::size_t bytes) {
    OwnRequest& made = requests.emplace_back();
    made.memory.reset(new std::byte[bytes]());
    made.bytes = bytes;
    if (requests.size() % 2 == 0) made.packer = &made;
    return made;
  }

  // Those that the victim announced count from 1, see RequestTable.
  static std::uint64_t number(std::uint64_t raw) noexcept {
    return raw < 8 ? std::uint64_t{1} << 32 | raw : raw;
  }
  std::uint64_t address(std::uint64_t raw) const noexcept {
    return reinterpret_cast<std::uintptr_t>(own.data()) + raw % kLargest;
  }

  void entry(Script& in) {
    const auto kind = static_cast<std::uint8_t>(std::max<int>(in.take<std::uint8_t>() % 12, 1));
    const std::uint64_t immediate =
        kind == kFin || kind == kStream || kind == kWithdraw || kind == kWithdrawn
            ? number(in.take<std::uint64_t>())
            : envelope(3, in.take<std::int8_t>());
    const std::size_t most = std::min<std::size_t>(in.take<std::uint16_t>(), 60'000);
    auto data = in.take_bytes(most);
    if (kind == kRts && data.size() == sizeof(Rts)) {
      auto* announce = reinterpret_cast<Rts*>(data.data());
      if (announce->region == 0) announce->address = address(announce->address);
    }
    if (kind == kCts && data.size() == sizeof(Cts)) {
      auto* ready = reinterpret_cast<Cts*>(data.data());
      if (ready->region == 0) ready->address = address(ready->address);
      ready->send_id = number(ready->send_id);
    }
    (void)lane.send(kind, immediate, data.data(), data.size());
  }

  void step(Script& in) {
    const auto what = in.take<std::uint8_t>();
    const std::size_t bytes = kSizes[what / 16 % std::size(kSizes)];
    const bool any = what >= 128;
    const auto tag = static_cast<std::int32_t>(any ? kAnyTag : what / 16);
    if (what % 16 < 6) return entry(in);
    if (requests.size() >= kMaxRequests) return;
    MessageInfo info;
    switch (what % 16) {
      case 6:
      case 7: {
        OwnRequest& made = request(bytes);
        return engine->irecv(made, any ? kAnySource : 1, 3, tag, made.memory.get(), bytes);
      }
      case 8:
      case 9: {
        OwnRequest& made = request(bytes);
        return engine->isend(made, 1, 3, what / 16, made.memory.get(), bytes, any);
      }
      case 10: {
        Unexpected* message = nullptr;
        if (engine->improbe(1, 3, tag, info, message) == Code::ok) probed.push_back(message);
        return;
      }
      case 11: {
        if (probed.empty()) return;
        OwnRequest& made = request(bytes);
        made.is_receive = true;
        must(engine->irecv_matched(made, probed.front(), made.memory.get(), bytes));
        return probed.pop_front();
      }
      case 12:
        if (requests.empty()) return;
        return (void)engine->cancel(requests[what / 16 % requests.size()]);
      case 13: {
        // A record of the victim's, or of the peer's: both sides of a copy write to it.
        Fabrics& owner = any ? *fabrics : engine->fabrics();
        SharedCopy& copy = *owner.local().own_copy(in.take<std::uint8_t>());
        copy.claimed.store(in.take<std::uint64_t>());
        copy.done.store(in.take<std::uint64_t>());
        copy.given_back_bytes.store(in.take<std::uint64_t>());
        copy.given_back.store(in.take<std::uint64_t>());
        const auto flags = in.take<std::uint8_t>();
        copy.failed.store(flags & 1);
        return copy.sender_left.store(flags >> 1 & 1);
      }
      case 14:
        return (void)engine->iprobe(kAnySource, 3, tag, info);
      default:
        return engine->progress();
    }
  }

  void end() {
    for (int i = 0; i < 8; ++i) engine->progress();
    engine->lose(1);
    while (!probed.empty()) {
      OwnRequest& made = request(64);
      made.is_receive = true;
      must(engine->irecv_matched(made, probed.front(), made.memory.get(), 64));
      probed.pop_front();
    }
    for (OwnRequest& made : requests) must(made.is_complete());
  }

  std::vector<std::byte>& own;  // the peer's memory: more than anybody asks for
  std::deque<OwnRequest> requests;
  std::deque<Unexpected*> probed;
  std::unique_ptr<Fabrics> fabrics;  // of rank 1
  std::unique_ptr<Engine> engine;    // of rank 0
  SendLane lane;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Ranks ranks;
  log::set_level(static_cast<LogLevel>(-1));
  Scene scene(ranks);
  Script in{data, size};
  while (in.size > 0) scene.step(in);
  scene.end();
  return 0;
}
