#include "coll/select/model.hpp"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {
namespace {

// The side of a message (send or receive) that was posted first and waits for the other.
struct Message {
  double at = 0;  // a send: when its data have arrived; a receive: when it was posted
  int step = 0;   // of the member that posted it
};

struct Queue {
  std::vector<Message> waiting;
  std::size_t first = 0;
  bool empty() const { return first == waiting.size(); }
};

class Run {
 public:
  Run(std::span<const Plan> plans, const Network& network) : plans_(plans), network_(network) {
    members_.resize(plans.size());
    for (std::size_t m = 0; m < plans.size(); ++m) {
      members_[m].over.resize(plans[m].steps().size(), kUnknown);
      events_.push({0, static_cast<int>(m), kNothing});
    }
  }

  double time() {
    // Events are handled in the order of time, so that a port serves the earliest arrival first.
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.sent != kNothing)
        depart(event);
      else if (step(event.member))
        events_.push({members_[index(event.member)].clock, event.member, kNothing});
    }
    double last = 0;
    for (const Member& member : members_) last = std::max(last, member.clock);
    return last;
  }

 private:
  static constexpr double kUnknown = -1;
  static constexpr int kNobody = -1, kNothing = -1;

  struct Event {
    double time;
    int member;
    int sent;  // the step whose message leaves; kNothing: the member takes its next step
    bool operator>(const Event& other) const { return time > other.time; }
  };

  struct Member {
    std::size_t next = 0;    // index of the next step
    std::size_t waited = 0;  // the messages before it are complete
    double clock = 0, out_free = 0, in_free = 0;
    int waits_for = kNobody;   // the message whose other side is not posted yet
    std::vector<double> over;  // completion time by step; 0 once waited for
    std::unordered_map<int, Queue> sent_here, receives;  // by peer
  };

  // Returns false if the message's other side is not posted yet; the member is called again when it
  // is.
  bool await(Member& member, int number) {
    double& over = member.over[index(number)];
    if (over == kUnknown) {
      member.waits_for = number;
      return false;
    }
    if (over > 0) {
      member.clock = std::max(member.clock, over);
      over = 0;
    }
    return true;
  }

  bool await_before(Member& member, const std::vector<Step>& steps, std::size_t end) {
    for (; member.waited < end; ++member.waited) {
      const Step::Kind kind = steps[member.waited].kind;
      if ((kind == Step::Kind::send || kind == Step::Kind::receive) &&
          !await(member, static_cast<int>(member.waited)))
        return false;
    }
    return true;
  }

  void send(int m, const Step& step) {
    Member& member = members_[index(m)];
    member.clock += network_.overhead;
    const double begin = std::max(member.clock, member.out_free);
    member.out_free = begin + wire_time(step);
    // The time is known at once. Never 0, which means that it has been waited for.
    member.over[member.next] = std::max(member.out_free, 1e-9);
    events_.push({begin, m, static_cast<int>(member.next)});
  }

  double wire_time(const Step& step) const {
    return static_cast<double>(step.length) * network_.per_byte;
  }

  void depart(const Event& event) {
    const int m = event.member;
    const Step& step = plans_[index(m)].steps()[index(event.sent)];
    Member& peer = members_[index(step.peer)];
    peer.in_free = std::max(event.time + network_.latency, peer.in_free) + wire_time(step);
    Queue& posted = peer.receives[m];
    if (posted.empty()) {
      peer.sent_here[m].waiting.push_back({peer.in_free, 0});
      return;
    }
    const Message receive = posted.waiting[posted.first++];
    end_receive(peer, receive.step, std::max(peer.in_free, receive.at));
    if (peer.waits_for == receive.step) {
      peer.waits_for = kNobody;
      events_.push({std::max(peer.clock, peer.over[index(receive.step)]), step.peer, kNothing});
    }
  }

  void receive(int m, const Step& step) {
    Member& member = members_[index(m)];
    Queue& sent = member.sent_here[step.peer];
    if (sent.empty())
      member.receives[step.peer].waiting.push_back({member.clock, static_cast<int>(member.next)});
    else
      end_receive(member, static_cast<int>(member.next),
                  std::max(sent.waiting[sent.first++].at, member.clock));
  }

  void end_receive(Member& member, int step, double at) {
    member.over[index(step)] = at + network_.overhead;
  }

  bool step(int m) {
    Member& member = members_[index(m)];
    const auto& steps = plans_[index(m)].steps();
    if (member.next == steps.size()) {
      await_before(member, steps, steps.size());
      return false;
    }
    const Step& step = steps[member.next];
    for (const int after : step.after)
      if (after >= 0 && !await(member, after)) return false;
    switch (step.kind) {
      case Step::Kind::wait_all:
        if (!await_before(member, steps, member.next)) return false;
        break;
      case Step::Kind::send:
        send(m, step);
        break;
      case Step::Kind::receive:
        receive(m, step);
        break;
      case Step::Kind::reduce:
        member.clock += static_cast<double>(step.length) * network_.reduce_per_byte;
        break;
      case Step::Kind::copy:
        break;
    }
    ++member.next;
    return true;
  }

  std::span<const Plan> plans_;
  const Network& network_;
  std::vector<Member> members_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace

