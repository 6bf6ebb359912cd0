// One rank of a job in which the last rank kills itself in the middle of collectives. The others
// print "peer_lost" if their calls end with that within a second of the death, "late" if it takes
// longer, or to stderr what went wrong. Started by loss_test.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <numeric>

#include "base/wait.hpp"
#include "coll/coll.hpp"

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
  if (std::strcmp(name, "allreduce") == 0) return allreduce(team, a.data(), b.data(), 1000, op);
  return alltoall(team, a.data(), b.data(), bytes);
}

int fail(const char* what) {
  fprintf(stderr, "%s\n", what);
  return 1;
}

int run(const char* name) {
  Settings settings;
  std::unique_ptr<Job> job;
  std::unique_ptr<tagged::Engine> engine;
  if (!Settings::from_environment(environ, settings) || !Job::open(settings, job) ||
      !tagged::Engine::create(*job, engine))
    return fail("cannot join the job");
  std::vector<int> members(static_cast<std::size_t>(job->size()));
  std::iota(members.begin(), members.end(), 0);
  coll::Team team(*engine, members, 5);
  std::vector<int> a(1000 * members.size(), 1), b(a.size());
  std::uint64_t begin = now_ns();
  for (int i = 0;; ++i) {
    if (i == 20 && team.rank() == team.size() - 1) raise(SIGKILL);
    const Status status = call(team, name, a, b);
    if (status == Code::peer_lost) break;
    if (!status || i > 100) return fail(status ? "no death is told" : status.text().c_str());
    begin = now_ns();
  }
  const bool late = now_ns() - begin > 1'000'000'000;
  // Later calls fail at once.
  if (!(barrier(team) == Code::peer_lost)) return fail("a later call does not fail");
  puts(late ? "late" : "peer_lost");
  fflush(stdout);
  _exit(0);  // without a goodbye: the job is broken
}

}  // namespace

int main(int argc, char** argv) { return argc == 2 ? run(argv[1]) : 1; }
