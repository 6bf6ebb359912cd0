#include "routing/output_files.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace weft::mcast {

namespace {

Status cannot(const std::string& path) {
  return {Code::not_permitted, path + ": cannot be written: " + std::strerror(errno)};
}

// A device or a pipe is written to, never replaced.
bool is_special(const std::string& path) {
  struct stat at;
  return ::stat(path.c_str(), &at) == 0 && !S_ISREG(at.st_mode) && !S_ISDIR(at.st_mode);
}

Status write_all(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  return out ? Status() : cannot(path);
}

}  // namespace

void OutputFiles::add(const std::string& path, std::string text) {
  if (!path.empty()) files_.emplace_back(path, std::move(text));
}

Status OutputFiles::commit() {
  Status status;
  const auto part = [](const std::string& path) { return path + ".part"; };
  size_t written = 0;
  for (; written < files_.size() && status.ok(); ++written) {
    const auto& [path, text] = files_[written];
    struct stat at;
    if (::stat(path.c_str(), &at) == 0 && S_ISDIR(at.st_mode)) {
      status = {Code::not_permitted, path + ": is a directory"};
    } else if (!is_special(path)) {
      status = write_all(part(path), text);
    }
  }
  for (size_t i = 0; i < written; ++i) {
    const auto& [path, text] = files_[i];
    if (is_special(path)) {
      if (status.ok()) status = write_all(path, text);
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
