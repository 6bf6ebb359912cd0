#pragma once
// A rank of a job whose ranks are threads of this process, with lanes over the fabric of tests.
#include <memory>
#include <stdexcept>
#include <string>

#include "base/settings.hpp"
#include "job/members.hpp"
#include "lanes/fabrics.hpp"
#include "lanes/linked/remote_lanes.hpp"
#include "tests/support/hex.hpp"
#include "tests/support/loopback/loopback.hpp"

namespace weft::testing {

using transport::RemoteLanes;

struct Rank {
  Rank(std::unique_ptr<Board> board, const char* timeout_ms, int other) {
    Settings settings;
    if (!settings.set("FABRIC", "loopback") || !settings.set("PEER_TIMEOUT_MS", timeout_ms) ||
        !Members::open(settings, std::move(board), job) || !Fabrics::open(*job, fabrics))
      throw std::runtime_error("no rank");
    lanes = static_cast<RemoteLanes*>(fabrics->to(other));
  }
  // Of the endpoint, as the board has it: hexadecimal.
  std::string address(int rank) const {
    std::string text;
    if (!job->board().get(rank, "loopback.address", text)) throw std::runtime_error("no address");
    return test::from_hex(text.substr(text.rfind(' ') + 1));
  }
  std::unique_ptr<Members> job;
  std::unique_ptr<Fabrics> fabrics;
  RemoteLanes* lanes = nullptr;
};

}  // namespace weft::testing
