#pragma once
// Receivers on other hosts, started by a launcher such as ssh and connected by pipes. Threads: one,
// beside Remotes' own, which only reads.
#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mcast/copy/records.hpp"
#include "weft/status.hpp"

namespace weft::copy {

struct Remote {
  std::string host;
  pid_t pid = -1;
  int in = -1, out = -1;
  std::string unread;
  // Written by Remotes' thread, under its lock:
  std::string banner;  // the last line before the receiver's first, as login scripts print them
  std::string address;
  unsigned version = 0;  // with the address
  std::uint64_t joined = 0, wrote = 0, num_files = 0, num_deleted = 0;
  std::string lack;
  std::map<std::uint32_t, std::vector<BlockDigest>> held;  // by file
  bool has_lack = false, is_done = false, is_gone = false;
  std::vector<std::string> errors, deletes;
  // Written by the sender:
  bool is_given_up = false;
};

class Remotes {
 public:
  ~Remotes();  // ends all receivers
  // Starts a receiver on each host, by its command.
  Status start(const std::vector<std::string>& hosts,
               const std::vector<std::vector<std::string>>& commands);
  // Starts the thread that reads the receivers' lines.
  void listen();
  void send_line(Remote& remote, const std::string& line);
  // Ends this receiver, with an error.
  void give_up(Remote& remote, const std::string& why);
  // Waits until the condition, which is called under the lock, holds; false: timed out.
  template <class F>
  bool wait(int timeout_ms, F&& condition) {
    std::unique_lock guard(lock_);
    return changed_.wait_for(guard, std::chrono::milliseconds(timeout_ms), condition);
  }
  std::mutex& lock() { return lock_; }
  std::condition_variable& changed() { return changed_; }
  std::vector<Remote>& all() { return remotes_; }

 private:
  void read_all();
  void on_line(Remote& remote, const std::string& line);

  std::vector<Remote> remotes_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::thread thread_;
  int stop_[2] = {-1, -1};
};

}  // namespace weft::copy
