#include "launcher/hang/why.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <span>
#include <tuple>

#include "launcher/binding.hpp"
#include "launcher/places/readable.hpp"

namespace weft::weftrun {
namespace {

using blocked::Found;
using Awaited = blocked::Message;
using blocked::Record;
using blocked::text_of;
using blocked::Waits;
using State = RankView::State;

std::string name_group(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", ranges_of(ranks));
}

std::span<const Awaited> awaited_of(const Record& record) {
  return {record.awaited.data(), std::min<std::size_t>(record.num_awaited, blocked::kMostMessages)};
}
std::span<const Awaited> unmatched_of(const Record& record) {
  return {record.unmatched.data(),
          std::min<std::size_t>(record.num_unmatched, blocked::kMostMessages)};
}

std::string name_comm(std::string_view name, std::uint32_t size) {
  if (name == "MPI_COMM_WORLD" || name == "MPI_COMM_SELF") return std::string(name);
  if (!name.empty()) return fmt::format("communicator \"{}\"", readable_of(std::string(name)));
  return size == 0 ? "a communicator without a name"
                   : fmt::format("a communicator of {} without a name", size);
}
std::string name_comm(const Record& record) {
  return name_comm(text_of(record.comm), record.comm_size);
}

std::string name_tag(std::int32_t tag) {
  if (tag == blocked::kAny) return ", any tag";
  return tag < 0 ? "" : fmt::format(", tag {}", tag);  // negative ones are the library's own
}

std::string_view call_of(const Record& record) { return text_of(record.call); }

bool is_probe(const Record& record) {
  return call_of(record) == "MPI_Probe" || call_of(record) == "MPI_Mprobe";
}

// What makes two ranks a group; peers, bytes and times may differ.
using Key = std::tuple<State, std::string, std::string, std::uint32_t, int, std::uint32_t, bool,
                       int, std::string, std::string, bool>;
Key key_of(const RankView& view) {
  if (view.state != State::blocked)
    return {view.state, "", "", 0, -1, 0, false, 0, "", "", view.is_stopped};
  const Record& record = view.found.record;
  const Awaited first = awaited_of(record).empty() ? Awaited() : awaited_of(record)[0];
  return {view.state,
          std::string(call_of(record)),
          std::string(text_of(record.comm)),
          record.context,
          record.root,
          record.num_awaited,
          first.is_send != 0,
          first.tag,
          view.place,
          std::string(text_of(first.comm)),
          view.is_stopped};
}

std::string name_peers(const std::vector<const RankView*>& group) {
  std::set<int> peers;
  for (const RankView* view : group) peers.insert(awaited_of(view->found.record)[0].peer);
  if (peers.contains(blocked::kAny)) return "any rank";
  return name_group({peers.begin(), peers.end()});
}

std::string name_awaited(const std::vector<const RankView*>& group) {
  const Record& record = group[0]->found.record;
  const auto awaited = awaited_of(record);
  if (awaited.empty()) return "";
  const Awaited& first = awaited[0];
  std::uint64_t least = UINT64_MAX, most = 0;
  for (const RankView* view : group) {
    least = std::min(least, awaited_of(view->found.record)[0].bytes);
    most = std::max(most, awaited_of(view->found.record)[0].bytes);
  }
  std::string bytes =
      least == most ? fmt::format("{}", most) : fmt::format("{} to {}", least, most);
  if (first.is_send == 0) bytes = "up to " + (least == most ? bytes : fmt::format("{}", most));
  const bool is_plain = record.num_awaited == 1;
  // The name of the call says what MPI_Recv and the like are; a request may be either.
  const std::string_view call = call_of(record);
  const bool is_request = call.starts_with("MPI_Wait") || call.starts_with("MPI_Sendrecv");
  std::string text = is_request || !is_plain ? ", " : " ";
  if (!is_plain)
    text += fmt::format("{} of {} requests, the first ", record.waits == Waits::any ? "one" : "all",
                        record.num_awaited);
  if (is_request) text += first.is_send != 0 ? "a send " : "a receive ";
  text += fmt::format("{} {}{}", first.is_send != 0 ? "to" : "from", name_peers(group),
                      name_tag(first.tag));
  return is_probe(record) ? text : fmt::format("{}, {} bytes", text, bytes);
}

std::string describe(const std::vector<const RankView*>& group) {
  std::vector<int> ranks;
  std::uint64_t most = 0;
  for (const RankView* view : group) {
    ranks.push_back(view->rank);
    most = std::max(most, view->found.waited_ns);
  }
  const std::string who = name_group(ranks);
  const bool is_one = ranks.size() == 1;
  switch (group[0]->state) {
    case State::unknown:
      return who + ": not in MPI, or not readable from here";
    case State::running:
      return fmt::format("{}: {} not wait in MPI{}", who, is_one ? "does" : "do",
                         group[0]->is_stopped ? ", stopped by a signal" : "");
    case State::left:
      return fmt::format("{}: {} called MPI_Finalize", who, is_one ? "has" : "have");
    case State::ended:
      return fmt::format("{}: {} ended", who, is_one ? "has" : "have");
    case State::blocked:
      break;
  }
  const Record& record = group[0]->found.record;
  std::string text = fmt::format("{}: {}{}", who, call_of(record), name_awaited(group));
  if (record.root >= 0) text += fmt::format(", root {}", record.root);
  if (record.comm_size != 0) text += ", " + name_comm(record);
  const double seconds = static_cast<double>(most) / 1e9;
  text += fmt::format(", since {:.1f} s", seconds);
  if (!group[0]->place.empty()) text += ", at " + group[0]->place;
  if (group[0]->is_stopped) text += ", stopped by a signal";
  return text;
}

// The wait-for graph over the ranks of a job.
class Graph {
 public:
  explicit Graph(const std::vector<RankView>& ranks) {
    for (const RankView& view : ranks) views_[view.rank] = &view;
    mark_live();
  }

