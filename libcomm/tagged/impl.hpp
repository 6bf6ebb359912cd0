#pragma once
// The implementation of a VCI (engine.hpp). It is a chain of parts by concern, each in a header and
// a source file of its name, and each with the fields it owns:
//
//   Core        peers, settings, the lock, completion of requests
//   Sending     queued messages and control entries into the rings
//   Rendezvous  RTS, CTS, FIN, and the copies of long messages
//   Receiving   polls of the lanes, delivery, unexpected messages
//   Losses      detection of lost peers, completion of what needs them
//   Waiting     poll, yield, sleep
//
// A part uses the parts before it directly, and calls a later one through vci(). As base classes
// they cost no indirection. Impl adds what the calls of Engine need; setup.cpp creates VCIs, and
// foreign.cpp admits processes of other jobs.
#include <vector>

#include "tagged/waiting.hpp"

namespace weft::tagged {

struct Engine::Impl : Waiting {
  Impl(Shared& all, int its_number) : Waiting(all, its_number) {}

  Status start();
  bool all_out() noexcept;  // nothing is queued

  // foreign.cpp
  void set_up(Peer& peer, int rank, Lanes* lanes) noexcept;
  void forget(Peer& peer);
  static bool has_met(const Peer& peer) noexcept;
  bool is_foreign(const Peer& peer) const noexcept { return peer.rank >= job.size(); }
  std::uint32_t& uses_of(const Peer& foreign) noexcept {
    return uses_of_foreign[static_cast<std::size_t>(foreign.rank - job.size())];
  }

  std::size_t plain_below = 0;  // shorter messages are always copied plainly, as one entry
  unsigned receive_polls = 0;   // of try_receive, beyond the first
  unsigned received_at_once = 0;
  std::vector<std::uint32_t> uses_of_foreign;  // by number - job.size()
};

inline Engine::Impl& Core::vci() noexcept { return static_cast<Engine::Impl&>(*this); }
inline const Engine::Impl& Core::vci() const noexcept {
  return static_cast<const Engine::Impl&>(*this);
}

// Holds the engine's lock if more than one thread may call.
class Guard {
 public:
  explicit Guard(Engine::Impl& impl) : impl_(impl), mutex_(impl.threaded ? &impl.mutex : nullptr) {
    if (mutex_ != nullptr) [[unlikely]]
      mutex_->lock();
  }
  ~Guard() {
    if (mutex_ != nullptr) [[unlikely]]
      mutex_->unlock();
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  // For one call with the lock: Guard(vci)->call().
  Engine::Impl* operator->() const noexcept { return &impl_; }

 private:
  Engine::Impl& impl_;
  ShortLock* mutex_;
};

}  // namespace weft::tagged
