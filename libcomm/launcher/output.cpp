#include "launcher/output.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace weft::weftrun {

void Sink::append(std::string_view text, const void* writer) {
  if (broken_ || text.empty()) return;
  if (line_writer_ != nullptr && line_writer_ != writer) pending_ += '\n';
  pending_ += text;
  line_writer_ = text.back() == '\n' ? nullptr : writer;
}

int Sink::write_some() {
  std::size_t written = 0;
  int error = 0;
  while (written < pending_.size()) {
    pollfd room{fd_, POLLOUT, 0};
    if (poll(&room, 1, 0) != 1) break;
    // A pipe that poll reports writable takes PIPE_BUF bytes without blocking, and as one piece.
    // Whole lines, so that another writer to the same file does not tear them.
    const std::string_view rest = std::string_view(pending_).substr(written, PIPE_BUF);
    const std::size_t last_end = rest.rfind('\n');
    const std::size_t length = last_end == std::string_view::npos ? rest.size() : last_end + 1;
    const ssize_t done = write(fd_, rest.data(), length);
    if (done >= 0) {
      written += static_cast<std::size_t>(done);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      error = errno;
      broken_ = true;
      written = pending_.size();
    }
  }
  pending_.erase(0, written);
  return error;
}

bool same_place(int fd, int other_fd) {
  struct stat one {
  }, other{};
  return fstat(fd, &one) == 0 && fstat(other_fd, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

void Lines::take(std::string_view bytes) {
  line_ += bytes;
  std::size_t end = line_.rfind('\n');
  end = end == std::string::npos ? 0 : end + 1;
  if (!whole_lines_ || line_.size() - end > kLongestLineBytes) end = line_.size();
  emit(std::string_view(line_).substr(0, end));
  line_.erase(0, end);
}

void Lines::emit(std::string_view text) {
  if (prefix_.empty()) return sink_->append(text, this);
  while (!text.empty()) {
    if (!sink_->is_inside_line_of(this)) sink_->append(prefix_, this);
    const std::size_t end = text.find('\n');
    const std::size_t length = end != std::string_view::npos ? end + 1 : text.size();
    sink_->append(text.substr(0, length), this);
    text.remove_prefix(length);
  }
}

void Lines::finish() {
  emit(line_);
  line_.clear();
}

RankFiles::~RankFiles() {
  for (const auto& fds : fds_)
    for (const int fd : fds)
      if (fd >= 0) close(fd);
}

Status RankFiles::open(const std::string& folder, int num_ranks, bool go_on) {
  folder_ = folder;
  num_digits_ = static_cast<int>(std::to_string(num_ranks - 1).size());
  for (int rank = 0; rank < num_ranks; ++rank) {
    std::error_code error;
    std::filesystem::create_directories(folder_of(rank), error);
    if (error)
      return {Code::bad_argument, fmt::format("cannot make the folder {} for output: {}",
                                              folder_of(rank), error.message())};
    auto& fds = fds_.emplace_back(std::array<int, 2>{-1, -1});
    for (const bool is_out : {true, false}) {
      const std::string file = path(rank, is_out);
      const int fd =
          ::open(file.c_str(),
                 O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | (go_on ? O_APPEND : O_TRUNC), 0666);
      if (fd < 0)
        return {Code::bad_argument,
                fmt::format("cannot write output to {}: {}", file, strerror(errno))};
      fds[is_out ? 0 : 1] = fd;
    }
  }
  return {};
}

int RankFiles::write(int rank, bool is_out, std::string_view bytes) {
  int& fd = fds_[static_cast<std::size_t>(rank)][is_out ? 0 : 1];
  while (fd >= 0 && !bytes.empty()) {
    const ssize_t done = ::write(fd, bytes.data(), bytes.size());
    if (done >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(done));
    } else if (errno != EINTR) {
      const int error = errno;
      close(fd);
      fd = -1;
      return error;
    }
  }
  return 0;
}

std::string RankFiles::folder_of(int rank) const {
  return fmt::format("{}/rank.{:0{}}", folder_, rank, num_digits_);
}

std::string RankFiles::path(int rank, bool is_out) const {
  return fmt::format("{}/{}", folder_of(rank), is_out ? "stdout" : "stderr");
}

}  // namespace weft::weftrun
