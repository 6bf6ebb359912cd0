#pragma once
// Channels: how the messages of a communicator are spread over the engine's VCIs, so that its
// threads do not wait for each other.
//
// By MPI's rules a receive takes the first message that matches it, whatever its tag and source if
// they are wildcards: all messages of a communicator go through one lane and one matcher. Where the
// program asserts that it uses no wildcard for the tag, or for the source, messages that differ in
// it never compete for a receive. Then they may have contexts of their own, which lie in VCIs of
// their own, and both sides compute which: by the tag, and by the sum of the two ranks. Messages
// of one tag between two processes stay in one channel, and so in order.
//
// mpi_assert_allow_overtaking alone does not help: a wildcard would have to look into all VCIs.
#include <cstdint>

#include "tagged/engine.hpp"

namespace weft::mpi {

struct Info;

// What all members of a communicator assert.
struct Hints {
  bool no_any_tag = false;
  bool no_any_source = false;

  static Hints of(const Info* info);  // of this process; null: none
  void echo(Info& info) const;        // sets those that are given
  bool any() const noexcept { return no_any_tag || no_any_source; }
  // As a set, for members to agree on.
  std::uint32_t bits() const noexcept { return (no_any_tag ? 1u : 0u) | (no_any_source ? 2u : 0u); }
  static Hints of_bits(std::uint32_t bits) noexcept { return {(bits & 1) != 0, (bits & 2) != 0}; }
};

// The contexts of channels are `context`, `context` + 2 and so on; kNumChannels * 2 divides the
// first, so that they have one VCI each (tagged::vci_of).
inline constexpr std::uint32_t kNumChannels = tagged::kNumVcis - 1;
static_assert((kNumChannels & (kNumChannels - 1)) == 0);

class Channels {
 public:
  Channels() = default;
  // has_several: threads may use the communicator at once, and its context is the first of
  // kNumChannels.
  Channels(Hints hints, bool has_several) noexcept
      : hints_(hints), num_(has_several && hints.any() ? kNumChannels : 1) {}

  Hints hints() const noexcept { return hints_; }
  std::uint32_t num() const noexcept { return num_; }
  // The number of a message's channel times 2, for adding to the communicator's context. ranks: the
  // sum of the sender's and the receiver's. What may be a wildcard does not count.
  std::uint32_t offset(int ranks, int tag) const noexcept {
    if (num_ == 1) return 0;
    const std::uint32_t by_tag = hints_.no_any_tag ? fold(static_cast<std::uint32_t>(tag)) : 0;
    const std::uint32_t by_ranks = hints_.no_any_source ? static_cast<std::uint32_t>(ranks) : 0;
    return ((by_tag + by_ranks) & (num_ - 1)) * 2;
  }

 private:
  // Tags that follow each other go to different channels, and so do mostly those with a stride.
  static std::uint32_t fold(std::uint32_t tag) noexcept {
    tag ^= tag >> 15;
    tag ^= tag >> 9;
    return tag ^ tag >> 3 ^ tag >> 6;
  }

  Hints hints_;
  std::uint32_t num_ = 1;
};

}  // namespace weft::mpi
