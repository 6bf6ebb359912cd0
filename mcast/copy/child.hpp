#pragma once
// A child process with pipes to its standard input and output. Threads: any.
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace weft::copy {

struct Child {
  pid_t pid = -1;
  int in = -1, out = -1;  // write here, read there
};
// Starts a command, whose first word is searched in PATH. All signals are unblocked in the child,
// as SIGTERM ends it. Returns 0 or errno: EMFILE if there are no pipes; after any other error the
// pipes are open.
int start_child(const std::vector<std::string>& command, Child& child);

// False: the other end of the pipe is closed.
bool write_all(int to, std::string_view bytes);

}  // namespace weft::copy
