#pragma once
// Receivers on hosts where no launcher can start them: `weft-copy --listen` waits for senders on a
// Node's address and starts a receiver for each, whose pipes are forwarded as the Node's messages.
//
//   sender == pipes == weft-copy --reach ~~ Node ~~ weft-copy --listen == pipes == receiver
//
// Called by main; both return an exit status.
#include <string>

namespace weft::copy {

struct ListenOptions {
  std::string address;  // host:port, or unix:/path
  std::string secret;   // shared with the senders
  std::string program;  // of receivers; they write below this process's working directory
  bool is_quiet = false;
};
// Runs until SIGTERM or SIGINT. A receiver ends with its sender's connection.
int run_listener(const ListenOptions& options);

// Forwards standard input to the receiver of that listener, and its output back, until either ends.
int run_reach(const std::string& address, const std::string& secret);

// Returns the first line of the file. Empty, with the reason printed, if the file can't be read or
// others may read it.
std::string read_secret(const std::string& path);

}  // namespace weft::copy
