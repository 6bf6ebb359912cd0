// Every interleaving of the threads of a rank that end phases together, as in exchange/quiesce.cpp:
// twice with the weak memory order (nobody reads what the leader decided too early or too late, and
// nobody receives in a phase that is over), and once asleep (whoever sleeps is rung; how a single
// doorbell works is doorbell_model_test's). What the ranks agree on is the leader's to know.
//
// A thread has one block to receive in each phase: before it ends the phase, or while it does.
#include <catch2/catch.hpp>

#include "tests/exchange/model/memory.hpp"

namespace {

using weft::model::Found;

constexpr int kMaxThreads = 3;
enum Location { kStep, kArrived, kFinished, kReceiveMore, kOutcome, kPhase, kReceived, kNum = 9 };
using Memory = weft::model::Memory<kMaxThreads, kNum>;

struct Rules {
  int num_threads = 2;
  std::array<bool, 2> more{};  // by phase: blocks come while it ends
  bool sleeping = false;       // waits sleep, and loads return what is newest
  // To leave things out and see that they are missed.
  bool release_step = true;
  bool acquire_step = true;
  bool release_finished = true;
  bool wait_for_finished = true;  // the leader, before the next phase
  bool ring_leader = true;
  bool ring_others = true;
};

struct Thread {
  int phase = 0, step = 0;
  int begin = 0;
  bool arrived = false;  // its block of this phase lies in the ring
  bool asleep = false;
  auto key() const { return std::tie(phase, step, begin, arrived, asleep); }
  bool operator<(const Thread& other) const { return key() < other.key(); }
};

struct State {
  Memory memory;
  std::array<Thread, kMaxThreads> threads;
  auto key() const { return std::tie(memory, threads); }
  bool operator<(const State& other) const { return key() < other.key(); }
};

// Where a thread is; the names of its steps are those of Impl::quiesce.
enum Step {
  kReceiveBefore,
  kBegin,
  kArrive,
  kUntilAllArrived,
  kResetArrived,
  kAgree,
  kAdvance,
  kUntilReceivedLeader,
  kSecondAgree,
  kSetFinished,
  kAdvanceAgain,
  kUntilFinished,
  kNextPhase,
  kAdvanceLast,
  kUntilAgreed,
  kReadMore,
  kUntilReceived,
  kRingLeader,
  kUntilResult,
  kReadResult,
  kFinish,
  kUntilNextPhase,
  kReturn,
  kDone
};

template <class AnyState>
auto& thread(AnyState& state, int t) {
  return state.threads[static_cast<std::size_t>(t)];
}

class Model {
 public:
  explicit Model(const Rules& rules) : rules_(rules) {}

  Found run() {
    State start;
    for (int t = 0; t < rules_.num_threads; ++t) thread(start, t).arrived = !rules_.sleeping;
    return weft::model::search(
        start,
        [this](const State& state, std::vector<State>& out) {
          wrong_.clear();
          const std::size_t before = out.size();
          for (int t = 0; t < rules_.num_threads; ++t) {
            arrive(state, t, out);
            if (!thread(state, t).asleep) go(state, t, out);
          }
          for (std::size_t i = before; i < out.size() && rules_.sleeping; ++i)
            out[i].memory.settle();
          return wrong_;
        },
        [this](const State& state) {
          for (int t = 0; t < rules_.num_threads; ++t)
            if (thread(state, t).step != kDone) return false;
          return true;
        });
  }

 private:
  bool more(int phase) const { return rules_.more[static_cast<std::size_t>(phase)]; }
  static int outcome_of(int phase, bool second) { return 10 * (phase + 1) + (second ? 1 : 0); }

  template <class Then>
  void load(const State& state, int t, int location, bool acquire, Then&& then) const {
    state.memory.load(t, location, acquire, [&](const Memory& memory, int value) {
      if (rules_.sleeping && value != state.memory.newest(location)) return;
      State next = state;
      next.memory = memory;
      then(next, value);
    });
  }
  void ring(State& state, int t) const { thread(state, t).asleep = false; }
  void ring_others(State& state) const {
    for (int t = 1; t < rules_.num_threads && rules_.ring_others; ++t) ring(state, t);
  }