  std::optional<std::string> reason() const {
    for (const auto find : {&Graph::gone_peer, &Graph::unlike_collectives, &Graph::near_message,
                            &Graph::cycle, &Graph::nobody_sends, &Graph::alike_collectives})
      if (auto text = (this->*find)()) return text;
    return {};
  }
  // Ranks that wait for one that has ended learn of it by themselves.
  bool is_all_stuck() const {
    return std::ranges::all_of(views_, [this](const auto& entry) {
      return is_stuck(entry.first) || entry.second->state == State::left;
    });
  }

 private:
  const RankView* view(int rank) const {
    const auto found = views_.find(rank);
    return found == views_.end() ? nullptr : found->second;
  }
  bool is_stuck(int rank) const {
    const RankView* one = view(rank);
    return one != nullptr && one->state == State::blocked && !live_.contains(rank);
  }
  // Each member is among the ranks that are known of.
  bool sees_all(const Record& record) const {
    std::size_t num_members = 0;
    for (const std::uint64_t word : record.members)
      num_members += static_cast<std::size_t>(std::popcount(word));
    return num_members <=
           static_cast<std::size_t>(std::ranges::count_if(views_, [&record](const auto& entry) {
             return record.has_member(static_cast<std::size_t>(entry.first));
           }));
  }
  static bool is_gone(const RankView& one) {
    return one.state == State::left || one.state == State::ended;
  }
  static bool same_collective(const Record& a, const Record& b) {
    return b.waits == Waits::collective && a.context == b.context && call_of(a) == call_of(b) &&
           a.root == b.root;
  }

  // The ranks of which one, or all, must act for this one to go on. Empty: not known.
  std::vector<int> needed(const RankView& one) const {
    const Record& record = one.found.record;
    std::vector<int> ranks;
    if (record.waits == Waits::collective) {
      for (const auto& [rank, other] : views_)
        if (rank != one.rank && record.has_member(static_cast<std::size_t>(rank)) &&
            !(other->state == State::blocked && same_collective(record, other->found.record)))
          ranks.push_back(rank);
    } else if (record.waits != Waits::other) {
      for (const Awaited& message : awaited_of(record)) {
        if (message.peer != blocked::kAny) {
          ranks.push_back(message.peer);
          continue;
        }
        for (const auto& [rank, other] : views_)
          if (rank != one.rank && record.has_member(static_cast<std::size_t>(rank)))
            ranks.push_back(rank);
      }
    }
    return ranks;
  }

