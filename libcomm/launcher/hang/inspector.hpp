#pragma once
// Inspector: asks the hosts of a job what their ranks wait for, on request and when all of them
// wait, and finds out whether none can go on. One thread; nothing blocks.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "launcher/hang/why.hpp"
#include "launcher/host.hpp"

namespace weft::weftrun {

class Inspector {
 public:
  // To see whether all ranks wait, and wait on; to report that they do; because the time is over;
  // because the user asks. A later one goes before an earlier one.
  enum class Why { look, report, timeout, user };
  struct Findings {
    Why why;
    std::vector<RankView> ranks;  // all, in their order
  };

  // state_of: whether a rank has left or ended; else unknown.
  Inspector(const std::vector<std::unique_ptr<Host>>& hosts,
            std::function<RankView::State(int rank)> state_of)
      : hosts_(hosts), state_of_(std::move(state_of)) {}
  // looks: sees by itself when the ranks wait.
  void begin(int num_ranks, bool looks);
  void ask(Why why);
  // The hosts' answers, as HostEvents has them.
  void inspected(int number, int rank, const Seen& seen);
  void all_inspected(int number);

  // When step() has something to do; UINT64_MAX: only once there are answers.
  std::uint64_t due_at_ns() const;
  // Looks, if it is time and ranks run, and returns what has been found, which is to be told.
  std::optional<Findings> step(bool any_runs);
  // True if a report has told that ranks are in these waits.
  bool has_reported(const std::vector<RankView>& ranks) const;

 private:
  struct Inspection {
    Why why;
    std::uint64_t at_ns, until_ns;
    int hosts_left;
    std::vector<RankView> ranks;
  };

  void look(bool any_runs);
  void judge(const Inspection& now);
  void add_unheard(std::vector<RankView>& ranks) const;

  const std::vector<std::unique_ptr<Host>>& hosts_;
  const std::function<RankView::State(int rank)> state_of_;
  int num_ranks_ = 0;
  std::uint64_t look_at_ns_ = UINT64_MAX;  // when the next look at whether all ranks wait is due
  int num_inspections_ = 0;                // the number of the last one
  std::optional<Inspection> inspection_;   // under way
  // What the ranks waited for when they were first seen to, and when that was.
  std::vector<std::uint64_t> seen_waits_;
  std::uint64_t seen_at_ns_ = 0;
  std::vector<std::uint64_t> reported_waits_;
};

}  // namespace weft::weftrun
