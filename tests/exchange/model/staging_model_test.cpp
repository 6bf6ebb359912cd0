// Every interleaving of a sender that stages blocks in one buffer and of the receiver that reads
// them there (exchange/staging.hpp, Impl::announce, Impl::fetch, Impl::finish_block), with the weak
// memory order: a block that is being read is never overwritten, and each is read as it was sent.
#include <catch2/catch.hpp>

#include "tests/exchange/model/memory.hpp"

namespace {

using weft::model::Found;

constexpr int kSender = 0, kReceiver = 1;
enum Location { kRing, kDone, kFirst, kSecond, kNum };  // two words of data
using Memory = weft::model::Memory<2, kNum>;
constexpr int kNumBlocks = 3;

struct Rules {
  bool release_ring = true;  // RingWriter::publish
  bool acquire_ring = true;  // RingReader::peek
  bool release_done = true;  // Impl::finish_block
  bool acquire_done = true;  // StagingPool::collect
  bool clear_done = true;    // StagingPool::take
};

struct State {
  Memory memory;
  int sent = 0, send_step = 0;
  int received = 0, receive_step = 0;
  bool done_early = false;  // the receiver's `done` has become visible before it has read
  auto key() const { return std::tie(memory, sent, send_step, received, receive_step, done_early); }
  bool operator<(const State& other) const { return key() < other.key(); }
};

class Model {
 public:
  explicit Model(const Rules& rules) : rules_(rules) {}

  Found run() {
    return weft::model::search(
        State{},
        [this](const State& state, std::vector<State>& out) {
          wrong_.clear();
          send(state, out);
          receive(state, out);
          return wrong_;
        },
        [](const State& state) { return state.received == kNumBlocks; });
  }

 private:
  void send(const State& state, std::vector<State>& out) {
    if (state.sent == kNumBlocks) return;
    State next = state;
    switch (state.send_step) {
      case 0:
        // collect(): the buffer comes back once it was read; the first time it is free.
        if (state.sent > 0)
          return state.memory.load(kSender, kDone, rules_.acquire_done,
                                   [&](const Memory& memory, int done) {
                                     if (done == 0) return;
                                     State taken = state;
                                     taken.memory = memory;
                                     taken.send_step = 1;
                                     out.push_back(taken);
                                   });
        next.send_step = 1;
        break;
      case 1:
        if (rules_.clear_done) next.memory.store(kSender, kDone, 0, false);
        next.send_step = 2;
        break;
      case 2:
      case 3:
        next.memory.store(kSender, state.send_step == 2 ? kFirst : kSecond, state.sent + 1, false);
        ++next.send_step;
        break;
      case 4:
        next.memory.store(kSender, kRing, ++next.sent, rules_.release_ring);
        next.send_step = 0;
        break;
    }
    out.push_back(next);
  }

  void receive(const State& state, std::vector<State>& out) {
    if (state.received == kNumBlocks) return;
    // Without release the word may become visible before the data were read.
    if (!rules_.release_done && !state.done_early && state.receive_step != 0) {
      State early = state;
      early.memory.store(kReceiver, kDone, 1, false);
      early.done_early = true;
      out.push_back(early);
    }
    State next = state;
    switch (state.receive_step) {
      case 0:
        return state.memory.load(kReceiver, kRing, rules_.acquire_ring,
                                 [&](const Memory& memory, int announced) {
                                   if (announced <= state.received) return;
                                   State seen = state;
                                   seen.memory = memory;
                                   seen.receive_step = 1;
                                   out.push_back(seen);
                                 });
      case 1:
      case 2:
        return state.memory.load(kReceiver, state.receive_step == 1 ? kFirst : kSecond, false,
                                 [&](const Memory& memory, int word) {
                                   if (word != state.received + 1)
                                     wrong_ = "another block's data are read";
                                   State read = state;
                                   read.memory = memory;
                                   ++read.receive_step;
                                   out.push_back(read);
                                 });
      case 3:
        if (!state.done_early) next.memory.store(kReceiver, kDone, 1, rules_.release_done);
        next.done_early = false;
        ++next.received;
        next.receive_step = 0;
        break;
    }
    out.push_back(next);
  }

  const Rules rules_;
  std::string wrong_;
};

}  // namespace

TEST_CASE("a staged block is read as it was sent", "[model]") {
  CHECK(Model({}).run().wrong == "");
}

TEST_CASE("each rule of staging is needed", "[model]") {
  Rules rules;
  SECTION("release of the announcement") { rules.release_ring = false; }
  SECTION("acquire of the announcement") { rules.acquire_ring = false; }
  SECTION("release of the end of reading") { rules.release_done = false; }
  SECTION("clearing it before the buffer is lent again") { rules.clear_done = false; }
  CHECK(Model(rules).run().wrong != "");
}
