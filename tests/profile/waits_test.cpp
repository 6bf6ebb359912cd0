// Whom processes waited for, from ends of messages and sums of collectives that are given here, and
// the pictures of it.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tools/weft-profile/matrix.hpp"
#include "tools/weft-profile/pairing.hpp"
#include "tools/weft-profile/waiting.hpp"

using namespace weft::profile;
using Kind = End::Kind;

namespace {

constexpr std::uint64_t kComm = 77;

// The ends and calls of one process, which knows of two peers.
struct Process {
  // A call that waits for these messages, each: kind, peer, tag, start.
  void call(std::uint64_t begin_ns, std::uint64_t end_ns, std::vector<End> its_ends,
            bool is_counted = true) {
    for (End& end : its_ends) {
      end.call = static_cast<std::uint32_t>(calls.size());
      ends.push_back(end);
    }
    calls.push_back({begin_ns, end_ns, is_counted});
  }
  void far_end(std::size_t peer, std::uint64_t start_ns, int tag, bool is_send) {
    far[peer].push_back({kComm, start_ns, tag, is_send ? 1u : 0u});
  }
  Waits waits() const { return find_waits(ends, calls, far, least_ns); }
  Waited waited(int peer, Reason reason) const {
    const Waits all = waits();
    const auto at = all.by_peer.find({peer, reason});
    return at == all.by_peer.end() ? Waited{} : at->second;
  }

  std::vector<End> ends;
  std::vector<Call> calls;
  std::vector<std::vector<FarEnd>> far{2};
  std::vector<std::uint64_t> least_ns{0, 0};
};

End an_end(Kind kind, int peer, int tag, std::uint64_t start_ns) {
  return {kComm, start_ns, peer, tag, kNone, kind};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t num = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++num;
  return num;
}

}  // namespace

TEST_CASE("a receive waits for a send that begins later") {
  Process process;
  process.call(100, 900, {an_end(Kind::receive, 1, 5, 100)});
  process.call(1000, 1300, {an_end(Kind::receive, 1, 5, 1000)});  // its message was there
  process.far_end(1, 700, 5, true);
  process.far_end(1, 720, 5, true);
  const Waited waited = process.waited(1, Reason::late_sender);
  CHECK(waited.ns == 600);
  CHECK(waited.calls == 1);
  CHECK(waited.blocked_ns == 800 + 300);
  CHECK(process.waits().num_paired == 2);
  CHECK(process.waits().num_unpaired == 0);
}

TEST_CASE("a send waits for a receive that is posted later, unless it has returned by then") {
  Process process;
  process.call(100, 900, {an_end(Kind::send, 0, 5, 100)});
  process.call(1000, 1010, {an_end(Kind::send, 0, 5, 1000)});
  process.far_end(0, 850, 5, false);
  process.far_end(0, 5000, 5, false);
  const Waited waited = process.waited(0, Reason::late_receiver);
  CHECK(waited.ns == 750);
  CHECK(waited.calls == 1);
  CHECK(waited.blocked_ns == 800 + 10);
}

TEST_CASE("messages pair by order within their communicator and tag, whatever the order of tags") {
  Process process;
  process.call(100, 200, {an_end(Kind::receive, 1, 8, 100)});
  process.call(300, 400, {an_end(Kind::receive, 1, 7, 300)});
  process.call(500, 600, {an_end(Kind::receive, 1, 7, 500)});
  process.far_end(1, 50, 7, true);
  process.far_end(1, 150, 8, true);
  process.far_end(1, 590, 7, true);
  process.far_end(1, 595, 9, true);  // never received
  CHECK(process.waited(1, Reason::late_sender).ns == 50 + 90);
  CHECK(process.waits().num_paired == 3);
}

TEST_CASE("a receive that was posted first gets the first message, also when it ends last") {
  Process process;
  // Two receives whose requests one call completes; logged the other way round, as by two threads.
  process.call(400, 1000, {an_end(Kind::receive, 1, 5, 20), an_end(Kind::receive, 1, 5, 10)});
  process.far_end(1, 450, 5, true);
  process.far_end(1, 900, 5, true);
  const Waited waited = process.waited(1, Reason::late_sender);
  CHECK(waited.ns == 500);  // until the last of them
  CHECK(waited.calls == 1);
}

TEST_CASE("a call that waits for several waits for the last, and for receives before sends") {
  Process process;
  process.call(100, 1000,
               {an_end(Kind::receive, 0, 5, 90), an_end(Kind::receive, 1, 5, 91),
                an_end(Kind::send, 0, 6, 92)});
  process.far_end(0, 300, 5, true);
  process.far_end(1, 800, 5, true);
  process.far_end(0, 990, 6, false);
  CHECK(process.waited(1, Reason::late_sender).ns == 700);
  CHECK(process.waited(1, Reason::late_sender).blocked_ns == 900);
  CHECK(process.waited(0, Reason::late_sender).ns == 0);
  CHECK(process.waited(0, Reason::late_receiver).ns == 0);
}

