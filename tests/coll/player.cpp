#include "player.hpp"

#include <algorithm>
#include <deque>
#include <map>

namespace weft::test {
namespace {

using coll::BufferRef;
using coll::Memory;
using coll::Plan;
using coll::Step;

constexpr std::uint64_t kPrime = 2147483647;

// A run of cells of one member.
struct Span {
  std::vector<Cell>* memory = nullptr;
  std::size_t first = 0, count = 0;
  bool overlaps(const Span& other) const {
    return memory == other.memory && count != 0 && other.count != 0 &&
           first < other.first + other.count && other.first < first + count;
  }
};

struct Message {
  bool is_send = false;
  Span span;
  std::vector<Cell> content;       // of a send
  const Message* match = nullptr;  // the other side's
  bool awaited = false;
  double over_at = 0;  // of a send: when its data have left; of a receive: when they are there
};

struct Member {
  std::vector<Cell> scratch;
  std::size_t next = 0;  // step
  std::map<int, Message> messages;
  double clock = 0;
};

using Queues = std::map<std::pair<int, int>, std::deque<Message*>>;

class Game {
 public:
  Game(const std::vector<Plan>& plans, std::vector<MemberMemory>& memory, std::size_t unit,
       const Costs& costs)
      : plans_(plans), memory_(memory), unit_(unit), costs_(costs), members_(plans.size()) {
    for (std::size_t m = 0; m < plans.size(); ++m)
      members_[m].scratch.assign(plans[m].scratch_bytes() / unit + 1, Cell{0, 99});
  }

  Played play() {
    for (bool moved = true; moved && played_.errors.empty();) {
      moved = false;
      for (std::size_t m = 0; m < members_.size() && played_.errors.empty(); ++m)
        while (played_.errors.empty() && step(static_cast<int>(m))) moved = true;
    }
    for (std::size_t m = 0; m < members_.size() && played_.errors.empty(); ++m)
      if (members_[m].next <= plans_[m].steps().size()) fail(static_cast<int>(m), "waits for ever");
    for (const Member& member : members_) played_.time = std::max(played_.time, member.clock);
    return std::move(played_);
  }

 private:
  void fail(int m, const std::string& what) {
    played_.errors.push_back("member " + std::to_string(m) + ", step " +
                             std::to_string(members_[static_cast<std::size_t>(m)].next) + ": " +
                             what);
  }

  Span span(int m, BufferRef place, std::size_t bytes) {
    auto& own = memory_[static_cast<std::size_t>(m)];
    Span span;
    span.memory = place.memory == Memory::scratch ? &members_[static_cast<std::size_t>(m)].scratch
                  : place.memory == Memory::output || own.in_place ? &own.output
                                                                   : &own.input;
    if (place.offset % unit_ != 0 || bytes % unit_ != 0) fail(m, "half an element");
    span.first = place.offset / unit_;
    span.count = bytes / unit_;
    if (span.count != 0 && span.first + span.count > span.memory->size()) {
      fail(m, "out of bounds");
      span.count = 0;
    }
    return span;
  }

  void check(int m, const Span& span, bool writes) {
    for (const auto& [number, message] : members_[static_cast<std::size_t>(m)].messages)
      if (!message.awaited && message.span.overlaps(span) && (writes || !message.is_send))
        fail(m, "touches what message " + std::to_string(number) + " is still about");
  }

  // True if the message is over now, and its data are there.
  bool await(int m, int number) {
    Member& member = members_[static_cast<std::size_t>(m)];
    const auto found = member.messages.find(number);
    if (found == member.messages.end()) {
      fail(m, "waits for " + std::to_string(number) + ", which is no message");
      return false;
    }
    Message& message = found->second;
    if (message.awaited) return true;
    if (message.match == nullptr) return false;
    message.awaited = true;
    if (!message.is_send)
      std::copy(message.match->content.begin(), message.match->content.end(),
                message.span.memory->begin() + static_cast<std::ptrdiff_t>(message.span.first));
    member.clock = std::max(member.clock, message.over_at);
    return true;
  }

