#include "mpi/ft/consensus.hpp"

namespace weft::mpi::ft {

Consensus::Consensus(int rank, int size, int num_first)
    : rank_(rank),
      size_(size),
      num_first_(num_first),
      lost_(size),
      asked_(size),
      askers_(size),
      reports_(static_cast<std::size_t>(size)) {}

int Consensus::coordinator() const noexcept {
  int first = 0;
  while (first != rank_ && lost_.contains(first)) ++first;
  return first;
}

void Consensus::start(const Contribution& contribution) {
  ++round_;
  mine_ = contribution;
  active_ = true;
  step();
}

void Consensus::lose(int member) {
  if (member == rank_ || lost_.contains(member)) return;
  lost_.add(member);
  step();
}

void Consensus::receive(int from, const Message& message) {
  if (from == rank_ || lost_.contains(from)) return;
  switch (message.kind) {
    case Message::Kind::report: {
      if (reports_.empty()) {
        if (message.round == last_.round) send(from, decision_message());
        return;
      }
      Report& known = reports_[static_cast<std::size_t>(from)];
      if (message.round > known.round)
        known = {message.round, message.contribution, message.failed, message.decision};
      // It has missed the decision, whose sender is dead.
      if (message.round == last_.round) return send(from, decision_message());
      return step();
    }
    case Message::Kind::ask:
      if (message.round == last_.round) return send(from, decision_message());
      if (active_ && message.round == round_) askers_.add(from);
      return;
    case Message::Kind::decision:
      if (active_ && message.decision.round == round_) decide(message.decision);
      return;
  }
}

void Consensus::report_to(int coordinator) {
  if (reported_to_ == coordinator) return;
  reported_to_ = coordinator;
  send(coordinator, {Message::Kind::report, round_, mine_, lost_, last_});
}

void Consensus::step() {
  if (!active_) return;
  if (const int first = coordinator(); first != rank_) return report_to(first);
  bool is_complete = true;
  for (int member = 0; member < size_; ++member) {
    if (member == rank_ || lost_.contains(member)) continue;
    const Report& report = reports_[static_cast<std::size_t>(member)];
    if (report.round == round_) continue;
    // That member is a round ahead: an earlier coordinator told it the decision before it died.
    if (report.round == round_ + 1 && report.before.round == round_)
      return decide(Decision(report.before));
    is_complete = false;
    // A member that follows a coordinator may have to do with one that knows a decision and will
    // not report by itself.
    if (rank_ == 0 || asked_.contains(member)) continue;
    asked_.add(member);
    send(member, {Message::Kind::ask, round_, {}, {}, {}});
  }
  if (is_complete) decide(compute());
}

Decision Consensus::compute() const {
  Decision decision{round_, Decision::Outcome::agreed, mine_.flags, mine_.context, 0, lost_};
  MemberSet acknowledged = mine_.acknowledged;
  bool is_mismatched = false;
  for (int member = 0; member < size_; ++member) {
    const Report& report = reports_[static_cast<std::size_t>(member)];
    if (member == rank_ || lost_.contains(member) || report.round != round_) continue;
    decision.flags &= report.contribution.flags;
    decision.failed |= report.failed;
    acknowledged &= report.contribution.acknowledged;
    is_mismatched = is_mismatched || report.contribution.kind != mine_.kind;
  }
  for (int member = size_; --member >= num_first_;) {
    const Report& report = reports_[static_cast<std::size_t>(member)];
    if (member != rank_ && report.round == round_ && !decision.failed.contains(member))
      decision.second_context = report.contribution.context;
  }
  if (!decision.failed.is_part_of(acknowledged))
    decision.outcome = Decision::Outcome::unacknowledged;
  if (is_mismatched) decision.outcome = Decision::Outcome::mismatched;
  return decision;
}

// Tells the decision to those that have reported to this member or asked it.
void Consensus::decide(const Decision& decision) {
  last_ = decision;
  active_ = false;
  for (int member = 0; member < size_; ++member) {
    if (member == rank_ || lost_.contains(member)) continue;
    if (reports_[static_cast<std::size_t>(member)].round == round_ || askers_.contains(member))
      send(member, decision_message());
  }
  asked_.clear();
  askers_.clear();
  reported_to_ = -1;
}

}  // namespace weft::mpi::ft
