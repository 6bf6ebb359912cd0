// Every kind of board that can run inside one process keeps the same promises.
#include <fmt/core.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <thread>

#include "base/os/topology.hpp"
#include "job/boards.hpp"

using namespace weft;

namespace {

constexpr int kTimeoutMs = 20000;

// A port that was free a moment ago.
int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0);
  REQUIRE(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  close(fd);
  return ntohs(address.sin_port);
}

// Runs body(rank, board) in a thread per rank, over boards of the given kind.
void run_ranks(const std::string& kind, int size,
               const std::function<void(int, std::unique_ptr<Board>)>& body) {
  std::vector<std::unique_ptr<Board>> boards(static_cast<std::size_t>(size));
  if (kind == "threads") boards = make_thread_boards(size);
  if (kind == "alone") boards[0] = make_alone_board();
  const std::string address = fmt::format("127.0.0.1:{}", free_port());
  std::vector<std::thread> threads;
  for (int rank = size - 1; rank >= 0; --rank)
    threads.emplace_back([&, rank] {
      auto& board = boards[static_cast<std::size_t>(rank)];
      if (kind == "rendezvous") {
        RendezvousParameters place;
        place.rank = rank;
        place.size = size;
        place.address = address;
        place.key = "secret";
        if (!make_rendezvous_board(place, kTimeoutMs, board)) return;
      }
      body(rank, std::move(board));
    });
  for (std::thread& thread : threads) thread.join();
}

std::string value_of(int rank, int round) { return fmt::format("{}/{}", rank, round); }

// The first promise broken, or "".
std::string exchange(Board& board, int num_rounds) {
  for (int round = 0; round < num_rounds; ++round) {
    const std::string key = fmt::format("key{}", round);
    if (!board.put(key, "overwritten") || !board.put(key, value_of(board.rank(), round)))
      return "put";
    if (Status status = board.fence(kTimeoutMs); !status) return "fence: " + status.text();
    for (int i = 0; i < board.size(); ++i) {
      std::string value;
      if (Status status = board.get(i, key, value); !status) return "get: " + status.text();
      if (value != value_of(i, round)) return "value: " + value;
    }
  }
  std::string value;
  const Status status = board.get(0, "nothing", value);
  if (status != Code::not_found || status.text().find("rank 0") == std::string::npos ||
      status.text().find("nothing") == std::string::npos)
    return "a missing key: " + status.text();
  if (board.get(board.size(), "key0", value) != Code::not_found) return "a rank that is none";
  return board.close() ? "" : "close";
}

}  // namespace

TEST_CASE("values put before a fence are read after it") {
  const auto [kind, size] = GENERATE(table<std::string, int>(
      {{"alone", 1}, {"threads", 1}, {"threads", 5}, {"rendezvous", 1}, {"rendezvous", 5}}));
  INFO(kind << " " << size);
  std::vector<std::string> results(static_cast<std::size_t>(size), "no board");
  run_ranks(kind, size, [&](int rank, std::unique_ptr<Board> board) {
    auto& result = results[static_cast<std::size_t>(rank)];
    if (board->rank() != rank || board->size() != static_cast<int>(results.size()))
      result = "rank or size";
    else if (board->launcher() != kind)
      result = "launcher";
    else
      result = exchange(*board, 5);
  });
  CHECK(results == std::vector<std::string>(static_cast<std::size_t>(size)));
}

TEST_CASE("a fence that one rank does not reach times out and names it") {
  const std::string kind = GENERATE("threads", "rendezvous");
  INFO(kind);
  std::vector<Status> results(3, Code::internal);
  const auto gate = std::make_shared<std::atomic<int>>(0);
  run_ranks(kind, 3, [&](int rank, std::unique_ptr<Board> board) {
    const bool together = board->fence(kTimeoutMs).ok();
    if (rank != 1) {
      if (together) results[static_cast<std::size_t>(rank)] = board->fence(200);
      ++*gate;
      gate->notify_all();
    } else {
      // Stays in the job until the others have given up.
      for (int seen; (seen = gate->load()) < 2;) gate->wait(seen);
    }
    (void)board->close();
  });
  for (int rank : {0, 2}) {
    const Status& status = results[static_cast<std::size_t>(rank)];
    INFO(status.text());
    CHECK(status == Code::timed_out);
    CHECK(status.text().find("rank 1") != std::string::npos);
    CHECK(status.text().find("200 ms") != std::string::npos);
  }
}

