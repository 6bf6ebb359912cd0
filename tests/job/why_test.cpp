#include "launcher/hang/why.hpp"

#include <catch2/catch.hpp>

using namespace weft;
using namespace weft::weftrun;
using blocked::Waits;

namespace {

constexpr std::uint32_t kWorld = 8;

// A rank that waits in this call of MPI_COMM_WORLD, which has `size` ranks.
RankView in(int rank, int size, std::string_view call, Waits waits) {
  RankView view;
  view.rank = rank;
  view.state = RankView::State::blocked;
  view.found.waited_ns = 2'000'000'000;
  auto& record = view.found.record;
  record.number = 1;
  record.rank = rank;
  record.context = kWorld;
  record.comm_size = static_cast<std::uint32_t>(size);
  record.waits = waits;
  blocked::set_text(record.call, call);
  blocked::set_text(record.comm, "MPI_COMM_WORLD");
  record.members[0] = (std::uint64_t{1} << size) - 1;
  return view;
}

RankView receives(int rank, int size, int from, int tag) {
  RankView view = in(rank, size, "MPI_Recv", Waits::all);
  auto& record = view.found.record;
  record.num_awaited = 1;
  record.awaited[0].peer = from;
  record.awaited[0].tag = tag;
  record.awaited[0].context = kWorld;
  record.awaited[0].bytes = 8;
  return view;
}

RankView running(int rank) {
  RankView view;
  view.rank = rank;
  view.state = RankView::State::running;
  return view;
}

RankView collective(int rank, int size, std::string_view call, int root = -1) {
  RankView view = in(rank, size, call, Waits::collective);
  view.found.record.root = root;
  return view;
}

}  // namespace

TEST_CASE("a cycle of receives stands still, and is named") {
  const std::vector<RankView> ranks = {receives(0, 3, 1, 7), receives(1, 3, 2, 7),
                                       receives(2, 3, 0, 7)};
  CHECK(stands_still(ranks));
  CHECK(reason_of(ranks) ==
        "3 ranks wait for each other: rank 0 in MPI_Recv from rank 1, rank 1 in MPI_Recv from rank "
        "2, rank 2 in MPI_Recv from rank 0");
  const auto lines = explain(ranks);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] ==
        "  ranks 0-2: MPI_Recv from ranks 0-2, tag 7, up to 8 bytes, MPI_COMM_WORLD, since 2.0 s");
}

TEST_CASE("nothing is said while one may go on") {
  std::vector<RankView> ranks = {receives(0, 3, 1, 7), receives(1, 3, 2, 7), running(2)};
  CHECK(!stands_still(ranks));
  CHECK(!reason_of(ranks));
  ranks[2] = receives(2, 3, 0, 7);
  SECTION("its data are on their way") { ranks[2].found.record.awaited[0].is_moving = 1; }
  SECTION("another thread may send") { ranks[2].found.record.is_threaded = 1; }
  SECTION("another job may send") { ranks[2].found.record.is_outside = 1; }
  SECTION("it waits in a way that is not told") { ranks[2].found.record.waits = Waits::other; }
  SECTION("it is stopped") { ranks[2].is_stopped = true; }
  SECTION("it is not seen") { ranks[2].state = RankView::State::unknown; }
  SECTION("it waits for either of two") {
    ranks[1] = running(1);
    ranks[2].found.record.waits = Waits::any;
    ranks[2].found.record.num_awaited = 2;
    ranks[2].found.record.awaited[1] = ranks[2].found.record.awaited[0];
    ranks[2].found.record.awaited[1].peer = 1;
  }
  CHECK(!stands_still(ranks));
  CHECK(!reason_of(ranks));
}

TEST_CASE("ranks in one collective go on, those in different ones do not") {
  std::vector<RankView> ranks = {collective(0, 2, "MPI_Barrier"), collective(1, 2, "MPI_Barrier")};
  ranks[0].found.waited_ns = 1'000'000'000;
  CHECK(!stands_still(ranks));
  ranks[1] = collective(1, 2, "MPI_Bcast", 0);
  CHECK(stands_still(ranks));
  CHECK(reason_of(ranks) ==
        "the ranks of MPI_COMM_WORLD are in different collectives: rank 0 in MPI_Barrier and rank "
        "1 in MPI_Bcast with root 0");
  ranks[0] = collective(0, 2, "MPI_Bcast", 1);
  CHECK(reason_of(ranks) ==
        "the ranks of MPI_COMM_WORLD are in one collective with different roots: rank 1 in "
        "MPI_Bcast with root 0 and rank 0 in MPI_Bcast with root 1");
}

TEST_CASE("of a collective nothing is said while a member is not seen") {
  CHECK(!reason_of({collective(0, 3, "MPI_Barrier"), collective(1, 3, "MPI_Bcast", 0)}));
  CHECK(!reason_of({collective(0, 1 + 1, "MPI_Allreduce")}));
}

TEST_CASE("a rank that is ahead in another collective is in no wrong one") {
  std::vector<RankView> ranks = {collective(0, 3, "MPI_Barrier"),
                                 collective(1, 3, "MPI_Gather", 0)};
  SECTION("one member computes") { ranks.push_back(running(2)); }
  SECTION("one member is in no collective") { ranks.push_back(receives(2, 3, blocked::kAny, 1)); }
  const auto reason = reason_of(ranks);
  CHECK((!reason || reason->find("different collectives") == std::string::npos));
}