  bool may_go_on(const RankView& one) const {
    const Record& record = one.found.record;
    if (record.waits == Waits::other || record.is_outside != 0 || record.is_threaded != 0)
      return true;
    if (one.is_stopped) return true;
    if (record.comm_size > blocked::kMostMembers) return true;
    if (record.waits == Waits::collective && !sees_all(record)) return true;
    const auto awaited = awaited_of(record);
    if (std::ranges::any_of(awaited, [](const Awaited& m) { return m.is_moving != 0; }))
      return true;
    // Of a rank that is not seen nothing is known.
    const auto is_live = [this](int rank) { return live_.contains(rank) || view(rank) == nullptr; };
    const std::vector<int> ranks = needed(one);
    if (record.waits == Waits::collective)
      return any_moves(one) || (ranks.empty() ? !is_old(one) : std::ranges::all_of(ranks, is_live));
    if (record.waits == Waits::any)
      return record.num_awaited > awaited.size() || std::ranges::any_of(ranks, is_live);
    // All of them, and each message from any rank by one that lives.
    return std::ranges::all_of(awaited, [&](const Awaited& message) {
      return message.peer == blocked::kAny ? std::ranges::any_of(ranks, is_live)
                                           : is_live(message.peer);
    });
  }

  // Another rank in the same call may go on.
  bool any_moves(const RankView& one) const {
    return std::ranges::any_of(live_, [&](int rank) {
      const RankView* other = view(rank);
      return other != nullptr && other->state == State::blocked &&
             one.found.record.has_member(static_cast<std::size_t>(rank)) &&
             same_collective(one.found.record, other->found.record);
    });
  }

  // All members are in the same call, and all have waited in it for longer than it may take: what
  // they have called before did not fit.
  bool is_old(const RankView& one) const {
    constexpr std::uint64_t kLongNs = 2'000'000'000;
    return std::ranges::all_of(views_, [&](const auto& entry) {
      const RankView& other = *entry.second;
      return !one.found.record.has_member(static_cast<std::size_t>(other.rank)) ||
             other.found.waited_ns >= kLongNs;
    });
  }

  void mark_live() {
    for (const auto& [rank, one] : views_)
      if (one->state == State::unknown || one->state == State::running) live_.insert(rank);
    for (bool changes = true; changes;) {
      changes = false;
      for (const auto& [rank, one] : views_)
        if (one->state == State::blocked && !live_.contains(rank) && may_go_on(*one))
          changes = live_.insert(rank).second;
    }
  }

  std::string describe_wait(const RankView& one) const {
    const Record& record = one.found.record;
    std::string text(call_of(record));
    const auto awaited = awaited_of(record);
    if (record.waits == Waits::collective) return fmt::format("{} on {}", text, name_comm(record));
    if (awaited.empty()) return text;
    return fmt::format(
        "{} {} {}", text, awaited[0].is_send != 0 ? "to" : "from",
        awaited[0].peer == blocked::kAny ? "any rank" : fmt::format("rank {}", awaited[0].peer));
  }

  std::optional<std::string> gone_peer() const {
    for (const auto& [rank, one] : views_) {
      if (!is_stuck(rank)) continue;
      for (const int other : needed(*one)) {
        const RankView* peer = view(other);
        if (peer == nullptr || !is_gone(*peer)) continue;
        if (one->found.record.waits == Waits::any) continue;
        if (call_of(one->found.record) == "MPI_Finalize")
          return fmt::format(
              "rank {} is in MPI_Finalize, which rank {} has left: they have made different "
              "collective calls before",
              rank, other);
        return fmt::format("rank {} waits for rank {}, in {}, which has {}", rank, other,
                           describe_wait(*one),
                           peer->state == State::left ? "called MPI_Finalize" : "ended");
      }
    }
    return {};
  }

