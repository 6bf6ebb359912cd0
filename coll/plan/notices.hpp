#pragma once
// Notices: how members of a team on several hosts hear that a member is lost.
//
// A member sees the deaths on its own host, and of those elsewhere only the deaths of members that
// it has to do with. So who waits for a living member, which has given up because of a third one,
// would wait for ever. Therefore whoever gives up a collective tells: who has seen the loss itself
// tells all others; who was told passes it on to some, so that all hear of it even if those who
// tell die while they do. A notice is a message in a context of the team, with a tag of its own.
//
// Any thread, but for open(), which comes before all else.
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "tagged/engine.hpp"

namespace weft::coll {

class Notices {
 public:
  static constexpr int kNobody = -1;

  explicit Notices(tagged::Engine& engine) noexcept : engine_(engine) {}
  ~Notices();
  // members, others: world ranks, which stay where they are.
  void open(std::uint32_t context, std::int32_t tag, std::span<const int> members,
            std::span<const int> others = {}) noexcept;

  // Whether a member has told of a loss, or this one has told the others. Looks for notices at most
  // once a millisecond, as it is asked in waits.
  bool is_over() noexcept;
  // The client was told in another way. lost: a world rank, or kNobody.
  void note(int lost) noexcept;
  // Tells the others, the first time, that this member cannot go on.
  void notify() noexcept;
  // Whether that is on its way to all, or to those that can be reached within two seconds: to be
  // waited for, as nobody knows when this process makes progress again.
  bool is_sent() noexcept;
  // Whose loss is the cause, as far as is known: a world rank, or kNobody.
  int lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

 private:
  struct Message {
    std::int32_t lost = kNobody;  // world rank
  };
  // What the engine may still use when this ends.
  struct Sent {
    Message message;
    std::vector<std::unique_ptr<tagged::Request>> requests;
  };
  struct Incoming {
    Message message;
    tagged::Request request;
  };

  void poll() noexcept;
  // What a member has told, if it is of this team.
  void take(const tagged::Request& request, const Message& message) noexcept;
  template <class F>
  void for_each_member(F&& f) const;
  void send(int member) noexcept;

  tagged::Engine& engine_;
  std::uint32_t context_ = 0;
  std::int32_t tag_ = 0;
  std::array<std::span<const int>, 2> members_;
  // relaxed, all of them: they say nothing about other memory.
  std::atomic<bool> over_{false}, was_notified_{false}, has_notified_{false};
  std::atomic<int> lost_{kNobody};
  std::atomic<std::uint64_t> next_poll_ns_{0};
  std::mutex mutex_;  // for what follows
  std::uint64_t notified_ns_ = 0;
  std::unique_ptr<Sent> sent_;  // null until there is something to tell
  std::unique_ptr<Incoming> incoming_;
};

}  // namespace weft::coll
