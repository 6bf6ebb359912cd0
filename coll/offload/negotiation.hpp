#pragma once
// Negotiation: the leaders of a team make a group together, step by step: each queries its switch,
// all exchange the answers, each joins, all exchange the results, and all end with the same
// outcome. The caller does what advance() returns and calls it again, blocking (Offload) or in the
// background (Background). One thread.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "coll/offload/link.hpp"
#include "coll/offload/placement.hpp"
#include "coll/offload/tree.hpp"
#include "weft/status.hpp"

namespace weft::offload {

// The name of a group, which it keeps when it is made anew, and its epoch, which then grows.
struct GroupName {
  std::uint32_t group = 0;
  std::uint64_t key = 0;  // 0: never made
  std::uint16_t epoch = 0;
};

// The terms that are the same on all leaders.
struct Terms {
  std::vector<Location> leaders;
  bool ordered = true;
  bool fixed = false;  // floats as integers
  std::uint32_t job = 0;
  std::uint64_t timeout_ns = 0;
};

// What a leader says before a negotiation that follows a loss: all must be ready.
struct Ready {
  std::int32_t is_ready = 0;
  std::uint32_t next_look = 0;  // the first leader's counts: the operation at which to say it again
};

class Negotiation {
 public:
  enum class Need {
    gather,     // blocks() from all leaders, this one's at its position
    enrolment,  // the link's enrolment, until it is over
    nothing,    // the negotiation is over: see status()
  };

  // link: made if there is none; null at the end if there are no sockets. ready: null for the first
  // negotiation of a team, which waits for nothing.
  Negotiation(const Terms& terms, int self, GroupName& name, std::unique_ptr<Link>& link,
              const Ready* ready = nullptr);
  Need advance();
  std::span<std::byte> blocks() noexcept { return blocks_; }
  std::size_t block_bytes() const noexcept { return blocks_.size() / terms_.leaders.size(); }

  // ok, or why there is no group, the same on all leaders. again: not all were ready.
  const Status& status() const noexcept { return status_; }
  // With ok: the capabilities of the switches, and the line for the log.
  std::uint32_t elements() const noexcept { return tree_.elements; }
  std::uint32_t operations() const noexcept { return tree_.operations; }
  const std::string& summary() const noexcept { return summary_; }
  std::size_t num_levels() const noexcept { return tree_.levels.size(); }
  const SumOrder& order() const noexcept { return tree_.order; }
  // Where they said whether they were ready.
  std::uint32_t next_look() const noexcept { return next_look_; }

 private:
  Need query();
  Need report();
  Need notify();
  Need share_grant();
  Need open_group();
  Need end(Status status);
  template <class T>
  Need gather(const T& mine);
  template <class T>
  std::vector<T> gathered() const;

  const Terms& terms_;
  int self_;
  GroupName& name_;
  std::unique_ptr<Link>& link_;
  Ready ready_;
  int step_;
  std::uint32_t next_look_ = 0;
  Status status_;
  std::string summary_;
  std::vector<std::byte> blocks_;
  std::vector<innet::Address> controls_;
  Tree tree_;
};

}  // namespace weft::offload
