#pragma once
// Comms: what is known of a communicator. Its number is one that all its members have without a
// message: it comes from its parent's number and from how many the parent has made.
//
// Threads: any.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
#include "mpi.h"
#pragma GCC visibility pop

namespace weft::check {

struct Comm : std::enable_shared_from_this<Comm> {
  std::uint32_t number = 0;  // 0: none; what needs the other members is not checked
  int rank = -1;
  bool is_inter = false;
  std::vector<int> world;              // ranks in MPI_COMM_WORLD of the group that messages go to
  std::vector<int> locals;             // those of this process's group
  std::uint32_t num_made = 0;          // communicators from this one
  std::uint32_t num_collectives = 0;   // calls of this process
  std::uint32_t num_synchronised = 0;  // of those that wait for all members
  std::string name;
  bool is_unclear = false;  // messages.hpp
  void* posted = nullptr;   // messages.cpp: the receives that are under way
  // The rank in MPI_COMM_WORLD; -1: none.
  int world_of(int member) const {
    return member >= 0 && member < static_cast<int>(world.size())
               ? world[static_cast<std::size_t>(member)]
               : -1;
  }
};

// The communicator of a valid handle, kept until forget_comm(). null: the handle is not valid.
Comm* comm_of(MPI_Comm handle);
void forget_comm(MPI_Comm handle);

// Called when all members of `parent` have made `made` from it. how: tells ways of making apart,
// where not all of the
// parent's members take part.
void add_comm(MPI_Comm parent, MPI_Comm made, std::uint32_t how = 0);
// Takes the next number of a parent, also where nothing comes out for this process.
std::uint32_t next_number(MPI_Comm parent, std::uint32_t how);
void add_comm_with(std::uint32_t number, MPI_Comm made);
// How often something of this number has been made; the same at all members of what is made.
std::uint32_t times_made(std::uint32_t how);
void rename_comm(MPI_Comm handle);

// "MPI_COMM_WORLD", `communicator "grid"`.
std::string text_of(const Comm& comm);

std::uint32_t mixed(std::uint32_t first, std::uint32_t second);

}  // namespace weft::check
