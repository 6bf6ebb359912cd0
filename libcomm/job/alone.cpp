// A program started without a launcher: a job of one.
#include <fmt/core.h>

#include <map>
#include <string>

#include "job/boards.hpp"

namespace weft {
namespace {

class AloneBoard final : public Board {
 public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  std::string_view launcher() const noexcept override { return "alone"; }

  Status put(std::string_view key, std::string_view value) override {
    pending_.insert_or_assign(std::string(key), std::string(value));
    return {};
  }
  Status fence(int) override {
    for (auto& [key, value] : pending_) visible_.insert_or_assign(key, std::move(value));
    pending_.clear();
    return {};
  }
  Status get(int rank, std::string_view key, std::string& value) override {
    const auto found = visible_.find(key);
    if (rank != 0 || found == visible_.end())
      return {Code::not_found, fmt::format("rank {} has published no \"{}\"", rank, key)};
    value = found->second;
    return {};
  }
  void abort(int, std::string_view) override {}
  Status close() override { return {}; }

 private:
  std::map<std::string, std::string, std::less<>> pending_, visible_;
};

}  // namespace

std::unique_ptr<Board> make_alone_board() { return std::make_unique<AloneBoard>(); }

}  // namespace weft