TEST_CASE("a collective goes on while the data of one of its members move") {
  std::vector<RankView> ranks;
  for (int rank = 0; rank < 3; ++rank) ranks.push_back(collective(rank, 3, "MPI_Alltoall"));
  CHECK(stands_still(ranks));
  ranks[1].found.record.is_outside = 1;
  CHECK(!stands_still(ranks));
  CHECK(!reason_of(ranks));
}

TEST_CASE("a way that leads into a cycle is no part of it") {
  const std::vector<RankView> ranks = {receives(0, 5, 3, 7), receives(1, 5, 4, 7),
                                       receives(2, 5, 0, 7), receives(3, 5, 4, 7),
                                       receives(4, 5, 3, 7)};
  CHECK(reason_of(ranks) ==
        "2 ranks wait for each other: rank 3 in MPI_Recv from rank 4, rank 4 in MPI_Recv from rank "
        "3");
}

TEST_CASE("a name cannot speak to the terminal") {
  std::vector<RankView> ranks = {receives(0, 1, 0, 7)};
  blocked::set_text(ranks[0].found.record.comm, "a\x1b[2J\nweftrun: b");
  CHECK(explain(ranks)[0].find("communicator \"a?[2J?weftrun: b\"") != std::string::npos);
}

TEST_CASE("a rank in a collective is waited for by one that is not") {
  const std::vector<RankView> ranks = {receives(0, 3, 1, 7), collective(1, 3, "MPI_Barrier"),
                                       collective(2, 3, "MPI_Barrier")};
  CHECK(stands_still(ranks));
  CHECK(reason_of(ranks) ==
        "2 ranks wait for each other: rank 0 in MPI_Recv from rank 1, rank 1 in MPI_Barrier on "
        "MPI_COMM_WORLD for rank 0");
}

TEST_CASE("the nearest message that nobody receives is named") {
  std::vector<RankView> ranks = {receives(0, 2, 1, 7), receives(1, 2, 0, 7)};
  auto& record = ranks[1].found.record;
  record.num_unmatched = 3;
  record.unmatched[0].peer = 0;
  record.unmatched[0].tag = 7;
  record.unmatched[0].context = kWorld + 2;
  for (const std::size_t i : {1, 2}) {
    record.unmatched[i].peer = 0;
    record.unmatched[i].tag = 8;
    record.unmatched[i].context = kWorld;
  }
  CHECK(reason_of(ranks) ==
        "rank 1 waits for tag 7 from rank 0, but the messages that rank 0 has sent it have tag 8");
  record.num_unmatched = 1;
  CHECK(reason_of(ranks) ==
        "rank 1 waits for tag 7 on a communicator without a name from rank 0, but the message that "
        "rank 0 has sent it has tag 7 on a communicator without a name");
}

TEST_CASE("a wait for a rank that is gone has a reason, but for one that has ended it ends") {
  std::vector<RankView> ranks = {receives(0, 2, 1, 7), running(1)};
  ranks[1].state = RankView::State::ended;
  CHECK(!stands_still(ranks));
  CHECK(reason_of(ranks) == "rank 0 waits for rank 1, in MPI_Recv from rank 1, which has ended");
  ranks[1].state = RankView::State::left;
  CHECK(stands_still(ranks));
  CHECK(reason_of(ranks) ==
        "rank 0 waits for rank 1, in MPI_Recv from rank 1, which has called MPI_Finalize");
  ranks[0] = collective(0, 2, "MPI_Finalize");
  CHECK(reason_of(ranks) ==
        "rank 0 is in MPI_Finalize, which rank 1 has left: they have made different collective "
        "calls before");
}

TEST_CASE("a collective that all are in goes on, unless it takes long") {
  std::vector<RankView> ranks = {collective(0, 2, "MPI_Barrier"), collective(1, 2, "MPI_Barrier")};
  CHECK(stands_still(ranks));
  CHECK(reason_of(ranks) ==
        "all ranks of MPI_COMM_WORLD are in MPI_Barrier, which does not end: they have made "
        "different collective calls on it before");
  ranks[1].found.waited_ns = 1'900'000'000;
  CHECK(!stands_still(ranks));
  CHECK(!reason_of(ranks));
}

TEST_CASE("receives from any rank stand still when nobody is left to send") {
  const std::vector<RankView> ranks = {receives(0, 2, blocked::kAny, 7),
                                       receives(1, 2, blocked::kAny, blocked::kAny)};
  CHECK(stands_still(ranks));
  CHECK(reason_of(ranks) ==
        "rank 0 waits in MPI_Recv for a message of tag 7 from any rank, and all that could send "
        "one wait themselves or have ended");
}

TEST_CASE("many groups are cut short") {
  std::vector<RankView> ranks;
  for (int rank = 0; rank < 40; ++rank) ranks.push_back(receives(rank, 40, (rank + 1) % 40, rank));
  const auto lines = explain(ranks);
  CHECK(lines.size() == 22);
  CHECK(lines[20] == "  and 20 more groups of ranks");
}

TEST_CASE("a rank that waits for one that does not exist is no cycle") {
  const std::vector<RankView> ranks = {receives(0, 1, 5, 7)};
  CHECK(!reason_of(ranks));
}
