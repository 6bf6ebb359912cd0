#pragma once
// Desk: where the ranks of this machine report that they crash (job/crash.hpp), and wait until what
// there is to say of them has been read from outside. One thread; nothing blocks.
#include <poll.h>
#include <sys/types.h>

#include <functional>
#include <list>
#include <string>
#include <vector>

#include "base/os/descriptor.hpp"
#include "job/crash.hpp"
#include "launcher/crash/report.hpp"
#include "launcher/crash/stack.hpp"
#include "launcher/places/aside.hpp"

namespace weft::weftrun {

class Desk {
 public:
  Desk();
  // For crash::kSocketVariable; empty: it could not be opened, and nothing will be heard.
  const std::string& name() const { return name_; }
  void add_polls(std::vector<pollfd>& polls) const;
  // Ranks that crash at once are returned at once, and only then go on to their end. is_of: whether
  // a process belongs to a rank.
  std::vector<Crash> serve(const std::function<bool(int rank, pid_t process)>& is_of);
  // Lets all of them go on.
  void stop() { visits_.clear(); }

 private:
  struct Visit {
    Visit(int fd, pid_t pid) : connection(fd), process(pid) {}
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    ~Visit();
    Descriptor connection;
    const pid_t process;
    bool is_heard = false, is_done = false;
    crash::Notice notice;
    Aside aside;
    Stack stack;
    std::string core;
  };

  void accept();
  bool hear(Visit& visit, const std::function<bool(int, pid_t)>& is_of) const;
  void look_at(Visit& visit);

  Descriptor listener_;
  std::string name_;
  std::list<Visit> visits_;
};

// True if `process` is `ancestor` or below it.
bool is_below(pid_t process, pid_t ancestor);

}  // namespace weft::weftrun
