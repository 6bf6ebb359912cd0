#pragma once
// Accesses: those of several ranks, or of one, to the same bytes of a window, of which no
// synchronisation lets one come first. The origin tells the target of each access, and the target
// compares: those between the same two fences, and of one origin those between two of its
// synchronisations. Locks of several origins are not compared, since what else orders them is not
// known.
//
// Source: MPI 5.0, 12.7 (Semantics and Correctness).
// Threads: any.
#include <cstdint>

#include "tools/weft-check/ranks/types.hpp"
#include "tools/weft-check/state/windows.hpp"

namespace weft::check {

// Atomic ones are those of MPI_Accumulate and its like, which may be concurrent.
enum class AccessKind : std::uint8_t { read, write, atomic, atomic_read };

// Called when this rank has made a window. unit: of displacements in its memory.
void note_window(std::uint32_t number, std::int64_t unit);

// Called when the current call has begun an access. displacement: in units of the target; basic: of
// the elements there.
void note_access(const AccessTime& time, std::int64_t displacement, std::uint64_t bytes,
                 Basic basic, AccessKind kind);

// Compares a note that has come.
void take_access_note(int from, const struct Note& note);

}  // namespace weft::check
