#pragma once
// Windows: the epochs of each window and what was begun in them.
//
// Gets go to memory of this library first, and from there to the program's buffer when they are
// complete, so that whoever changes the buffer before that is found.
//
// Threads: any.
#include <cstdint>
#include <memory>
#include <vector>

#include "tools/weft-check/call.hpp"
#include "tools/weft-check/ranks/comms.hpp"
#include "tools/weft-check/state/buffers.hpp"

namespace weft::check {

// comm: whose members have made it; its members give it the same number.
void add_window(MPI_Win handle, const void* base, MPI_Aint bytes, bool is_own_memory,
                const Comm* comm, std::uint32_t number);
// Called before MPI_Win_free.
void end_window(MPI_Win handle);

// An access to a target.
struct WindowAccess {
  int target = 0;
  Call call;
  std::vector<Use> uses;
  // Of a get: where its data come first, and where they belong.
  std::shared_ptr<std::vector<char>> data;
  void* destination = nullptr;
  std::uint64_t checksum = 0;
};
// Where an access goes and when, as other ranks know it. peer: the target in MPI_COMM_WORLD; -1: it
// is not known.
struct AccessTime {
  int peer = -1;
  std::uint32_t window = 0;
  std::uint32_t fence = 0;   // how many fences came before, if they alone end it; else 0
  std::uint32_t serial = 0;  // how many times this rank has synchronised
};
AccessTime time_of_access(MPI_Win handle, int target);

// False: so many accesses are under way that the next one is not looked at.
bool has_room(MPI_Win handle);
void add_access(MPI_Win handle, std::shared_ptr<WindowAccess> access);
// Called when its request is complete.
void forget_access(MPI_Win handle, const std::shared_ptr<WindowAccess>& access);
// The window's memory, of which other ranks may read what a get brings there.
void note_exposed(MPI_Win handle, const void* base, MPI_Aint bytes);
// Prepares a get into the buffer; the address that the data must come to.
void* redirect(WindowAccess& access, void* buffer, std::uint64_t count, const Layout& layout);
// Hands the data of a get over.
void finish_access(WindowAccess& access);

enum class Sync : std::uint8_t { fence, lock, unlock, flush, start, complete };
inline constexpr int kAllTargets = -1;
// Called after a synchronisation has ended: what was begun before at the target is complete.
void note_sync(MPI_Win handle, Sync sync, int target, int assertion);
// A collective that waits for all lets the program go from locks to fences.
void note_barrier();
// Called before one; compares buffers.
void check_before_sync(MPI_Win handle);

// Called before memory is given back.
void check_freed_window(std::uintptr_t begin, std::uintptr_t end, const void* caller);

}  // namespace weft::check
