// Groups of the ranks of a job, which are threads of this process: members are named by rank, in
// any order, and by nothing else.
#include <map>

#include "team.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

constexpr int kRanks = 5;

// Makes a Multicast on all ranks of a job, and runs the body on each in a thread of its own.
template <class F>
void on_ranks(F&& body) {
  transport::LocalRanks local(kRanks);
  std::vector<std::thread> threads;
  std::vector<std::string> failures(kRanks);
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        transport::Job job(local, rank);
        Multicast multicast(job);
        body(job, multicast);
        if (!job.barrier()) throw Error({Code::peer_lost, "a rank is lost"});
      } catch (const Error& error) {
        failures[static_cast<std::size_t>(rank)] = error.status().text();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == std::vector<std::string>(kRanks));
}

bool is_refused(Multicast& multicast, const GroupSettings& settings) {
  try {
    const Group group(multicast, settings, {});
  } catch (const Error& error) {
    return error.status() == Code::bad_argument;
  }
  return false;
}

}  // namespace

TEST_CASE("ranks of a job form groups by their numbers") {
  const std::vector<std::vector<int>> lists = {{}, {4, 2, 0}, {1}, {3, 1, 0, 4, 2}, {2, 3}};
  std::atomic<int> num_wrong{0}, num_complete{0};
  on_ranks([&](const transport::Job& job, Multicast& multicast) {
    const auto expect = [&](bool holds) { num_wrong += holds ? 0 : 1; };
    std::uint64_t id = 0;
    for (const auto& ranks : lists)
      for (const char* algorithm : {"pipeline", "hybrid"}) {
        ++id;
        std::vector<int> members = ranks;
        for (int rank = 0; ranks.empty() && rank < kRanks; ++rank) members.push_back(rank);
        const auto own = std::find(members.begin(), members.end(), job.rank());
        const GroupSettings settings{
            .id = id, .ranks = ranks, .block_bytes = 1000, .algorithm = algorithm};
        if (own == members.end()) {
          expect(is_refused(multicast, settings));
          continue;
        }
        Inbox inbox;
        Group group(multicast, settings, inbox.events());
        expect(group.size() == static_cast<int>(members.size()));
        expect(group.rank() == own - members.begin());
        expect(group.ready().ok());
        const auto data = pattern(70'000, id);
        if (group.rank() == 0) expect(group.send(data.data(), data.size()).ok());
        expect(group.close(30'000).ok());
        expect(inbox.complete.size() == 1 && inbox.complete[0] == data);
        ++num_complete;
      }
  });
  CHECK(num_wrong == 0);
  CHECK(num_complete == 2 * (5 + 3 + 1 + 5 + 2));
}

TEST_CASE("what names no ranks of the job is refused, and failures name ranks") {
  std::atomic<int> num_wrong{0};
  std::mutex lock;
  std::map<int, std::string> texts;
  on_ranks([&](transport::Job& job, Multicast& multicast) {
    const auto expect = [&](bool holds) { num_wrong += holds ? 0 : 1; };
    expect(is_refused(multicast, {.id = 1, .ranks = {0, 1, 2, 3, 4, 5}}));
    expect(is_refused(multicast, {.id = 1, .ranks = {-1, job.rank()}}));
    expect(is_refused(multicast, {.id = 1, .ranks = {job.rank(), job.rank()}}));
    expect(is_refused(multicast, {.id = 1, .members = {"unix:/nowhere"}, .ranks = {job.rank()}}));
    auto group = std::make_unique<Group>(multicast, GroupSettings{.id = 2}, GroupEvents{});
    expect(group->ready().ok());
    expect(job.barrier().ok());
    if (job.rank() == 3) group.reset();  // leaves
    expect(job.barrier().ok());
    if (group == nullptr) return;
    const Status status = group->close(30'000);
    std::lock_guard guard(lock);
    texts[job.rank()] = status.text();
  });
  CHECK(num_wrong == 0);
  CHECK(texts.size() == kRanks - 1);
  for (const auto& [rank, text] : texts) {
    INFO("rank " << rank << ": " << text);
    CHECK(text.find("member 3 (rank 3") != std::string::npos);
  }
  Team team(kWays[0], 1);
  CHECK(is_refused(*team.members[0], {.id = 1, .ranks = {0}}));
  CHECK(is_refused(*team.members[0], {.id = 1}));
}
