#include "job/weftrun/output.hpp"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>

namespace weft::weftrun {

void Sink::append(std::string_view text) {
  if (!broken_) pending_ += text;
}

void Sink::write_some() {
  std::size_t written = 0;
  while (written < pending_.size()) {
    pollfd room{fd_, POLLOUT, 0};
    if (poll(&room, 1, 0) != 1) break;
    // A pipe that poll reports writable takes PIPE_BUF bytes without blocking, and as one piece.
    // Whole lines, so that another writer to the same place does not tear them.
    const std::string_view rest = std::string_view(pending_).substr(written, PIPE_BUF);
    const std::size_t last_end = rest.rfind('\n');
    const std::size_t length = last_end == std::string_view::npos ? rest.size() : last_end + 1;
    const ssize_t done = write(fd_, rest.data(), length);
    if (done >= 0) {
      written += static_cast<std::size_t>(done);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      broken_ = true;
      written = pending_.size();
    }
  }
  pending_.erase(0, written);
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
  if (prefix_.empty()) return sink_->append(text);
  while (!text.empty()) {
    if (at_line_start_) sink_->append(prefix_);
    const std::size_t end = text.find('\n');
    at_line_start_ = end != std::string_view::npos;
    const std::size_t length = at_line_start_ ? end + 1 : text.size();
    sink_->append(text.substr(0, length));
    text.remove_prefix(length);
  }
}

void Lines::finish() {
  // With several ranks the next line of another one must not continue this one.
  if (whole_lines_ && !line_.empty()) line_ += '\n';
  emit(line_);
  line_.clear();
}

}  // namespace weft::weftrun
