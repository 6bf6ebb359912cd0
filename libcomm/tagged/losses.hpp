#pragma once
// Losses: the part of a VCI that detects lost peers and completes what needs them (engine.hpp,
// "Losses").
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "tagged/receiving.hpp"

namespace weft::tagged {

struct Losses : Receiving {
  using Receiving::Receiving;

  static constexpr int kNobody = -1;
  // The lost peer for which a receive or probe without a message ends, or kNobody.
  int find_lost(int source, std::uint32_t context) {
    if (is_exceptional) [[unlikely]] {
      if (is_revoked(context)) return job.rank();
      if (some_apart) lose_apart(source);
    }
    return num_lost_peers == 0 ? kNobody : find_lost_slow(source, context);
  }
  // The same for a probe: peer_lost, with the peer in `info`; or again.
  Code lost_or_again(int source, std::uint32_t context, std::int32_t tag, MessageInfo& info);

  void check_liveness();
  // The same at little cost, up to some milliseconds later.
  void check_liveness_if_due();
  // Ends a peer after all messages that it has sent are received.
  void end_of(Peer& peer);
  void lose(Peer& peer);

  void acknowledge(std::uint32_t context, std::span<const int> acknowledged_peers);
  // A receive from any source pauses until the losses are acknowledged.
  void pause(Request& request) noexcept;
  void revoke(std::uint32_t context);
  bool is_revoked(std::uint32_t context) const noexcept;
  void close_context(std::uint32_t context) noexcept;

  std::size_t num_lost_peers = 0;  // of `peers` now; Shared::num_lost counts losses
  bool some_apart = false;         // a peer has no fabric in common with this process
  bool is_exceptional = false;     // some_apart, or a context is revoked

 private:
  int find_lost_slow(int source, std::uint32_t context) noexcept;
  // Calls f(peer) for the possible senders of a receive from any source in this context, until it
  // returns false.
  template <class F>
  void for_each_sender(std::uint32_t context, F&& f);
  bool may_send(int peer, std::uint32_t context);
  // A peer without a fabric in common is lost at first contact. A receive from it is one; a receive
  // from any source is one with all such peers once no other peer is left.
  void lose_apart(int source);
  PeerState state_of(const Peer& peer) const noexcept;
  void watch(Peer& peer);
  void watch_awaited();
  std::uint32_t num_ends() const noexcept;  // of peers: unchanged means that none has ended since

  // By context: the lost peers whose loss is acknowledged there.
  struct Acknowledged {
    std::vector<int> peers;
    std::uint32_t num_losses = 0;  // 0, or the number of losses after which none was left over
  };
  std::unordered_map<std::uint32_t, Acknowledged> acknowledged;
  std::vector<std::uint32_t> revoked;              // contexts
  std::uint32_t num_losses = 0;                    // so far
  std::atomic<std::uint64_t> last_liveness_ns{0};  // relaxed
  std::size_t next_check = 0;                      // of `peers`, for lost ones
  std::uint32_t num_ends_seen = 0;
};

}  // namespace weft::tagged