double time_of(std::span<const Plan> plans, const Network& network) {
  return Run(plans, network).time();
}

std::vector<Algorithm> algorithms_of(Collective collective) {
  std::string_view names = pick_of(
      setting_rows()[static_cast<std::size_t>(Setting::coll_algorithms)].meaning, name(collective));
  std::vector<Algorithm> found;
  while (!names.empty()) {
    const std::string_view word = names.substr(0, names.find_first_of("|:"));
    for (int a = 0; a <= static_cast<int>(kLastAlgorithm); ++a)
      if (const auto algorithm = static_cast<Algorithm>(a);
          word == name(algorithm) && algorithm != Algorithm::shm &&
          algorithm != Algorithm::two_level && algorithm != Algorithm::native)
        found.push_back(algorithm);
    if (names.size() == word.size() || names[word.size()] == ':') break;
    names.remove_prefix(word.size() + 1);
  }
  return found;
}

bool needs_commuting(Collective collective, Algorithm algorithm) noexcept {
  const Rule* rule = rule_of(collective, algorithm);
  return rule != nullptr && rule->commutative_only;
}

void write_steps(Collective collective, Algorithm algorithm, Plan& plan, const Group& group,
                 std::size_t bytes) {
  const Vector vector{bytes, 1};
  switch (collective) {
    case Collective::barrier:
      return barrier_dissemination(plan, group);
    case Collective::bcast:
      return write_bcast(algorithm, plan, group, kOutput, bytes, 0);
    case Collective::reduce:
      return write_reduce(algorithm, plan, group, kInput, kOutput, vector, true, 0);
    case Collective::allreduce:
      return write_allreduce(algorithm, plan, group, kOutput, vector);
    case Collective::gather:
      return write_gather(algorithm, plan, group, kInput, kOutput, bytes, 0);
    case Collective::scatter:
      return write_scatter(algorithm, plan, group, kInput, kOutput, bytes, 0);
    case Collective::allgather:
      return write_allgather(algorithm, plan, group, kOutput, bytes);
    case Collective::alltoall:
      return write_alltoall(algorithm, plan, group, kInput, kOutput, bytes);
    case Collective::reduce_scatter: {
      std::vector<std::size_t> counts(index(group.size));
      for (int m = 0; m < group.size; ++m)
        counts[index(m)] = part_begin(bytes, group.size, m + 1) - part_begin(bytes, group.size, m);
      return write_reduce_scatter(algorithm, plan, group, kInput, kOutput, counts.data(), 1);
    }
    case Collective::scan:
      return write_scan(algorithm, plan, group, kOutput, vector, false);
  }
}

double time_of(Collective collective, Algorithm algorithm, int num_members, std::size_t bytes,
               const Network& network) {
  std::vector<Plan> plans(index(num_members));
  for (int m = 0; m < num_members; ++m)
    write_steps(collective, algorithm, plans[index(m)], {m, num_members}, bytes);
  return time_of(plans, network);
}

}  // namespace weft::coll
