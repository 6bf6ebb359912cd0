#pragma once
// Collectives: whether all members of a communicator make the same ones in the same order, with the
// same root and op, and fitting types. Each tells the first member; nobody waits.
//
// Threads: any.
#include "tools/weft-check/ranks/comms.hpp"
#include "tools/weft-check/ranks/types.hpp"

namespace weft::check {

struct Collective {
  int root = -1;         // -1: it has none
  std::uint32_t op = 0;  // 0: it has none
  // What must be the same at all members; without: nothing is compared.
  Signature signature;
  bool has_signature = false;
  bool waits_for_all = false;
};

void note_collective(Comm* comm, const Collective& collective);

// Called when the call has failed here: others may have made it or not, and nothing more of the
// communicator is compared.
void note_failed_collective(Comm* comm);

// Compares a note that has come.
void take_collective_note(int from, const struct Note& note);
void report_incomplete_collectives();

}  // namespace weft::check
