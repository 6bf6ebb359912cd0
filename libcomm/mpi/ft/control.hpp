#pragma once
// Control: the messages of fault tolerance between processes, in a context of their own, and what
// they change: revoked communicators and agreements. They are handled in every wait, and in calls
// that test in vain, whatever these are for.
//
// Threads: any thread may call any function.
#include <cstdint>
#include <memory>
#include <vector>

#include "mpi/comm/comm.hpp"
#include "mpi/ft/consensus.hpp"

namespace weft::mpi::ft {

// The agreements of a communicator's members. It stays after the communicator is freed, as members
// whose coordinator has died may still ask for the last decision.
class Agreements {
 public:
  // Takes the number of the next agreement; its turn comes when those before it have ended.
  std::uint32_t take_turn() noexcept;
  // Returns true if this turn has come and has not begun.
  bool has_turn(std::uint32_t turn);
  // Enters the agreement of this turn.
  void begin(const Contribution& contribution);
  // Makes progress, and returns true, once, if the agreement of this turn has ended with
  // `decision`.
  bool has_ended(std::uint32_t turn, Decision& decision);

  int size() const noexcept { return static_cast<int>(members_.size()); }
  int rank() const noexcept { return rank_; }
  int world(int rank) const noexcept { return members_[static_cast<std::size_t>(rank)]; }

 private:
  friend struct Control;
  Agreements(std::uint32_t context, std::vector<int> members, int num_first);

  const std::uint32_t context_;
  const std::vector<int> members_;  // world ranks, in the same order at all members
  int rank_;
  // Under Control's mutex.
  Consensus consensus_;
  std::uint32_t num_turns_ = 0;
  std::uint32_t num_taken_ = 0;  // decisions, by their calls
  std::uint32_t lost_seen_ = 0;  // the engine's lost peers at the last look
  bool is_watching_ = false;
};

// All members of a communicator, of both groups, in an order that all of them know: first those of
// the group that leads.
std::vector<int> members_of(const Comm& comm);
// The agreements of a communicator, made at the first call.
std::shared_ptr<Agreements> agreements_of(const Comm& comm);

// Contribution::kind.
enum : std::uint32_t { kAgree = 1, kShrink = 2, kMeet = 3 };

// Returns once all living members of the communicator have called it.
void meet(const Comm& comm);

// Revokes the communicator here, with the window or file that has it, and tells the other members.
// Does nothing if it is revoked. teller: who has told this process, or itself.
void revoke(Comm& comm, int teller);

// For the start and the end of the library.
void open_control();
void close_control() noexcept;
// For a communicator that has its context, before and after others can find it by that (again for
// that of a window, once this is made), and for one that ends.
void note_opening(const Comm& comm) noexcept;
void note_open(Comm& comm) noexcept;
void note_end(const Comm& comm) noexcept;

}  // namespace weft::mpi::ft
