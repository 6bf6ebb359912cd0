#pragma once
// LossDeadline: the time at which a wait inside a collective gives up.
//
// A lost member ends the collective for all members, also for those that wait for another one: that
// one may have given up. But a member that finished the same call and then left the job in good
// order counts as lost too, while the awaited message may still be on its way from a third member.
// So after a loss the wait goes on for a bounded time, Team::grace_ns().
#include "base/wait.hpp"
#include "coll/coll.hpp"

namespace weft::coll {

// The grace once a member died or gave up, and once one left in good order: the latter has done its
// part, and so will those on which a call depends, however busy their machine is.
inline constexpr std::uint64_t kGraceNs = 200'000'000, kGraceAfterLeavingNs = 10'000'000'000;

class LossDeadline {
 public:
  explicit LossDeadline(Team& team) noexcept : team_(team) {}

  // Called whenever the awaited event has not happened yet.
  bool has_passed() noexcept {
    if (!team_.is_broken()) return false;
    if (team_.is_interrupted()) return true;
    const std::uint64_t now = now_ns();
    if (broken_since_ns_ == 0) broken_since_ns_ = now;
    // Computing the grace checks every member.
    const bool given_up = team_.is_given_up();
    if (const std::uint32_t lost = team_.engine().num_lost();
        grace_ns_ == 0 || lost != num_lost_ || given_up != given_up_) {
      num_lost_ = lost;
      given_up_ = given_up;
      grace_ns_ = team_.grace_ns() + 1;
    }
    return now >= broken_since_ns_ + grace_ns_;
  }

 private:
  Team& team_;
  std::uint64_t broken_since_ns_ = 0, grace_ns_ = 0;
  std::uint32_t num_lost_ = 0;
  bool given_up_ = false;
};

}  // namespace weft::coll
