#pragma once
// A board that tells a wrong secret of rank 0: whoever uses it is a stranger to rank 0's fabric.
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "job/members.hpp"

namespace weft {

class WrongBoard final : public Board {
 public:
  // fabric: "verbs" or "ofi", whose address this is about.
  WrongBoard(std::unique_ptr<Board> board, std::string_view fabric)
      : board_(std::move(board)), fabric_(fabric) {}
  int rank() const noexcept override { return board_->rank(); }
  int size() const noexcept override { return board_->size(); }
  std::string_view launcher() const noexcept override { return board_->launcher(); }
  Status put(std::string_view key, std::string_view value) override {
    return board_->put(key, value);
  }
  Status fence(int timeout_ms) override { return board_->fence(timeout_ms); }
  Status get(int rank, std::string_view key, std::string& value) override {
    Status status = board_->get(rank, key, value);
    if (status && rank == 0 && key == fabric_ + ".address") {
      char& digit = value[value.find(' ') + 1];  // of the secret
      digit = digit == '0' ? '1' : '0';
    }
    return status;
  }
  void abort(int exit_code, std::string_view message) override {
    board_->abort(exit_code, message);
  }
  Status close() override { return board_->close(); }

 private:
  std::unique_ptr<Board> board_;
  std::string fabric_;
};

}  // namespace weft
