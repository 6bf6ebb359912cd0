#pragma once
// What a command leaves behind: all of its files, or none.
#include <string>
#include <utility>
#include <vector>

#include "weft/status.hpp"

namespace weft::mcast {

class OutputFiles {
 public:
  // Nothing happens before commit(). An empty path is passed over.
  void add(const std::string& path, std::string text);
  // Writes every file beside its place, then moves them all there. On failure, names the file and
  // leaves none that was not there before.
  Status commit();

 private:
  std::vector<std::pair<std::string, std::string>> files_;  // path, text
};

}  // namespace weft::mcast