  // A block comes for a thread, which is rung.
  void arrive(const State& state, int t, std::vector<State>& out) const {
    if (thread(state, t).arrived || thread(state, t).step == kDone) return;
    State next = state;
    thread(next, t).arrived = true;
    ring(next, t);
    out.push_back(next);
  }

  bool may_receive(const State& state, int t) const {
    const Thread& self = thread(state, t);
    return self.arrived && state.memory.newest(kReceived + t) == self.phase;
  }
  void receive(const State& state, int t, int then, std::vector<State>& out) {
    load(state, t, kPhase, false, [&](State& next, int phase) {
      if (phase != thread(state, t).phase) {
        wrong_ = "a block is received in another phase than its own";
        return;
      }
      // Only this thread writes it.
      next.memory.store(t, kReceived + t, phase + 1, true);
      thread(next, t).step = then;
      out.push_back(next);
    });
  }

  // receive_until(): looks, receives what there is, sleeps.
  template <class IsDone>
  void until(const State& state, int t, int location, int then, bool receives, IsDone&& is_done,
             std::vector<State>& out) {
    load(state, t, location, rules_.acquire_step || location != kStep, [&](State& next, int value) {
      if (is_done(value)) {
        thread(next, t).step = then;
        out.push_back(next);
      } else if (rules_.sleeping && !(receives && may_receive(state, t))) {
        thread(next, t).asleep = true;
        out.push_back(next);
      }
    });
    if (receives && may_receive(state, t)) receive(state, t, thread(state, t).step, out);
  }

  // The same for the sum of what all have received, from thread `of` on.
  void until_received(const State& state, int t, int then, std::vector<State>& out, int of = 0,
                      int sum = 0, const State* origin = nullptr) {
    const int expected = (thread(state, t).phase + 1) * rules_.num_threads;
    if (origin == nullptr) origin = &state;
    if (of == rules_.num_threads) {
      State next = state;
      if (sum >= expected) {
        thread(next, t).step = then;
        out.push_back(next);
      } else if (rules_.sleeping && !may_receive(*origin, t)) {
        thread(next, t).asleep = true;
        out.push_back(next);
      }
      return;
    }
    load(state, t, kReceived + of, true, [&](State& next, int value) {
      until_received(next, t, then, out, of + 1, sum + value, origin);
    });
    if (of == 0 && may_receive(state, t)) receive(state, t, thread(state, t).step, out);
  }

  void advance(State& state) const {
    const int value = state.memory.newest(kStep) + 1;
    if (rules_.release_step)
      state.memory.change(0, kStep, [](int before) { return before + 1; });
    else
      state.memory.store(0, kStep, value, false);
    ring_others(state);
  }

  // What a plain load must return, whatever the order.
  void expect(const State& state, int t, int location, int right, const char* what, int then,
              std::vector<State>& out) {
    load(state, t, location, false, [&](State& next, int value) {
      if (value != right) wrong_ = what;
      thread(next, t).step = then;
      out.push_back(next);
    });
  }

