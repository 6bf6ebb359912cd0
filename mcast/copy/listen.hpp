#pragma once
// Receivers where nothing can be started from elsewhere: `weft-copy --listen` waits for senders on
// a Node's address and starts a receiver for each, whose pipes travel as the Node's messages.
//
//   sender == pipes == weft-copy --reach ~~ Node ~~ weft-copy --listen == pipes == receiver
//
// Both are for main; they return an exit status.
#include <string>

namespace weft::copy {

struct ListenOptions {
  std::string address;  // host:port, or unix:/path
  std::string secret;   // that senders must know
  std::string program;  // of receivers; they write below this process's working directory
  bool is_quiet = false;
};
// Until SIGTERM or SIGINT. A sender that goes ends its receiver.
int run_listener(const ListenOptions& options);

// Standard input to the receiver there, and its output back, until either ends.
int run_reach(const std::string& address, const std::string& secret);

// The secret in a file: its first line. Empty, with the reason printed: it can't be read, or others
// may read it.
std::string read_secret(const std::string& path);

}  // namespace weft::copy
