// Every interleaving of threads that sleep on one doorbell and of those that ring it: nobody sleeps
// on while what it waits for is there. The steps are those of lanes/doorbell.hpp and of who
// uses it (Waiter, Engine::Impl::wait, finish_block); sleeps of the model have no timeout, so that
// a ring that is lost shows as a thread that is stuck.
//
// The heavy fence is the kernel's membarrier: between its begin and its end each other thread
// passes a full fence, at a moment of its own. What the caller saw before is then seen by that
// thread in what it does later, and what that thread did before is seen by the caller at the end.
// Nothing else orders "publish, then look at the doorbell" against "arm, then look at what is
// published".
#include <catch2/catch.hpp>

#include "tests/exchange/model/memory.hpp"

namespace {

using weft::model::Found;

constexpr int kMaxThreads = 4;
// Locations: the doorbell, what each publisher publishes, and the flag of those that ring only when
// somebody said that he waits (ExchangeBase::Impl::others_receive).
constexpr int kBell = 0, kFlag = 1, kData = 2;
using Memory = weft::model::Memory<kMaxThreads, 5>;

// What the protocol does, to leave things out and see that they are missed.
struct Rules {
  int num_waiters = 1;
  int num_publishers = 1;
  int num_messages = 1;       // of each publisher
  bool by_flag = false;       // publishers ring only where the flag is set
  bool heavy_fence = true;    // arm_doorbell()
  bool look_again = true;     // between arming and sleeping
  bool publish_first = true;  // before looking at the doorbell
  bool count_rings = true;    // in the doorbell's upper bits
  bool wake_all = true;
};

struct Waiter {
  int step = 0;
  int armed = 0;
  unsigned unfenced = 0;      // threads that have not passed their fence
  Memory::View fence_view{};  // what the fence has gathered so far
  int looked_at = 0;          // the publisher that is looked at
  bool asleep = false;
  auto key() const { return std::tie(step, armed, unfenced, fence_view, looked_at, asleep); }
  bool operator<(const Waiter& other) const { return key() < other.key(); }
};

struct Publisher {
  int step = 0;
  int published = 0;
  int seen = 0;  // of the doorbell
  auto key() const { return std::tie(step, published, seen); }
  bool operator<(const Publisher& other) const { return key() < other.key(); }
};

struct State {
  Memory memory;
  std::array<Waiter, 2> waiters;
  std::array<Publisher, 2> publishers;
  auto key() const { return std::tie(memory, waiters, publishers); }
  bool operator<(const State& other) const { return key() < other.key(); }
};

constexpr int kWaiterDone = 9, kPublisherDone = 9;

template <class Array>
auto& at(Array& array, int i) {
  return array[static_cast<std::size_t>(i)];
}

class Model {
 public:
  explicit Model(const Rules& rules) : rules_(rules) {}

  Found run() {
    return weft::model::search(
        State{},
        [this](const State& state, std::vector<State>& out) {
          for (int w = 0; w < rules_.num_waiters; ++w) wait(state, w, out);
          for (int p = 0; p < rules_.num_publishers; ++p) publish(state, p, out);
          return std::string();
        },
        [this](const State& state) {
          for (int w = 0; w < rules_.num_waiters; ++w)
            if (at(state.waiters, w).step != kWaiterDone) return false;
          return true;
        });
  }

 private:
  int publisher_thread(int p) const { return rules_.num_waiters + p; }

  // Everybody waits for all messages of all publishers; they are looked at one after the other.
  void look(const State& state, int w, int if_not, std::vector<State>& out) const {
    const int p = at(state.waiters, w).looked_at;
    state.memory.load(w, kData + p, true, [&](const Memory& memory, int value) {
      State next = state;
      next.memory = memory;
      Waiter& waiter = at(next.waiters, w);
      if (value != rules_.num_messages) {
        waiter.looked_at = 0;
        waiter.step = if_not;
      } else if (++waiter.looked_at == rules_.num_publishers) {
        waiter.step = kWaiterDone;
      }
      out.push_back(next);
    });
  }

