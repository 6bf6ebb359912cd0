#pragma once
// Enrolment: joins one leader to a group at its switch: query, then notify. A state machine without
// sockets and clocks, as Leader. The leaders exchange the answers, and decide together
// (negotiation.cpp). One thread.
#include <span>

#include "coll/switch/packet.hpp"

namespace weft::offload {

class Enrolment {
 public:
  class Wire {
   public:
    virtual void to_switch(std::span<const std::byte> packet) = 0;

   protected:
    ~Wire() = default;
  };
  explicit Enrolment(Wire& wire) : wire_(wire) {}

  // Repeats the query until the switch has answered with all its spines, or until limit_ns.
  void query(const innet::HostPort& host, std::uint64_t now_ns, std::uint64_t limit_ns);
  // Repeats the request until the group is made or refused, or until limit_ns. The header gives
  // group, key, epoch and child.
  void notify(const innet::Header& header, const innet::Branch& branch, std::uint64_t now_ns,
              std::uint64_t limit_ns);
  void on_switch(std::span<const std::byte> bytes);
  void on_time(std::uint64_t now_ns);

  bool is_over() const noexcept { return is_over_; }
  // After query: true if the switch answered; can() has its answer.
  bool answers() const noexcept { return answers_; }
  const innet::Capabilities& can() const noexcept { return can_; }
  // After notify: ok, or the reason for the refusal; pending: no answer.
  innet::Answer answer() const noexcept { return answer_; }
  std::uint32_t ticket() const noexcept { return ticket_; }
  std::uint16_t window() const noexcept { return window_; }

 private:
  void send(std::uint64_t now_ns);

  Wire& wire_;
  innet::Header header_;
  std::vector<std::byte> body_;
  std::uint64_t limit_ns_ = 0, sent_ns_ = 0;
  bool is_over_ = true, answers_ = false;
  innet::Capabilities can_;
  innet::Answer answer_ = innet::Answer::pending;
  std::uint32_t ticket_ = 0;
  std::uint16_t window_ = 0;
};

}  // namespace weft::offload
