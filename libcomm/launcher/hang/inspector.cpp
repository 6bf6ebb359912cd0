#include "launcher/hang/inspector.hpp"

#include <algorithm>
#include <utility>

#include "base/wait.hpp"

namespace weft::weftrun {
namespace {

// The time after which a second look finds the ranks in the same waits, which write their records
// several times meanwhile.
constexpr std::uint64_t kLookNs = kLookMs * 1'000'000ull, kAgainNs = 400'000'000;
// The longest wait for the hosts' answers; the second is with places.
constexpr std::uint64_t kAnswerNs = 1'000'000'000, kPlacesNs = 3'000'000'000;

// Two inspections with the same numbers have found all ranks in the same waits.
std::vector<std::uint64_t> waits_of(const std::vector<RankView>& ranks) {
  std::vector<std::uint64_t> waits;
  for (const RankView& view : ranks)
    waits.push_back(view.state == RankView::State::blocked ? view.found.record.number : 0);
  return waits;
}

}  // namespace

void Inspector::begin(int num_ranks, bool looks) {
  num_ranks_ = num_ranks;
  if (looks) look_at_ns_ = now_ns() + kLookNs;
}

void Inspector::ask(Why why) {
  // One at a time: a report goes before a look, and the end of the time before everything.
  if (inspection_ && inspection_->why >= Why::report && why != Why::timeout) return;
  const bool with_places = why >= Why::report;
  const std::uint64_t now = now_ns();
  inspection_ = Inspection{
      why, now, now + (with_places ? kPlacesNs : kAnswerNs), static_cast<int>(hosts_.size()), {}};
  const int number = ++num_inspections_;
  for (const auto& host : hosts_) host->inspect(number, with_places);
}

void Inspector::inspected(int number, int rank, const Seen& seen) {
  if (!inspection_ || number != num_inspections_ || rank < 0 || rank >= num_ranks_) return;
  RankView view = view_of(rank, seen);
  if (state_of_(rank) == RankView::State::left) {
    view.state = RankView::State::left;
    view.found = {};
  }
  inspection_->ranks.push_back(std::move(view));
}

void Inspector::all_inspected(int number) {
  if (inspection_ && number == num_inspections_) --inspection_->hosts_left;
}

std::uint64_t Inspector::due_at_ns() const {
  if (!inspection_) return look_at_ns_;
  return inspection_->hosts_left > 0 ? inspection_->until_ns : 0;
}

std::optional<Inspector::Findings> Inspector::step(bool any_runs) {
  std::optional<Findings> findings;
  if (inspection_ && (inspection_->hosts_left <= 0 || now_ns() >= inspection_->until_ns)) {
    Inspection done = *std::exchange(inspection_, {});
    add_unheard(done.ranks);
    if (done.why == Why::look)
      judge(done);
    else
      findings = {done.why, std::move(done.ranks)};
  }
  look(any_runs);
  return findings;
}

bool Inspector::has_reported(const std::vector<RankView>& ranks) const {
  return waits_of(ranks) == reported_waits_;
}

// Sees whether all ranks wait, and if they do asks in what.
void Inspector::look(bool any_runs) {
  const std::uint64_t now = now_ns();
  if (now < look_at_ns_ || inspection_) return;
  look_at_ns_ = any_runs ? now + kLookNs : UINT64_MAX;
  if (!any_runs) return;
  if (std::ranges::all_of(hosts_, [](const auto& host) { return host->is_waiting(); }))
    ask(Why::look);
  else
    seen_waits_.clear();
}

// A rank that is still in the wait in which it was a moment ago, and that has looked for messages
// since, has no message on its way to it from one of which the same is true.
void Inspector::judge(const Inspection& now) {
  std::vector<std::uint64_t> waits = waits_of(now.ranks);
  const bool are_fresh = std::ranges::all_of(now.ranks, [&](const RankView& view) {
    return view.state != RankView::State::blocked || now.at_ns > seen_at_ns_ + view.found.age_ns;
  });
  if (!stands_still(now.ranks) || waits == reported_waits_) {
    seen_waits_.clear();
    return;
  }
  if (waits == seen_waits_ && are_fresh) {
    seen_waits_.clear();
    reported_waits_ = std::move(waits);
    if (reason_of(now.ranks)) ask(Why::report);
    return;
  }
  if (waits != seen_waits_) {
    seen_waits_ = std::move(waits);
    seen_at_ns_ = now_ns();
  }
  look_at_ns_ = now_ns() + kAgainNs;
}

// Adds the ranks that no host has described.
void Inspector::add_unheard(std::vector<RankView>& ranks) const {
  std::vector<bool> is_heard(static_cast<std::size_t>(num_ranks_));
  for (const RankView& view : ranks) is_heard[static_cast<std::size_t>(view.rank)] = true;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    if (is_heard[static_cast<std::size_t>(rank)]) continue;
    RankView view;
    view.rank = rank;
    view.state = state_of_(rank);
    ranks.push_back(std::move(view));
  }
  std::ranges::sort(ranks, {}, &RankView::rank);
}

}  // namespace weft::weftrun
