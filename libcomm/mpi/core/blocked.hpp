#pragma once
// What a thread that waits long in a call of MPI waits for, as a record for others
// (base/blocked.hpp).
#include "tagged/engine.hpp"

namespace weft::mpi {

// The observer of the engine's waits. awaited.what: a WaitsFor, or null.
void note_long_wait(const tagged::Awaited& awaited, std::uint64_t since_ns,
                    blocked::Slot& slot) noexcept;

}  // namespace weft::mpi
