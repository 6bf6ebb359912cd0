#pragma once
// A board on which this process says that it is on another host than it is: ranks of one machine,
// or of one process, that share memory with those of the same `host` alone.
#include <fmt/core.h>

#include <memory>
#include <string>
#include <utility>

#include "job/members.hpp"

namespace weft::test {

class PlacedBoard final : public Board {
 public:
  PlacedBoard(std::unique_ptr<Board> board, int host) : board_(std::move(board)), host_(host) {}

  int rank() const noexcept override { return board_->rank(); }
  int size() const noexcept override { return board_->size(); }
  std::string_view launcher() const noexcept override { return board_->launcher(); }
  // The last line of how a rank describes itself is its view of the machine (job/sharing.hpp).
  Status put(std::string_view key, std::string_view value) override {
    if (key != "job.member") return board_->put(key, value);
    return board_->put(key, fmt::format("{}\nhost {}", value.substr(0, value.rfind('\n')), host_));
  }
  Status fence(int timeout_ms) override { return board_->fence(timeout_ms); }
  Status get(int rank, std::string_view key, std::string& value) override {
    return board_->get(rank, key, value);
  }
  void abort(int exit_code, std::string_view message) override {
    board_->abort(exit_code, message);
  }
  Status close() override { return board_->close(); }

 private:
  std::unique_ptr<Board> board_;
  int host_;
};

}  // namespace weft::test
