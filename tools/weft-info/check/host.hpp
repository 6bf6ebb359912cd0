#pragma once
// Host: the member on one host, as `weft-info --check` sees it: started by weftrun, as ranks are,
// with the same launch command, so that all there ends with this process. One thread at a time for
// a host; hosts are independent of each other, but all are started by one thread, which outlives
// them: the kernel ends what a thread has started when that ends.
#include <sys/types.h>

#include <atomic>
#include <string>
#include <utility>

#include "tools/weft-info/check/report.hpp"
#include "weft/status.hpp"

namespace weft::check {

// Set by SIGINT and the like: all waits end.
extern std::atomic<bool> is_interrupted;

class Host {
 public:
  // `name` as weftrun's --hosts takes it.
  explicit Host(std::string name) : name_(std::move(name)) {}
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  Status start();
  // The first line. timed_out, peer_lost: what weftrun or the launch command has said.
  Status meet(int timeout_ms);
  // One question. not_found: the host's own error; any other: it is of no more use.
  Status ask(const Json& question, Json& answer, int timeout_ms = 30'000);
  // Begins its end, which the destructor waits for.
  void stop();

  const std::string& name() const { return name_; }
  const Json& facts() const { return facts_; }  // the first line
  bool is_there() const { return is_there_; }
  // The address that others reach it by: that of its TCP, else of its first interface; empty: none.
  std::string address() const;

 private:
  Status read_line(std::string& line, int timeout_ms);
  Status lost(Code code, const std::string& what);
  void read_complaints();

  std::string name_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  std::string output_, complaints_;
  Json facts_;
  bool is_there_ = false;
};

}  // namespace weft::check
