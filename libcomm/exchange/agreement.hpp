#pragma once
// Agreement: the calls that all ranks of a job make together, each of which ends in the same way on
// all live ranks, and the set of these. Used by the Job, and by the exchanges through it. The
// protocol is at the head of agreement.cpp.
//
// Threads: one at a time, as with a coll::Team, but for answer() and is_broken(), which any thread
// may call that is in no run().
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/short_lock.hpp"
#include "base/shortage.hpp"
#include "coll/coll.hpp"
#include "tagged/engine.hpp"

namespace weft::transport {

class Agreement final : public coll::Interrupt {
 public:
  // Collective like Engine::create, with which it begins.
  explicit Agreement(tagged::Engine& engine);
  ~Agreement();

  // The live ranks, as agreed on, in order. They change in run() alone.
  const std::vector<int>& members() const noexcept { return members_; }
  bool has(int rank) const noexcept { return is_member_[static_cast<std::size_t>(rank)]; }
  // The ranks that the last call with peer_lost named.
  const std::vector<int>& lost() const noexcept { return lost_; }
  std::string name(const std::vector<int>& lost) const;
  // For a call that cannot return an error, in the same way on all ranks: makes the next call fail
  // with these.
  void report_later(std::vector<int> lost) { unreported_ = std::move(lost); }

  // True once this rank knows that no call of these members can succeed any more.
  bool is_broken() noexcept;
  // Polls, and answers the others if they have aborted a call: this rank may be in none, and wait
  // for what they do after it.
  void answer() noexcept;

  // Runs `call(team)` on all members, in the same order everywhere; no rank's may end before all
  // ranks' have begun. `result` is its output, the same on every rank. Returns ok; peer_lost, with
  // the names of the lost: from then on the members are the others; no_memory; or another result of
  // `call`. Blocks until all live ranks have called it.
  template <class Call>
  Status run(std::span<std::byte> result, Call&& call) noexcept {
    const std::lock_guard lock(in_use_);
    return or_no_memory([&]() -> Status {
      const bool fails = fails_next() || next_ != nullptr || !unreported_.empty();
      Status status = fails ? Status(Code::peer_lost) : call(*team_);
      // A result too long to be kept is complete everywhere before any rank continues.
      if (status.ok() && result.size() > kKeptBytes) status = coll::barrier(*team_);
      if (!status.ok()) [[unlikely]]
        return complete(result, status);
      keep(result);
      return status;
    });
  }
  // The same for a `call` that may end on one rank before another's has begun.
  template <class Call>
  Status run_loose(Call&& call) {
    return run({}, [&call](coll::Team& team) {
      Status status = call(team);
      return status ? coll::barrier(team) : status;
    });
  }

 private:
  static constexpr std::size_t kKeptBytes = 16 * 1024;

  struct Message;
  // A rank has aborted the call after the last one that it finished.
  struct Report {
    std::uint64_t finished;
    std::vector<std::byte> value;  // the result of the last one
  };
  struct Sending {
    tagged::Request request;
    std::vector<std::byte> bytes;
  };

  bool fails_next() const noexcept { return fails_ == finished_ + 1; }
  void keep(std::span<const std::byte> result) {
    ++finished_;
    value_.assign(result.begin(), result.size() <= kKeptBytes ? result.end() : result.begin());
  }
  Status complete(std::span<std::byte> result, Status status);
  void recover();
  bool advance();
  Report settled() const;
  void decide();
  void install();
  void open_team();

  bool is_raised() noexcept override;
  void read() noexcept;
  bool receive();
  void take(int from, const Message& message);
  void note_lost(int rank, int by);
  std::vector<int> lost_members() const;
  void send(int to, const Message& message);

  tagged::Engine& engine_;
  ShortLock in_use_;  // one thread handles the messages at a time
  std::vector<int> members_;
  std::vector<bool> is_member_;  // by rank
  std::unique_ptr<coll::Team> team_;
  std::uint32_t view_ = 0;
  std::uint64_t finished_ = 0;  // calls
  std::uint64_t fails_ = 0;     // the call that the last decision made fail
  std::vector<int> lost_by_decision_;
  std::vector<std::byte> value_;  // the result of the last finished call, unless it was long
  std::vector<int> lost_;         // see lost()
  std::vector<int> unreported_;
  std::unique_ptr<Message> decision_;  // that made this view

  // While a call is aborted.
  std::uint32_t num_read_ = 0;  // as Engine::num_unexpected()
  bool raised_ = false;         // a rank has aborted a call in this view
  bool asked_ = false;          // by this rank, for reports
  int reported_to_ = -1;
  std::vector<std::byte> received_;  // room for any message
  std::size_t num_received_ = 0;     // bytes of it
  int received_from_ = -1;           // sender of the unhandled message in it; -1: none
  std::map<int, Report> reports_;    // by rank
  std::unique_ptr<Message> next_;    // the decision for the next view, which run() enters
  std::deque<std::unique_ptr<Sending>> sending_;
};

}  // namespace weft::transport
