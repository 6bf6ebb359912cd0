#pragma once
// Members: the ranks of the job, the host of each process, and a key-value board on which they
// publish their addresses. Opened once per process by the layers above; used during setup and at
// the end, never on a datapath. Not thread-safe: one thread at a time.
//
// Tests: tests/job/boards_test.cpp, tests/job/launchers_test.cpp.
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.hpp"
#include "job/spawn.hpp"
#include "weft/status.hpp"

namespace weft {

// The part of a process that joins. A program may use MPI and the threaded transport; these are two
// libraries that do not share state, so each joins for itself and has a job of its own, with the
// same ranks.
enum class Party : std::uint32_t { mpi, transport };
inline constexpr std::size_t kNumParties = 2;

// The board and the bookkeeping of one kind of job start (PMIx, PMI, a rendezvous server, alone, or
// threads of one process in tests). Every blocking call ends within the given time with timed_out
// or peer_lost and names the missing ranks.
class Board {
 public:
  virtual ~Board() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual std::string_view launcher()
      const noexcept = 0;  // "pmix", "pmi1", "pmi2", "weftrun", "rendezvous", "alone", "threads"
  // Which of the programs of the job this process runs, when the launcher was given several.
  virtual int app_number() const noexcept { return 0; }

  // Publishes a value under (own rank, key). Visible to others after both called fence.
  virtual Status put(std::string_view key, std::string_view value) = 0;
  // Blocks until every process of the job has called it; everything put before is then visible.
  virtual Status fence(int timeout_ms) = 0;
  // Reads the value that `rank` put under `key` before the last fence. not_found names both.
  virtual Status get(int rank, std::string_view key, std::string& value) = 0;
  // Starts more processes, as a job of their own, which ends with this one if a launcher starts
  // them.
  virtual Status spawn(const SpawnRequest& request, std::unique_ptr<Spawned>& spawned) {
    return start_weftrun(request, spawned);
  }
  // Names under which processes find each other's ports, in whatever jobs the launcher can see.
  // exists: it is published already; not_found: it is not. They end with their publisher.
  virtual Status publish(std::string_view service, std::string_view port);
  virtual Status look_up(std::string_view service, std::string& port);
  virtual Status unpublish(std::string_view service);
  // Asks the launcher to end the whole job with this exit code; returns if it cannot.
  virtual void abort(int exit_code, std::string_view message) = 0;
  // Says goodbye; after it the process may exit without counting as dead.
  virtual Status close() = 0;
};

struct Member {
  std::string host;  // the host's name, for messages
  // Equal for processes under one kernel, which may be kept apart all the same.
  std::string machine;
  int pid = 0;        // in the numbering of its process-id namespace
  std::string cache;  // common_cache() there
  // The first rank of the processes with which it can share memory (sharing.hpp): its host.
  int first_on_host = 0;
  int local_rank = 0;  // position among them
};

// The name of a process among those of all jobs.
struct ProcessName {
  std::uint64_t job = 0;  // Members::id() there
  int rank = 0;
  auto operator<=>(const ProcessName&) const = default;
};

// A process of another job that this one has met.
struct ForeignProcess {
  ProcessName name;
  int pid = 0;
  std::string host;
};
// So many at a time. They get numbers from the job's size on, which go on where ranks end.
inline constexpr int kMaxForeignProcesses = 1 << 14;

struct SharingOffer;

class Members {
 public:
  // Finds how this process was started (WEFT_RENDEZVOUS, PMIx, PMI, alone), joins, and learns about
  // all members. Blocks until all have started, at most START_TIMEOUT_MS.
  static Status open(const Settings& settings, std::unique_ptr<Members>& job,
                     Party party = Party::mpi);
  // The same over a given board; ranks that are threads of one process use this.
  static Status open(const Settings& settings, std::unique_ptr<Board> board,
                     std::unique_ptr<Members>& job);

  int rank() const noexcept { return board_->rank(); }
  int size() const noexcept { return board_->size(); }
  // Random, the same at all ranks: identifies this job among others.
  std::uint64_t id() const noexcept { return id_; }
  const Settings& settings() const noexcept { return settings_; }
  Board& board() noexcept { return *board_; }
  const Member& member(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  bool same_host(int a, int b) const { return member(a).first_on_host == member(b).first_on_host; }
  // Returns true if the two share a cache, according to their affinity.
  bool share_cache(int a, int b) const {
    return same_host(a, b) && !member(a).cache.empty() && member(a).cache == member(b).cache;
  }
  // World ranks of this process's host in ascending order, itself among them.
  const std::vector<int>& local_ranks() const noexcept { return local_ranks_; }
  // Returns true if there are several hosts and some of them have more than one rank.
  bool has_shared_hosts() const noexcept { return num_hosts_ > 1 && num_hosts_ < size(); }
  // The number of processes of the job on this machine, whether they share memory or not.
  int num_on_host() const noexcept { return num_on_host_; }
  // Processors that these may use together, by their affinity when they joined.
  int num_cpus_on_host() const noexcept { return num_cpus_on_host_; }
  bool is_crowded() const noexcept { return num_on_host_ > num_cpus_on_host_; }
  // Returns true if the rank is one of these.
  bool on_host(int rank) const noexcept;
  // "rank 3 (pid 4711 on node7)", for messages. Also of foreign processes, by their numbers.
  std::string describe(int rank) const;

  // Gives a foreign process a number, under which member() has it from then on, as a host of its
  // own; the lowest that is free. no_memory: there are kMaxForeignProcesses. One thread at a time
  // adds and removes; other threads may read meanwhile.
  Status add_foreign(const ForeignProcess& process, int& number);
  void remove_foreign(int number);
  // Its number; -1: none.
  int find_foreign(std::uint64_t job, int rank) const noexcept;
  // The name that any two processes use for the process with this number, whichever jobs they are
  // of.
  ProcessName name_of(int number) const noexcept;

 private:
  std::size_t index_of(int number) const { return static_cast<std::size_t>(number - size()); }
  Members(const Settings& settings, std::unique_ptr<Board> board)
      : settings_(settings), board_(std::move(board)) {}
  Status exchange_members();
  Status find_hosts(const std::vector<SharingOffer>& offers);

  Settings settings_;
  std::unique_ptr<Board> board_;
  std::vector<Member> members_;  // and foreign processes; never moves after the start
  std::uint64_t id_ = 0;
  mutable std::mutex foreign_mutex_;     // for the next
  std::vector<ForeignProcess> foreign_;  // by number - size(); job 0: free
  std::vector<int> local_ranks_;
  int num_hosts_ = 1;
  int num_on_host_ = 1;
  int num_cpus_on_host_ = 1;
};

// n boards that share one memory, for n ranks that are threads of this process.
std::vector<std::unique_ptr<Board>> make_thread_boards(int n);

}  // namespace weft
