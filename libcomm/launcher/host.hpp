#pragma once
// A host of the job, as the launcher sees it: the machine that runs a part of the ranks. Two kinds:
// LocalHost has them here, RemoteHost has an agent (weftrun again, there) do so. One thread; none
// of the calls blocks.
#include <poll.h>
#include <signal.h>
#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/crash/report.hpp"
#include "launcher/hang/watch.hpp"
#include "launcher/options.hpp"
#include "weft/status.hpp"

namespace weft::weftrun {

enum class Stream : int { out = 1, err = 2 };

// The source of rank 0's standard input.
enum class Input { none, inherited, given };

// The part of a job that one host has to start.
struct Assignment {
  std::vector<int> ranks;  // ascending
  int job_size = 1;
  std::vector<std::pair<std::string, std::string>> environment;  // on top of the host's own
  // The programs of the job, in the order of their ranks.
  std::vector<Program> programs;
  std::string folder;  // empty: as it is
  Binding binding;
  Input input = Input::none;  // if rank 0 is among them
  // The addresses of the rendezvous server; a remote host takes the first that answers.
  std::vector<std::string> rendezvous;
  std::string key;
  int visitor = 0;  // by which number the server knows a remote host
  int hang_report_ms = 0;
  bool core = false;  // ranks may leave core files
};

// Which of the programs a rank runs.
inline std::size_t program_of(const Assignment& assignment, int rank) {
  std::size_t index = 0;
  for (int left = rank; index + 1 < assignment.programs.size(); ++index) {
    left -= assignment.programs[index].num_ranks;
    if (left < 0) break;
  }
  return index;
}

// Notified of events on a host. Calls come from within Host::start and Host::serve.
class HostEvents {
 public:
  // The processors of a rank, in words, before it is started. Only if the binding asks for it.
  virtual void bound(int rank, std::string_view processors) = 0;
  virtual void started(int rank, pid_t pid) = 0;
  virtual void wrote(int rank, Stream stream, std::string_view bytes) = 0;
  virtual void closed(int rank, Stream stream) = 0;
  // A rank is about to end by a signal; its exit follows.
  virtual void crashed(const Crash& crash) = 0;
  virtual void exited(int rank, int wait_status) = 0;
  // The host is lost, and the state of its ranks unknown; no event follows.
  virtual void lost(int host, const Status& why) = 0;
  // The answers to Host::inspect(number): each rank that runs, then the end.
  virtual void inspected(int number, int rank, const Seen& seen) = 0;
  virtual void all_inspected(int number) = 0;
  // A word for the user.
  virtual void said(const std::string& text) = 0;
  // False: do not read more of the ranks' output now.
  virtual bool has_room() = 0;

 protected:
  ~HostEvents() = default;
};

class Host {
 public:
  virtual ~Host() = default;  // all that it started has ended after this
  // Starts the ranks, or the agent that will. not_found if there is no such program.
  virtual Status start(const Assignment& assignment) = 0;
  // Adds the descriptors to wait for before the next serve().
  virtual void add_polls(std::vector<pollfd>& polls) = 0;
  // Reads what is there and calls the events.
  virtual void serve() = 0;
  // To all ranks and everything they have started.
  virtual void signal(int number) = 0;
  // Asks what the ranks wait for: for events, now or later. with_places: and where in the program.
  virtual void inspect(int number, bool with_places) = 0;
  // True if all its ranks that run have waited for Assignment::hang_report_ms.
  virtual bool is_waiting() = 0;
  // The number of bytes that give_input takes now.
  virtual std::size_t input_room() const = 0;
  virtual void give_input(std::string_view bytes) = 0;
  virtual void end_input() = 0;
  // The reader of this stream is gone: ranks that go on writing are notified as by a pipe.
  virtual void stop_reading(Stream stream) = 0;
  // False while the host has not shown yet that it is there.
  virtual bool answered() const { return true; }
  // The launcher has waited long enough for it: it is lost.
  virtual void silent() {}
  // No more calls follow that ask for anything.
  virtual void finish() {}
};

}  // namespace weft::weftrun