  // Every member is in a collective of the communicator. Until then some may only be ahead of
  // others.
  bool are_all_in(const Record& record) const {
    return std::ranges::all_of(views_, [&](const auto& entry) {
      const Record& other = entry.second->found.record;
      return !record.has_member(static_cast<std::size_t>(entry.first)) ||
             (is_stuck(entry.first) && other.waits == Waits::collective &&
              other.context == record.context);
    });
  }

  std::optional<std::string> unlike_collectives() const {
    std::map<std::uint32_t, std::map<std::pair<std::string, int>, std::vector<int>>> by_comm;
    std::map<std::uint32_t, const Record*> comms;
    for (const auto& [rank, one] : views_) {
      const Record& record = one->found.record;
      if (!is_stuck(rank) || record.waits != Waits::collective) continue;
      by_comm[record.context][{std::string(call_of(record)), record.root}].push_back(rank);
      comms[record.context] = &record;
    }
    for (const auto& [context, calls] : by_comm) {
      if (calls.size() < 2 || !are_all_in(*comms[context])) continue;
      std::string text;
      for (const auto& [call, ranks] : calls)
        text +=
            fmt::format("{}{} in {}{}", text.empty() ? "" : " and ", name_group(ranks), call.first,
                        call.second >= 0 ? fmt::format(" with root {}", call.second) : "");
      const auto& first = calls.begin()->first.first;
      const bool is_root = std::ranges::all_of(
          calls, [&first](const auto& entry) { return entry.first.first == first; });
      return fmt::format("the ranks of {} are in {}: {}", name_comm(*comms[context]),
                         is_root ? "one collective with different roots" : "different collectives",
                         text);
    }
    return {};
  }

  std::optional<std::string> alike_collectives() const {
    for (const auto& [rank, one] : views_) {
      const Record& record = one->found.record;
      if (!is_stuck(rank) || record.waits != Waits::collective || !needed(*one).empty()) continue;
      return fmt::format(
          "all ranks of {} are in {}, which does not end: they have made different collective "
          "calls on it before",
          name_comm(record), call_of(record));
    }
    return {};
  }

  // A message that has come and matches no receive, of a rank that is waited for.
  std::optional<std::string> near_message() const {
    for (const auto& [rank, one] : views_) {
      if (!is_stuck(rank)) continue;
      for (const Awaited& wanted : awaited_of(one->found.record)) {
        if (wanted.is_send != 0 || wanted.tag < blocked::kAny) continue;
        const Awaited* nearest = nullptr;
        std::size_t num = 0;
        for (const Awaited& message : unmatched_of(one->found.record)) {
          const bool is_from = wanted.peer == blocked::kAny || wanted.peer == message.peer;
          const bool has_comm = message.context == wanted.context;
          const bool has_tag = wanted.tag == blocked::kAny || wanted.tag == message.tag;
          if (!is_from || (has_comm && has_tag)) continue;
          const bool is_alike = nearest != nullptr && nearest->tag == message.tag &&
                                nearest->context == message.context &&
                                nearest->peer == message.peer;
          if (is_alike) ++num;
          // The same communicator is nearer than the same tag.
          if (nearest == nullptr || (has_comm && nearest->context != wanted.context)) {
            nearest = &message;
            num = 1;
          }
        }
        if (nearest == nullptr) continue;
        const bool has_comm = nearest->context == wanted.context;
        std::string text = fmt::format(
            "rank {} waits for {}{} from {}, but the message{} that rank {} has sent it {} ", rank,
            wanted.tag == blocked::kAny ? "a message" : fmt::format("tag {}", wanted.tag),
            has_comm ? "" : fmt::format(" on {}", name_comm(text_of(wanted.comm), 0)),
            wanted.peer == blocked::kAny ? "any rank" : fmt::format("rank {}", wanted.peer),
            num == 1 ? "" : "s", nearest->peer, num == 1 ? "has" : "have");
        text += fmt::format("tag {}", nearest->tag);
        if (!has_comm) text += fmt::format(" on {}", name_comm(text_of(nearest->comm), 0));
        return text;
      }
    }
    return {};
  }

