// A rank for the tests of job and weftrun: joins, exchanges keys, then does what it is told.
//   job_probe ACTION [ARGUMENT]
// Every action first joins the job and prints "rank R of S by LAUNCHER"; the tests read that.
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "job/members.hpp"

extern char** environ;

namespace {

using namespace weft;

int complain(const Status& status) {
  fprintf(stderr, "job_probe: %s: %s\n", std::string(code_name(status.code())).c_str(),
          status.text().c_str());
  return 3;
}

// Several rounds of values of several sizes, each checked against what its owner must have put.
std::string value_of(int rank, int round) {
  return std::string(static_cast<std::size_t>(round * 1000 + rank), static_cast<char>('a' + rank));
}

Status exchange(Members& job) {
  for (int round = 0; round < 4; ++round) {
    const std::string key = fmt::format("round.{}", round);
    Status status = job.board().put(key, value_of(job.rank(), round));
    if (status) status = job.board().fence(20000);
    if (!status) return status;
    for (int i = 0; i < job.size(); ++i) {
      std::string value;
      status = job.board().get(i, key, value);
      if (!status) return status;
      if (value != value_of(i, round))
        return {Code::corrupt, fmt::format("rank {} sees a wrong value of rank {}", job.rank(), i)};
    }
  }
  std::string value;
  if (job.board().get(0, "never.put", value) != Code::not_found)
    return {Code::internal, "a key that nobody put was found"};
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view action = argc > 1 ? argv[1] : "exchange";
  const int argument = argc > 2 ? atoi(argv[2]) : 0;
  setvbuf(stdout, nullptr, _IOLBF, 0);

  Settings settings;
  std::unique_ptr<Members> job;
  Status status = Settings::from_environment(environ, settings);
  if (status) status = Members::open(settings, job);
  if (!status) return complain(status);
  printf("rank %d of %d by %s\n", job->rank(), job->size(),
         std::string(job->board().launcher()).c_str());
  if (job->member(job->rank()).pid != getpid()) return complain({Code::internal, "pid"});
  const bool last = job->rank() == job->size() - 1;
  if (action == "program") {  // of those of the job, and what is set for it
    const char* variable = getenv("JOB_PROBE");
    printf("rank %d runs program %d with %s\n", job->rank(), job->board().app_number(),
           variable != nullptr ? variable : "nothing");
  } else if (action == "exchange") {
    status = exchange(*job);
  } else if (action == "sharing") {  // who shares memory with whom
    std::string ranks;
    for (int rank : job->local_ranks()) ranks += fmt::format(" {}", rank);
    printf("%d:%s, %d on this machine\n", job->rank(), ranks.c_str(), job->num_on_host());
  } else if (action == "abort_itself" && last) {
    abort();
  } else if (action == "exit" && last) {  // dies early, with this code
    _exit(argument);
  } else if (action == "signal" && last) {  // is killed by this signal
    raise(argument);
  } else if (action == "abort" && last) {
    job->board().abort(argument, "as it was told");
  } else if (action == "lost") {  // rank 0 gives up because of the last, which is seen to die later
    if (job->rank() == 0) {
      job->board().abort(58, {});
      _exit(58);
    }
    if (last && job->board().fence(20000).code() == Code::peer_lost) raise(SIGKILL);
    pause();
  } else if (action == "absent" && last) {  // is alive, but does not come to the fence
    pause();
  } else if (action == "stubborn") {  // cannot be asked to end
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    status = job->board().fence(20000);  // all are stubborn now
    if (!status) return complain(status);
    if (last) raise(SIGKILL);
    for (;;) pause();
  } else if (action == "lines") {  // long lines, each written in three pieces
    for (int i = 0; i < argument; ++i) {
      const std::string line = fmt::format("{}:{}:{}\n", job->rank(), i,
                                           std::string(static_cast<std::size_t>(i * 37 % 3000),
                                                       static_cast<char>('a' + job->rank())));
      const std::size_t third = line.size() / 3;
      for (std::size_t at : {std::size_t{0}, third, 2 * third})
        if (write(1, line.data() + at, at == 2 * third ? line.size() - at : third) < 0) return 4;
    }
  } else if (action == "outlive") {  // the last one dies, and the others go on for a time
    status = job->board().fence(20000);
    if (!status) return complain(status);
    if (last) raise(SIGKILL);
    sleep(static_cast<unsigned>(argument));
    printf("rank %d goes on\n", job->rank());
    status = job->board().close();
    return status ? 0 : complain(status);
  } else if (action == "stay") {
    for (;;) pause();
  }
  if (action != "exchange") status = job->board().fence(action == "absent" ? argument : 20000);
  if (!status) return complain(status);
  status = job->board().close();
  if (!status) return complain(status);
  return action == "exit-late" && last ? argument : 0;  // fails after goodbye
}
