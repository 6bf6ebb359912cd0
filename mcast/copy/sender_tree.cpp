#include "mcast/copy/sender_tree.hpp"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>

namespace weft::copy {

namespace {

class Scan {
 public:
  Scan(std::vector<Source>& sources, std::vector<std::string>& skipped)
      : sources_(sources), skipped_(skipped) {}

  // False, with errno, if the entry cannot be read at all.
  bool add(const std::string& from, const std::string& path, bool follows) {
    struct stat what;
    if ((follows ? ::stat : ::lstat)(from.c_str(), &what) != 0) return false;
    if (follows) top_bytes_ = from.size();
    Source source{.entry = {}, .from = from, .top_bytes = top_bytes_};
    Entry& entry = source.entry;
    entry.path = path;
    entry.mode = what.st_mode & 07777;
    entry.uid = what.st_uid;
    entry.gid = what.st_gid;
    entry.mtime_s = what.st_mtim.tv_sec;
    entry.mtime_ns = static_cast<std::uint32_t>(what.st_mtim.tv_nsec);
    if (S_ISDIR(what.st_mode)) return add_directory(std::move(source));
    if (S_ISLNK(what.st_mode)) {
      char target[4096];
      const ssize_t length = ::readlink(from.c_str(), target, sizeof target);
      if (length <= 0 || length == sizeof target)
        return skip(from, path, "its target can't be read");
      entry.kind = EntryKind::symlink;
      entry.target.assign(target, static_cast<std::size_t>(length));
    } else if (S_ISREG(what.st_mode)) {
      if (::access(from.c_str(), R_OK) != 0) return skip(from, path, std::strerror(errno));
      entry.size = static_cast<std::uint64_t>(what.st_size);
      if (what.st_nlink > 1) {
        const auto [first, is_new] = first_.emplace(std::pair(what.st_dev, what.st_ino), path);
        if (!is_new) {
          entry.kind = EntryKind::hard_link;
          entry.target = first->second;
        }
      }
    } else {
      return skip(from, path, "it is not a file, folder or link");
    }
    read_xattrs(source);
    sources_.push_back(std::move(source));
    return true;
  }

 private:
  bool skip(const std::string& from, std::string path, const std::string& why) {
    skipped_.push_back(from + ": " + why);
    // The path is too long for receivers: mark its closest short parent, below which they then
    // delete nothing.
    while (path.size() > kMaxPathBytes) path.resize(path.rfind('/'));
    Source source;
    source.entry.kind = EntryKind::unreadable;
    source.entry.path = std::move(path);
    sources_.push_back(std::move(source));
    return true;
  }

  bool add_directory(Source source) {
    const std::string from = source.from, path = source.entry.path;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(from.c_str()), ::closedir);
    if (folder == nullptr) return skip(from, path, std::strerror(errno));
    source.entry.kind = EntryKind::directory;
    read_xattrs(source);
    sources_.push_back(std::move(source));
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* item = ::readdir(folder.get())) {
      if (std::strcmp(item->d_name, ".") != 0 && std::strcmp(item->d_name, "..") != 0)
        names.emplace_back(item->d_name);
      errno = 0;
    }
    if (errno != 0) skip(from, path, std::strerror(errno));
    std::sort(names.begin(), names.end());
    for (const std::string& name : names)
      if (path.size() + 1 + name.size() > kMaxPathBytes)
        skip(from + "/" + name, path + "/" + name, std::strerror(ENAMETOOLONG));
      else if (!add(from + "/" + name, path + "/" + name, false))
        skip(from + "/" + name, path + "/" + name, std::strerror(errno));
    return true;
  }

  static void read_xattrs(Source& source) {
    std::vector<char> names(64 << 10), value(64 << 10);
    const ssize_t length = ::llistxattr(source.from.c_str(), names.data(), names.size());
    for (ssize_t at = 0; at < length;) {
      const std::string name(names.data() + at);
      at += static_cast<ssize_t>(name.size()) + 1;
      const ssize_t bytes =
          ::lgetxattr(source.from.c_str(), name.c_str(), value.data(), value.size());
      if (bytes >= 0)
        source.entry.xattrs.emplace_back(
            name, std::string(value.data(), static_cast<std::size_t>(bytes)));
    }
  }

  std::size_t top_bytes_ = 0;
  std::vector<Source>& sources_;
  std::vector<std::string>& skipped_;
  std::map<std::pair<dev_t, ino_t>, std::string> first_;  // of hard links
};

}  // namespace

int open_source(const Source& source) noexcept {
  // O_NONBLOCK: opening a pipe without a writer would block.
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  int file = -1;
  if (source.from.size() == source.top_bytes) {
    file = ::open(source.from.c_str(), kFlags);
  } else {
    const int top = ::open(std::string(source.from, 0, source.top_bytes).c_str(),
                           O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (top < 0) return -1;
    open_how how{};
    how.flags = kFlags;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    const char* const rest = source.from.c_str() + source.top_bytes + 1;
    file = static_cast<int>(::syscall(SYS_openat2, top, rest, &how, sizeof how));
    const int error = errno;
    ::close(top);
    errno = error;
  }
  struct stat there;
  if (file < 0 || (::fstat(file, &there) == 0 && S_ISREG(there.st_mode))) return file;
  ::close(file);
  errno = ESTALE;
  return -1;
}

Status scan(const std::vector<std::string>& paths, std::vector<Source>& sources,
            std::vector<std::string>& skipped) {
  Scan all(sources, skipped);
  std::set<std::string> names;
  for (const std::string& path : paths) {
    std::unique_ptr<char, void (*)(void*)> whole(::realpath(path.c_str(), nullptr), std::free);
    if (whole == nullptr)
      return {Code::not_found, fmt::format("{}: {}", path, std::strerror(errno))};
    // Use the name as given, unless it is "." or the like.
    std::string name = path;
    while (name.size() > 1 && name.back() == '/') name.pop_back();
    name = name.substr(name.rfind('/') == std::string::npos ? 0 : name.rfind('/') + 1);
    if (!is_safe_path(name)) {
      name = whole.get();
      name = name.substr(name.rfind('/') + 1);
    }
    if (name.empty()) return {Code::bad_argument, path + ": the root folder can't be copied"};
    if (!names.insert(name).second)
      return {Code::bad_argument,
              fmt::format("two of the files and folders to copy have the name {}", name)};
    if (!all.add(path, name, true))
      return {Code::not_found, fmt::format("{}: {}", path, std::strerror(errno))};
  }
  return {};
}

}  // namespace weft::copy
