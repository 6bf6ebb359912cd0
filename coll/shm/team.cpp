#include "coll/shm/team.hpp"

namespace weft::coll {
namespace {

std::size_t controls_bytes(int size) noexcept {
  constexpr std::size_t kPage = 4096;
  const std::size_t bytes =
      sizeof(SegmentHeader) + static_cast<std::size_t>(size) * sizeof(MemberControl);
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

std::size_t ShmTeam::segment_bytes(int size) noexcept {
  // One bank more: the result's.
  return controls_bytes(size) + (static_cast<std::size_t>(size) * kNumBanks + 1) * kBankBytes;
}

ShmTeam::ShmTeam(std::byte* segment, int rank, int size, bool crowded, const ShmTree& tree,
                 Outside outside)
    : header_(reinterpret_cast<SegmentHeader*>(segment)),
      members_(reinterpret_cast<MemberControl*>(segment + sizeof(SegmentHeader))),
      banks_(segment + controls_bytes(size)),
      rank_(rank),
      size_(size),
      crowded_(crowded),
      tree_(tree),
      outside_(outside) {}

bool ShmTeam::wait_for_all() {
  if (!crowded_) return wait_for_each();
  if (arrive_last()) {
    ring_all();
  } else if (!wait_for_arrivals(sync_target_)) {
    return false;
  }
  note_all_arrived();
  return true;
}

bool ShmTeam::wait_done(int member, std::uint64_t round) {
  // acquire: pairs with the release in end(); the member's reads are complete.
  const auto done = [&] { return members_[member].done.load(std::memory_order_acquire) >= round; };
  if (done()) return true;
  header_->want_done.fetch_add(1, std::memory_order_relaxed);
  const bool seen = wait(done);
  header_->want_done.fetch_sub(1, std::memory_order_relaxed);
  return seen;
}

bool ShmTeam::wait_free(const Use& use) {
  if (use.reader != kEverybody) return wait_done(use.reader, use.round);
  for (int r = 0; r < size_; ++r)
    if (r != rank_ && !wait_done(r, use.round)) return false;
  if (use.round > all_done_) all_done_ = use.round;
  return true;
}

}  // namespace weft::coll
