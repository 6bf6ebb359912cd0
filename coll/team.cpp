#include <algorithm>
#include <cstdlib>
#include <new>

#include "coll/coll.hpp"
#include "coll/shm_segment.hpp"
#include "coll/shm_team.hpp"

namespace weft::coll {

Team::Team(tagged::Engine& engine, std::vector<int> members, std::uint32_t context)
    : engine_(engine), members_(std::move(members)), context_(context) {
  const auto self = std::find(members_.begin(), members_.end(), engine.rank());
  rank_ = static_cast<int>(self - members_.begin());
  Job& job = engine.job();
  is_local_ = std::all_of(members_.begin(), members_.end(),
                          [&](int member) { return job.same_host(member, engine.rank()); });
  choices_ = Choices::from(job.settings());
}

Team::~Team() {
  // What the engine still uses must outlive this team; only after a loss, and then for good.
  for (auto& request : abandoned_)
    if (!request->is_complete()) (void)request.release();
}

void Team::Free::operator()(std::byte* memory) const noexcept { std::free(memory); }

std::byte* Team::scratch(std::size_t bytes) {
  if (bytes > scratch_bytes_) {
    constexpr std::size_t kUnit = 4096;
    const std::size_t room = (bytes + kUnit - 1) / kUnit * kUnit;
    scratch_.reset();
    scratch_bytes_ = 0;
    scratch_.reset(static_cast<std::byte*>(std::aligned_alloc(64, room)));
    if (scratch_ == nullptr) return nullptr;
    scratch_bytes_ = room;
  }
  // Never null for a request of nothing: null means failure.
  alignas(64) static std::byte nothing[64];
  return scratch_ ? scratch_.get() : nothing;
}

void Team::abandon(std::unique_ptr<tagged::Request> request) {
  abandoned_.push_back(std::move(request));
}

bool Team::look_for_lost() noexcept {
  const std::uint32_t lost = engine_.num_lost();
  for (const int member : members_)
    if (member != engine_.rank() && !engine_.is_alive(member)) return true;
  lost_seen_ = lost;  // others than members
  return false;
}

}  // namespace weft::coll
