#pragma once
// LossDeadline: when a wait inside a collective gives up.
//
// A lost member ends the collective for everybody, also for those who wait for somebody else: that
// other one may have given up. But a member that finished the same call and then left the job in
// good order counts as lost too, while what we wait for is still on its way from a third one. So
// after a loss the wait goes on for a bounded time, Team::grace_ns().
#include "base/wait.hpp"
#include "coll/coll.hpp"

namespace weft::coll {

// Once somebody died or gave up, and once somebody left in good order: who has done so has done its
// part, and so will those on whom a call depends, however busy their machine is.
inline constexpr std::uint64_t kGraceNs = 200'000'000, kGraceAfterLeavingNs = 10'000'000'000;

class LossDeadline {
 public:
  explicit LossDeadline(Team& team) noexcept : team_(team) {}

  // To be asked whenever what is waited for is not there yet.
  bool has_passed() noexcept {
    if (!team_.is_broken()) return false;
    const std::uint64_t now = now_ns();
    if (broken_since_ns_ == 0) broken_since_ns_ = now;
    // It takes a look at every member.
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
