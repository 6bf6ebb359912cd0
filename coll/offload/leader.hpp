#pragma once
// Leader: the hosts' part of allreduce in the network as a state machine, free of sockets and
// clocks. One for each group in which this process is a leader. Its owner passes it the packets
// that arrive and the time; one thread at a time (Link has a mutex).
//
// An operation goes through the switch packet by packet: contributions out, results in, repeated
// when no answer comes. A switch that waits for others says so, so silence means that it is gone.
//
// When the switch is gone, or refuses, no leader may be left with a result that others lack for
// good, nor may one compute alone what others got from the switch. So a leader that gives an
// operation up asks all others:
//  1. A leader that is asked about operation n takes nothing more from the switch for n, if it has
//     not all of it by then, and contributes to none after it ("frozen"). Its answer therefore
//     stays true: has, or lacks.
//  2. The leader that asks waits for all answers, so that all are frozen. All that ask about n get
//     the same answers.
//  3. A leader that has n sends it to those that lack it; only if none has it do all compute it by
//     messages ("host"), from contributions that each still holds.
//  4. A leader that froze before it contributed to n knows that no leader can have n, and computes
//     at once.
// A leader keeps the results of its last two operations: no other can be further behind, as it
// would have to contribute to the later one first.
#include <cstdint>
#include <span>
#include <vector>

#include "coll/switch/packet.hpp"

namespace weft::offload {

struct LeaderOptions {
  std::uint32_t group = 0;
  std::uint64_t key = 0;
  std::uint32_t ticket = 0;
  std::uint16_t epoch = 0;
  std::uint8_t child = 0;  // at this leader's switch
  int self = 0;            // among the leaders
  int num_leaders = 1;
  std::uint16_t window = 1;  // the most packets under way
  std::uint16_t payload_bytes = innet::kMaxPayloadBytes;
  bool fixed = false;  // sums of floats as integers (fixed_point.hpp)
  // Between these is the time until a contribution is repeated: as long as results take here, and
  // doubled with every repetition.
  std::uint64_t repeat_ns = 2'000'000;
  std::uint64_t repeat_max_ns = 100'000'000;
  std::uint64_t silence_ns = 1'000'000'000;  // the switch is given up after silence of this length
};

struct LeaderCounters {
  std::uint64_t operations = 0;  // computed by the switch
  std::uint64_t contributions = 0, repeated = 0, results = 0, waits = 0;
  std::uint64_t sent_bytes = 0, received_bytes = 0;  // of data
  std::uint64_t fetched = 0;  // operations whose result came from another leader
  std::uint64_t by_hosts = 0;
  std::uint64_t ignored = 0;  // packets for another group, or out of date
};

class Leader {
 public:
  class Wire {
   public:
    virtual void to_switch(std::span<const std::byte> packet) = 0;
    virtual void to_leader(int leader, std::span<const std::byte> packet) = 0;

   protected:
    ~Wire() = default;
  };
  enum class State {
    idle,        // no operation begun yet, or the last result was taken
    working,     // the switch computes it
    recovering,  // asking the other leaders, or fetching the result from one
    host,        // the caller must compute it with the other leaders, all of which will
    done,        // result() is valid
  };

  explicit Leader(Wire& wire) : wire_(wire) {}

  // Opens a group that all leaders have agreed on; replaces the last one. All operations so far are
  // complete.
  void open(const LeaderOptions& options);
  // No group, or none any more: the hosts compute all operations.
  void close();

  // Sets the number of operations begun so far without this leader, which had no sockets then.
  void number_from(std::uint32_t operations) noexcept { operation_ = operations; }

  // Begins the next operation, numbered from 1 in the order in which all leaders begin them. The
  // contribution is copied: at most 4 GiB - 1, full elements.
  void begin(innet::Element element, innet::Operation operation,
             std::span<const std::byte> contribution, std::uint64_t now_ns);
  void on_switch(std::span<const std::byte> bytes, std::uint64_t now_ns);
  void on_leader(int from, std::span<const std::byte> bytes, std::uint64_t now_ns);
  // To be called about every millisecond while an operation is under way.
  void on_time(std::uint64_t now_ns);
  // In state host: takes the hosts' result.
  void finish(std::span<const std::byte> result);

