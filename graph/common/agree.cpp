#include "agree.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace weft::graph {

Status agree(transport::Job& job, const Status& mine) {
  struct Result {
    Code code = Code::ok;
    char text[600] = {};
  } result;
  result.code = mine.code();
  if (!mine.ok()) {
    const std::string text = mine.text();
    std::memcpy(result.text, text.data(), std::min(text.size(), sizeof result.text - 1));
  }
  if (job.size() == 1) return mine;
  std::vector<Result> all;
  const Status gathered = job.all_gather(result, all);
  if (!gathered.ok()) return gathered;
  for (const Result& other : all)
    if (other.code != Code::ok) return {other.code, other.text};
  return Code::ok;
}

}  // namespace weft::graph