  void wait(const State& state, int w, std::vector<State>& out) const {
    const Waiter& before = at(state.waiters, w);
    if (before.step == kWaiterDone || before.asleep) return;
    State next = state;
    Waiter& waiter = at(next.waiters, w);
    switch (before.step) {
      case 0:
        return look(state, w, 1, out);
      case 1:
        if (rules_.by_flag) next.memory.store(w, kFlag, 1, false);
        waiter.step = 2;
        break;
      case 2:
        // arm_doorbell()
        waiter.armed = next.memory.change(w, kBell, [](int value) { return value | 1; }) | 1;
        waiter.unfenced = 0;
        for (int t = 0; t < rules_.num_waiters + rules_.num_publishers; ++t)
          if (t != w && rules_.heavy_fence) waiter.unfenced |= 1u << t;
        waiter.fence_view = next.memory.view(w);
        waiter.step = 3;
        break;
      case 3:
        // membarrier
        for (int t = 0; t < kMaxThreads; ++t) {
          if ((before.unfenced >> t & 1) == 0) continue;
          State fenced = state;
          Waiter& the_waiter = at(fenced.waiters, w);
          the_waiter.unfenced &= ~(1u << t);
          fenced.memory.see(t, the_waiter.fence_view);
          Memory::merge(the_waiter.fence_view, fenced.memory.view(t));
          out.push_back(fenced);
        }
        if (before.unfenced != 0) return;
        if (rules_.heavy_fence) next.memory.see(w, before.fence_view);
        waiter.fence_view = {};
        waiter.step = rules_.look_again ? 4 : 5;
        break;
      case 4:
        return look(state, w, 5, out);
      case 5:
        // futex_wait: compares and falls asleep in one step.
        waiter.step = 0;
        waiter.asleep = next.memory.newest(kBell) == before.armed;
        break;
    }
    out.push_back(next);
  }

  void publish(const State& state, int p, std::vector<State>& out) const {
    const Publisher& before = at(state.publishers, p);
    const int thread = publisher_thread(p);
    if (before.step == kPublisherDone) return;
    State next = state;
    Publisher& publisher = at(next.publishers, p);
    const auto store = [&](State& to) {
      Publisher& the_publisher = at(to.publishers, p);
      to.memory.store(thread, kData + p, ++the_publisher.published, true);
    };
    const auto go_on = [&](State& to) {
      Publisher& the_publisher = at(to.publishers, p);
      if (!rules_.publish_first) store(to);
      the_publisher.step = the_publisher.published < rules_.num_messages ? 0 : kPublisherDone;
    };
    switch (before.step) {
      case 0:
        if (rules_.publish_first) store(next);
        publisher.step = rules_.by_flag ? 1 : 2;
        break;
      case 1:
        return state.memory.load(thread, kFlag, false, [&](const Memory& memory, int flag) {
          State looked = state;
          looked.memory = memory;
          if (flag == 0)
            go_on(looked);
          else
            at(looked.publishers, p).step = 2;
          out.push_back(looked);
        });
      case 2:
        // ring_doorbell()
        return state.memory.load(thread, kBell, false, [&](const Memory& memory, int bell) {
          State looked = state;
          looked.memory = memory;
          if ((bell & 1) == 0) {
            go_on(looked);
          } else {
            at(looked.publishers, p).step = 3;
            at(looked.publishers, p).seen = bell;
          }
          out.push_back(looked);
        });
      case 3:
        if (!rules_.count_rings) {
          const int was = next.memory.change(thread, kBell, [](int) { return 0; });
          if (was != 0)
            publisher.step = 4;
          else
            go_on(next);
        } else if (next.memory.newest(kBell) == before.seen) {
          next.memory.change(thread, kBell, [](int value) { return value + 1; });
          publisher.step = 4;
        } else {
          publisher.step = 2;  // the comparison fails, and says what is there
        }
        break;
      case 4:
        // futex_wake_all
        for (Waiter& waiter : next.waiters) {
          const bool slept = std::exchange(waiter.asleep, false);
          if (slept && !rules_.wake_all) break;
        }
        go_on(next);
        break;
    }
    out.push_back(next);
  }

  const Rules rules_;
};

}  // namespace

TEST_CASE("nobody sleeps through a ring", "[model]") {
  Rules rules;
  SECTION("one sleeper, one message") {}
  SECTION("one sleeper, several messages") { rules.num_messages = 3; }
  SECTION("one sleeper, two publishers") { rules.num_publishers = 2; }
  SECTION("two sleepers on one doorbell") { rules.num_waiters = 2; }
  SECTION("two sleepers and two messages") {
    rules.num_waiters = 2;
    rules.num_messages = 2;
  }
  SECTION("publishers that ring only when somebody waits") {
    rules.by_flag = true;
    rules.num_messages = 2;
  }
  const Found found = Model(rules).run();
  CAPTURE(found.num_states);
  CHECK(found.wrong == "");
}

TEST_CASE("each rule of sleeping is needed", "[model]") {
  Rules rules;
  SECTION("the heavy fence") { rules.heavy_fence = false; }
  SECTION("the second look") { rules.look_again = false; }
  SECTION("publishing before looking at the doorbell") { rules.publish_first = false; }
  SECTION("the count of rings, with two sleepers") {
    rules.num_waiters = 2;
    rules.num_publishers = 2;
    rules.count_rings = false;
  }
  SECTION("waking all") {
    rules.num_waiters = 2;
    rules.wake_all = false;
  }
  SECTION("the heavy fence, where publishers ring only when somebody waits") {
    rules.by_flag = true;
    rules.heavy_fence = false;
  }
  CHECK(Model(rules).run().wrong == "stuck");
}
