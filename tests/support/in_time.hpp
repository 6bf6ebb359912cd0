#pragma once
// Jobs whose ranks say "late" where something was told too late and all else is right.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "support/process.hpp"

namespace weft::testing {

// Runs the command, which must end with this exit code and, within a few attempts, with this
// output: a machine that stands still, or is busy, makes a rank late, but hardly each time.
inline void check_in_time(const std::vector<std::string>& command,
                          const Process::Environment& environment, int timeout_ms, int exit_code,
                          const std::string& out) {
  constexpr int kAttempts = 5;
  for (int attempt = 1; attempt <= kAttempts; ++attempt) {
    Process process(command, environment);
    const int code = process.wait(timeout_ms);
    INFO(process.err());
    CHECK(code == exit_code);
    if (attempt < kAttempts && process.out().find("late\n") != std::string::npos) continue;
    CHECK(process.out() == out);
    return;
  }
}

}  // namespace weft::testing
