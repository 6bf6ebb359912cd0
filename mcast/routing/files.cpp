#include "mcast/routing/files.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace weft::mcast {

namespace {

Status cannot(const std::string& path) {
  return {Code::not_permitted, path + ": cannot be written: " + std::strerror(errno)};
}

bool is_directory(const std::string& path) {
  struct stat at;
  return ::stat(path.c_str(), &at) == 0 && S_ISDIR(at.st_mode);
}

// A device or a pipe is written to, never replaced.
bool is_special(const std::string& path) {
  struct stat at;
  return ::stat(path.c_str(), &at) == 0 && !S_ISREG(at.st_mode) && !S_ISDIR(at.st_mode);
}

// `part` is the file to write, `path` the one to name in messages.
Status write_all(const std::string& part, const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream out(part, std::ios::binary);
  out << text;
  out.close();
  return out ? Status() : cannot(path);
}

}  // namespace

Status open_input(const std::string& path, std::ifstream* in) {
  errno = is_directory(path) ? EISDIR : 0;
  if (errno == 0) in->open(path, std::ios::binary);
  if (errno == 0 && in->is_open()) return Code::ok;
  return {Code::not_found, path + ": cannot be read: " + std::strerror(errno)};
}

void OutputFiles::add(const std::string& path, std::string text) {
  if (!path.empty()) files_.emplace_back(path, std::move(text));
}

Status OutputFiles::commit() {
  Status status;
  const auto part = [](const std::string& path) { return path + ".part"; };
  size_t written = 0;
  for (; written < files_.size() && status.ok(); ++written) {
    const auto& [path, text] = files_[written];
    if (is_directory(path)) {
      status = {Code::not_permitted, path + ": is a directory"};
    } else if (!is_special(path)) {
      status = write_all(part(path), path, text);
    }
  }
  for (size_t i = 0; i < written; ++i) {
    const auto& [path, text] = files_[i];
    if (is_special(path)) {
      if (status.ok()) status = write_all(path, path, text);
    } else if (!status.ok()) {
      std::remove(part(path).c_str());
    } else if (std::rename(part(path).c_str(), path.c_str()) != 0) {
      status = cannot(path);
      std::remove(part(path).c_str());
    }
  }
  files_.clear();
  return status;
}

}  // namespace weft::mcast
