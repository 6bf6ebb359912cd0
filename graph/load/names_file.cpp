#include "names_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "graph/common/output_file.hpp"

namespace weft::graph {

Status read_names(const std::string& path, VertexNames& names) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return {errno == ENOENT ? Code::not_found : Code::not_permitted,
            path + ": cannot open it: " + std::strerror(errno)};
  std::uint64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string where = path + ":" + std::to_string(++number);
    if (line.empty()) return {Code::corrupt, where + ": no name"};
    const VertexId vertex = names.add(line);
    if (vertex == kNoVertex) return {Code::corrupt, where + ": more names than vertex ids"};
    if (vertex + std::uint64_t{1} != number)
      return {Code::corrupt,
              where + ": the same name as in line " + std::to_string(vertex + std::uint64_t{1})};
  }
  if (in.bad()) return {Code::not_permitted, path + ": cannot read it"};
  return number > 0 ? Status() : Status{Code::corrupt, path + ": holds no names"};
}

Status write_names(const std::string& path, const VertexNames& names) {
  OutputFile file(path);
  Status status = file.open();
  for (VertexId v = 0; v < names.size() && status.ok(); ++v) {
    status = file.write(names.name(v));
    if (status.ok()) status = file.write("\n");
  }
  return status.ok() ? file.commit() : status;
}

}  // namespace weft::graph
