#pragma once
// Engine::Shared: the state that all VCIs of an engine share.
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "lanes/fabrics.hpp"
#include "tagged/engine.hpp"
#include "tagged/peer.hpp"

namespace weft::tagged {

struct Engine::Shared {
  explicit Shared(Members& the_job);
  ~Shared();

  // Errors: no_memory; for the first VCI also those of its settings and fabrics.
  Status make(int number);
  // The VCI of a context, which must exist.
  Impl& of(std::uint32_t context) const noexcept {
    return *vcis[static_cast<std::size_t>(vci_of(context))].load(std::memory_order_acquire);
  }
  bool has_others() const noexcept { return num_vcis.load(std::memory_order_relaxed) > 1; }
  // Calls f(Impl&) for all.
  template <class F>
  void for_each(F&& f) {
    if (!has_others()) [[likely]]
      return f(first());
    for (auto& one : vcis)
      if (Impl* vci = one.load(std::memory_order_acquire)) f(*vci);
  }
  Impl& first() const noexcept { return *owned[0]; }

  // Losses. One VCI detects that a peer has ended, or loses it for invalid data; the others follow
  // when they check for lost peers, each after it has received the messages sent to it before. The
  // peer is lost once all have lost it.
  struct Fate {
    std::atomic<PeerState> state{PeerState::alive};  // as the first VCI detected it
    std::atomic<bool> is_watched{false};             // a VCI other than the first needs it
    std::atomic<bool> is_lost{false};                // release: its `state` before
    int num_lost_in = 0;                             // under `losses`
  };
  PeerState state_of(int rank) const noexcept {
    const auto i = static_cast<std::size_t>(rank);
    return i < fates.size() ? fates[i].state.load(std::memory_order_relaxed) : PeerState::alive;
  }
  bool is_watched(int rank) const noexcept {
    const auto i = static_cast<std::size_t>(rank);
    return i < fates.size() && fates[i].is_watched.load(std::memory_order_relaxed);
  }
  void note_end(int rank, PeerState state) noexcept;
  void note_lost(const Peer& peer) noexcept;
  void notify(const Notice& notice) const noexcept {
    if (const auto observer_now = observer.load(std::memory_order_relaxed)) observer_now(notice);
  }

  Members& job;
  std::unique_ptr<Fabrics> fabrics;
  std::atomic<bool> has_remote{false};  // relaxed where nothing else is read
  // Relaxed. A poll of some remote fabric costs system calls.
  std::atomic<bool> polls_by_calls{false};
  void note_fabrics() noexcept {
    polls_by_calls = std::ranges::any_of(fabrics->remote(),
                                         [](const auto* lanes) { return lanes->polls_by_calls(); });
  }
  std::atomic<std::span<const int> (*)(std::uint32_t) noexcept> senders{nullptr};  // relaxed
  std::atomic<void (*)(bool)> background{nullptr};   // acquire and release: with its data
  std::atomic<WaitObserver> wait_observer{nullptr};  // relaxed: of the whole process
  std::atomic<void (*)(const Notice&) noexcept> observer{nullptr};  // relaxed: of the whole process

  // Runs the control callback if there are messages for it.
  void run_control();
  std::atomic<bool (*)()> control{nullptr};         // acquire and release: with its data
  std::atomic<std::uint32_t> num_controls_seen{0};  // relaxed

  std::mutex keeping;
  std::vector<std::unique_ptr<Kept>> kept;  // under `keeping`

  std::mutex making;
  std::array<std::unique_ptr<Impl>, kNumVcis> owned;  // under `making`, except the first
  std::array<std::atomic<Impl*>, kNumVcis> vcis{};    // release and acquire
  std::atomic<int> num_vcis{0};                       // changed under `losses`

  mutable std::mutex losses;               // within the VCIs' locks
  std::vector<Fate> fates;                 // by rank; foreign processes use the first VCI alone
  std::atomic<std::uint32_t> num_ends{0};  // detected by a VCI; release: their state
  std::vector<int> lost;                   // in the order of their loss
  std::atomic<std::uint32_t> num_lost{0};
  std::atomic<int> last_reported_lost{-1};  // relaxed: it is for messages about errors
  std::atomic<int> num_callers{0};          // relaxed: threads that wait, if more than one may call
};

}  // namespace weft::tagged