TEST_CASE("a rank that has left or died ends the others' fence at once and by name") {
  const std::string kind = GENERATE("threads", "rendezvous");
  const bool says_goodbye = GENERATE(true, false);
  INFO(kind << " " << says_goodbye);
  std::vector<Status> results(3, Code::internal);
  const auto start = std::chrono::steady_clock::now();
  run_ranks(kind, 3, [&](int rank, std::unique_ptr<Board> board) {
    // All are there: a rank 0 that gives up takes its server with it.
    if (!board->fence(kTimeoutMs)) return;
    if (rank == 2) {
      if (says_goodbye) (void)board->close();
      board.reset();
      return;
    }
    results[static_cast<std::size_t>(rank)] = board->fence(kTimeoutMs);
    (void)board->close();
  });
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::milliseconds(kTimeoutMs / 2));
  for (int rank : {0, 1}) {
    const Status& status = results[static_cast<std::size_t>(rank)];
    INFO(status.text());
    CHECK(status == Code::peer_lost);
    // The first to fail leaves, too, and may be what the second hears of.
    CHECK(status.text().find("rank") == 0);
  }
}

TEST_CASE("a job over any board knows its members") {
  const std::string kind = GENERATE("threads", "rendezvous");
  INFO(kind);
  constexpr int kSize = 4;
  std::vector<std::string> results(kSize, "no job");
  run_ranks(kind, kSize, [&](int rank, std::unique_ptr<Board> board) {
    auto& result = results[static_cast<std::size_t>(rank)];
    std::unique_ptr<Members> job;
    if (Status status = Members::open(Settings(), std::move(board), job); !status) {
      result = status.text();
      return;
    }
    result.clear();
    for (int i = 0; i < kSize; ++i) {
      if (job->member(i).pid != getpid()) result = "pid";
      if (job->member(i).local_rank != i) result = "local rank";
      if (!job->same_host(i, rank)) result = "host";
    }
    if (job->local_ranks() != std::vector<int>{0, 1, 2, 3}) result = "local ranks";
    if (job->describe(3) != fmt::format("rank 3 (pid {} on {})", getpid(), job->member(0).host))
      result = "description: " + job->describe(3);
    if (!job->board().close()) result = "close";
  });
  CHECK(results == std::vector<std::string>(kSize));
}

TEST_CASE("a job refuses a member that does not describe itself as agreed") {
  auto boards = make_thread_boards(2);
  const std::string text = GENERATE("", "12", "12\nhost", "0\nhost\nid", "-3\nhost\nid",
                                    "x\nhost\nid", "12x\nhost\nid", "12\n\nid", "12\nhost\n");
  std::thread liar([&] {
    (void)boards[1]->put("job.member", text);
    (void)boards[1]->fence(kTimeoutMs);
  });
  std::unique_ptr<Members> job;
  const Status status = Members::open(Settings(), std::move(boards[0]), job);
  liar.join();
  CHECK(status == Code::corrupt);
  CHECK(status.text().find("rank 1") != std::string::npos);
}

TEST_CASE("a job refuses a member on processors that cannot be") {
  std::unique_ptr<Members> job;
  std::string member;
  REQUIRE(Members::open(Settings(), make_alone_board(), job).ok());
  REQUIRE(job->board().get(0, "job.member", member).ok());
  const std::string text = GENERATE("", "-1", "3 ", "0x3", "F");
  auto boards = make_thread_boards(2);
  std::thread liar([&] {
    (void)boards[1]->put("job.member", member);
    (void)boards[1]->put("job.cpus", text);
    (void)boards[1]->fence(kTimeoutMs);
  });
  const Status status = Members::open(Settings(), std::move(boards[0]), job);
  liar.join();
  CHECK(status == Code::corrupt);
  CHECK(status.text().find("rank 1") != std::string::npos);
}

TEST_CASE("a job counts the processors that its processes may use together") {
  const std::vector<int> cpus = usable_cpus();
  const std::string kind = GENERATE("threads", "rendezvous");
  // How many of the processors each of the ranks is bound to, from where on.
  struct Bound {
    std::size_t first, count;
  };
  const std::size_t all = cpus.size();
  const auto [a, b, expected] = GENERATE_COPY(
      table<Bound, Bound, std::size_t>({{{0, 1}, {0, 1}, 1},
                                        {{0, 1}, {all - 1, 1}, std::min<std::size_t>(all, 2)},
                                        {{0, all}, {0, 1}, all}}));
  INFO(kind);
  std::atomic<int> num_right{0};
  run_ranks(kind, 2, [&](int rank, std::unique_ptr<Board> board) {
    const Bound& bound = rank == 0 ? a : b;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (std::size_t i = 0; i < bound.count; ++i)
      CPU_SET(static_cast<std::size_t>(cpus[bound.first + i]), &set);
    std::unique_ptr<Members> job;
    if (sched_setaffinity(0, sizeof set, &set) != 0 ||
        !Members::open(Settings(), std::move(board), job))
      return;
    num_right += job->num_on_host() == 2 && job->num_cpus_on_host() == static_cast<int>(expected);
    (void)job->board().close();
  });
  CHECK(num_right == 2);
}

TEST_CASE("many names are cut short") {
  CHECK(name_ranks({3}) == "rank 3");
  CHECK(name_ranks({3, 5}) == "ranks 3 and 5");
  CHECK(name_ranks({3, 5, 7}) == "ranks 3, 5 and 7");
  CHECK(name_ranks({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) == "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}
