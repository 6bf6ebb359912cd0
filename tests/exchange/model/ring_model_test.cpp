// Every interleaving of a writer and a reader of a small ring, with the weak memory order that the
// C++ model allows. The ring's own code cannot be run so (its atomics are the machine's), therefore
// its protocol is written down here once more, step by step, each step naming the line of ring.hpp
// that it stands for; what the model proves is the protocol: which stores need release, which loads
// acquire, and that no old byte is ever taken for a new head.
//
// Memory. Each location has the history of all values stored to it, in order (coherence), and each
// thread a view: the oldest entry of each location's history that it may still read. A relaxed or
// plain load may return any entry from there on. A release store carries the storer's view, and an
// acquire load that reads it takes that view over. A plain load is not done later than a release
// store behind it, and may be where that is no release. So a head that is stored without release,
// or read without acquire, lets the reader see old data behind it, and the test would find it; the
// last cases show that it does.
//
// The ring: lines of one word. An entry has a head word and up to two data words; data may look
// like any head that the reader waits for, which is the worst that data can be.
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace {

constexpr int kCapacity = 6;  // lines; one beyond is the ring's, too
constexpr int kNumLines = kCapacity + 1;
constexpr int kCredit = kNumLines;  // the location of the reader's count
constexpr int kNumLocations = kNumLines + 1;

// What the protocol does, to leave things out and see that they are missed.
struct Rules {
  bool release_head = true;    // RingWriter::publish
  bool acquire_head = true;    // RingReader::peek
  bool release_credit = true;  // RingReader::return_credit
  bool acquire_credit = true;  // RingWriter::check
  bool clear_next = true;      // RingWriter::publish, the place of the next head
};

using View = std::array<std::uint8_t, kNumLocations>;  // index into each history

struct Store {
  int value;
  bool carries;
  View view;  // of the storer, if it was a release
  bool operator<(const Store& other) const {
    return std::tie(value, carries, view) < std::tie(other.value, other.carries, other.view);
  }
};

// A head has the value 100 * (sequence + 1) + length, a mark to turn 100 * (sequence + 1) + 99.
constexpr int head(int sequence, int length) { return 100 * (sequence + 1) + length; }
constexpr int kTurn = 99;

struct State {
  std::array<std::vector<Store>, kNumLocations> memory;
  View writer_view{}, reader_view{};
  // The writer: which entry, which step of it, and its own variables.
  int entry = 0, step = 0, offset = 0, sequence = 0, written = 0, consumed_seen = 0;
  unsigned data_lines = 0;  // bitmap
  // The reader.
  int received = 0, read_step = 0, read_offset = 0, read_sequence = 0, consumed = 0, returned = 0;
  int length = 0;

  auto key() const {
    return std::tie(memory, writer_view, reader_view, entry, step, offset, sequence, written,
                    consumed_seen, data_lines, received, read_step, read_offset, read_sequence,
                    consumed, returned, length);
  }
  bool operator<(const State& other) const { return key() < other.key(); }
};

class Explorer {
 public:
  Explorer(Rules rules, std::vector<int> lengths) : rules_(rules), lengths_(std::move(lengths)) {}

  // The first thing that went wrong, or nothing.
  std::string run() {
    State start;
    for (auto& history : start.memory) history.push_back({0, false, {}});
    std::vector<State> open{start};
    while (!open.empty() && wrong_.empty()) {
      const State state = std::move(open.back());
      open.pop_back();
      if (!seen_.insert(state).second) continue;
      if (state.received == static_cast<int>(lengths_.size())) {
        ++num_ends_;
        continue;
      }
      const std::size_t before = open.size();
      write(state, open);
      read(state, open);
      if (open.size() == before) wrong_ = "both sides are stuck";
    }
    if (wrong_.empty() && num_ends_ == 0) wrong_ = "no run came to its end";
    return wrong_;
  }
  std::size_t num_states() const { return seen_.size(); }

 private:
  static void store(State& state, View& view, int location, int value, bool release) {
    auto& history = state.memory[static_cast<std::size_t>(location)];
    history.push_back({value, release, {}});
    view[static_cast<std::size_t>(location)] = static_cast<std::uint8_t>(history.size() - 1);
    if (release) history.back().view = view;
  }

  // All values that a load may return; `then` gets a copy of the state for each.
  template <class Then>
  static void load(const State& state, View State::*view, int location, bool acquire, Then&& then) {
    const auto& history = state.memory[static_cast<std::size_t>(location)];
    for (std::size_t i = (state.*view)[static_cast<std::size_t>(location)]; i < history.size();
         ++i) {
      State next = state;
      View& mine = next.*view;
      mine[static_cast<std::size_t>(location)] = static_cast<std::uint8_t>(i);
      if (acquire && history[i].carries)
        for (std::size_t k = 0; k < mine.size(); ++k)
          mine[k] = std::max(mine[k], history[i].view[k]);
      then(next, history[i].value);
    }
  }

  // The data of an entry: what the reader would take for the head that it waits for when it comes
  // by there in the next round.
  static int data_word(int sequence, int i) { return head(sequence + 5 + i, 1); }

  // Steps of the writer: 0 reserve, 1.. data, then clear, then publish.
  void write(const State& state, std::vector<State>& out) {
    if (state.entry == static_cast<int>(lengths_.size())) return;
    const int length = lengths_[static_cast<std::size_t>(state.entry)];
    const int lines = 1 + length;
    if (state.step == 0) {
      const bool turn = state.offset + lines > kCapacity;
      const int gap = turn ? kCapacity - state.offset : 0;
      const int need = state.written + gap + lines + 1;
      if (need > state.consumed_seen + kCapacity) {
        // RingWriter::check
        load(state, &State::writer_view, kCredit, rules_.acquire_credit,
             [&](State& next, int value) {
               if (value <= state.consumed_seen) return;  // nothing new: it would look again
               next.consumed_seen = value;
               out.push_back(next);
             });
        return;
      }
      State next = state;
      if (turn) {
        // turn_or_grow(): the line at the start is cleared before the mark is stored.
        next.data_lines &= ~(1u << next.offset);
        if (rules_.clear_next && (next.data_lines & 1u)) {
          store(next, next.writer_view, 0, 0, false);
          next.data_lines &= ~1u;
        }
        store(next, next.writer_view, next.offset, head(next.sequence, kTurn), rules_.release_head);
        ++next.sequence;
        next.written += gap;
        next.offset = 0;
      }
      next.step = 1;
      out.push_back(next);
      return;
    }
    State next = state;
    if (state.step <= length) {
      const int line = state.offset + state.step;
      store(next, next.writer_view, line, data_word(state.sequence, state.step - 1), false);
      next.data_lines |= 1u << line;
    } else if (state.step == length + 1) {
      next.data_lines &= ~(1u << state.offset);
      const int line = state.offset + lines;
      if (rules_.clear_next && (next.data_lines >> line & 1u)) {
        store(next, next.writer_view, line, 0, false);
        next.data_lines &= ~(1u << line);
      }
    } else {
      store(next, next.writer_view, state.offset, head(state.sequence, length),
            rules_.release_head);
      ++next.sequence;
      next.offset += lines;
      next.written += lines;
      ++next.entry;
      next.step = 0;
      out.push_back(next);
      return;
    }
    ++next.step;
    out.push_back(next);
  }

  // Steps of the reader: 0 peek, 1.. data, then pop; and credit whenever it likes.
  void read(const State& state, std::vector<State>& out) {
    if (state.returned < state.consumed && state.read_step == 0) {
      State next = state;
      next.returned = next.consumed;
      store(next, next.reader_view, kCredit, next.consumed, rules_.release_credit);
      out.push_back(next);
    }
    if (state.read_step == 0) {
      load(state, &State::reader_view, state.read_offset, rules_.acquire_head,
           [&](State& next, int value) {
             if (value / 100 != state.read_sequence + 1) return;  // not yet
             ++next.read_sequence;
             if (value % 100 == kTurn) {
               if (state.read_offset == 0) return fail("a turn at the start");
               next.consumed += kCapacity - state.read_offset;
               next.read_offset = 0;
             } else {
               const int right = lengths_[static_cast<std::size_t>(state.received)];
               if (value % 100 != right || state.received >= state.entry)
                 return fail("data taken for a head");
               next.length = right;
               next.read_step = 1;
             }
             out.push_back(next);
           });
      return;
    }
    // Without release the count may become visible before the data were read.
    if (!rules_.release_credit && state.returned != state.consumed + 1 + state.length) {
      State early = state;
      early.returned = state.consumed + 1 + state.length;
      store(early, early.reader_view, kCredit, early.returned, false);
      out.push_back(early);
    }
    if (state.read_step <= state.length) {
      load(state, &State::reader_view, state.read_offset + state.read_step, false,
           [&](State& next, int value) {
             if (value != data_word(state.read_sequence - 1, state.read_step - 1))
               return fail("old or overwritten data");
             ++next.read_step;
             out.push_back(next);
           });
      return;
    }
    State next = state;
    next.consumed += 1 + state.length;
    next.read_offset += 1 + state.length;
    ++next.received;
    next.read_step = 0;
    out.push_back(next);
  }

  void fail(const char* what) { wrong_ = what; }

  const Rules rules_;
  const std::vector<int> lengths_;
  std::set<State> seen_;
  int num_ends_ = 0;
  std::string wrong_;
};

// Every mix of short and longer entries, of this many.
std::vector<std::vector<int>> sequences(int num) {
  std::vector<std::vector<int>> all{{}};
  for (int i = 0; i < num; ++i) {
    std::vector<std::vector<int>> longer;
    for (const auto& one : all)
      for (const int length : {0, 1, 2}) {
        longer.push_back(one);
        longer.back().push_back(length);
      }
    all = std::move(longer);
  }
  return all;
}

std::string explore(Rules rules, int num) {
  for (const auto& lengths : sequences(num))
    if (std::string wrong = Explorer(rules, lengths).run(); !wrong.empty()) return wrong;
  return "";
}

// Several rounds of the ring.
const std::vector<std::vector<int>> kLong{std::vector<int>(9, 0), std::vector<int>(7, 1),
                                          std::vector<int>(6, 2), {2, 0, 1, 2, 0, 0, 1},
                                          {1, 1, 0, 2, 2, 0},     {2, 0, 1, 0, 0, 0, 0}};

}  // namespace

TEST_CASE("no interleaving of writer and reader loses, repeats or invents an entry", "[model]") {
  CHECK(explore({}, 5) == "");
}

TEST_CASE("longer runs through several rounds", "[model]") {
  for (const auto& lengths : kLong) CHECK(Explorer({}, lengths).run() == "");
}

TEST_CASE("each rule of the protocol is needed", "[model]") {
  Rules rules;
  SECTION("release of heads") { rules.release_head = false; }
  SECTION("acquire of heads") { rules.acquire_head = false; }
  SECTION("release of credit") { rules.release_credit = false; }
  SECTION("clearing the next place") { rules.clear_next = false; }
  std::string wrong;
  for (const auto& lengths : kLong)
    if (wrong.empty()) wrong = Explorer(rules, lengths).run();
  CHECK(wrong != "");
}
