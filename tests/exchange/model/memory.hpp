#pragma once
// Memory with the weak order that the C++ model allows, for models of protocols, and a search
// through everything that can happen. Each location has the history of all values stored to it, in
// order (coherence), and each thread a view: the oldest entry of each history that it may still
// read. A load may return any entry from there on. A release store carries the storer's view, and
// an acquire load that reads it takes that view over. A read-modify-write reads the newest entry.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace weft::model {

template <int kThreads, int kLocations>
class Memory {
 public:
  using View = std::array<std::uint8_t, kLocations>;  // index into each history

  Memory() {
    for (auto& history : histories_) history.push_back({0, false, {}});
  }

  void store(int thread, int location, int value, bool release) {
    auto& history = at(location);
    history.push_back({value, release, {}});
    View& view = views_[index(thread)];
    view[index(location)] = static_cast<std::uint8_t>(history.size() - 1);
    if (release) history.back().view = view;
  }

  // All values that a load may return; then(memory, value) is called for each.
  template <class Then>
  void load(int thread, int location, bool acquire, Then&& then) const {
    const auto& history = histories_[index(location)];
    for (std::size_t i = views_[index(thread)][index(location)]; i < history.size(); ++i) {
      Memory next = *this;
      next.read(thread, location, i, acquire);
      then(next, history[i].value);
    }
  }

  int newest(int location) const { return histories_[index(location)].back().value; }

  // Acquire and release. Returns the value before.
  template <class Change>
  int change(int thread, int location, Change&& to) {
    const int before = newest(location);
    read(thread, location, at(location).size() - 1, true);
    // The new entry carries what the one before carried: a release sequence.
    store(thread, location, to(before), true);
    return before;
  }

  // Everybody sees what is newest: for models that are about something else.
  void settle() {
    for (auto& history : histories_) history = {{history.back().value, false, {}}};
    views_ = {};
  }

  const View& view(int thread) const { return views_[index(thread)]; }
  void see(int thread, const View& seen) { merge(views_[index(thread)], seen); }
  static void merge(View& view, const View& other) {
    for (std::size_t i = 0; i < view.size(); ++i) view[i] = std::max(view[i], other[i]);
  }

  auto key() const { return std::tie(histories_, views_); }
  bool operator<(const Memory& other) const { return key() < other.key(); }

 private:
  struct Store {
    int value;
    bool carries;
    View view;
    bool operator<(const Store& other) const {
      return std::tie(value, carries, view) < std::tie(other.value, other.carries, other.view);
    }
  };

  static constexpr std::size_t index(int i) { return static_cast<std::size_t>(i); }
  std::vector<Store>& at(int location) { return histories_[index(location)]; }
  void read(int thread, int location, std::size_t entry, bool acquire) {
    View& view = views_[index(thread)];
    view[index(location)] = static_cast<std::uint8_t>(entry);
    const Store& store = at(location)[entry];
    if (acquire && store.carries) merge(view, store.view);
  }

  std::array<std::vector<Store>, kLocations> histories_;
  std::array<View, kThreads> views_{};
};

// What a search found: the first thing that went wrong, or nothing.
struct Found {
  std::string wrong;
  std::size_t num_states = 0;
  std::size_t num_ends = 0;
};

// Goes through all states that `step` leads to. step(state, out) appends what can follow, and
// returns what is wrong with the state itself, or nothing. A state that nothing follows must be an
// end: is_end(state), or it is stuck.
template <class State, class Step, class IsEnd>
Found search(State start, Step&& step, IsEnd&& is_end) {
  Found found;
  std::set<State> seen;
  std::vector<State> open{std::move(start)};
  while (!open.empty()) {
    auto [at, is_new] = seen.insert(std::move(open.back()));
    open.pop_back();
    if (!is_new) continue;
    const std::size_t before = open.size();
    found.wrong = step(*at, open);
    if (found.wrong.empty() && open.size() == before) {
      if (is_end(*at))
        ++found.num_ends;
      else
        found.wrong = "stuck";
    }
    if (!found.wrong.empty()) break;
  }
  found.num_states = seen.size();
  if (found.wrong.empty() && found.num_ends == 0) found.wrong = "no run came to its end";
  return found;
}

}  // namespace weft::model
