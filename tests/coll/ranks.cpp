#include "ranks.hpp"

#include <mutex>
#include <numeric>
#include <thread>

namespace weft::test {

std::vector<std::string> run_ranks(
    int n, const std::vector<NameValue>& values,
    const std::function<std::vector<std::string>(coll::Team&)>& body) {
  auto boards = make_thread_boards(n);
  std::vector<std::string> errors;
  std::mutex mutex;
  const auto complain = [&](int rank, const std::string& what) {
    const std::lock_guard guard(mutex);
    errors.push_back("rank " + std::to_string(rank) + ": " + what);
  };
  const auto run = [&](int rank) {
    Settings settings;
    for (const NameValue& value : values)
      if (Status set = settings.set(value.name, value.value); !set)
        return complain(rank, set.text());
    std::unique_ptr<Job> job;
    if (Status opened = Job::open(settings, std::move(boards[static_cast<std::size_t>(rank)]), job);
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
    }
    if (Status closed = engine->close(); !closed) complain(rank, "close: " + closed.text());
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) threads.emplace_back(run, rank);
  for (auto& thread : threads) thread.join();
  return errors;
}

}  // namespace weft::test
