#pragma once
// Ranks that are threads of one test and reach each other over an RDMA device.
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/wait.hpp"
#include "fabric/registry.hpp"
#include "fabric/verbs/device.hpp"

namespace weft {

template <class F>
bool wait_for(F&& done) {
  constexpr std::uint64_t kDeadlineNs = 60'000'000'000;
  for (const std::uint64_t limit = now_ns() + kDeadlineNs; !done(); std::this_thread::yield())
    if (now_ns() > limit) return false;
  return true;
}

// Where there is none the test is skipped.
inline bool has_device(verbs::Port& port) {
  std::vector<verbs::Port> ports;
  Status status = verbs::find_ports(ports);
  if (status) status = verbs::choose_port(ports, "", port);
  if (!status) WARN("skipped: " << status.text());
  return status.ok();
}
inline bool has_device() {
  verbs::Port port;
  return has_device(port);
}

struct Rank {
  std::unique_ptr<Job> job;
  std::unique_ptr<Fabrics> fabrics;  // null: of one that `stand_in` stands in for
};

inline Settings verbs_settings() {
  Settings settings;
  REQUIRE(settings.set("FABRIC", "verbs").ok());
  REQUIRE(settings.set("PEER_TIMEOUT_MS", "30000").ok());
  return settings;
}

// The ranks from num_fabrics on have no fabric: stand_in puts what they have on their boards.
inline std::vector<Rank> open_ranks(int num_fabrics, const Settings& settings = verbs_settings(),
                                    int num_others = 0,
                                    const std::function<void(Job&)>& stand_in = nullptr) {
  auto boards = make_thread_boards(num_fabrics + num_others);
  std::vector<Rank> ranks(boards.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&, i] {
      if (!Job::open(settings, std::move(boards[i]), ranks[i].job)) return;
      if (i < static_cast<std::size_t>(num_fabrics)) {
        (void)Fabrics::open(*ranks[i].job, ranks[i].fabrics);
      } else {
        stand_in(*ranks[i].job);
        // Fabrics::open has two, of the fabric inside the host and of all.
        for (int fence = 0; fence < 2; ++fence) (void)ranks[i].job->board().fence(10'000);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < static_cast<std::size_t>(num_fabrics); ++i)
    REQUIRE(ranks[i].fabrics != nullptr);
  return ranks;
}

struct OpenLane {
  SendMemory send;
  ReceiveMemory receive;
};

// Both ends are polled here.
inline OpenLane open_lane(std::vector<Rank>& ranks, int peer, int channel) {
  Fabric& fabric = *ranks[0].fabrics->to(peer);
  Fabric& other = *ranks[static_cast<std::size_t>(peer)].fabrics->to(0);
  SendMemory memory;
  Status status;
  REQUIRE(wait_for([&] {
    fabric.poll();
    other.poll();
    status = fabric.connect(peer, channel, memory);
    return status.code() != Code::again;
  }));
  INFO(status.text());
  REQUIRE(status.ok());
  ReceiveMemory receive;
  int from = -1, accepted = -1;
  REQUIRE(wait_for([&] {
    other.poll();
    return other.accept(channel_of(channel).client, from, accepted, receive).ok() && from == 0;
  }));
  return {memory, receive};
}

// Code::again only after a long time.
inline Code post(Fabric& writer, Fabric& reader, const OpenLane& lane, std::size_t offset,
                 std::size_t bytes) {
  Code code = Code::again;
  (void)wait_for([&] {
    writer.poll();
    reader.poll();
    code = writer.post(lane.send.lane, offset, bytes);
    return code != Code::again;
  });
  return code;
}

}  // namespace weft
