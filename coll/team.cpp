#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "coll/coll.hpp"
#include "coll/multicast/network_bcast.hpp"
#include "coll/offload/offload.hpp"
#include "coll/plan/loss_deadline.hpp"
#include "coll/plan/notices.hpp"
#include "coll/shm/segment.hpp"
#include "coll/shm/team.hpp"
#include "coll/two_level/hosts.hpp"

namespace weft::coll {

Team::Team(tagged::Engine& engine, std::span<const int> members, std::uint32_t context,
           Interrupt* interrupt)
    : engine_(engine),
      interrupt_(interrupt),
      counts_(members.size() > 1 ? CallCounts(engine.is_threaded()) : CallCounts()),
      choices_(Choices::from(engine.job().settings())) {
  members_.reserve(members.size());
  // Clients that agree on losses in the middle of calls need every member to see them alike.
  if (interrupt == nullptr) notices_ = std::make_unique<Notices>(engine);
  // Members of several jobs have different information about the hosts.
  const bool is_across =
      std::ranges::any_of(members, [&engine](int member) { return member >= engine.size(); });
  if (interrupt == nullptr && engine.job().has_shared_hosts() && !is_across)
    hosts_ = std::make_unique<Hosts>(*this, members.size());
  assign(members, context);
  // Clients that agree on losses in the middle of calls could not stop one that is in a switch.
  wants_offload_ =
      interrupt == nullptr && !is_across && engine.job().settings().text(Setting::offload) != "off";
  const auto& bcasts = choices_.before[static_cast<std::size_t>(Collective::bcast)];
  if (interrupt == nullptr && !is_across &&
      std::ranges::find(bcasts, Algorithm::native, &Choice::algorithm) != bcasts.end())
    network_bcasts_ = std::make_unique<NetworkBcasts>(*this);
  make_requests();
}

Team::Team(Team& parent, std::size_t most)
    : engine_(parent.engine_),
      interrupt_(parent.interrupt_.load(std::memory_order_relaxed)),
      parent_(&parent),
      choices_(parent.choices_) {
  members_.reserve(most);
  make_requests();
}

std::unique_ptr<Team> Team::part_of(Team& parent, std::span<const int> members) {
  std::unique_ptr<Team> part(new Team(parent, members.size()));
  const auto self = std::find(members.begin(), members.end(), parent.engine_.rank());
  part->assign(members, parent.context_, static_cast<int>(self - members.begin()));
  return part;
}

// Makes as many requests as most calls need, including the one that makes the shared segment; the
// others are made by calls that want them.
void Team::make_requests() {
  for (std::size_t i = 0; i < 2; ++i) requests_[i] = std::make_unique<tagged::Request>();
  constexpr std::size_t kUsualSteps = 64;
  plan_.reserve(kUsualSteps);
  plan_requests_.resize(kUsualSteps);
}

void Team::assign(std::span<const int> members, std::uint32_t context) noexcept {
  const auto self = std::find(members.begin(), members.end(), engine_.rank());
  assign(members, context, static_cast<int>(self - members.begin()));
  notices_used_ = notices_ != nullptr && !is_local_;
  if (notices_used_) notices_->open(context, kNoticeTag, members_);
  hosts_used_ = false;
  if (hosts_ == nullptr || rank_ >= size()) return;
  hosts_->assign();
  hosts_used_ = hosts_->is_worth_it();
  // It will not be with fewer members either.
  if (!hosts_used_) hosts_.reset();
}

void Team::assign(std::span<const int> members, std::uint32_t context, int rank) noexcept {
  members_.assign(members.begin(), members.end());
  context_ = context;
  rank_ = rank;
  is_local_ = std::all_of(members_.begin(), members_.end(), [this](int member) {
    return engine_.job().same_host(member, engine_.rank());
  });
}

Team::~Team() {
  // Memory that the engine still uses must outlive this team; that happens only after a loss.
  for (auto& request : abandoned_) keep(std::move(request));
}

offload::Offload* Team::make_offload(Calls calls) {
  auto& offload = offloads_[static_cast<std::size_t>(calls)];
  offload = std::make_unique<offload::Offload>(*this);
  return offload.get();
}

void Team::close_offload() {
  wants_offload_ = false;
  for (auto& offload : offloads_)
    if (offload != nullptr && offload->close()) offload.reset();
}

void Team::Free::operator()(std::byte* memory) const noexcept { std::free(memory); }

bool Team::make_scratch(std::size_t bytes) {
  if (bytes <= scratch_bytes_) return true;
  constexpr std::size_t kUnit = 4096;
  const std::size_t room = (bytes + kUnit - 1) / kUnit * kUnit;
  scratch_.reset();
  scratch_bytes_ = 0;
  scratch_.reset(static_cast<std::byte*>(std::aligned_alloc(64, room)));
  if (scratch_ != nullptr) scratch_bytes_ = room;
  return scratch_ != nullptr;
}

std::byte* Team::scratch(std::size_t bytes) {
  std::uint64_t since_ns = 0;
  while (!make_scratch(bytes))
    if (!wait_for_memory(since_ns)) return nullptr;
  // Not null for a request of zero bytes: null means failure.
  alignas(64) static std::byte nothing[64];
  return scratch_ ? scratch_.get() : nothing;
}

namespace {

struct KeptRequest final : tagged::Kept {
  bool is_over() const noexcept override { return request->is_over(); }
  std::unique_ptr<tagged::Request> request;
};

}  // namespace

void Team::keep(std::unique_ptr<tagged::Request> request) noexcept {
  if (request->is_over()) return;
  if (auto* kept = new (std::nothrow) KeptRequest) {
    kept->request = std::move(request);
    engine_.keep(std::unique_ptr<tagged::Kept>(kept));
  } else {
    (void)request.release();  // never freed
  }
}

void Team::abandon(std::unique_ptr<tagged::Request> request) {
  if (or_no_memory([&] { make_room(abandoned_); }) == Code::ok)
    abandoned_.push_back(std::move(request));
  else
    keep(std::move(request));
}

std::unique_ptr<tagged::Request> Team::take_request() {
  for (auto& request : requests_)
    if (request) return std::move(request);
  for (;;) {
    if (auto* made = new (std::nothrow) tagged::Request)
      return std::unique_ptr<tagged::Request>(made);
    engine_.progress();
    sched_yield();
  }
}

void Team::give_back(std::unique_ptr<tagged::Request> request) noexcept {
  for (auto& place : requests_)
    if (!place) {
      place = std::move(request);
      return;
    }
}

void Team::give_up() noexcept {
  if (is_interrupted()) return;  // alone, as its client wants
  Team& team = parent_ != nullptr ? *parent_ : *this;
  Notices* notices = team.notices_used();
  if (notices == nullptr) return;
  ShmTeam* shm = team.hosts_used_ ? team.hosts_->inside().shm_ : nullptr;
  if (shm != nullptr && shm->is_given_up() && !notices->is_over()) notices->note(shm->lost());
  notices->notify();
  if (shm != nullptr && !shm->is_given_up()) shm->give_up(notices->lost());
  engine_.wait_until([notices] { return notices->is_sent(); }, team.context());
}

namespace {

struct AlwaysRaised final : Interrupt {
  bool is_raised() noexcept override { return true; }
};
AlwaysRaised always_raised;

}  // namespace

void Team::interrupt() noexcept {
  interrupt_.store(&always_raised, std::memory_order_relaxed);
  engine_.ring(engine_.rank());
}

bool Team::is_interrupted() const noexcept {
  const Team& team = parent_ != nullptr ? *parent_ : *this;
  return team.interrupt_.load(std::memory_order_relaxed) == &always_raised;
}

bool Team::is_given_up() noexcept {
  Team& team = parent_ != nullptr ? *parent_ : *this;
  Interrupt* const interrupt = team.interrupt_.load(std::memory_order_relaxed);
  if (interrupt != nullptr && interrupt->is_raised()) return true;
  Notices* notices = team.notices_used();
  if (notices == nullptr) return false;
  if (notices->is_over()) return true;
  const ShmTeam* shm = team.hosts_used_ ? team.hosts_->inside().shm_ : nullptr;
  return shm != nullptr && shm->is_given_up();
}

bool Team::wait_for_memory(std::uint64_t& since_ns) noexcept {
  constexpr std::uint64_t kMostWaitNs = 10'000'000'000;
  if (parent_ == nullptr) return false;
  const std::uint64_t now = now_ns();
  if (since_ns == 0) since_ns = now;
  if (now > since_ns + kMostWaitNs || is_broken()) {
    parent_->out_of_memory_ = true;
    return false;
  }
  engine_.progress(context());
  sched_yield();
  return true;
}

void Team::wait_for_abandoned() {
  if (hosts_ != nullptr) {
    hosts_->inside().wait_for_abandoned();
    hosts_->across().wait_for_abandoned();
  }
  for (auto& request : abandoned_)
    if (!request->is_complete()) (void)engine_.cancel(*request);
  engine_.wait_until(
      [this] {
        return std::all_of(abandoned_.begin(), abandoned_.end(),
                           [](const auto& request) { return request->is_complete(); });
      },
      context());
  abandoned_.clear();
}

std::uint64_t Team::grace_ns() noexcept {
  const std::vector<int>& members = parent_ != nullptr ? parent_->members_ : members_;
  const bool some_died = std::any_of(members.begin(), members.end(), [this](int member) {
    return member != engine_.rank() && !engine_.is_alive(member) && !engine_.has_left(member);
  });
  // The survivors agree how the death affects the call, so there is nothing to wait for.
  if (interrupt_.load(std::memory_order_relaxed) != nullptr && some_died) return 0;
  return some_died || is_given_up() ? kGraceNs : kGraceAfterLeavingNs;
}

bool Team::check_for_lost() noexcept {
  const std::uint32_t lost = engine_.num_lost();
  for (const int member : parent_ != nullptr ? parent_->members_ : members_)
    if (member != engine_.rank() && !engine_.is_alive(member)) return true;
  lost_seen_ = lost;  // others than members
  return false;
}

}  // namespace weft::coll
