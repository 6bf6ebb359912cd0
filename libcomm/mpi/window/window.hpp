#pragma once
// Window: what an MPI_Win names (MPI 5.0 chapter 12): memory of every member that the others read,
// write and change without a call of its owner.
//
// Access to memory. Windows that allocate have one piece of memory per host, which all members of
// the host map: puts and gets are copies, accumulates are the processor's atomics. Everything else
// goes through the fabric that leads to the target (put, get, cas, fetch_add), on which the target
// needs no call either.
//
// Synchronisation uses words of memory too (WindowControl), one record a member, mapped by its host
// and shared with the others. Fence is a barrier, post and start are messages on the window's own
// communicator.
//
// Atomicity of accumulates. In a direct window (every member maps every other's memory) elements of
// up to 8 bytes that are aligned are changed by the processor's atomics. All others, and all
// elements of windows that are not direct, are changed under the target's accumulate lock: one rule
// for all members of a window, the target itself among them. Many elements of a direct window are
// changed under the lock, too, without atomics, which is several times as fast: a member that uses
// atomics first marks that in its own words, and checks whether the lock is held. Where a window
// that allocates spans hosts and all members give the hint mpi_accumulate_granularity of 1 to 8
// bytes, aligned elements are changed one by one there too, by the processor or by the fabric's cas
// and fetch_add: quicker for single elements, slower for many.
//
// Threads: any thread may call any function, if MPI_THREAD_MULTIPLE was granted. `mutex` guards the
// epoch and the transfers; no thread waits with it held.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lanes/fabrics.hpp"
#include "mpi/comm/comm.hpp"
#include "mpi/core/attributes.hpp"
#include "mpi/core/errors.hpp"
#include "tagged/request.hpp"

namespace weft::mpi {

class RmaTransfer;

// One member's words. Members that map them use the processor's atomics, the others the fabric's.
struct WindowControl {
  // MPI_Win_lock: a fair lock for readers and writers by tickets (Mellor-Crummey and Scott 1991, in
  // the form of one line of tickets). Shared holders of consecutive tickets hold it together.
  alignas(64) std::uint64_t next_ticket;
  std::uint64_t shared_turn;     // the ticket that may enter, if it is shared
  std::uint64_t exclusive_turn;  // the same, if it is exclusive: all before have unlocked
  // 1 + the world rank of the process that accumulates; 0: none.
  alignas(64) std::uint64_t accumulating;
  // Dynamic windows: the version of the table. The owner writes it; odd while it changes what
  // follows.
  alignas(64) std::uint64_t version;
  std::uint64_t num_attached;
  // Direct windows: the number of this member's threads that now change elements of any member by
  // atomics.
  alignas(64) std::uint64_t changing;
};
static_assert(sizeof(WindowControl) == 256);

// The names of one piece of memory on each fabric, by LaneLimits::number.
using RemoteMemories = std::array<MemoryName, fabric::kNumFabrics>;

// Attached memory of a dynamic window, in a table behind the owner's WindowControl.
struct Attached {
  std::uint64_t address;
  std::uint64_t bytes;
  RemoteMemories names;
};
inline constexpr std::uint64_t kMaxAttached = 2048;

struct Window {
  // A member's memory.
  struct Extent {
    std::byte* data = nullptr;  // the address where it is mapped here; null: see `remotes`
    std::uint64_t bytes = 0;
    std::int64_t unit = 1;
  };
  // A member's memory and its words, for the fabric that leads there.
  struct Remote {
    MemoryName memory{};
    MemoryName control{};
  };
  // revoked: for good; there are no epochs any more.
  enum class Access { none, fenced, used_fence, started, locked, locked_all, revoked };
  struct Lock {
    bool is_exclusive = false;
    bool is_held = true;  // false: MPI_MODE_NOCHECK
  };

  ~Window();
  int size() const noexcept { return comm->size(); }
  int rank() const noexcept { return comm->rank; }
  int world(int member) const noexcept { return comm->world(member); }
  Lanes& lanes_to(int member) const noexcept { return *engine->fabrics().to(world(member)); }

  Extent extent(int member) const noexcept {
    if (extents.empty()) [[likely]]
      return {uniform.data + static_cast<std::uint64_t>(member) * stride, uniform.bytes,
              uniform.unit};
    return extents[static_cast<std::size_t>(member)];
  }
  // Returns the member's words, or null if it is on another host.
  WindowControl* control(int member) const noexcept {
    const int index =
        host_indices.empty() ? member : host_indices[static_cast<std::size_t>(member)];
    return index < 0 ? nullptr
                     : reinterpret_cast<WindowControl*>(
                           host_memory + static_cast<std::size_t>(index) * control_stride);
  }
  const Remote& remote(int member) const noexcept {
    return remotes[static_cast<std::size_t>(member)];
  }

  MPI_Win handle = MPI_WIN_NULL;
  Comm* comm = nullptr;  // the window's own
  int flavor = 0;
  bool is_direct = false;
  bool by_words = false;  // see above: the fabric's atomics on the 8 bytes around an element
  // If members have equal memory on one host, this describes all of them.
  Extent uniform;
  std::uint64_t stride = 0;
  std::vector<Extent> extents;       // else: by rank
  std::vector<Remote> remotes;       // by rank; empty if all memory is mapped
  std::vector<int> host_indices;     // by rank, -1: another host; empty if all are on this one
  std::vector<int> host_members;     // ranks on this host, in order
  std::byte* host_memory = nullptr;  // the host's piece: words, then what the window allocated
  std::size_t control_stride = 0;