  bool await_all(int m) {
    for (auto& [number, message] : members_[static_cast<std::size_t>(m)].messages)
      if (!await(m, number)) return false;
    return true;
  }

  void start(int m, const Step& step) {
    Member& member = members_[static_cast<std::size_t>(m)];
    const bool sends = step.kind == Step::Kind::send;
    if (step.peer < 0 || step.peer >= static_cast<int>(members_.size()) || step.peer == m)
      return fail(m, "no such peer");
    Message made;
    made.is_send = sends;
    made.span = span(m, sends ? step.from : step.to, step.length);
    check(m, made.span, !sends);
    Message& message = member.messages[static_cast<int>(member.next)] = std::move(made);
    const bool across = costs_.host.empty() || costs_.host[static_cast<std::size_t>(m)] !=
                                                   costs_.host[static_cast<std::size_t>(step.peer)];
    if (sends) {
      const auto begin =
          message.span.memory->begin() + static_cast<std::ptrdiff_t>(message.span.first);
      message.content.assign(begin, begin + static_cast<std::ptrdiff_t>(message.span.count));
      const double bytes = static_cast<double>(step.length);
      member.clock += bytes * (across ? costs_.per_byte : costs_.per_byte_inside);
      message.over_at = member.clock;
      ++played_.num_messages;
      if (across) {
        ++played_.num_across;
        played_.bytes_across += step.length;
      }
    }
    const std::pair pair = sends ? std::pair(m, step.peer) : std::pair(step.peer, m);
    auto& others = (sends ? receives_ : sends_)[pair];
    if (others.empty()) {
      (sends ? sends_ : receives_)[pair].push_back(&message);
      return;
    }
    Message& other = *others.front();
    others.pop_front();
    if (other.span.count != message.span.count)
      fail(m, "a message of " + std::to_string(message.span.count) + " where the other side has " +
                  std::to_string(other.span.count));
    message.match = &other;
    other.match = &message;
    Message& sent = sends ? message : other;
    Message& received = sends ? other : message;
    received.over_at = sent.over_at + (across ? costs_.latency : costs_.latency_inside);
  }

  bool step(int m) {
    Member& member = members_[static_cast<std::size_t>(m)];
    const auto& steps = plans_[static_cast<std::size_t>(m)].steps();
    if (member.next > steps.size()) return false;
    if (member.next == steps.size()) {
      if (!await_all(m)) return false;
      ++member.next;
      return true;
    }
    const Step& step = steps[member.next];
    for (const int after : step.after)
      if (after >= 0 && !await(m, after)) return false;
    switch (step.kind) {
      case Step::Kind::wait_all:
        if (!await_all(m)) return false;
        break;
      case Step::Kind::send:
      case Step::Kind::receive:
        start(m, step);
        break;
      case Step::Kind::copy:
      case Step::Kind::reduce: {
        const bool reduces = step.kind == Step::Kind::reduce;
        const std::size_t bytes = reduces ? step.length * unit_ : step.length;
        const Span from = span(m, step.from, bytes), to = span(m, step.to, bytes);
        check(m, from, false);
        check(m, to, true);
        for (std::size_t i = 0; i < from.count && i < to.count; ++i) {
          Cell& into = (*to.memory)[to.first + i];
          const Cell& cell = (*from.memory)[from.first + i];
          into = reduces ? compose(cell, into) : cell;
        }
      }
    }
    ++member.next;
    return true;
  }

  const std::vector<Plan>& plans_;
  std::vector<MemberMemory>& memory_;
  const std::size_t unit_;
  const Costs& costs_;
  std::vector<Member> members_;
  Queues sends_, receives_;  // those without a match yet
  Played played_;
};

}  // namespace

Cell compose(const Cell& f, const Cell& g) {
  return {f.a * g.a % kPrime, (f.a * g.b + f.b) % kPrime};
}

Played play(const std::vector<Plan>& plans, std::vector<MemberMemory>& memory, std::size_t unit,
            const Costs& costs) {
  return Game(plans, memory, unit, costs).play();
}

}  // namespace weft::test