  // The first stuck rank that this one waits for; -1: none.
  int next_of(const RankView& one) const {
    if (one.found.record.waits == Waits::any && needed(one).size() > 1) return -1;
    for (const Awaited& message : awaited_of(one.found.record))
      if (message.peer == blocked::kAny) return -1;
    for (const int rank : needed(one))
      if (is_stuck(rank)) return rank;
    return -1;
  }

  std::optional<std::string> cycle() const {
    std::map<int, int> visits;  // rank: the first one of the way that came there
    for (const auto& [first_rank, unused] : views_) {
      if (!is_stuck(first_rank) || visits.contains(first_rank)) continue;
      int start = first_rank;
      while (start >= 0 && !visits.contains(start)) {
        visits[start] = first_rank;
        start = next_of(*view(start));
      }
      // Way and cycle are of the same visit only the first time.
      if (start < 0 || visits[start] != first_rank) continue;
      std::vector<int> path = {start};
      for (int rank = next_of(*view(start)); rank != start; rank = next_of(*view(rank)))
        path.push_back(rank);
      std::ranges::rotate(path, std::ranges::min_element(path));
      start = path[0];
      const RankView* first = view(start);
      if (path.size() == 1)
        return fmt::format("rank {} waits for itself, in {}", start, describe_wait(*first));
      constexpr std::size_t kMostNamed = 8;
      std::string text;
      for (std::size_t i = 0; i < std::min(path.size(), kMostNamed); ++i) {
        const RankView& one = *view(path[i]);
        text += fmt::format("{}rank {} in {}", i == 0 ? "" : ", ", path[i], describe_wait(one));
        if (one.found.record.waits == Waits::collective)
          text += fmt::format(" for rank {}", path[(i + 1) % path.size()]);
      }
      if (path.size() > kMostNamed) text += fmt::format(" and {} more", path.size() - kMostNamed);
      return fmt::format("{} ranks wait for each other: {}", path.size(), text);
    }
    return {};
  }

  std::optional<std::string> nobody_sends() const {
    for (const auto& [rank, one] : views_) {
      if (!is_stuck(rank)) continue;
      for (const Awaited& message : awaited_of(one->found.record))
        if (message.peer == blocked::kAny && message.is_send == 0)
          return fmt::format(
              "rank {} waits in {} for a message{} from any rank, and all that could send one wait "
              "themselves or have ended",
              rank, call_of(one->found.record),
              message.tag == blocked::kAny ? "" : fmt::format(" of tag {}", message.tag));
    }
    return {};
  }

  std::map<int, const RankView*> views_;
  std::set<int> live_;
};

}  // namespace

std::vector<std::string> explain(const std::vector<RankView>& ranks) {
  std::map<Key, std::vector<const RankView*>> groups;
  for (const RankView& view : ranks) groups[key_of(view)].push_back(&view);
  // In the order of their first ranks.
  std::vector<const std::vector<const RankView*>*> ordered;
  for (const auto& [key, group] : groups) ordered.push_back(&group);
  std::ranges::sort(ordered, {}, [](const auto* group) { return group->front()->rank; });
  constexpr std::size_t kMostGroups = 20;
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < std::min(ordered.size(), kMostGroups); ++i)
    lines.push_back("  " + describe(*ordered[i]));
  if (ordered.size() > kMostGroups)
    lines.push_back(fmt::format("  and {} more groups of ranks", ordered.size() - kMostGroups));
  if (const auto reason = reason_of(ranks)) lines.push_back("  because " + *reason);
  return lines;
}

std::optional<std::string> reason_of(const std::vector<RankView>& ranks) {
  return Graph(ranks).reason();
}

bool stands_still(const std::vector<RankView>& ranks) {
  const bool any =
      std::ranges::any_of(ranks, [](const RankView& view) { return view.state == State::blocked; });
  return any && Graph(ranks).is_all_stuck();
}

}  // namespace weft::weftrun
