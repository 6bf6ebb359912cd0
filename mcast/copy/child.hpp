#pragma once
// A process that is talked to by its standard input and output. Threads: any.
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace weft::copy {

struct Child {
  pid_t pid = -1;
  int in = -1, out = -1;  // write here, read there
};
// The command's first word is sought in PATH. It starts with no signal blocked, whatever this
// thread blocks, as it is ended by one. 0, or why not, as errno: EMFILE without pipes; with any
// other the pipes are there.
int start_child(const std::vector<std::string>& command, Child& child);

// False: nobody reads there any longer.
bool write_all(int to, std::string_view bytes);

}  // namespace weft::copy
