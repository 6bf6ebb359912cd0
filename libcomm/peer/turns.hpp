#pragma once
// Turns: which link of an endpoint goes and which comes, where there is no room for a link to each
// peer. Clients look at all links of the endpoint, as long as one waits, and begin to give up as
// many as wait: the one that was used least recently (ReliableLink::rest). Once one has gone, the
// one that has waited longest is opened. Used under the clients' lock.
#include "peer/reliable_link.hpp"

namespace weft::transport {

class Turns {
 public:
  explicit Turns(std::uint64_t now_ns) : now_ns_(now_ns) {}
  void look(ReliableLink& link) {
    if (link.is_leaving()) ++num_leaving_;
    if (link.may_rest(now_ns_) && (oldest_ == nullptr || link.used_ns() < oldest_->used_ns()))
      oldest_ = &link;
    if (link.waits_since_ns() == 0) return;
    any_waits_ = true;
    if (link.link() != nullptr) return;  // it is being opened
    ++num_waiting_;
    if (first_ == nullptr || link.waits_since_ns() < first_->waits_since_ns()) first_ = &link;
  }
  // Other links than those of ReliableLink.
  void add_leaving(std::size_t count) { num_leaving_ += count; }

  bool any_waits() const { return any_waits_; }
  bool is_short() const { return num_waiting_ > num_leaving_; }
  // Null: none.
  ReliableLink* to_rest() const { return is_short() ? oldest_ : nullptr; }
  ReliableLink* to_open() const { return first_; }

 private:
  const std::uint64_t now_ns_;
  bool any_waits_ = false;
  std::size_t num_waiting_ = 0, num_leaving_ = 0;
  ReliableLink *oldest_ = nullptr, *first_ = nullptr;
};

}  // namespace weft::transport
