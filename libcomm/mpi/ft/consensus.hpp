#pragma once
// Consensus: one member's part in the agreements of a group, which follow each other in rounds. It
// is a state machine without input and output: calls, messages and losses go in, messages and
// decisions come out. docs/use/fault-tolerance.md describes the protocol and its invariants.
//
// The members that live agree on one decision for each round, whoever dies meanwhile, provided that
//   - a member that dies is reported to all that live in the end, and nobody else is;
//   - messages of one member to another arrive in order, or the sender is dead;
//   - all living members start the round.
// A decision is not repeated for the dead: one that died may have decided otherwise just before.
//
// Threads: one at a time.
#include <cstdint>
#include <utility>
#include <vector>

#include "mpi/ft/member_set.hpp"

namespace weft::mpi::ft {

// What a member brings into a round.
struct Contribution {
  std::uint32_t kind = 0;     // of the call, the same at all members
  std::uint32_t flags = 0;    // the decision has those that all members set
  std::uint32_t context = 0;  // that it offers; the decision has two of these
  MemberSet acknowledged;     // members whose death its user knows
};

struct Decision {
  enum class Outcome : std::uint8_t {
    agreed,
    unacknowledged,  // and some member's user does not know of all who failed
    mismatched       // the members made different calls
  };
  std::uint32_t round = 0;  // from 1; 0: there is none
  Outcome outcome = Outcome::agreed;
  std::uint32_t flags = 0;
  std::uint32_t context = 0;         // the coordinator's
  std::uint32_t second_context = 0;  // of a living member of the second group, if there are two
  MemberSet failed;
  bool operator==(const Decision&) const = default;
};

struct Message {
  enum class Kind : std::uint8_t {
    report = 1,  // to the coordinator: what the sender brings, whom it knows to have failed, and
                 // the decision of the round before
    ask,         // by a coordinator that follows a dead one: do you know a decision?
    decision
  };
  Kind kind;
  std::uint32_t round;
  Contribution contribution;  // of a report
  MemberSet failed;           // of a report
  Decision decision;          // of a report: of the round before, if there was one
};

class Consensus {
 public:
  // The first `num_first` members are the first group: all, unless there are two.
  Consensus(int rank, int size, int num_first);

  // Begins the next round; not while one is under way.
  void start(const Contribution& contribution);
  // For what other members have sent; what does not make sense is ignored.
  void receive(int from, const Message& message);
  // No round begins any more: from now on only questions about the last one are answered.
  void end() noexcept { std::vector<Report>().swap(reports_); }
  // A member has died. Nothing of it counts any more but what it reported.
  void lose(int member);

  bool is_active() const noexcept { return active_; }
  std::uint32_t round() const noexcept { return round_; }  // the last one that began here
  const Decision& last() const noexcept { return last_; }  // of the round decided last
  bool is_lost(int member) const noexcept { return lost_.contains(member); }
  // The member that collects the reports: the first that lives, as far as this one knows.
  int coordinator() const noexcept;
  // The messages to send now, to whom, in order.
  std::vector<std::pair<int, Message>> take_messages() { return std::exchange(messages_, {}); }

 private:
  friend struct ConsensusInspector;  // of the model test

  struct Report {
    std::uint32_t round = 0;
    Contribution contribution;
    MemberSet failed;
    Decision before;
  };
  void step();
  void report_to(int coordinator);
  Decision compute() const;
  void decide(const Decision& decision);
  void send(int to, Message&& message) { messages_.emplace_back(to, std::move(message)); }
  Message decision_message() const { return {Message::Kind::decision, last_.round, {}, {}, last_}; }

  int rank_, size_, num_first_;
  bool active_ = false;
  std::uint32_t round_ = 0;
  Contribution mine_;
  Decision last_;
  MemberSet lost_;
  int reported_to_ = -1;         // in this round
  MemberSet asked_;              // by this member, in this round
  MemberSet askers_;             // to be answered once this round is decided
  std::vector<Report> reports_;  // by rank: the last one of each
  std::vector<std::pair<int, Message>> messages_;
};

}  // namespace weft::mpi::ft
