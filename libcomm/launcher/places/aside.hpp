#pragma once
// Aside: work in a child process, so that whatever it reads, as the files of a broken program, can
// neither stop nor end this one. One thread.
#include <sys/types.h>

#include <functional>
#include <string>

#include "base/os/descriptor.hpp"

namespace weft::weftrun {

class Aside {
 public:
  Aside() = default;
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  ~Aside() { end(); }
  // The child has no descriptor of this process, and the kernel ends it after limit_ms. False: it
  // could not be started.
  bool start(const std::function<std::string()>& work, int limit_ms);
  bool is_running() const { return pid_ > 0; }
  int fd() const { return result_.get(); }
  // Reads what there is of the result, without blocking. True once there is no more.
  bool read_some();
  // The result, blocking until there is no more.
  const std::string& wait();
  const std::string& result() const { return text_; }
  // Ends the child.
  void end();

 private:
  pid_t pid_ = -1;
  Descriptor result_;
  std::string text_;
};

}  // namespace weft::weftrun
