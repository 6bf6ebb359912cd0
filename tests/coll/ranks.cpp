#include "ranks.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <thread>

#include "placed_board.hpp"

namespace weft::test {
namespace {

std::vector<std::string> run(std::vector<std::unique_ptr<Board>> boards,
                             const std::vector<NameValue>& values,
                             const std::function<std::vector<std::string>(coll::Team&)>& body) {
  const int n = static_cast<int>(boards.size());
  std::vector<std::string> errors;
  std::mutex mutex;
  std::atomic<int> num_through = 0;  // the last barrier
  const auto complain = [&](int rank, const std::string& what) {
    const std::lock_guard guard(mutex);
    errors.push_back("rank " + std::to_string(rank) + ": " + what);
  };
  const auto run_rank = [&](int rank) {
    Settings settings;
    for (const NameValue& value : values)
      if (Status set = settings.set(value.name, value.value); !set)
        return complain(rank, set.text());
    std::unique_ptr<Members> job;
    if (Status opened =
            Members::open(settings, std::move(boards[static_cast<std::size_t>(rank)]), job);
        !opened)
      return complain(rank, opened.text());
    std::unique_ptr<tagged::Engine> engine;
    if (Status created = tagged::Engine::create(*job, engine); !created)
      return complain(rank, created.text());
    {
      std::vector<int> members(static_cast<std::size_t>(n));
      std::iota(members.begin(), members.end(), 0);
      coll::Team team(*engine, members, 7);
      for (const std::string& what : body(team)) complain(rank, what);
      if (Status met = barrier(team); !met) complain(rank, "last barrier: " + met.text());
      // Who leaves at once may be taken for lost by those whose barrier is not over yet.
      num_through.fetch_add(1);
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (num_through.load() < n && std::chrono::steady_clock::now() < limit) {
        engine->progress();
        std::this_thread::yield();
      }
    }
    if (Status closed = engine->close(); !closed) complain(rank, "close: " + closed.text());
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) threads.emplace_back(run_rank, rank);
  for (auto& thread : threads) thread.join();
  return errors;
}

}  // namespace

std::vector<std::string> run_ranks(
    int n, const std::vector<NameValue>& values,
    const std::function<std::vector<std::string>(coll::Team&)>& body) {
  return run(make_thread_boards(n), values, body);
}

std::vector<std::string> run_ranks_on(
    const std::vector<int>& hosts, const std::vector<NameValue>& values,
    const std::function<std::vector<std::string>(coll::Team&)>& body) {
  auto boards = make_thread_boards(static_cast<int>(hosts.size()));
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    boards[rank] = std::make_unique<PlacedBoard>(std::move(boards[rank]), hosts[rank]);
  return run(std::move(boards), values, body);
}

}  // namespace weft::test
