#pragma once
// Waiting: the part of a VCI that polls, yields and sleeps until a condition is true.
#include <atomic>
#include <cstdint>

#include "tagged/losses.hpp"

namespace weft::tagged {

struct Waiting : Losses {
  using Losses::Losses;

  // everywhere: for a condition of any VCI. polls: before it sleeps. awaited: for the observer of
  // waits.
  void wait(const WaitCondition& condition, bool everywhere, bool polls, const Awaited& awaited);
  bool poll_once();        // true: it completed something
  void progress_others();  // the VCIs that no other thread is in
  // For calls that test and the beginnings of waits, which poll their own VCI.
  void progress_others_at_times() {
    if (shared.has_others() && num_tests.fetch_add(1, std::memory_order_relaxed) % 8 == 7)
      progress_others();
  }

  std::uint64_t spin_ns = 0, yield_ns = 0;
  bool fence_works = false;  // the asymmetric fence is available
  std::atomic<unsigned> num_tests{0};
};

}  // namespace weft::tagged
