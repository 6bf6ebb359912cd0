#include "mcast/copy/receiver_folder.hpp"

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
#include <memory>
#include <set>
#include <utility>

#include "mcast/copy/partial.hpp"

namespace weft::copy {

namespace {

Status failed(const std::string& path, const char* what) {
  const int error = errno;
  const Code code =
      error == ENOSPC || error == EDQUOT ? Code::no_memory
      : error == EACCES || error == EPERM || error == EROFS || error == ELOOP || error == EXDEV
          ? Code::not_permitted
          : Code::not_found;
  return {code, fmt::format("{}: can't {}: {}", path, what,
                            error == ELOOP || error == EXDEV ? "a link leads elsewhere"
                                                             : std::strerror(error))};
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }

 private:
  int number_;
};

// The id of the mount that a folder is on; 0: unknown.
std::uint64_t mount_of(int folder) {
  struct statx there {};
  if (::statx(folder, "", AT_EMPTY_PATH, STATX_MNT_ID, &there) != 0) return 0;
  return there.stx_mnt_id;
}

// Several hosts may share the folder, so an entry that is already gone is no error.
Status remove_all(int folder, const std::string& name, const std::string& path,
                  std::size_t& num_deleted) {
  if (::unlinkat(folder, name.c_str(), 0) == 0) return ++num_deleted, Status();
  if (errno == ENOENT) return {};
  if (errno != EISDIR && errno != EPERM) return failed(path, "delete");
  const int below = ::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (below < 0 && errno == ENOENT) return {};
  if (below < 0) return failed(path, "delete");
  const std::unique_ptr<DIR, int (*)(DIR*)> items(::fdopendir(below), ::closedir);
  // The open folder is compared, as opening it may have mounted it (autofs).
  if (mount_of(below) != mount_of(folder)) {
    errno = EBUSY;
    return failed(path, "delete a mount point");
  }
  std::vector<std::string> names;
  while (const dirent* item = ::readdir(items.get()))
    if (std::strcmp(item->d_name, ".") != 0 && std::strcmp(item->d_name, "..") != 0)
      names.emplace_back(item->d_name);
  for (const std::string& item : names)
    if (Status status = remove_all(below, item, path + "/" + item, num_deleted); !status)
      return status;
  if (::unlinkat(folder, name.c_str(), AT_REMOVEDIR) != 0)
    return errno == ENOENT ? Status() : failed(path, "delete");
  ++num_deleted;
  return {};
}

}  // namespace

Folder::~Folder() {
  leave();
  if (root_ >= 0) ::close(root_);
}

Status Folder::open(const std::string& path, bool is_below, bool makes) {
  if (is_below) {
    if (path != "." && !is_safe_path(path))
      return {Code::not_permitted,
              path + ": a listening receiver writes only below its working directory"};
    root_ = ::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (std::size_t end = 0; path != "." && end != std::string::npos;) {
      end = path.find('/', end + 1);
      const std::string part = path.substr(0, end);
      std::string name;
      const Descriptor parent(open_parent(part, name));
      if (makes && parent.get() >= 0) ::mkdirat(parent.get(), name.c_str(), 0777);
    }
    const int below = open_below(path, O_PATH | O_DIRECTORY);
    const int error = errno;
    ::close(std::exchange(root_, below));
    if (below < 0 && error == ENOENT && !makes) return {};
    errno = error;
    if (below < 0) return failed(path, "open");
    if (::faccessat(root_, ".", W_OK | X_OK, AT_EACCESS) != 0) return failed(path, "write there");
    return {};
  }
  // The user chose this path, so it may contain links.
  for (std::size_t end = 1; makes && end != std::string::npos && end <= path.size();) {
    end = path.find('/', end + 1);
    ::mkdir(path.substr(0, end).c_str(), 0777);
  }
  root_ = ::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root_ < 0 && errno == ENOENT && !makes) return {};
  if (root_ < 0) return failed(path, "open");
  if (::faccessat(root_, ".", W_OK | X_OK, AT_EACCESS) != 0) return failed(path, "write there");
  return {};
}

int Folder::open_below(const std::string& path, int flags) const {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags) | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(
      ::syscall(SYS_openat2, root_, path.empty() ? "." : path.c_str(), &how, sizeof how));
}

int Folder::open_parent(const std::string& path, std::string& name) const {
  const std::size_t slash = path.rfind('/');
  name = slash == std::string::npos ? path : path.substr(slash + 1);
  return open_below(slash == std::string::npos ? "" : path.substr(0, slash),
                    O_RDONLY | O_DIRECTORY);
}

