// loss_probe CALL [HOSTS VICTIM]: one rank of a job in which the last rank, or VICTIM, kills itself
// in the middle of collectives. The others print "peer_lost" if their calls end with that within a
// second of the death, "late" if it takes longer, or to stderr what went wrong. HOSTS has a letter
// for each rank: those of one letter share a host, and nothing is "late". Started by loss_test and
// hosts_loss_test.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "base/wait.hpp"
#include "coll/coll.hpp"
#include "job/boards.hpp"
#include "placed_board.hpp"

using namespace weft;

namespace {

void add(const void* in, void* inout, std::size_t count, void*) {
  for (std::size_t i = 0; i < count; ++i)
    static_cast<int*>(inout)[i] += static_cast<const int*>(in)[i];
}

Status call(coll::Team& team, const char* name, std::vector<int>& a, std::vector<int>& b) {
  const std::size_t bytes = 1000 * sizeof(int);
  const coll::Reduction op{add, nullptr, sizeof(int), true};
  if (std::strcmp(name, "barrier") == 0) return barrier(team);
  // The root dies: the others wait for its data.
  if (std::strcmp(name, "bcast") == 0) return bcast(team, a.data(), bytes, team.size() - 1);
  if (std::strcmp(name, "bcast_0") == 0) return bcast(team, a.data(), bytes, 0);
  if (std::strcmp(name, "allreduce") == 0) return allreduce(team, a.data(), b.data(), 1000, op);
  if (std::strcmp(name, "reduce") == 0) return reduce(team, a.data(), b.data(), 1000, op, 0);
  if (std::strcmp(name, "reduce_scatter") == 0) {
    const std::vector<std::size_t> counts(a.size() / 1000, 1000);
    return reduce_scatter(team, a.data(), b.data(), counts.data(), op);
  }
  if (std::strcmp(name, "gather") == 0) return gather(team, a.data(), b.data(), bytes, 0);
  if (std::strcmp(name, "scatter") == 0) return scatter(team, b.data(), a.data(), bytes, 0);
  if (std::strcmp(name, "allgather") == 0) return allgather(team, a.data(), b.data(), bytes);
  if (std::strcmp(name, "scan") == 0) return scan(team, a.data(), b.data(), 1000, op);
  return alltoall(team, a.data(), b.data(), bytes);
}

int fail(const char* what) {
  fprintf(stderr, "%s\n", what);
  return 1;
}

// Those that live meet: who ends at once takes along what it has told others.
void meet(tagged::Engine& engine, int victim) {
  const int first = victim == 0 ? 1 : 0;
  const auto message = [&](bool sends, int peer, int tag) {
    std::byte byte{};
    tagged::Request request;
    if (sends)
      engine.isend(request, peer, 9, tag, &byte, 1, true);
    else
      engine.irecv(request, peer, 9, tag, &byte, 1);
    if (engine.wait(request) != Code::ok) fputs("those that live cannot meet\n", stderr);
  };
  for (const int tag : {1, 2})
    for (int peer = 0; peer < engine.size(); ++peer)
      if (peer != victim && peer != first && (engine.rank() == first || engine.rank() == peer))
        message((engine.rank() == first) == (tag == 2), engine.rank() == first ? peer : first, tag);
}

Status open(const Settings& settings, const char* hosts, std::unique_ptr<Members>& job) {
  if (hosts == nullptr) return Members::open(settings, job);
  RendezvousParameters place;
  if (Status read = read_rendezvous_parameters(place); !read) return read;
  std::unique_ptr<Board> board;
  if (Status made = make_rendezvous_board(place, 60'000, board); !made) return made;
  return Members::open(
      settings, std::make_unique<test::PlacedBoard>(std::move(board), hosts[place.rank] - 'a'),
      job);
}

int run(const char* name, const char* hosts, int victim) {
  Settings settings;
  std::unique_ptr<Members> job;
  std::unique_ptr<tagged::Engine> engine;
  if (!Settings::from_environment(environ, settings) || !open(settings, hosts, job) ||
      !tagged::Engine::create(*job, engine))
    return fail("cannot join the job");
  std::vector<int> members(static_cast<std::size_t>(job->size()));
  std::iota(members.begin(), members.end(), 0);
  coll::Team team(*engine, members, 5);
  if (victim < 0) victim = team.size() - 1;
  std::vector<int> a(1000 * members.size(), 1), b(a.size());
  std::uint64_t begin = now_ns();
  for (int i = 0;; ++i) {
    if (i == 20 && team.rank() == victim) raise(SIGKILL);
    const Status status = call(team, name, a, b);
    if (status == Code::peer_lost) break;
    // Who only sends is not told by the first calls.
    if (!status || i > (hosts != nullptr ? 1'000'000 : 100))
      return fail(status ? "no death is told" : status.text().c_str());
    begin = now_ns();
  }
  const bool late = hosts == nullptr && now_ns() - begin > 1'000'000'000;
  // Later calls fail at once.
  if (!(barrier(team) == Code::peer_lost)) return fail("a later call does not fail");
  if (hosts != nullptr) meet(*engine, victim);
  puts(late ? "late" : "peer_lost");
  fflush(stdout);
  _exit(0);  // without a goodbye: the job is broken
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4) return run(argv[1], argv[2], std::atoi(argv[3]));
  return argc == 2 ? run(argv[1], nullptr, -1) : 1;
}
