// Explores every interleaving of calls, messages and deaths of the consensus of 3 and 4 members: in
// every state the living members that have decided agree, and in every state from which nothing
// more can happen all living members have decided.
#include <catch2/catch.hpp>
#include <deque>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/bytes.hpp"
#include "mpi/ft/consensus.hpp"

namespace weft::mpi::ft {

// All state as bytes, so that a state that was reached in two ways is explored once.
struct ConsensusInspector {
  static void append(std::string& out, const MemberSet& set) {
    append_value(out, static_cast<std::uint8_t>(set.words().size()));
    for (const std::uint64_t word : set.words()) append_value(out, static_cast<std::uint8_t>(word));
  }
  static void append(std::string& out, const Contribution& one) {
    append_value(out, static_cast<std::uint8_t>(one.kind));
    append_value(out, static_cast<std::uint8_t>(one.flags));
    append_value(out, static_cast<std::uint8_t>(one.context));
    append(out, one.acknowledged);
  }
  static void append(std::string& out, const Decision& one) {
    append_value(out, static_cast<std::uint8_t>(one.round));
    append_value(out, one.outcome);
    append_value(out, static_cast<std::uint8_t>(one.flags));
    append_value(out, static_cast<std::uint8_t>(one.context));
    append_value(out, static_cast<std::uint8_t>(one.second_context));
    append(out, one.failed);
  }
  static void append(std::string& out, const Message& one) {
    append_value(out, one.kind);
    append_value(out, static_cast<std::uint8_t>(one.round));
    append(out, one.contribution);
    append(out, one.failed);
    append(out, one.decision);
  }
  static void append(std::string& out, const Consensus& one) {
    append_value(out, one.active_);
    append_value(out, static_cast<std::uint8_t>(one.round_));
    append_value(out, static_cast<std::int8_t>(one.reported_to_));
    append(out, one.last_);
    for (const MemberSet* set : {&one.lost_, &one.asked_, &one.askers_}) append(out, *set);
    for (const auto& report : one.reports_) {
      append_value(out, static_cast<std::uint8_t>(report.round));
      append(out, report.contribution);
      append(out, report.failed);
      append(out, report.before);
    }
  }
};

namespace {

// A group of which some die. Messages between two members arrive in order; those of a dead member
// arrive until its death is noticed, and not after.
struct World {
  std::vector<Consensus> members;
  std::vector<std::deque<Message>> channels;  // from * size + to
  std::vector<bool> dead;
  std::vector<std::vector<Decision>> decisions;  // of each member, by round
  int size, num_first, num_rounds, num_deaths_left;

  World(int the_size, int rounds, int deaths)
      : channels(static_cast<std::size_t>(the_size * the_size)),
        dead(static_cast<std::size_t>(the_size)),
        decisions(static_cast<std::size_t>(the_size)),
        size(the_size),
        num_first(the_size / 2),
        num_rounds(rounds),
        num_deaths_left(deaths) {
    for (int rank = 0; rank < size; ++rank) members.emplace_back(rank, size, num_first);
  }

  std::deque<Message>& channel(int from, int to) {
    return channels[static_cast<std::size_t>(from * size + to)];
  }
  Consensus& member(int rank) { return members[static_cast<std::size_t>(rank)]; }
  bool is_dead(int rank) const { return dead[static_cast<std::size_t>(rank)]; }
  static std::uint32_t flags_of(int rank, std::uint32_t round) {
    return 0xff & ~(1u << ((static_cast<unsigned>(rank) + round) % 8));
  }

  void settle(int rank) {
    for (auto& [to, message] : member(rank).take_messages())
      if (!is_dead(to)) channel(rank, to).push_back(std::move(message));
    auto& known = decisions[static_cast<std::size_t>(rank)];
    const Decision& last = member(rank).last();
    if (last.round != known.size()) {
      REQUIRE(last.round == known.size() + 1);
      known.push_back(last);
      check(rank, last);
    }
  }
  void check(int rank, const Decision& decision) {
    for (int other = 0; other < size; ++other) {
      const auto& known = decisions[static_cast<std::size_t>(other)];
      if (is_dead(other) || known.size() < decision.round) continue;
      REQUIRE(known[decision.round - 1] == decision);
    }
    // Valid: only those that died are said to have failed, and every member that has not failed
    // took part.
    for (int other = 0; other < size; ++other) {
      if (decision.failed.contains(other)) {
        REQUIRE(is_dead(other));
      } else {
        REQUIRE((decision.flags & ~flags_of(other, decision.round)) == 0);
      }
    }
    REQUIRE_FALSE(decision.failed.contains(rank));
    REQUIRE(!decision.failed.contains(static_cast<int>(decision.context) - 1));
    // The second group's context is that of a living member, if one besides the coordinator is.
    bool has_second = false;
    for (int other = num_first; other < size; ++other) {
      const bool takes_part =
          other != static_cast<int>(decision.context) - 1 && !decision.failed.contains(other);
      has_second = has_second || takes_part;
      if (static_cast<int>(decision.second_context) - 1 == other) REQUIRE(takes_part);
    }
    REQUIRE(static_cast<int>(decision.second_context) > (has_second ? num_first : -1));
    const bool is_acknowledged = decision.failed.count() == 0;
    REQUIRE(decision.outcome ==
            (is_acknowledged ? Decision::Outcome::agreed : Decision::Outcome::unacknowledged));
  }

