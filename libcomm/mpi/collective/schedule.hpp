#pragma once
// Schedule: a collective that runs in the background, as a list of steps: sends, receives, copies,
// reductions. A step waits for the messages before it only where the list says so.
//
// Messages travel on the communicator's own context under a negative tag that this schedule shares
// with its counterparts: members call collectives of a communicator in one order.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "coll/background/background.hpp"
#include "coll/coll.hpp"
#include "mpi/comm/comm.hpp"
#include "tagged/request.hpp"

namespace weft::mpi {

class Schedule {
 public:
  explicit Schedule(Comm& comm) noexcept : comm_(comm) {}
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  // Building the list. Memory must stay valid until the schedule has ended.
  Comm& comm() const noexcept { return comm_; }
  int rank() const noexcept { return comm_.rank; }
  int size() const noexcept { return comm_.size(); }
  void send(int rank, const void* data, std::size_t bytes) {
    add_send(comm_.group->world(rank), data, bytes);
  }
  void receive(int rank, void* data, std::size_t bytes) {
    add_receive(comm_.group->world(rank), data, bytes);
  }
  // On intercommunicators: to and from a rank of the remote group.
  void send_remote(int rank, const void* data, std::size_t bytes) {
    add_send(comm_.remote->world(rank), data, bytes);
  }
  void receive_remote(int rank, void* data, std::size_t bytes) {
    add_receive(comm_.remote->world(rank), data, bytes);
  }
  // Steps added after this begin when all messages before it are complete.
  void wait();
  void copy(void* to, const void* from, std::size_t bytes);
  // inout[i] = in[i] op inout[i]
  void reduce(const void* in, void* inout, std::size_t count, const coll::Reduction& op);
  // Adds the steps of a plan of the communicator's team, whose buffers are these two, and a wait
  // for all of them. op: null if nothing is reduced.
  void add(const coll::Plan& plan, const void* input, void* output, const coll::Reduction* op);
  // Adds the steps that `write(team, plan)` writes.
  template <class Write>
  void add_steps(const void* input, void* output, const coll::Reduction* op, Write&& write) {
    coll::Plan plan;
    write(coll::shape_of(*comm_.team), plan);
    add(plan, input, output, op);
  }
  // Allocates memory that lives as long as the steps do. Null: out of memory, which start()
  // reports.
  char* allocate(std::size_t bytes);
  // Forgets all steps.
  void clear();

  // Takes the schedule's number among the communicator's: once, when no error can happen here any
  // more that would leave this process with another count than its counterparts.
  void open() noexcept;

  // Running. `start` allocates all memory that it needs; `advance` returns true when all is done,
  // with the first error, or when the schedule cannot complete as a member is lost. Then the other
  // members are notified, and messages with those that live are cancelled. Messages that do not end
  // within some seconds stay as they are, for good: is_abandoned(), and the caller keeps the memory
  // they use.
  Code start();
  bool advance(Code& code);
  bool is_abandoned() const noexcept { return abandoned_; }
  // Between two batches of steps, when there are none: true if a loss ends the whole, with `code`.
  bool is_given_up(Code& code);

 private:
  struct Step {
    enum class Kind { send, receive, wait, copy, reduce };
    Kind kind;
    int peer;  // world rank
    const void* from;
    void* to;
    std::size_t size;  // bytes; of a reduction: elements
    const coll::Reduction* op;
    // The numbers of messages that must complete before the step begins; -1: none.
    int after[2] = {-1, -1};
  };
  int num_added_ = 0;  // messages

  void add_send(int peer, const void* data, std::size_t bytes);
  void add_receive(int peer, void* data, std::size_t bytes);
  bool is_over(std::size_t message);
  bool run(Code& code);
  bool is_hopeless() noexcept;
  bool report_end(Code code);
  bool give_up(Code& code);

  Comm& comm_;
  std::int32_t tag_ = 0;
  std::vector<Step> steps_;
  std::size_t next_ = 0;
  std::unique_ptr<tagged::Request[]> messages_;  // one for each message, in their order
  std::size_t num_messages_ = 0;
  std::size_t first_pending_ = 0;
  Code code_ = Code::ok;
  std::vector<std::unique_ptr<char[]>> memory_;
  bool out_of_memory_ = false;
  std::uint32_t lost_seen_ = 0;        // the number of the engine's lost peers at the last check
  bool some_lost_ = false;             // of the members
  bool some_died_ = false;             // of those; the others left in good order
  std::uint64_t broken_since_ns_ = 0;  // 0: no member is lost
  std::uint64_t given_up_ns_ = 0;
  bool abandoned_ = false;
};

// Patterns that several collectives share. Each ends with a wait.
void schedule_barrier(Schedule& schedule);
void schedule_bcast(Schedule& schedule, void* data, std::size_t bytes, int root);
// Reduces the `mine` of every process in rank order; returns the address of the result on `root`,
// null elsewhere. `mine` is overwritten.
char* schedule_reduce(Schedule& schedule, char* mine, std::size_t count, const coll::Reduction& op,
                      int root);

}  // namespace weft::mpi
