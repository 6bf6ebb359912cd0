#pragma once
// Which processes of a job share memory: those that can open files of each other through /proc, by
// which all sharing of memory goes. One thread.
//
// A common kernel is not enough: containers and namespaces of one machine keep processes apart. So
// each process describes its view of the machine, with everything that decides about such access;
// processes of one view form a set, and its first and every other one try to open a file of each
// other. A process that fails is a host of its own, as is one that has no /proc of its own
// process-id namespace.
#include <cstdint>
#include <string>
#include <vector>

#include "base/os/descriptor.hpp"

namespace weft {

// A file in memory for others to try on, open while the object lives.
class SharingProbe {
 public:
  SharingProbe();

  int fd() const { return file_.get(); }  // -1: none could be made, and no process can open it
  std::uint64_t content() const { return content_; }

 private:
  Descriptor file_;
  std::uint64_t content_ = 0;
};

// Returns true if this process can open that file of another one of its view.
bool can_share(int pid, int fd, std::uint64_t content);

// The running kernel, the same for all containers of a machine.
std::string machine_identity();

// Namespaces, user, rights and security label. Of a process that cannot read them: equal only to
// that of other threads of this process, and is_blind().
std::string sharing_view();
bool is_blind(const std::string& view);

}  // namespace weft