  // The events, by number; false: that one cannot happen.
  int num_events() const { return 2 * size + 2 * size * size; }
  bool can(int event) const {
    if (event < size) {  // a member calls
      const Consensus& one = members[static_cast<std::size_t>(event)];
      return !is_dead(event) && !one.is_active() &&
             one.round() < static_cast<std::uint32_t>(num_rounds);
    }
    event -= size;
    if (event < size) return num_deaths_left > 0 && !is_dead(event);
    event -= size;
    const int pair = event % (size * size), from = pair / size, to = pair % size;
    if (from == to || is_dead(to)) return false;
    if (event < size * size) return !channels[static_cast<std::size_t>(pair)].empty();
    return is_dead(from) && !members[static_cast<std::size_t>(to)].is_lost(from);
  }
  void happen(int event) {
    if (event < size) {
      member(event).start({1, flags_of(event, member(event).round() + 1),
                           static_cast<std::uint32_t>(event) + 1, MemberSet(size)});
      return settle(event);
    }
    event -= size;
    if (event < size) {
      dead[static_cast<std::size_t>(event)] = true;
      --num_deaths_left;
      for (int from = 0; from < size; ++from) channel(from, event).clear();
      member(event) = Consensus(event, size, num_first);
      return;
    }
    event -= size;
    const int pair = event % (size * size), from = pair / size, to = pair % size;
    if (event < size * size) {
      const Message message = std::move(channel(from, to).front());
      channel(from, to).pop_front();
      member(to).receive(from, message);
    } else {
      channel(from, to).clear();
      member(to).lose(from);
    }
    settle(to);
  }
  bool is_death(int event) const { return event >= size && event < 2 * size; }
  void check_end() const {
    for (int rank = 0; rank < size; ++rank)
      REQUIRE((is_dead(rank) || decisions[static_cast<std::size_t>(rank)].size() ==
                                    static_cast<std::size_t>(num_rounds)));
  }
  std::string key() const {
    std::string out;
    for (int rank = 0; rank < size; ++rank) {
      append_value(out, is_dead(rank));
      ConsensusInspector::append(out, members[static_cast<std::size_t>(rank)]);
      if (!is_dead(rank))
        for (const Decision& one : decisions[static_cast<std::size_t>(rank)])
          ConsensusInspector::append(out, one);
    }
    for (const auto& each : channels) {
      append_value(out, static_cast<std::uint8_t>(each.size()));
      for (const Message& message : each) ConsensusInspector::append(out, message);
    }
    append_value(out, static_cast<std::uint8_t>(num_deaths_left));
    return out;
  }
};

// Returns the number of different states.
std::size_t explore(const World& start) {
  std::unordered_set<std::string> seen;
  std::vector<World> open{start};
  seen.insert(start.key());
  while (!open.empty()) {
    const World now = std::move(open.back());
    open.pop_back();
    bool is_end = true;
    for (int event = 0; event < now.num_events(); ++event) {
      if (!now.can(event)) continue;
      is_end = is_end && now.is_death(event);
      World next = now;
      next.happen(event);
      if (seen.insert(next.key()).second) open.push_back(std::move(next));
    }
    if (is_end) now.check_end();
  }
  return seen.size();
}

}  // namespace

TEST_CASE("three members agree in every interleaving of three rounds and two deaths") {
  CHECK(explore(World(3, 3, 2)) > 1000);
}

TEST_CASE("four members agree in every interleaving of a round and three deaths") {
  CHECK(explore(World(4, 1, 3)) > 1000);
}

TEST_CASE("four members agree in every interleaving of two rounds and a death") {
  CHECK(explore(World(4, 2, 1)) > 1000);
}

TEST_CASE("up to 64 members agree in random interleavings of rounds and deaths") {
  std::mt19937_64 random(20261);
  for (int run = 0; run < 40; ++run) {
    const int size = 2 + static_cast<int>(random() % 63);
    World world(size, 3, static_cast<int>(random() % static_cast<unsigned>(size)));
    std::vector<int> possible;
    for (;;) {
      possible.clear();
      bool is_end = true;
      for (int event = 0; event < world.num_events(); ++event) {
        if (!world.can(event)) continue;
        is_end = is_end && world.is_death(event);
        // Deaths are seldom, so that some fall into the middle of rounds.
        if (!world.is_death(event) || random() % 400 == 0) possible.push_back(event);
      }
      if (is_end) break;
      if (!possible.empty()) world.happen(possible[random() % possible.size()]);
    }
    world.check_end();
  }
}

}  // namespace weft::mpi::ft