// Removes an entry of another kind than the new one of this name.
Status Folder::remove_conflicting(int parent, const std::string& name, const Entry& entry) {
  struct stat there;
  if (::fstatat(parent, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) return {};
  const bool wants_folder = entry.kind == EntryKind::directory;
  const char* kind = wants_folder ? "folder" : entry.kind == EntryKind::symlink ? "link" : "file";
  if (S_ISDIR(there.st_mode)) {
    if (wants_folder || ::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0) return {};
    if (errno != ENOTEMPTY && errno != EEXIST) return failed(entry.path, "delete the folder there");
    if (!replaces_)
      return {Code::exists, fmt::format("{}: a folder that is not empty exists in place of the {}; "
                                        "--delete replaces it",
                                        entry.path, kind)};
  } else if (!wants_folder) {
    return {};  // rename replaces it
  } else if (!S_ISREG(there.st_mode) && !replaces_) {
    // A link instead of a folder may be intended by the user of the host.
    return {Code::exists,
            fmt::format("{}: {} exists in place of the folder; --delete replaces it", entry.path,
                        S_ISLNK(there.st_mode) ? "a link" : "a special file")};
  }
  std::size_t num_deleted = 0;
  return remove_all(parent, name, entry.path, num_deleted);
}

bool Folder::has_link(int parent, const std::string& name, const Entry& entry) const {
  if (entry.kind == EntryKind::symlink) {
    char target[4096];
    const ssize_t length = ::readlinkat(parent, name.c_str(), target, sizeof target);
    return length >= 0 &&
           entry.target == std::string_view(target, static_cast<std::size_t>(length));
  }
  const Descriptor first(open_below(entry.target, O_PATH | O_NOFOLLOW));
  struct stat one, other;
  return first.get() >= 0 && ::fstat(first.get(), &one) == 0 &&
         ::fstatat(parent, name.c_str(), &other, AT_SYMLINK_NOFOLLOW) == 0 &&
         one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

bool Folder::conflicts_with(const Entry& entry) const {
  if (entry.kind == EntryKind::unreadable) return false;
  std::string name;
  const Descriptor parent(open_parent(entry.path, name));
  struct stat there;
  if (parent.get() < 0 || ::fstatat(parent.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0)
    return false;
  return S_ISDIR(there.st_mode) != (entry.kind == EntryKind::directory);
}

// Renames an entry that was made under a temporary name.
Status Folder::put_in_place(int parent, const std::string& temporary, const std::string& name,
                            const Entry& entry) {
  const auto rename = [&] {
    return ::renameat(parent, temporary.c_str(), parent, name.c_str()) == 0;
  };
  if (rename()) return {};
  if (errno == EISDIR || errno == ENOTEMPTY || errno == EEXIST) {
    if (Status status = remove_conflicting(parent, name, entry); !status) return status;
    if (rename()) return {};
  }
  // Another receiver that shares this folder may have removed the temporary name and put the same
  // entry here.
  const int error = errno;
  if (error == ENOENT &&
      (entry.kind == EntryKind::file ? has(entry) : has_link(parent, name, entry)))
    return {};
  errno = error;
  return failed(entry.path, "rename it to its name");
}

Status Folder::link_to(const Entry& entry, int parent, const std::string& name) const {
  // Another receiver that shares the folder may replace the file by an equal one meanwhile.
  for (int tries_left = 10;; --tries_left) {
    const Descriptor first(open_below(entry.target, O_PATH | O_NOFOLLOW));
    if (first.get() < 0) return failed(entry.path, "open what it is a hard link to");
    const std::string self = fmt::format("/proc/self/fd/{}", first.get());
    if (::linkat(AT_FDCWD, self.c_str(), parent, name.c_str(), AT_SYMLINK_FOLLOW) == 0) return {};
    if (errno != ENOENT || tries_left == 0) return failed(entry.path, "make the hard link");
  }
}

Status Folder::make(const Entry& entry) {
  if (entry.kind == EntryKind::file || entry.kind == EntryKind::unreadable) return {};
  std::string name;
  const Descriptor parent(open_parent(entry.path, name));
  if (parent.get() < 0) return failed(entry.path, "open its folder");
  if (entry.kind == EntryKind::directory) {
    if (Status status = remove_conflicting(parent.get(), name, entry); !status) return status;
    if (::mkdirat(parent.get(), name.c_str(), 0700) == 0) return {};
    const int error = errno;
    struct stat there;
    // Another receiver that shares this folder has made it.
    if (error == EEXIST &&
        ::fstatat(parent.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(there.st_mode))
      return {};
    errno = error;
    return failed(entry.path, "make it");
  }
  // The link is made under a temporary name and renamed, so that the old entry stays until then.
  // Another receiver that shares the folder may prune the temporary name: then try again.
  for (int tries_left = 10;; --tries_left) {
    const std::string temporary = fmt::format(".weft-copy-{:016x}", [] {
      std::uint64_t number = 0;
      ::randombytes_buf(&number, sizeof number);
      return number;
    }());
    if (entry.kind == EntryKind::symlink) {
      if (::symlinkat(entry.target.c_str(), parent.get(), temporary.c_str()) != 0)
        return failed(entry.path, "make the link");
    } else if (Status status = link_to(entry, parent.get(), temporary); !status) {
      return status;
    }
    Status status = put_in_place(parent.get(), temporary, name, entry);
    // Rename does nothing, and leaves the temporary name, if both are names of one file.
    ::unlinkat(parent.get(), temporary.c_str(), 0);
    if (status.ok() || status.code() != Code::not_found || tries_left == 0) return status;
  }
}

bool Folder::has(const Entry& entry) const {
  const Descriptor file(open_below(entry.path, O_PATH | O_NOFOLLOW));
  struct stat there;
  return file.get() >= 0 && ::fstat(file.get(), &there) == 0 && S_ISREG(there.st_mode) &&
         static_cast<std::uint64_t>(there.st_size) == entry.size &&
         there.st_mtim.tv_sec == entry.mtime_s &&
         there.st_mtim.tv_nsec == static_cast<long>(entry.mtime_ns);
}

std::vector<BlockDigest> Folder::held(const Entry& entry) const {
  std::string name;
  const Descriptor parent(open_parent(entry.path, name));
  if (parent.get() < 0) return {};
  const Descriptor file(open_partial(parent.get(), partial_name(name), false));
  return file.get() < 0 ? std::vector<BlockDigest>() : block_digests(file.get(), entry.size);
}

Status Folder::begin(const Entry& entry, bool resumes) {
  leave();
  parent_ = open_parent(entry.path, name_);
  if (parent_ < 0) return failed(entry.path, "open its folder");
  crypto_generichash_init(&hash_, nullptr, 0, sizeof(Digest));
  next_ = old_bytes_ = 0;
  resumes_ = false;
  if (resumes) {
    temporary_ = partial_name(name_);
    file_ = open_partial(parent_, temporary_, true);
    struct stat there;
    if (file_ >= 0 && ::fstat(file_, &there) == 0) {
      resumes_ = true;
      old_bytes_ = static_cast<std::uint64_t>(there.st_size);
      return {};
    }
    temporary_.clear();
  } else if (entry.size >= kResumeFileBytes) {
    ::unlinkat(parent_, partial_name(name_).c_str(), 0);  // no run will resume it
  }
  // A file without a name vanishes if this process dies.
  file_ = ::openat(parent_, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
    std::uint64_t number = 0;
    ::randombytes_buf(&number, sizeof number);
    temporary_ = fmt::format(".weft-copy-{:016x}", number);
    file_ = ::openat(parent_, temporary_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (file_ < 0) temporary_.clear();
  }
  if (file_ < 0) {
    Status status = failed(entry.path, "make a file");
    abandon();
    return status;
  }
  return {};
}

// Clears the bytes of a resumed file where the source has a hole.
Status Folder::clear_to(std::uint64_t offset) {
  const std::uint64_t end = std::min(offset, old_bytes_);
  if (next_ < end && !clear_range(file_, next_, end - next_)) return failed(name_, "write");
  return {};
}

Status Folder::keep(std::uint64_t offset, std::size_t length) {
  if (Status status = clear_to(offset); !status) return status;
  if (length > kResumeBlockBytes) return {Code::corrupt, name_ + ": the block is too long"};
  std::vector<std::byte> block(length);
  if (!read_range(file_, offset, block))
    return {Code::corrupt, name_ + ": its partial data are gone; copy it again"};
  crypto_generichash_update(&hash_, reinterpret_cast<const unsigned char*>(block.data()), length);
  next_ = offset + length;
  return {};
}

Status Folder::write(std::uint64_t offset, std::span<const std::byte> data) {
  if (Status status = clear_to(offset); !status) return status;
  next_ = offset + data.size();
  crypto_generichash_update(&hash_, reinterpret_cast<const unsigned char*>(data.data()),
                            data.size());
  while (!data.empty()) {
    const ssize_t written = ::pwrite(file_, data.data(), data.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return failed(name_, "write");
    offset += static_cast<std::uint64_t>(written);
    data = data.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status Folder::finish(const Entry& entry, std::uint64_t size, const Digest& digest) {
  Digest here;
  crypto_generichash_final(&hash_, here.data(), here.size());
  if (here != digest) return {Code::corrupt, entry.path + ": arrived damaged"};
  if (Status status = clear_to(size); !status) return status;
  if (::ftruncate(file_, static_cast<off_t>(size)) != 0) return failed(entry.path, "write");
  if (Status status = dress_at(file_, entry); !status) return status;
  if (temporary_.empty()) {
    std::uint64_t number = 0;
    ::randombytes_buf(&number, sizeof number);
    const std::string name = fmt::format(".weft-copy-{:016x}", number);
    const std::string self = fmt::format("/proc/self/fd/{}", file_);
    if (::linkat(AT_FDCWD, self.c_str(), parent_, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
      return failed(entry.path, "name it");
    temporary_ = name;
  }
  if (Status status = put_in_place(parent_, temporary_, name_, entry); !status) return status;
  temporary_.clear();
  abandon();
  return {};
}

void Folder::abandon() {
  resumes_ = false;
  leave();
}

void Folder::leave() {
  if (!temporary_.empty() && !resumes_) ::unlinkat(parent_, temporary_.c_str(), 0);
  temporary_.clear();
  if (file_ >= 0) ::close(std::exchange(file_, -1));
  if (parent_ >= 0) ::close(std::exchange(parent_, -1));
}

Status Folder::dress_at(int file, const Entry& entry) const {
  if (::geteuid() == 0 && ::fchown(file, entry.uid, entry.gid) != 0)
    return failed(entry.path, "set its owner");
  for (const auto& [name, value] : entry.xattrs) {
    if (::fsetxattr(file, name.c_str(), value.data(), value.size(), 0) == 0) continue;
    // Skip attributes that this user may not set or this file system does not support.
    if (errno == EPERM || errno == EOPNOTSUPP) continue;
    return failed(entry.path, "set an extended attribute");
  }
  // The mode follows the owner, as chown clears the setuid bit.
  if (::fchmod(file, entry.mode) != 0) return failed(entry.path, "set its mode");
  const timespec times[2] = {{0, UTIME_OMIT}, {entry.mtime_s, static_cast<long>(entry.mtime_ns)}};
  if (::futimens(file, times) != 0) return failed(entry.path, "set its time");
  return {};
}

Status Folder::dress(const Entry& entry) {
  if (entry.kind == EntryKind::hard_link || entry.kind == EntryKind::unreadable) return {};
  if (entry.kind == EntryKind::symlink) {
    std::string name;
    const Descriptor parent(open_parent(entry.path, name));
    if (parent.get() < 0) return failed(entry.path, "open its folder");
    if (::geteuid() == 0 &&
        ::fchownat(parent.get(), name.c_str(), entry.uid, entry.gid, AT_SYMLINK_NOFOLLOW) != 0)
      return failed(entry.path, "set its owner");
    const timespec times[2] = {{0, UTIME_OMIT}, {entry.mtime_s, static_cast<long>(entry.mtime_ns)}};
    if (::utimensat(parent.get(), name.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0)
      return failed(entry.path, "set its time");
    return {};
  }
  const Descriptor file(open_below(entry.path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) return failed(entry.path, "open it");
  return dress_at(file.get(), entry);
}

Status Folder::prune(const std::string& path, const std::vector<std::string>& names,
                     std::size_t& num_deleted, std::vector<std::string>* found) {
  const int below = open_below(path, O_RDONLY | O_DIRECTORY);
  const bool is_none = errno == ENOENT || errno == ENOTDIR || (found != nullptr && errno == ELOOP);
  if (below < 0) return is_none ? Status() : failed(path, "open");
  const std::unique_ptr<DIR, int (*)(DIR*)> items(::fdopendir(below), ::closedir);
  const std::set<std::string> kept(names.begin(), names.end());
  std::vector<std::string> gone;
  while (const dirent* item = ::readdir(items.get()))
    if (std::strcmp(item->d_name, ".") != 0 && std::strcmp(item->d_name, "..") != 0 &&
        !kept.contains(item->d_name))
      gone.emplace_back(item->d_name);
  Status first;
  for (const std::string& name : gone) {
    if (found != nullptr) {
      found->push_back(path + "/" + name);
      continue;
    }
    Status status = remove_all(below, name, path + "/" + name, num_deleted);
    if (!status && first.ok()) first = status;
  }
  return first;
}

}  // namespace weft::copy
