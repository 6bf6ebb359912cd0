#pragma once
// Trials: which way allreduces of a length are faster in this communicator, by the switch or by the
// hosts, as measured. The first calls of each class of lengths go one way and then the other; then
// the members add up their times, all take the way whose sum is less, and try again after many
// calls, as loads and losses change. A state machine without clocks and messages; the same calls
// give the same ways on all members. One thread at a time.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft::offload {

class Trials {
 public:
  // Calls of a trial, half of them each way, and the least number of calls between two trials:
  // fewer than 1 in 200 go the way that is slower. Where that is far slower trials are so much
  // rarer that they add 1 / kMostCost to the time of all calls, which kRarest bounds. The second
  // trial comes kSooner times sooner, as the first may have been a bad moment.
  static constexpr std::uint32_t kTrial = 16, kBetween = 2000, kSooner = 5, kMostCost = 50,
                                 kRarest = 1'000'000;
  // By way: 0 the hosts, 1 the switch. What a call of this member takes in the trial: the mean of
  // all but the first, which finds members asleep and caches cold after the other way, and the
  // longest, in which somebody may have been interrupted. The least would be that of who comes
  // last.
  using Times = std::array<std::uint64_t, 2>;
  static constexpr std::uint64_t kUnknownNs = 1'000'000'000'000;

  // Before each call. Returns true if the trial has ended: the members' times() are to be added up
  // and given to decide() first.
  bool is_due(std::size_t bytes) const noexcept { return of(bytes).num_calls == kTrial; }
  Times times(std::size_t bytes) const noexcept;
  void decide(std::size_t bytes, const Times& sums) noexcept;
  // The way of the next call. guess: for the first.
  bool next_is_by_switch(std::size_t bytes, bool guess) noexcept;
  // Returns true if the call that next_is_by_switch() gave a way is one of a trial.
  bool is_in_trial(std::size_t bytes) const noexcept { return of(bytes).num_calls <= kTrial; }
  // The time of such a call.
  void note(std::size_t bytes, bool by_switch, std::uint64_t time_ns) noexcept;

  bool is_decided(std::size_t bytes) const noexcept { return of(bytes).is_decided; }
  bool is_by_switch(std::size_t bytes) const noexcept { return of(bytes).is_by_switch; }

 private:
  // Lengths with the same power of two.
  struct Class {
    std::uint32_t num_calls = 0;  // since the trial began
    std::uint32_t between = kBetween;
    bool is_decided = false, is_tried_twice = false, is_by_switch = false;
    struct Way {
      std::uint64_t sum_ns = 0, longest_ns = 0, count = 0;
    };
    std::array<Way, 2> ways;
  };
  Class& of(std::size_t bytes) noexcept { return classes_[std::bit_width(bytes)]; }
  const Class& of(std::size_t bytes) const noexcept { return classes_[std::bit_width(bytes)]; }

  std::array<Class, 65> classes_;
};

}  // namespace weft::offload
