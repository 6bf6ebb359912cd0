#pragma once
// Plan: one member's part in a collective, as a list of steps: send, receive, copy, reduce. An
// algorithm is a pure function that writes its member's steps; it touches no memory and sends
// nothing, so it is tested without processes (tests/coll/plan_test.cpp). The same steps are run in
// place by blocking calls (plan_run.hpp) and in the background by others
// (mpi/collective/schedule.hpp).
//
// Steps begin in order. A step that needs messages to be complete names them: up to two, or all
// before it (wait_all). Messages that it does not name may still be under way; until they are
// complete nothing may read what a receive writes, nor write what a send reads. Copies and
// reductions are complete when the next step begins.
//
// Messages between two members match in the order of the steps on both sides. A message of zero
// bytes is a message, too.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::coll {

// The memory of a BufferRef: one of the caller's two buffers, or the plan's own.
enum class Memory : std::uint8_t { input, output, scratch };

struct BufferRef {
  Memory memory = Memory::output;
  std::size_t offset = 0;  // bytes
  friend BufferRef operator+(BufferRef ref, std::size_t bytes) noexcept {
    return {ref.memory, ref.offset + bytes};
  }
  friend bool operator==(const BufferRef&, const BufferRef&) = default;
};
inline constexpr BufferRef kInput{Memory::input, 0};
inline constexpr BufferRef kOutput{Memory::output, 0};

struct Step {
  enum class Kind : std::uint8_t {
    send,
    receive,
    copy,
    reduce,    // to[i] = from[i] op to[i]
    wait_all,  // only waits for all messages before it
  };
  static constexpr int kNone = -1;

  Kind kind = Kind::wait_all;
  int peer = 0;  // of a message
  BufferRef from, to;
  std::size_t length = 0;         // bytes; of a reduction: elements
  int after[2] = {kNone, kNone};  // numbers of steps that are messages
};

// The members that take part in an algorithm: all of a team, or some of them.
struct Group {
  int rank;  // of this member
  int size;
  const int* members = nullptr;  // by rank, the members' ranks in the team; null: all
  int team_rank(int rank) const noexcept { return members == nullptr ? rank : members[rank]; }
};

// One thread at a time. Writing a plan no longer than an earlier one allocates no memory.
class Plan {
 public:
  static constexpr int kNone = Step::kNone;

  void clear() noexcept {
    steps_.clear();
    scratch_bytes_ = 0;
  }
  void reserve(std::size_t num_steps) { steps_.reserve(num_steps); }
  const std::vector<Step>& steps() const noexcept { return steps_; }
  std::size_t scratch_bytes() const noexcept { return scratch_bytes_; }

  // Memory of the plan's own, aligned to a cache line.
  BufferRef scratch(std::size_t bytes) noexcept {
    const BufferRef ref{Memory::scratch, scratch_bytes_};
    scratch_bytes_ += (bytes + 63) / 64 * 64;
    return ref;
  }

  // Messages return their number, for steps that name it. Peers are ranks of the team.
  int send(int to, BufferRef from, std::size_t bytes, int after = kNone, int also = kNone) {
    return add({Step::Kind::send, to, from, {}, bytes, {after, also}});
  }
  int receive(int from, BufferRef to, std::size_t bytes, int after = kNone, int also = kNone) {
    return add({Step::Kind::receive, from, {}, to, bytes, {after, also}});
  }
  void copy(BufferRef to, BufferRef from, std::size_t bytes, int after = kNone, int also = kNone) {
    if (to != from && bytes != 0) add({Step::Kind::copy, 0, from, to, bytes, {after, also}});
  }
  // inout = in op inout
  void reduce(BufferRef in, BufferRef inout, std::size_t count, int after = kNone,
              int also = kNone) {
    if (count != 0) add({Step::Kind::reduce, 0, in, inout, count, {after, also}});
  }
  void wait_all() { add({}); }
  // Both at once, followed by a wait: for algorithms whose every step needs the one before.
  void exchange(int to, BufferRef from, std::size_t bytes, int source, BufferRef into,
                std::size_t into_bytes) {
    receive(source, into, into_bytes);
    send(to, from, bytes);
    wait_all();
  }

 private:
  int add(const Step& step) {
    steps_.push_back(step);
    return static_cast<int>(steps_.size()) - 1;
  }

  std::vector<Step> steps_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace weft::coll
