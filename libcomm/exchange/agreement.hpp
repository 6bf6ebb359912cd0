#pragma once
// Agreement: the calls that all ranks of a job make together, each of which ends in the same way on
// all ranks that live, and who these are. Used by the Job, and by the exchanges through it. The
// protocol is at the head of agreement.cpp.
//
// Threads: one at a time, as with a coll::Team.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/shortage.hpp"
#include "coll/coll.hpp"
#include "tagged/engine.hpp"

namespace weft::transport {

class Agreement final : public coll::Interrupt {
 public:
  // Collective like Engine::create, with which it begins.
  explicit Agreement(tagged::Engine& engine);
  ~Agreement();

  // The ranks that live as far as is agreed on, in order. They change in run() alone.
  const std::vector<int>& members() const noexcept { return members_; }
  bool has(int rank) const noexcept { return is_member_[static_cast<std::size_t>(rank)]; }
  // The ranks that the last call named that ended with peer_lost.
  const std::vector<int>& lost() const noexcept { return lost_; }
  std::string name(const std::vector<int>& lost) const;
  // For a call that can return no error, in the same way on all ranks: the next one fails for
  // these.
  void tell_later(std::vector<int> lost) { untold_ = std::move(lost); }

  // True once it is known here that no call of these members can succeed any more.
  bool is_broken() noexcept { return team_->is_broken(); }

  // `call(team)` by all members, in the same order everywhere; nobody's may end before everybody's
  // has begun. `result` is what it leaves, the same on every rank. ok; peer_lost, with the names of
  // who was lost: from then on the members are the others; no_memory; or what else `call` returns.
  // Blocks until all that live have come.
  template <class Call>
  Status run(std::span<std::byte> result, Call&& call) noexcept {
    return or_no_memory([&]() -> Status {
      const bool fails = fails_next() || !untold_.empty();
      Status status = fails ? Status(Code::peer_lost) : call(*team_);
      // What is too long to be kept is done everywhere before anybody goes on.
      if (status.ok() && result.size() > kKeptBytes) status = coll::barrier(*team_);
      if (!status.ok()) [[unlikely]]
        return settle(result, status);
      keep(result);
      return status;
    });
  }
  // The same where `call` may end on one rank before another's has begun.
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
  // A rank's word that it has given up the call behind the last one that it finished.
  struct Report {
    std::uint64_t finished;
    std::vector<std::byte> value;  // what the last one left
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
  Status settle(std::span<std::byte> result, Status status);
  void recover();
  void decide();
  void install(const Message& decision);
  void open_team();

  bool is_raised() noexcept override;
  void read() noexcept;
  bool receive();
  void take(int from, const Message& message);
  void note_lost(int rank, int by);
  std::vector<int> lost_members() const;
  void send(int to, const Message& message);
  void send_decision(int to);

  tagged::Engine& engine_;
  std::vector<int> members_;
  std::vector<bool> is_member_;  // by rank
  std::unique_ptr<coll::Team> team_;
  std::uint32_t view_ = 0;
  std::uint64_t finished_ = 0;    // calls
  std::uint64_t fails_ = 0;       // the call that the last view made fail
  std::vector<std::byte> value_;  // what the last finished call left, unless it was long
  std::vector<int> lost_;         // see lost()
  std::vector<int> untold_;
  std::vector<std::byte> decision_;  // that made this view, as it was sent

  // While a call is given up.
  std::uint32_t num_read_ = 0;  // as Engine::num_unexpected()
  bool raised_ = false;         // somebody has given up this view
  bool asked_ = false;          // by this rank, for reports
  int reported_to_ = -1;
  std::vector<std::byte> received_;  // room for any message
  std::size_t num_received_ = 0;     // bytes of it
  int received_from_ = -1;           // whose message there is still to be taken in; -1: nobody's
  std::map<int, Report> reports_;    // by rank
  std::unique_ptr<Message> next_;    // a decision for the next view
  std::deque<std::unique_ptr<Sending>> sending_;
};

}  // namespace weft::transport
