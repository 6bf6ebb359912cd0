#include "coll/offload/background.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "coll/algorithms/algorithms.hpp"

namespace weft::offload {

Background::Background(Offload& offload, const Call& call)
    : offload_(offload),
      call_(call),
      decided_(offload.decision(call)),
      turn_(offload.take_turn()),
      sum_(call.op.element, call.op.operation) {}

Background::~Background() {
  if (has_passed_) return;
  // The call ends in its middle, as a member is lost: so do the calls after it.
  offload_.broken_.store(true, std::memory_order_relaxed);
}

void Background::pass_turn() {
  has_passed_ = true;
  offload_.pass_turn();
}

void Background::leave_alone() {
  offload_.link_->leave_alone(
      [](void* argument) noexcept {
        auto& engine = *static_cast<tagged::Engine*>(argument);
        engine.ring(engine.rank());
      },
      &offload_.team_.engine());
}

Background::Next Background::run(const void* input, void* output, const coll::Reduction* op,
                                 State then) {
  input_ = input;
  output_ = output;
  op_ = op;
  state_ = then;
  return Next::steps;
}

Background::Next Background::end(Status status) {
  status_ = std::move(status);
  offload_.team_.counts().add(call_.collective, coll::Algorithm::by_switch, call_.counted_bytes());
  pass_turn();
  return Next::over;
}

Background::Next Background::next(coll::Plan& plan) {
  plan.clear();
  Next next = Next::wait;
  switch (state_) {
    case State::turn: {
      if (offload_.is_made() && !offload_.takes(call_, decided_)) {
        // The hosts need no turn, but turns pass in the order of the calls.
        if (!offload_.is_turn(turn_)) return Next::wait;
        pass_turn();
        return Next::hosts;
      }
      if (!offload_.is_turn(turn_)) {
        if (!offload_.broken_.load(std::memory_order_relaxed)) return Next::wait;
        status_ = Code::peer_lost;
        return Next::over;
      }
      if (offload_.is_made()) {
        state_ = State::piece;
        return begin_piece(plan);
      }
      coll::Team& team = offload_.team_;
      locations_.resize(coll::index(team.size()));
      locations_[coll::index(team.rank())] = offload_.own_location();
      coll::allgather_ring(plan, {team.rank(), team.size()}, coll::kOutput,
                           sizeof(Offload::MemberLocation));
      plan.wait_all();
      return run(nullptr, locations_.data(), nullptr, State::locations);
    }
    case State::locations:
      offload_.arrange(locations_);
      if (offload_.usable_ && offload_.is_leader()) {
        negotiation_ = std::make_unique<Negotiation>(offload_.terms_, offload_.leader_rank_,
                                                     offload_.name_, offload_.link_);
        state_ = State::negotiating;
        after_negotiating_ = State::turn;
        return this->next(plan);
      }
      offload_.made_.store(true, std::memory_order_release);
      state_ = State::turn;
      return this->next(plan);
    case State::negotiating:
      if (!negotiate(plan, next)) return next;
      offload_.use(*negotiation_);
      negotiation_.reset();
      offload_.made_.store(true, std::memory_order_release);
      state_ = after_negotiating_;
      return state_ == State::turn ? this->next(plan) : publish(plan);
    case State::piece:
      return begin_piece(plan);
    case State::reduced:
      return offload_.is_leader() ? lead(plan) : publish(plan);
    case State::working: {
      if (offload_.link_->is_alone()) {
        if (offload_.link_->state() == Leader::State::recovering)
          if (const Status late = offload_.overdue(asked_ns_); !late) {
            offload_.link_->take_back();
            status_ = late;
            block_[0] = static_cast<std::byte>(late.code());
            return publish(plan);
          }
        return Next::wait;
      }
      if (offload_.link_->state() == Leader::State::host) return sum(plan);
      std::memcpy(data().data(), offload_.link_->result().data(), data().size());
      return publish(plan);
    }
    case State::summed:
      if (by_switch_) offload_.link_->finish(data());
      if (counts_ && offload_.is_time_to_look()) {
        const Ready ready = offload_.ready();
        negotiation_ = std::make_unique<Negotiation>(offload_.terms_, offload_.leader_rank_,
                                                     offload_.name_, offload_.link_, &ready);
        state_ = State::negotiating;
        after_negotiating_ = State::published;
        return this->next(plan);
      }
      return publish(plan);
    case State::published: {
      if (const auto code = static_cast<Code>(block_[0]); code != Code::ok)
        return end(status_ ? Status(code) : std::move(status_));
      keep_piece(call_.kept, first_ * call_.op.element_bytes, data());
      first_ += count_;
      if (first_ == call_.count) return end({});
      return begin_piece(plan);
    }
  }
  return next;
}

// Returns true once the negotiation is complete; false if `next` has to be done first.
bool Background::negotiate(coll::Plan& plan, Next& next) {
  if (offload_.link_ != nullptr && offload_.link_->is_alone()) {
    next = Next::wait;
    return false;
  }
  switch (negotiation_->advance()) {
    case Negotiation::Need::gather:
      if (offload_.leader_group().size > 1) {
        coll::allgather_ring(plan, offload_.leader_group(), coll::kOutput,
                             negotiation_->block_bytes());
        plan.wait_all();
      }
      next = run(nullptr, negotiation_->blocks().data(), nullptr, State::negotiating);
      return false;
    case Negotiation::Need::enrolment:
      leave_alone();
      next = Next::wait;
      return false;
    case Negotiation::Need::nothing:
      break;
  }
  return true;
}

Background::Next Background::begin_piece(coll::Plan& plan) {
  const std::size_t unit = call_.op.element_bytes;
  count_ = std::min(kPieceBytes / unit, call_.count - first_);
  block_.assign(kStatusBytes + count_ * unit, std::byte{0});
  const std::size_t begin = first_ * unit;
  const coll::Group node = offload_.node_group();
  if (node.size == 1) {
    write_piece(call_.given, begin, data());
    state_ = State::reduced;
    return lead(plan);
  }
  const void* input = piece_of(call_.given, begin, count_ * unit, given_);
  coll::reduce_within(coll::shape_of(offload_.team_), plan, node, coll::kInput, coll::kOutput,
                      {count_, unit}, call_.op.commutative, 0);
  return run(input, data().data(), &call_.op, State::reduced);
}

Background::Next Background::lead(coll::Plan& plan) {
  counts_ = offload_.count_operation(call_.op);
  by_switch_ = counts_ && offload_.link_ != nullptr;
  if (!by_switch_) return sum(plan);
  offload_.link_->begin(call_.op.element, call_.op.operation, data());
  asked_ns_ = 0;
  state_ = State::working;
  leave_alone();
  return Next::wait;
}

Background::Next Background::sum(coll::Plan& plan) {
  const std::size_t unit = innet::element_bytes(call_.op.element);
  write_sum_steps(plan, offload_.leader_group(), data().size() / unit, unit, offload_.order_);
  return run(nullptr, data().data(), &sum_.reduction(), State::summed);
}

Background::Next Background::publish(coll::Plan& plan) {
  const coll::Group node = offload_.node_group();
  if (node.size > 1)
    coll::bcast_within(coll::shape_of(offload_.team_), plan, node, coll::kOutput, block_.size(), 0);
  return run(nullptr, block_.data(), nullptr, State::published);
}

}  // namespace weft::offload
