// Agreement of the ranks after a loss.
//
// A collective call ends on one rank before it does on another. When a rank dies in between, some
// ranks have the result and some can no longer get it, and the two groups would diverge. So the
// survivors agree on two things: the lost ranks, and the call that fails for that on all of them.
//
// State. The calls of a job are counted; `finished` of them are over here. The job goes through
// views: the members, in view 0 all ranks, and a team for their calls. All members of a view make
// the same calls in the same order, and none of these ends before it has begun everywhere; so in a
// view two members are at most one call apart. A rank keeps the result of its last call (a long one
// ends with a barrier instead: a rank past it knows that all others have the result).
//
// Without a loss nothing is sent: a call costs what it costs, and a copy of a short result.
//
// Messages, all in one context of the engine, with the ranks that the sender knows to be lost:
//   report    from a member that has aborted its call, because a member was lost or because it was
//             asked to: the number of calls it has finished, and the result of the last one. To the
//             coordinator, the lowest member that the sender does not know to be lost.
//   ask       from the coordinator: abort your call, and report.
//   decision  from the coordinator: the lost ranks, which defines the next view; the call that
//             fails; the result of the call before it.
// A rank in a call receives them while it waits; so does one that waits for messages of an
// exchange, which may come only after this (answer()); a rank that computes, in its next call.
//
// The protocol, in a member that aborts its call in view v:
//   1. It waits until no message of the call is in flight any more, so that its buffers stay
//      unchanged. (All buffers do until all have reported: no rank returns before.)
//   2. It reports to the coordinator. The coordinator asks the others, and waits until all members
//      that are not lost have reported. The receiver of a message treats the lost ranks in it as
//      lost: if such a rank is alive, it is notified, and treats the sender as lost.
//   3. The coordinator decides. If F is the highest number of calls that any rank has finished,
//      call F was successful, and all ranks still in it complete it with the result of one that has
//      it; call F + 1, which no rank can have finished, fails on every rank, with the names of the
//      lost. The coordinator sends the decision to all members of view v + 1, and enters it.
//   4. A rank that receives the decision enters view v + 1. It keeps the decision.
// A rank in no call does steps 2 and 3, too, once it knows that others do: it has finished the call
// that they abort, or aborts its next one. It enters the next view in that.
//
// When a rank is lost, by step:
//   before it reports         the coordinator detects it, and waits for one report less;
//   after it has reported     it is in the next view or not; if so, the next call there fails;
//   the coordinator, before it has sent any decision
//                             the next one asks, and all report to that;
//   the coordinator, after some have its decision
//                             these have entered view v + 1 and may have returned. To them the
//                             coordinator is a member that was lost, so they abort their next call,
//                             and each sends the decision it keeps ahead of its report. The new
//                             coordinator, if it is still in view v, adopts the decision; if it is
//                             in v + 1 and gets a report of view v, it answers with the decision.
//                             No rank can be two views behind: view v + 2 takes a report of view
//                             v + 1 from every member;
//   the last one that had a result, or a decision
//                             then no survivor has it, and the survivors decide without it.
// A message from a rank that is already known to be lost is not read: its decision is valid if a
// survivor has received it.
//
// A link that breaks between two live ranks makes each treat the other as lost. Then two groups go
// on without each other, as after a network partition.
//
// This is the early returning agreement of ULFM (Herault, Bouteiller, Bosilca, Gamell, Teranishi,
// Parashar, Dongarra: Practical scalable consensus for pseudo-synchronous distributed systems,
// SC'15), in that a rank returns once it has the decision and keeps it for those that ask later.
// It differs in three ways. ULFM's MPI_Comm_agree runs whenever it is called; here there is none
// without a loss, since the calls themselves show which rank has finished what. There a tree
// gathers and broadcasts, in log n steps; here one rank does, in n messages, as losses are rare.
// There a process answers for past agreements whenever it is in MPI; here in its next collective
// call, or while it waits: until then the others wait, as for any call of all ranks.
#include "exchange/agreement.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "base/wait.hpp"
#include "exchange/wire.hpp"
#include "lanes/lanes.hpp"

