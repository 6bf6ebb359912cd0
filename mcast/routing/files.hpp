#pragma once
// The input files of a command, and its output files, of which all are written or none.
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "weft/status.hpp"

namespace weft::mcast {

// not_found, naming the file and why, if it cannot be read.
Status open_input(const std::string& path, std::ifstream* in);

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