  State state() const noexcept { return state_; }
  // Returns true if the switch is out of use until open() is called again.
  bool is_frozen() const noexcept { return frozen_; }
  std::uint32_t operation() const noexcept { return operation_; }
  // In state done, until the next begin().
  std::span<const std::byte> result() const noexcept { return kept_[operation_ & 1].data; }
  std::span<const std::byte> contribution() const noexcept { return contribution_; }
  // The leaders that have not answered yet, while recovering.
  std::vector<int> silent_leaders() const;
  innet::Answer last_refusal() const noexcept { return refusal_; }
  const LeaderCounters& counters() const noexcept { return counters_; }
  // The header of control packets to the switch.
  innet::Header header(innet::Kind kind) const noexcept;

 private:
  struct Chunk {
    std::uint64_t sent_ns = 0;
    std::uint64_t repeat_ns = 0;
    bool is_here = false, is_repeated = false;
  };
  struct Kept {
    std::uint32_t operation = 0;
    bool is_complete = false;
    std::size_t chunk_bytes = 1;
    std::vector<std::byte> data;
  };

  // A chunk is a packet and its part of the vector. In a sum of integers the first `lead_` packets
  // carry exponents alone, and each other packet the part of the packet that many before it.
  std::size_t num_chunks() const noexcept { return chunks_.size(); }
  std::size_t num_slots() const noexcept { return is_fixed_ ? lead_ : options_.window; }
  std::size_t packet_bytes(std::size_t chunk) const;
  std::size_t write_fixed(std::size_t chunk, std::byte* to) const;
  void read_fixed(std::size_t chunk, std::span<const std::byte> data);
  void split();
  std::span<const std::byte> part(std::span<const std::byte> vector, std::size_t chunk) const;
  void send_allowed(std::uint64_t now_ns);
  void contribute(std::size_t chunk, std::uint64_t now_ns);
  void note_time(std::uint64_t time_ns) noexcept;
  void note_second(const innet::Header& header) noexcept;
  std::uint64_t repeat_after_ns() const noexcept;
  bool take(std::uint32_t offset, std::span<const std::byte> data);
  void complete();
  void give_up(std::uint64_t now_ns);
  void ask(std::uint64_t now_ns);
  void fetch(std::uint64_t now_ns);
  void on_recover(int from, const innet::Header& header, std::uint64_t now_ns);
  void on_answer(int from, const innet::Header& header, std::uint64_t now_ns);
  void on_fetch(int from, const innet::Header& header);
  void send_to(int leader, innet::Kind kind, innet::Answer answer, std::uint32_t operation,
               std::uint32_t offset, std::span<const std::byte> payload);

  Wire& wire_;
  LeaderOptions options_;
  LeaderCounters counters_;
  State state_ = State::idle;
  bool frozen_ = true;
  std::uint32_t operation_ = 0;
  innet::Element element_ = innet::Element::none;
  innet::Operation arithmetic_ = innet::Operation::none;
  innet::Answer refusal_ = innet::Answer::ok;
  std::size_t chunk_bytes_ = 0;
  bool is_fixed_ = false;
  bool is_finite_ = true;  // so are all exponents so far
  std::size_t lead_ = 0;
  std::vector<std::int32_t> exponents_;  // agreed, by part
  std::size_t base_ = 0;                 // the first chunk whose result is missing
  std::size_t next_ = 0;                 // the first chunk not contributed yet
  std::size_t latest_ = 0;               // the last chunk whose result is here
  std::uint64_t last_result_ns_ = 0;
  // From a contribution to its result, which waits for the other leaders: the mean of late, and the
  // mean distance from it (V. Jacobson, "Congestion Avoidance and Control", SIGCOMM 1988). 0: none.
  std::uint64_t time_ns_ = 0, spread_ns_ = 0;
  // What was repeated too early says that this is not too long, until the next time that is known.
  std::uint64_t longer_ns_ = 0;
  std::uint32_t repeated_in_ = 0;      // the last operation with a repetition
  std::uint64_t silent_since_ns_ = 0;  // 0: the switch has answered the last packet
  unsigned unanswered_ = 0;
  std::vector<std::byte> contribution_;
  std::vector<Chunk> chunks_;
  Kept kept_[2];
  // While recovering:
  std::vector<innet::Answer> answers_;  // ok: no answer yet
  int giver_ = -1;
  std::uint64_t asked_ns_ = 0;
};

}  // namespace weft::offload
