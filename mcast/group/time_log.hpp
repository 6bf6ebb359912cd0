#pragma once
// TimeLog: what one message waits for at one member, for GroupEvents::on_times. Without that no
// message has one. Used under the Multicast's lock by its thread.
#include <chrono>

#include "mcast/schedules/schedule.hpp"
#include "weft/multicast.hpp"

namespace weft::mcast {

class TimeLog {
 public:
  TimeLog(std::uint64_t bytes, std::uint64_t block_bytes) {
    times_.bytes = bytes;
    times_.block_bytes = block_bytes;
  }
  // The time from now on is spent so.
  void enter(Spent spent) {
    const double now = now_us();
    times_[spent_] += now - since_us_;
    since_us_ = now;
    spent_ = spent;
  }
  void received(std::uint32_t block, int from) {
    times_.received.push_back({block, from, now_us()});
  }
  // The first bytes of a block are handed to the fabric, after enter.
  void begin_sending(const Move& move) {
    MessageTimes::Sent sent{move.block, move.peer, since_us_};
    for (std::size_t i = 0; i < sent.waited_us.size(); ++i)
      sent.waited_us[i] = times_.us[i] - at_turn_us_[i];
    times_.sent.push_back(sent);
  }
  // The last bytes are; returns the number for end_sending.
  std::size_t all_posted() {
    enter(spent_);
    at_turn_us_ = times_.us;
    return times_.sent.size();
  }
  void end_sending(std::size_t number) { times_.sent[number - 1].end_us = now_us(); }
  const MessageTimes& finish() {
    enter(spent_);
    times_.total_us = since_us_;
    return times_;
  }

 private:
  double now_us() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin_)
        .count();
  }

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double since_us_ = 0;
  Spent spent_ = Spent::setup;
  decltype(MessageTimes::us) at_turn_us_ = {};  // when the block to send next became that
  MessageTimes times_;
};

}  // namespace weft::mcast
