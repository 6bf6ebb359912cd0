#pragma once
// Notices: inform the members of a team on several hosts that a member is lost.
//
// A member sees the deaths on its own host, and of those elsewhere only the deaths of members that
// it communicates with. So a member that waits for a living one, which has given up because of a
// third one, would wait for ever. Therefore a member that gives up a collective notifies the
// others: one that has seen the loss itself notifies all; one that was notified passes it on to
// some, so that all get it even if the senders die meanwhile. A notice is a message in a context of
// the team, with a tag of its own.
//
// Any thread, except for open(), which precedes all other calls.
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
  // members, others: world ranks, which must stay valid.
  void open(std::uint32_t context, std::int32_t tag, std::span<const int> members,
            std::span<const int> others = {}) noexcept;

  // Returns true if a member has notified this one of a loss, or this one has notified the others.
  // Polls for notices at most once a millisecond, as it is called in waits.
  bool is_over() noexcept;
  // Records a notice that the client received by other means. lost: a world rank, or kNobody.
  void note(int lost) noexcept;
  // The first time, notifies the others that this member cannot go on.
  void notify() noexcept;
  // Returns true once the notice is sent to all members, or to those that can be reached within two
  // seconds. To be waited for, as this process may not make progress again for long.
  bool is_sent() noexcept;
  // The member whose loss is the cause, if known: a world rank, or kNobody.
  int lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

 private:
  struct Message {
    std::int32_t lost = kNobody;  // world rank
  };
  // Memory that the engine may still use when this object ends.
  struct Sent final : tagged::Kept {
    bool is_over() const noexcept override;
    Message message;
    std::vector<std::unique_ptr<tagged::Request>> requests;
  };
  struct Incoming final : tagged::Kept {
    bool is_over() const noexcept override { return request.is_over(); }
    Message message;
    tagged::Request request;
  };

  void poll() noexcept;
  // Handles a received notice, if it is of this team.
  void take(const tagged::Request& request, const Message& message) noexcept;
  template <class F>
  void for_each_member(F&& f) const;
  void send(int member) noexcept;

  tagged::Engine& engine_;
  std::uint32_t context_ = 0;
  std::int32_t tag_ = 0;
  std::array<std::span<const int>, 2> members_;
  // All relaxed: they publish no other memory.
  std::atomic<bool> over_{false}, was_notified_{false}, has_notified_{false};
  std::atomic<int> lost_{kNobody};
  std::atomic<std::uint64_t> next_poll_ns_{0};
  std::mutex mutex_;  // guards what follows
  std::uint64_t notified_ns_ = 0;
  std::unique_ptr<Sent> sent_;  // null until there is a notice to send
  std::unique_ptr<Incoming> incoming_;
};

}  // namespace weft::coll