namespace weft::transport {
namespace {

// Engine contexts: for the messages above, and for the team of view 0; each view has its own.
constexpr std::uint32_t kContext = 1, kFirstTeamContext = 2;
constexpr std::int32_t kTag = 0;
constexpr std::uint64_t kNoticedNs = 1'000'000'000;

}  // namespace

struct Agreement::Message {
  AgreementKind kind{};
  std::uint32_t view = 0;
  std::uint64_t call = 0;
  std::vector<int> lost;
  std::vector<std::byte> value;

  std::vector<std::byte> pack() const {
    const AgreementHead head{static_cast<std::uint32_t>(kind), view, call,
                             static_cast<std::uint32_t>(lost.size()),
                             static_cast<std::uint32_t>(value.size())};
    std::vector<std::byte> bytes(sizeof head + lost.size() * sizeof(int) + value.size());
    std::memcpy(bytes.data(), &head, sizeof head);
    std::byte* to = bytes.data() + sizeof head;
    to = std::ranges::copy(std::as_bytes(std::span(lost)), to).out;
    std::ranges::copy(value, to);
    return bytes;
  }
  static std::size_t max_bytes(int num_ranks) {
    return sizeof(AgreementHead) + static_cast<std::size_t>(num_ranks) * sizeof(int) + kKeptBytes;
  }
  // False: invalid.
  bool unpack(std::span<const std::byte> bytes, int num_ranks) {
    AgreementHead head;
    if (bytes.size() < sizeof head) return false;
    std::memcpy(&head, bytes.data(), sizeof head);
    bytes = bytes.subspan(sizeof head);
    const std::size_t lost_bytes = std::size_t{head.num_lost} * sizeof(int);
    if (head.kind > static_cast<std::uint32_t>(AgreementKind::decision) ||
        bytes.size() != lost_bytes + head.value_bytes || head.value_bytes > kKeptBytes)
      return false;
    kind = static_cast<AgreementKind>(head.kind);
    view = head.view;
    call = head.call;
    lost.resize(head.num_lost);
    if (!lost.empty()) std::memcpy(lost.data(), bytes.data(), lost_bytes);
    value.assign(bytes.begin() + static_cast<std::ptrdiff_t>(lost_bytes), bytes.end());
    return std::ranges::all_of(lost, [=](int rank) { return rank >= 0 && rank < num_ranks; });
  }
};

Agreement::Agreement(tagged::Engine& engine)
    : engine_(engine),
      is_member_(static_cast<std::size_t>(engine.size()), true),
      received_(Message::max_bytes(engine.size())) {
  for (int rank = 0; rank < engine.size(); ++rank) members_.push_back(rank);
  engine.count_unexpected_of(kContext);
  open_team();
}

Agreement::~Agreement() = default;

void Agreement::open_team() {
  team_ = std::make_unique<coll::Team>(engine_, members_, kFirstTeamContext + view_, this);
}

std::string Agreement::name(const std::vector<int>& lost) const {
  if (lost.empty()) return "a rank has aborted the call";
  const bool is_own = std::ranges::find(lost, engine_.rank()) != lost.end();
  if (is_own || std::ranges::any_of(
                    lost, [this](int rank) { return engine_.loss_of(rank) == Loss::unreachable; }))
    return engine_.describe_lost(lost);
  std::string names;
  for (const int rank : lost) names += (names.empty() ? "" : ", ") + engine_.job().describe(rank);
  return names + (lost.size() == 1 ? " is lost" : " are lost");
}

// Completes a call that failed here, with the result that all ranks agree on.
Status Agreement::complete(std::span<std::byte> result, Status status) {
  if (!unreported_.empty()) {
    // This call is not counted: no rank waits for another in it.
    lost_ = std::exchange(unreported_, {});
    return {Code::peer_lost, name(lost_)};
  }
  const std::uint64_t call = finished_ + 1;
  if (fails_ != call && status.code() == Code::peer_lost) recover();
  if (fails_ == call) {
    keep({});
    lost_ = lost_by_decision_;
    return {Code::peer_lost, name(lost_)};
  }
  if (status.code() == Code::peer_lost) {
    // Another rank has finished it.
    if (result.size() <= kKeptBytes && result.size() != value_.size())
      status = {Code::bad_argument, "the ranks make different calls of all ranks"};
    else
      status = {};
    if (status.ok() && result.size() <= kKeptBytes) std::ranges::copy(value_, result.begin());
  } else {
    value_.clear();
  }
  ++finished_;
  return status;
}

void Agreement::recover() {
  team_->wait_for_abandoned();
  // A call may fail for a loss before this rank has detected it.
  const std::uint64_t limit = now_ns() + kNoticedNs;
  engine_.wait_until([&] { return team_->is_broken() || now_ns() >= limit; });
  for (;;) {
    const std::uint32_t num_lost = engine_.num_lost();
    read();
    if (advance()) break;
    engine_.wait_until(
        [&] { return engine_.num_unexpected() != num_read_ || engine_.num_lost() != num_lost; });
  }
  // After the return this rank may compute for long, and send nothing meanwhile.
  engine_.wait_until([this] {
    return std::ranges::all_of(sending_,
                               [](const auto& sending) { return sending->request.is_complete(); });
  });
  decision_ = std::move(next_);
  install();
}

// What can be done now. True: there is a decision.
bool Agreement::advance() {
  if (next_ != nullptr) return true;
  const auto is_out = [this](int rank) {
    return rank != engine_.rank() && !engine_.is_alive(rank);
  };
  const int coordinator = *std::ranges::find_if_not(members_, is_out);
  if (coordinator == engine_.rank()) {
    const auto has_reported = [&](int rank) {
      return rank == engine_.rank() || reports_.contains(rank) || is_out(rank);
    };
    if (std::ranges::all_of(members_, has_reported)) {
      decide();
      return true;
    }
    if (asked_) return false;
    const Message ask{AgreementKind::ask, view_, 0, lost_members(), {}};
    for (const int rank : members_)
      if (rank != engine_.rank() && !is_out(rank)) send(rank, ask);
    asked_ = true;
  } else if (reported_to_ != coordinator) {
    if (decision_ != nullptr) send(coordinator, *decision_);
    auto [finished, value] = settled();
    send(coordinator, {AgreementKind::report, view_, finished, lost_members(), std::move(value)});
    reported_to_ = coordinator;
  }
  return false;
}

bool Agreement::is_broken() noexcept {
  const std::unique_lock lock(in_use_, std::try_to_lock);
  return lock.owns_lock() && team_->is_broken();  // otherwise the next time
}

void Agreement::answer() noexcept {
  engine_.progress();
  const std::unique_lock lock(in_use_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  // Without memory it is tried again.
  (void)or_no_memory([this] {
    if (is_raised()) (void)advance();
  });
}

// A call that will fail by the last decision counts as finished.
Agreement::Report Agreement::settled() const {
  if (fails_next()) return {fails_, {}};
  return {finished_, value_};
}

void Agreement::decide() {
  auto [finished, value] = settled();
  auto decision = std::make_unique<Message>(
      Message{AgreementKind::decision, view_ + 1, finished, lost_members(), std::move(value)});
  for (auto& [rank, report] : reports_) {
    if (report.finished <= decision->call || !engine_.is_alive(rank)) continue;
    decision->call = report.finished;
    decision->value = report.value;
  }
  ++decision->call;
  for (const int rank : members_)
    if (rank != engine_.rank() && !std::ranges::count(decision->lost, rank)) send(rank, *decision);
  next_ = std::move(decision);
}

void Agreement::install() {
  view_ = decision_->view;
  fails_ = decision_->call;
  value_ = decision_->value;
  lost_by_decision_ = decision_->lost;
  for (const int rank : lost_by_decision_) {
    note_lost(rank, rank);
    is_member_[static_cast<std::size_t>(rank)] = false;
  }
  std::erase_if(members_, [this](int rank) { return !has(rank); });
  raised_ = asked_ = false;
  reported_to_ = -1;
  reports_.clear();
  num_read_ = engine_.num_unexpected() - 1;  // there may be messages of this view
  log_line(LogLevel::info, engine_.rank(), "{}: {} ranks go on", name(lost_by_decision_),
           members_.size());
  open_team();
}

bool Agreement::is_raised() noexcept {
  if (engine_.num_unexpected() != num_read_) [[unlikely]]
    read();
  return raised_;
}

// Handles the messages that have arrived, up to a decision for the next view. Without memory they
// are left for the next call.
void Agreement::read() noexcept {
  // Read before the messages: a later message changes the count again.
  num_read_ = engine_.num_unexpected();
  const Code code = or_no_memory([this] {
    while (next_ == nullptr && (received_from_ >= 0 || receive())) {
      Message message;
      const bool makes_sense =
          message.unpack(std::span(received_).first(num_received_), engine_.size());
      if (!makes_sense)
        log_line(LogLevel::error, engine_.rank(), "{} sent an invalid agreement message",
                 engine_.job().describe(received_from_));
      else if (engine_.is_alive(received_from_))
        take(received_from_, message);
      received_from_ = -1;
    }
  });
  if (code != Code::ok) --num_read_;
}

// Receives the next message into received_. False: none. Throws std::bad_alloc.
bool Agreement::receive() {
  tagged::MessageInfo info;
  while (engine_.iprobe(tagged::kAnySource, kContext, kTag, info) == Code::ok) {
    tagged::Request request;
    engine_.irecv(request, info.source, kContext, kTag, received_.data(), received_.size());
    const Code code = engine_.wait(request);
    if (code == Code::no_memory) throw std::bad_alloc();  // the message is still unmatched
    if (code != Code::ok) continue;
    received_from_ = info.source;
    num_received_ = request.received;
    return true;
  }
  return false;
}

void Agreement::take(int from, const Message& message) {
  if (message.kind == AgreementKind::decision) {
    if (message.view != view_ + 1) return;
    if (std::ranges::count(message.lost, engine_.rank()) != 0) return engine_.lose(from);
    next_ = std::make_unique<Message>(message);
    raised_ = true;
    return;
  }
  for (const int rank : message.lost) note_lost(rank, from);
  if (message.view >= view_) raised_ = true;
  if (message.kind != AgreementKind::report) return;
  if (message.view == view_) reports_[from] = {message.call, message.value};
  if (message.view + 1 == view_) send(from, *decision_);
}

// `by` reports the loss of `rank`, which may be alive.
void Agreement::note_lost(int rank, int by) {
  if (rank == engine_.rank()) return engine_.lose(by);
  if (!has(rank) || !engine_.is_alive(rank)) return;
  send(rank, {AgreementKind::ask, view_, 0, {rank}, {}});
  engine_.lose(rank);
}

std::vector<int> Agreement::lost_members() const {
  std::vector<int> lost;
  for (const int rank : members_)
    if (rank != engine_.rank() && !engine_.is_alive(rank)) lost.push_back(rank);
  return lost;
}

void Agreement::send(int to, const Message& message) {
  std::erase_if(sending_, [](const auto& sending) { return sending->request.is_complete(); });
  auto made = std::make_unique<Sending>();
  made->bytes = message.pack();
  sending_.push_back(std::move(made));
  Sending& sending = *sending_.back();
  engine_.isend(sending.request, to, kContext, kTag, sending.bytes.data(), sending.bytes.size());
}

}  // namespace weft::transport