  void go(const State& state, int t, std::vector<State>& out) {
    const Thread& self = thread(state, t);
    const bool second = self.step != kDone && more(self.phase);
    State next = state;
    Thread& after = thread(next, t);
    switch (self.step) {
      case kReceiveBefore:
        if (!second && may_receive(state, t)) return receive(state, t, kBegin, out);
        if (!second) return;  // its block is still to come
        after.step = kBegin;
        break;
      case kBegin:
        return load(state, t, kStep, rules_.acquire_step, [&](State& looked, int value) {
          thread(looked, t).begin = value;
          thread(looked, t).step = kArrive;
          out.push_back(looked);
        });
      case kArrive:
        next.memory.change(t, kArrived, [](int value) { return value + 1; });
        if (t != 0 && rules_.ring_leader) ring(next, 0);
        after.step = t == 0 ? kUntilAllArrived : kUntilAgreed;
        break;

      case kUntilAllArrived:
        return until(
            state, t, kArrived, kResetArrived, true,
            [&](int value) { return value == rules_.num_threads; }, out);
      case kResetArrived:
        next.memory.store(t, kArrived, 0, false);
        after.step = kAgree;
        break;
      case kAgree:
        next.memory.store(t, kOutcome, outcome_of(self.phase, false), false);
        next.memory.store(t, kReceiveMore, second ? 1 : 0, false);
        after.step = kAdvance;
        break;
      case kAdvance:
        advance(next);
        after.step = second ? kUntilReceivedLeader : kSetFinished;
        break;
      case kUntilReceivedLeader:
        return until_received(state, t, kSecondAgree, out);
      case kSecondAgree:
        next.memory.store(t, kOutcome, outcome_of(self.phase, true), false);
        after.step = kSetFinished;
        break;
      case kSetFinished:
        next.memory.store(t, kFinished, rules_.num_threads - 1, false);
        after.step = kAdvanceAgain;
        break;
      case kAdvanceAgain:
        advance(next);
        after.step = rules_.wait_for_finished ? kUntilFinished : kNextPhase;
        break;
      case kUntilFinished:
        return until(
            state, t, kFinished, kNextPhase, false, [](int value) { return value == 0; }, out);
      case kNextPhase:
        next.memory.store(t, kPhase, self.phase + 1, false);
        after.step = kAdvanceLast;
        break;
      case kAdvanceLast:
        advance(next);
        after.step = kReturn;
        break;

      case kUntilAgreed:
        return until(
            state, t, kStep, kReadMore, true, [&](int value) { return value != self.begin; }, out);
      case kReadMore:
        return expect(state, t, kReceiveMore, second ? 1 : 0, "a thread misreads what is to come",
                      second ? kUntilReceived : kUntilResult, out);
      case kUntilReceived:
        return until_received(state, t, kRingLeader, out);
      case kRingLeader:
        if (rules_.ring_leader) ring(next, 0);
        after.step = kUntilResult;
        break;
      case kUntilResult:
        return until(
            state, t, kStep, kReadResult, true, [&](int value) { return value == self.begin + 2; },
            out);
      case kReadResult:
        return expect(state, t, kOutcome, outcome_of(self.phase, second),
                      "a thread misreads the result", kFinish, out);
      case kFinish:
        if (rules_.release_finished)
          next.memory.change(t, kFinished, [](int value) { return value - 1; });
        else
          next.memory.store(t, kFinished, state.memory.newest(kFinished) - 1, false);
        if (rules_.ring_leader && next.memory.newest(kFinished) == 0) ring(next, 0);
        after.step = kUntilNextPhase;
        break;
      case kUntilNextPhase:
        return until(
            state, t, kStep, kReturn, false, [&](int value) { return value == self.begin + 3; },
            out);

      case kReturn:
        // What it sends or receives from here on is of the next phase.
        return load(state, t, kPhase, false, [&](State& looked, int phase) {
          Thread& looker = thread(looked, t);
          if (phase != self.phase + 1) wrong_ = "a thread returns before the next phase";
          if (looked.memory.newest(kReceived + t) != self.phase + 1)
            wrong_ = "a phase ends before its blocks are received";
          looker.phase = self.phase + 1;
          looker.step = looker.phase == 2 ? kDone : kReceiveBefore;
          looker.arrived = !rules_.sleeping;
          out.push_back(looked);
        });
      default:
        return;
    }
    out.push_back(next);
  }

  const Rules rules_;
  std::string wrong_;
};

}  // namespace

TEST_CASE("threads that end phases together agree on each of them", "[model]") {
  Rules rules;
  rules.num_threads = GENERATE(1, 2, 3);
  rules.more = GENERATE(std::array{false, false}, std::array{true, false}, std::array{false, true},
                        std::array{true, true});
  rules.sleeping = GENERATE(false, true);
  // Ten times the states of all others, and no other steps.
  if (rules.num_threads == 3 && rules.more[0] && rules.more[1] && !rules.sleeping) return;
  const Found found = Model(rules).run();
  CAPTURE(rules.num_threads, rules.more[0], rules.more[1], rules.sleeping, found.num_states);
  CHECK(found.wrong == "");
}

TEST_CASE("each rule of the end of a phase is needed", "[model]") {
  Rules rules;
  rules.more = {true, true};
  SECTION("release of the step") { rules.release_step = false; }
  SECTION("acquire of the step") { rules.acquire_step = false; }
  SECTION("waiting until all have read the result") { rules.wait_for_finished = false; }
  SECTION("ringing the leader") {
    rules.sleeping = true;
    rules.ring_leader = false;
  }
  SECTION("ringing the others") {
    rules.sleeping = true;
    rules.ring_others = false;
  }
  CHECK(Model(rules).run().wrong != "");
}