  // Ended with the window.
  bool has_users = false;                      // others may use the memory on
  void* allocated = nullptr;                   // by this process: the host's piece
  MappedMemory mapping;                        // else the mapping of it
  RemoteMemories own_memory{}, own_control{};  // the names of memory shared by this process

  std::mutex mutex;
  ErrorHandler* errhandler = nullptr;
  AttributeSet attributes;
  InfoPtr info;
  MPI_File file = MPI_FILE_NULL;  // whose shared pointer it has
  // The values of the predefined attributes, which are pointers to them.
  void* base = nullptr;
  MPI_Aint bytes = 0;
  int unit = 1;
  int model = MPI_WIN_UNIFIED;

  // The epoch, guarded by `mutex`.
  Access access = Access::none;
  std::unordered_map<int, Lock> locks;  // by target; for lock_all as well
  std::vector<int> started;             // ranks, sorted
  bool all_unchecked = false;           // MPI_Win_lock_all with MPI_MODE_NOCHECK
  bool is_posted = false;
  std::unique_ptr<tagged::Request[]> completions;  // the messages of the members posted to
  std::size_t num_completions = 0;
  std::vector<std::shared_ptr<RmaTransfer>> transfers;  // under way
  std::atomic<unsigned> num_checks{0};                  // of check_member
};

using WindowTable = HandleTable<MPI_Win, Window, Kind::win>;
extern Immortal<WindowTable> windows;
inline Window* find_window(MPI_Win handle) noexcept { return windows->find(handle); }
// Ends the windows that the program has not freed; for MPI_Finalize.
void destroy_windows();
// For other parts of the library: makes a window that allocates so many bytes at each member, whose
// words of 8 bytes are changed whole, and ends it. Collective, in calls that the members have
// agreed on; all agree on the outcome. No error is raised.
Status allocate_window(Comm& parent, std::size_t bytes, Window*& window);
Status free_window(Window* window);
// Called once a window is made, and the file that it is for: revocations that have come count now.
void note_made(Window& window) noexcept;
// Ends the epochs of a window that is revoked, for good.
void end_epochs(Window& window) noexcept;

// Does as raise(), on the window's error handler; null: without an object.
[[nodiscard, gnu::cold]] int raise_on(Window* window, int code, const char* function,
                                      std::string_view text = {});

// True for what an access ends with whose target has freed its memory, in case the window is
// revoked.
constexpr bool is_refusal(Code code) noexcept {
  return code == Code::bad_argument || code == Code::not_permitted;
}
// The time for which a process that was refused waits for word of the revocation, which is on its
// way.
inline constexpr std::uint64_t kWordNs = 1'000'000'000;
// Returns the error class of an access or a wait that has ended with this code. It waits for word
// after a refusal.
[[gnu::cold]] int class_of_failure(Window& window, Code code);
inline int class_of(Window& window, Code code) {
  return code == Code::ok ? MPI_SUCCESS : class_of_failure(window, code);
}

// Each of the following returns ok or the error that prevented it; peer_lost if a member that is
// needed is lost, or the window revoked. They end when that is known.

// Takes the ticket lock of a member. Blocks until it is held.
Code lock_member(Window& window, int member, bool exclusive);
Code unlock_member(Window& window, int member, bool exclusive);
// The accumulate lock of a member, from the constructor to the destructor.
class AccumulateLock {
 public:
  AccumulateLock(Window& window, int member);
  ~AccumulateLock();
  AccumulateLock(const AccumulateLock&) = delete;
  AccumulateLock& operator=(const AccumulateLock&) = delete;
  Code code() const noexcept { return code_; }  // ok: the lock is held
  // In a direct window: waits until no member changes elements by atomics; none begins to either.
  Code wait_for_atomics();
  // Releases the lock and returns the result; otherwise the destructor does.
  Code release();

 private:
  Window& window_;
  int member_;
  Code code_;
};
// Marks, from the constructor to the destructor, that this thread changes elements of a member of a
// direct window by atomics. The thread must not wait meanwhile.
class AtomicChange {
 public:
  AtomicChange(Window& window, int member) noexcept;
  ~AtomicChange();
  AtomicChange(const AtomicChange&) = delete;
  AtomicChange& operator=(const AtomicChange&) = delete;
  bool is_allowed() const noexcept { return is_allowed_; }  // false: the lock is held

 private:
  std::atomic_ref<std::uint64_t> changing_;
  bool is_allowed_;
};
// Returns peer_lost if the member is lost; -1: any member. Scans for lost processes now and then.
Code check_member(Window& window, int member);
// The same in a wait for any member, which a revocation ends.
Code check_wait(Window& window);
// The same at the end of a call that programs repeat until something happens: it polls now and
// then, as nothing else may, for the next call to see a revocation.
Code check_target(Window& window, int target);
// Waits for the transfers to a target; -1: to all.
Code complete_transfers(Window& window, int target);

// Dynamic windows: finds [address, address + bytes) of the target. MPI_SUCCESS or an error class.
int find_attached(Window& window, int target, std::uint64_t address, std::uint64_t bytes,
                  MemoryName& memory);
// Finds the piece of attached memory that has this address, all of it.
int find_attached_piece(Window& window, int target, std::uint64_t address, std::uint64_t& start,
                        MemoryName& memory);
void detach_all(Window& window);

// Shares memory with the members that are not on this host, and with those that are if with_host is
// set. `names` has what was shared, also after an error.
Status share_window_memory(void* memory, std::size_t bytes, bool with_host, RemoteMemories& names);
void unshare_window_memory(RemoteMemories& names);

}  // namespace weft::mpi
