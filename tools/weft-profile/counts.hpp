#pragma once
// The cost of the calls of one process, and the data sent to each rank: kept by thread while the
// program runs, so that a call costs two readings of the clock and no shared cache line.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "mpi.h"

namespace weft::profile {

// Functions in the order of functions.inc.
inline constexpr const char* kFunctionNames[] = {
#define WEFT_PROFILED(name) #name,
#include "functions.inc"
#undef WEFT_PROFILED
};
inline constexpr std::size_t kNumFunctions = std::size(kFunctionNames);
// Labels that are distinguished; the last is for all other communicators.
inline constexpr std::size_t kNumLabels = 64;

std::uint64_t now_ns() noexcept;

// A number that one thread writes and others read when that thread is quiet, or about so.
class Number {
 public:
  void add(std::uint64_t more) noexcept { set(get() + more); }
  void raise_to(std::uint64_t value) noexcept {
    if (value > get()) set(value);
  }
  std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  void set(std::uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  std::atomic<std::uint64_t> value_{0};
};

struct Cell {
  Number calls, ns, longest_ns, bytes;
};
using Row = Cell[kNumLabels];

// A communicator that the program uses now.
struct Communicator {
  // Relaxed: changes with the name. kNumLabels: no call has been counted yet.
  mutable std::atomic<std::size_t> label{kNumLabels};
  int size = 0;            // of the group that messages go to
  std::vector<int> world;  // its members' ranks in MPI_COMM_WORLD; empty: not known
  bool is_inter = false;
  std::uint64_t group = 0;  // equal at all members, and for all communicators of them
  std::uint64_t key = 0;    // of this communicator alone; 0: not known
};

// One line of a report: a function with the communicators of one label.
struct Line {
  std::string function, communicator;
  std::uint64_t calls = 0, ns = 0, longest_ns = 0, bytes = 0;
};

// The messages sent to one rank of MPI_COMM_WORLD.
struct Sent {
  std::uint64_t messages = 0, bytes = 0;
};

inline constexpr int kNoRoot = -1;

// A collective among the members of one group, from one root if it has one.
struct Joined {
  std::string function, communicator;
  std::uint64_t group = 0;
  int root = kNoRoot;  // rank in MPI_COMM_WORLD
  std::uint64_t calls = 0, ns = 0;
};

// Returns the communicator with which a call has just succeeded. It stays until it is forgotten,
// which the program does not do while it uses it.
const Communicator* find(MPI_Comm comm);
std::shared_ptr<const Communicator> find_shared(MPI_Comm comm);
// Returns a member's rank in MPI_COMM_WORLD; MPI_UNDEFINED for none.
int world_rank(const Communicator& comm, int rank) noexcept;

// Called when a call has ended. comm: MPI_COMM_NULL if it has none.
void note_call(std::size_t function, MPI_Comm comm, std::uint64_t ns, std::uint64_t bytes) noexcept;
// Called when a call has sent a message to this rank of the communicator.
void note_message(MPI_Comm comm, int rank, std::uint64_t bytes) noexcept;
// Called when a persistent send is made, is started, and ends.
void note_persistent(MPI_Request request, MPI_Comm comm, int rank, std::uint64_t bytes) noexcept;
void note_start(MPI_Request request) noexcept;
void forget_persistent(MPI_Request request) noexcept;
// Called when a blocking collective has ended. root: of the communicator, or kNoRoot.
void note_joined(std::size_t function, MPI_Comm comm, int root, std::uint64_t ns) noexcept;
// Called when a call has made a communicator from another; MPI_COMM_NULL: from none.
void note_made(MPI_Comm comm, MPI_Comm parent) noexcept;
// Called before the communicator's handle is freed; another communicator may get it.
void forget(MPI_Comm comm) noexcept;
// Called when it has another name; threads may count calls of it meanwhile.
void rename(MPI_Comm comm) noexcept;

// Called when MPI_COMM_WORLD exists, and before it ends: sessions may make communicators then.
void begin_world(int size);
void end_world() noexcept;

// Return the counts for the report, at the end.
std::vector<Line> lines();
std::vector<Sent> sent();
std::vector<Joined> joined();

}  // namespace weft::profile
