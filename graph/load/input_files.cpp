#include "input_files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace weft::graph {
namespace {

Status failed(const std::string& path, int error) {
  return {error == ENOENT ? Code::not_found : Code::not_permitted,
          path + ": cannot open it: " + std::strerror(error)};
}

bool is_there(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode);
}
bool is_folder(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

// What programs leave beside the parts that they write, and Weft and Graphalytics beside a graph.
bool is_beside(const std::string& name) {
  return name.starts_with('.') || name.starts_with('_') || name.ends_with(".weft-cache") ||
         name.ends_with(".properties");
}

Status list(const std::string& folder, std::vector<std::string>& paths) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    if (is_beside(entries->path().filename().string())) continue;
    const std::string path = entries->path().string();
    if (is_folder(path))
      return {Code::bad_argument, path + ": a folder within one; give the one that has the files"};
    paths.push_back(path);
  }
  if (error) return failed(folder, error.value());
  std::sort(paths.begin(), paths.end());
  if (paths.empty()) return {Code::bad_argument, folder + ": a folder without files"};
  return Code::ok;
}

// Edges with their vertices beside them.
Status add(const std::string& path, InputFiles& files) {
  if (path.ends_with(".v") ||
      (path.ends_with(".e") && is_there(path.substr(0, path.size() - 1) + "v"))) {
    const std::string stem = path.substr(0, path.size() - 1);
    if (!files.vertices.empty() && files.vertices != stem + "v")
      return {Code::bad_argument,
              path + ": a second file of vertices beside " + files.vertices + "; give one graph"};
    files.vertices = stem + "v";
    if (std::find(files.edges.begin(), files.edges.end(), stem + "e") == files.edges.end())
      files.edges.push_back(stem + "e");
    return Code::ok;
  }
  files.edges.push_back(path);
  return Code::ok;
}

}  // namespace

Status find_files(const std::string& path, const std::vector<std::string>& more,
                  InputFiles& files) {
  std::vector<std::string> given{path};
  given.insert(given.end(), more.begin(), more.end());
  for (const std::string& one : given) {
    std::vector<std::string> paths;
    Status status;
    if (one != "-" && is_folder(one))
      status = list(one, paths);
    else if (one != "-" && !is_there(one) && is_there(one + ".v") && is_there(one + ".e"))
      paths = {one + ".e"};
    else
      paths = {one};
    for (const std::string& found : paths)
      if (status.ok()) status = add(found, files);
    if (!status.ok()) return status;
  }
  if (files.vertices.empty() || files.edges.size() == 1) return Code::ok;
  return {Code::bad_argument, files.vertices + ": the vertices of one file of edges, not of " +
                                  std::to_string(files.edges.size())};
}

Status identify(const std::vector<std::string>& paths, std::uint64_t& bytes,
                std::int64_t& changed_ns) {
  bytes = 0;
  std::uint64_t all = 0;
  for (const std::string& path : paths) {
    struct stat found {};
    if (path == "-") continue;
    if (stat(path.c_str(), &found) != 0) return failed(path, errno);
    bytes += static_cast<std::uint64_t>(found.st_size);
    const std::int64_t changed =
        std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec;
    all = all * 0x9E3779B97F4A7C15ull + static_cast<std::uint64_t>(changed) +
          static_cast<std::uint64_t>(found.st_size) * 31;
    if (paths.size() == 1) all = static_cast<std::uint64_t>(changed);
  }
  changed_ns = static_cast<std::int64_t>(all);
  return Code::ok;
}

Status read_vertices(const std::string& path, VertexNames& names, bool* are_numbers) {
  *are_numbers = true;
  std::ifstream in(path, std::ios::binary);
  if (!in) return failed(path, errno);
  std::uint64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    // A vertex may have properties behind it.
    const std::size_t begin = std::min(line.find_first_not_of(" \t\r"), line.size());
    line = line.substr(begin, line.find_first_of(" \t\r,", begin) - begin);
    if (line.empty()) continue;
    const std::string where = path + ":" + std::to_string(number) + ": ";
    const VertexId before = names.size(), vertex = names.add(line);
    if (vertex == kNoVertex) return {Code::corrupt, where + "more vertices than ids"};
    if (vertex != before) return {Code::corrupt, where + "vertex " + line + " stands there twice"};
    *are_numbers = *are_numbers && line == std::to_string(vertex);
  }
  if (in.bad()) return {Code::not_permitted, path + ": cannot read it"};
  return names.size() > 0 ? Status() : Status{Code::corrupt, path + ": holds no vertices"};
}

}  // namespace weft::graph
