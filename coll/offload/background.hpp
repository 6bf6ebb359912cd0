#pragma once
// Background: one collective through switches that goes on in the background, for nonblocking and
// persistent calls. next() returns the next thing to do; the owner runs the messages
// (mpi/collective/schedule.hpp) and calls it again whenever the process makes progress. While the
// switch works, a leader's operation is left to its Link's thread, so it goes on while the program
// computes.
//
// The first call of a team makes its group, also when that is a background call. One thread at a
// time.
#include "coll/background/background.hpp"
#include "coll/offload/offload.hpp"

namespace weft::offload {

class Background {
 public:
  // The constructor takes the call's turn. The call's memory stays the caller's until the end.
  Background(Offload& offload, const Call& call);
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  enum class Next {
    wait,   // call next() again
    steps,  // run the plan's steps, between input() and output() with op(), then call next() again
    hosts,  // no member uses the switch: run the team's own algorithm
    over,   // complete: see status()
  };
  Next next(coll::Plan& plan);
  const void* input() const noexcept { return input_; }
  void* output() const noexcept { return output_; }
  const coll::Reduction* op() const noexcept { return op_; }
  const Status& status() const noexcept { return status_; }

 private:
  enum class State { turn, locations, negotiating, piece, reduced, working, summed, published };
  Next run(const void* input, void* output, const coll::Reduction* op, State then);
  bool negotiate(coll::Plan& plan, Next& next);
  Next begin_piece(coll::Plan& plan);
  Next lead(coll::Plan& plan);
  Next sum(coll::Plan& plan);
  Next publish(coll::Plan& plan);
  Next end(Status status);
  void pass_turn();
  void leave_alone();
  std::span<std::byte> data() noexcept { return std::span(block_).subspan(kStatusBytes); }

  Offload& offload_;
  Call call_;
  const std::optional<bool> decided_;  // at the time of the call
  std::uint64_t turn_;
  bool has_passed_ = false;
  State state_ = State::turn;
  State after_negotiating_ = State::piece;
  Status status_;
  const void* input_ = nullptr;
  void* output_ = nullptr;
  const coll::Reduction* op_ = nullptr;
  std::vector<Offload::MemberLocation> locations_;
  std::unique_ptr<Negotiation> negotiation_;
  std::size_t first_ = 0, count_ = 0;  // of the piece, in elements
  bool counts_ = false, by_switch_ = false;
  std::uint64_t asked_ns_ = 0;
  SumOp sum_;
  std::vector<std::byte> block_;  // a status, and the piece's data
  std::vector<std::byte> given_;  // a piece of this member's vector, if put together
};

}  // namespace weft::offload
