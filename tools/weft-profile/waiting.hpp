#pragma once
// Who waited for whom, over all processes: from their messages (pairing.hpp), and in collectives
// from the time that each member has spent in all calls of one function among the same members.
// Where all wait for all, the member that spent least came last, in sum; where data come from a
// root, they waited for it. That member's time is what the calls cost, and what the others spent
// beyond it they waited. Pure functions.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "matrix.hpp"

namespace weft::profile {

// Ranks are those of MPI_COMM_WORLD.
struct WaitedFor {
  std::size_t rank = 0, other = 0;
  std::string reason;  // "late sender", "late receiver"
  double s = 0;        // until the other's call began
  double blocked_s = 0;
  std::uint64_t calls = 0;
};

// All calls of a function among the same members, from the same root if it has one.
struct Collective {
  std::string function, communicator;
  std::optional<std::size_t> root;  // one of the members
  struct Member {
    std::size_t rank = 0;
    std::uint64_t calls = 0;
    double s = 0;
  };
  std::vector<Member> members;

  const Member& last() const;  // that the others waited for
  double waited_s(const Member& member) const;
};

struct Waiting {
  std::vector<WaitedFor> messages;
  std::vector<Collective> collectives;
  std::uint64_t num_paired = 0, num_unpaired = 0, num_left_out = 0;
  double clock_error_us = 0;
};

// Returns the largest waits as lines of text: those of several ranks for one are one line. Empty if
// nobody has waited for a millisecond, and all messages are known.
std::string wait_lines(const Waiting& waiting, std::size_t most);

// Returns a panel of the picture: who waited for whom.
Panel panel_of(const Waiting& waiting);

}  // namespace weft::profile
