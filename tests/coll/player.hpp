#pragma once
// Plays the plans of all members of a collective at once, without processes: what each would send,
// receive and combine, on cells of a modelled memory, one for each byte or element. Complains about
// a step that reads or writes what a message under way still writes or reads, messages that do not
// match, places out of bounds and members that wait for each other, with sends that are over only
// when they are received. And tells how long it would take.
#include <cstdint>
#include <string>
#include <vector>

#include "coll/plan/plan.hpp"

namespace weft::test {

// An affine map x -> a x + b modulo a prime: composition is associative, and commutes only where
// all b are 0. What is moved and not combined is a number.
struct Cell {
  std::uint64_t a = 0, b = 0;
  friend bool operator==(const Cell&, const Cell&) = default;
};
Cell compose(const Cell& f, const Cell& g);

struct MemberMemory {
  std::vector<Cell> input, output;
  bool in_place = false;  // input and output are one memory, `output`
};

// The LogGP model with hosts: a message takes latency and its bytes' time; the sender is busy for
// the latter. Messages inside a host cost less. Any unit of time.
struct Costs {
  double latency = 1, per_byte = 0;  // across
  double latency_inside = 1, per_byte_inside = 0;
  std::vector<int> host;  // by member; empty: each on its own
};

struct Played {
  std::vector<std::string> errors;  // empty: all is well
  double time = 0;                  // until the last member is through
  std::size_t num_messages = 0;
  std::size_t num_across = 0;  // of them, between hosts
  std::size_t bytes_across = 0;
};

// unit: bytes of an element, a divisor of 64; a cell is one of them, and all lengths and places are
// multiples.
Played play(const std::vector<coll::Plan>& plans, std::vector<MemberMemory>& memory,
            std::size_t unit = 1, const Costs& costs = {});

}  // namespace weft::test