TEST_CASE("where nobody is late the time of a call is shared out") {
  Process process;
  process.call(100, 700, {an_end(Kind::receive, 0, 5, 90), an_end(Kind::receive, 1, 5, 91)});
  process.far_end(0, 10, 5, true);
  process.far_end(1, 20, 5, true);
  CHECK(process.waited(0, Reason::late_sender).blocked_ns == 300);
  CHECK(process.waited(1, Reason::late_sender).blocked_ns == 300);
  CHECK(process.waited(1, Reason::late_sender).ns == 0);
}

TEST_CASE("a probe waits for the message that the next receive takes") {
  Process process;
  process.call(100, 900, {an_end(Kind::probe, 1, 5, 100)});
  process.call(910, 920, {an_end(Kind::receive, 1, 5, 910)});
  process.far_end(1, 800, 5, true);
  CHECK(process.waited(1, Reason::late_sender).ns == 700);
  CHECK(process.waits().num_paired == 1);
}

TEST_CASE("what is not known or not counted is no wait") {
  Process process;
  process.call(100, 900, {an_end(Kind::receive, 1, 5, 100)}, false);
  process.call(1000, 1900, {an_end(Kind::receive, 1, 5, 1000)});
  process.call(2000, 2900, {an_end(Kind::receive, 1, 5, 2000)});  // that the peer has not logged
  process.ends.push_back(an_end(Kind::receive, -3, 5, 0));        // cancelled
  process.far_end(1, 800, 5, true);
  process.far_end(1, 1300, 5, true);
  CHECK(process.waited(1, Reason::late_sender).ns == 300);
  CHECK(process.waits().num_unpaired == 1);
  // The error of the clocks may be as large as that.
  process.least_ns[1] = 301;
  CHECK(process.waited(1, Reason::late_sender).ns == 0);
  CHECK(find_waits({}, {}, {}, {}).by_peer.empty());
}

TEST_CASE("the longest waits are told, several ranks in one line") {
  Waiting waiting;
  waiting.messages = {{3, 0, "late sender", 1.2, 1.3, 400},
                      {4, 0, "late receiver", 0.5, 0.5, 1},
                      {5, 0, "late sender", 0.0001, 0.5, 1},
                      {5, 1, "late sender", 0.0001, 0.5, 1}};
  waiting.collectives.push_back(
      {"MPI_Barrier", "MPI_COMM_WORLD", {}, {{0, 10, 1.0}, {1, 10, 0.25}, {2, 10, 2.25}}});
  CHECK(waiting.collectives[0].last().rank == 1);
  // From a root, whoever else was quick.
  waiting.collectives.push_back(
      {"MPI_Bcast", "MPI_COMM_WORLD", 2, {{0, 10, 0.5}, {1, 10, 0.001}, {2, 10, 0.125}}});
  CHECK(waiting.collectives[1].last().rank == 2);
  const std::string text = wait_lines(waiting, 10);
  CHECK(text ==
        "waits:\n"
        "  2 ranks waited 2.750 s in sum for rank 1 (MPI_Barrier, MPI_COMM_WORLD, 20 calls), rank "
        "2 longest: 2.000 s\n"
        "  2 ranks waited 1.200 s in sum for rank 0 (late sender, 401 calls), rank 3 longest: "
        "1.200 s\n"
        "  rank 4 waited 0.500 s for rank 0 (late receiver, 1 call)\n"
        "  rank 0 waited 0.375 s for rank 2 (MPI_Bcast, MPI_COMM_WORLD, 10 calls)\n");
  CHECK(wait_lines(waiting, 1).starts_with("waits, the longest 1 of 4:\n"));
  CHECK(wait_lines({}, 10).empty());
}

TEST_CASE("pictures have a panel beside the other, and bounded numbers of squares") {
  for (const std::size_t size : {std::size_t{1}, std::size_t{64}, std::size_t{1000}}) {
    Matrix matrix;
    matrix.size = size;
    Waiting waiting;
    for (std::size_t rank = 0; rank < size; ++rank) {
      matrix.cells.push_back({rank, (rank + 1) % size, 10, 1000});
      waiting.messages.push_back({rank, (rank + 1) % size, "late sender", 0.5, 0.5, 3});
    }
    const Panel panels[] = {panel_of(matrix, "a<b"), panel_of(waiting)};
    const std::string svg = picture(panels, size);
    CHECK(count(svg, "<g ") == 2);
    CHECK(count(svg, "a&#60;b: ") == 1);
    CHECK(count(svg, "rank that waited") == 1);
    CHECK(count(svg, "<title>") >= 2 * std::min<std::size_t>(size, 125));
    CHECK(count(svg, "<title>") <= 2 * 2 * 128);
    if (size == 64) {
      CHECK(count(svg, ">5 for 6: 500.0 ms<") == 1);
      CHECK(count(svg, ">5 to 6: 10 messages, 1000 B<") == 1);
    }
    if (size == 1000) CHECK(count(svg, ">0-7 for 0-7: 3.5 s<") == 1);
  }
}
