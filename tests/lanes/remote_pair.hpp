#pragma once
// Two ranks that are threads of this process and are told not to share memory, over a remote
// fabric: WEFT_TEST_FABRIC in the environment (ofi unless set). The tests of the contract of
// lanes.hpp over such fabrics run on them.
#include <fmt/format.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/os/mapping.hpp"
#include "base/wait.hpp"
#include "fabric/ofi/endpoint.hpp"
#include "lanes/fabrics.hpp"
#include "lanes/lane.hpp"
#include "lanes/linked/remote_lanes.hpp"
#include "tests/support/native_ofi.hpp"
#include "tests/support/wrong_board.hpp"

// Of a rank's body, which runs beside Catch.
#define EXPECT(condition)                                                                        \
  do {                                                                                           \
    if (!(condition)) {                                                                          \
      weft::test::note_not_so(fmt::format("{}:{}: not so: {}", __FILE__, __LINE__, #condition)); \
      return false;                                                                              \
    }                                                                                            \
  } while (false)

namespace weft::test {

// What a rank's body found otherwise; with_pair reports it.
inline std::mutex not_so_lock;
inline std::string not_so;
inline void note_not_so(const std::string& text) {
  const std::lock_guard lock(not_so_lock);
  not_so += text + "\n";
}

inline constexpr std::uint64_t kDeadlineNs = 20'000'000'000;

template <class F>
bool wait_for(F&& done) {
  for (const std::uint64_t limit = now_ns() + kDeadlineNs; !done(); std::this_thread::yield())
    if (now_ns() > limit) return false;
  return true;
}

// What two ranks of a test agree on.
struct Shared {
  std::atomic<int> mark{0};
  MemoryName memory{};
  bool reach(int value) {
    return wait_for([&] { return mark.load() >= value; });
  }
};

inline const std::string& fabric_name() {
  static const std::string name =
      getenv("WEFT_TEST_FABRIC") != nullptr ? getenv("WEFT_TEST_FABRIC") : "ofi";
  return name;
}
inline bool over_verbs() { return fabric_name() == "verbs"; }
inline const char* const kProvider = getenv("WEFT_TEST_OFI_PROVIDER");
// Atomics are the device's, whatever the processor does meanwhile.
inline const char* const kAtomics = getenv("WEFT_TEST_VERBS_ATOMICS");
inline bool by_device() { return kAtomics != nullptr && std::string(kAtomics) == "device"; }
// Such a provider ends the connection where an owner would only say no.
inline bool by_provider() { return weft::testing::kAllAreNative; }

// Some come and go with libfabric's version.
inline bool has_provider() {
  if (kProvider == nullptr) return true;
  Settings settings;
  ofi::Offers offers;
  return settings.set("OFI_PROVIDER", kProvider).ok() && offers.find(settings).ok();
}

inline Settings remote_settings(const char* timeout_ms = "30000") {
  Settings settings;
  REQUIRE(settings.set("FABRIC", fabric_name()).ok());
  if (kProvider == nullptr || std::string(kProvider) != "shm")
    REQUIRE(settings.set("INTERFACE", "lo").ok());
  if (kProvider != nullptr) REQUIRE(settings.set("OFI_PROVIDER", kProvider).ok());
  if (kAtomics != nullptr) REQUIRE(settings.set("VERBS_ATOMICS", kAtomics).ok());
  REQUIRE(settings.set("PEER_TIMEOUT_MS", timeout_ms).ok());
  return settings;
}

using Body = std::function<bool(Fabrics&, Shared&)>;

// Runs two ranks; each body returns whether all was as expected. Catch is for one thread only.
inline void with_pair(const Settings& settings, const Body& here, const Body& there,
                      bool wrong_board = false) {
  if (!has_provider()) {
    WARN("skipped: libfabric has no " << kProvider);
    return;
  }
  auto boards = make_thread_boards(2);
  if (wrong_board) boards[1] = std::make_unique<WrongBoard>(std::move(boards[1]), fabric_name());
  Shared shared;
  bool good[2] = {false, false};
  std::vector<std::thread> ranks;
  for (int i = 0; i < 2; ++i)
    ranks.emplace_back([&, i, board = std::move(boards[static_cast<std::size_t>(i)])]() mutable {
      std::unique_ptr<Members> job;
      std::unique_ptr<Fabrics> fabrics;
      good[i] = Members::open(settings, std::move(board), job).ok() &&
                Fabrics::open(*job, fabrics).ok() && (i == 0 ? here : there)(*fabrics, shared);
      const Status met = job ? job->board().fence(20'000) : Status{};
      if (!met) note_not_so(fmt::format("rank {}'s last fence: {}", i, met.text()));
      good[i] = good[i] && met.ok();
    });
  for (std::thread& rank : ranks) rank.join();
  INFO(std::exchange(not_so, {}));
  CHECK(good[0]);
  CHECK(good[1]);
}

// Memory, all zero, that a rank shares as long as this lives.
class Lent {
 public:
  Lent(Lanes& lanes, std::size_t bytes, MemoryName& memory) : lanes_(lanes) {
    is_good_ = mapping_.map((bytes + 4095) / 4096 * 4096).ok() &&
               lanes.share(mapping_.data(), bytes, memory).ok();
    memory_ = memory;
  }
  ~Lent() {
    if (is_good_) (void)lanes_.unshare(memory_);
  }
  Lent(const Lent&) = delete;
  bool is_good() const { return is_good_; }
  void* address() const { return mapping_.data(); }

 private:
  Lanes& lanes_;
  Mapping mapping_;
  MemoryName memory_{};
  bool is_good_ = false;
};

// Connects, which a remote peer answers in its own time.
inline bool connect(transport::RemoteLanes& lanes, int peer, SendLane& lane, std::uint32_t bytes) {
  SendMemory memory;
  memory.ring_bytes = bytes;
  Status status;
  if (!wait_for([&] {
        lanes.poll();
        status = lanes.connect(peer, 0, memory);
        return status.code() != Code::again;
      }) ||
      !status)
    return false;
  lane.open(lanes, memory, memory.ring_bytes, memory.ring_bytes);
  return memory.ring_bytes == bytes;
}

inline bool accept(transport::RemoteLanes& lanes, int from, std::uint32_t ring_bytes,
                   ReceiveLane& lane) {
  ReceiveMemory memory;
  int peer = -1, channel = -1;
  EXPECT(wait_for([&] {
    lanes.poll();
    return lanes.accept(0, peer, channel, memory).ok() && peer == from;
  }));
  EXPECT(memory.ring_bytes == ring_bytes);
  lane.open(lanes, memory, ring_bytes, ring_bytes);
  return true;
}

}  // namespace weft::test
