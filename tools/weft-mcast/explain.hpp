#pragma once
// weft-mcast explain: sends one message through a group and prints where its time went.
#include <cstdint>
#include <string>

namespace weft::mcast {

struct ExplainOptions {
  int members = 0;  // threads of this process; 0: the ranks of the job that this is started in
  std::uint64_t bytes = 16 << 20, block_bytes = 0;
  std::string algorithm = "pipeline";
  int member = -1;  // whose blocks are listed; -1: the slowest receiver's
  int timeout_s = 600;
};

// Returns the exit status.
int run_explain(const ExplainOptions& options);

}  // namespace weft::mcast
