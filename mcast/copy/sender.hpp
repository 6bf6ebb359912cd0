#pragma once
// weft-copy's sending side: starts a receiver on every host, multicasts the tree, continues with
// the others when one dies, and reports the result of each host.
#include <cstdint>
#include <string>
#include <vector>

namespace weft::copy {

struct Target {
  std::string host, folder;
  bool listens = false;  // host is the address of a weft-copy --listen
};

struct SendOptions {
  std::vector<std::string> paths;
  std::vector<Target> targets;
  std::string program;              // of receivers
  std::string launch;               // {host} stands for the host
  std::string secret_file, secret;  // of receivers that listen
  bool deletes = false, is_dry = false, is_quiet = false, resumes = false;
  double rate = 0;  // bytes a second at most; 0: any
};

// Returns the exit status: 0 if every host has everything, else 1.
int run_sender(const SendOptions& options);

}  // namespace weft::copy
