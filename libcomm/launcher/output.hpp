#pragma once
// Output of the ranks: whole lines from many pipes to standard output and standard error, and to
// files. Nothing here but a file system blocks: a reader that is slow holds the ranks back, and
// never weftrun itself.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "weft/status.hpp"

namespace weft::weftrun {

// Text that waits to be written to one of weftrun's own outputs.
class Sink {
 public:
  explicit Sink(int fd) : fd_(fd) {}
  int fd() const { return fd_; }
  bool empty() const { return pending_.empty(); }
  // While it is full, do not append.
  bool full() const { return pending_.size() >= kRoomBytes; }
  // writer: any address that identifies the writer. A line that another writer has left open is
  // ended first, so that no line is of two writers; the text of a single writer is unchanged.
  void append(std::string_view text, const void* writer);
  // True if the open line is this writer's, so that its next text continues it.
  bool is_inside_line_of(const void* writer) const { return line_writer_ == writer; }
  // Writes what fits without blocking. Call when poll reports room. Returns an errno once, when the
  // output turns out to be gone; from then on everything is dropped.
  int write_some();

 private:
  static constexpr std::size_t kRoomBytes = 1u << 20;
  int fd_;
  bool broken_ = false;
  std::string pending_;
  const void* line_writer_ = nullptr;  // the writer whose line is open at the end of the text
};

// Both descriptors lead to one file or terminal.
bool same_place(int fd, int other_fd);

// One output of one rank, cut into lines.
class Lines {
 public:
  // prefix: put before every line. whole_lines: keep an unfinished line back until it ends.
  Lines(Sink* sink, std::string prefix, bool whole_lines)
      : sink_(sink), prefix_(std::move(prefix)), whole_lines_(whole_lines) {}

  void take(std::string_view bytes);
  // Passes on all that is left, even if the line is not finished.
  void finish();

 private:
  // Of a longer one pieces pass at once; only then can another writer's line come in between.
  static constexpr std::size_t kLongestLineBytes = 1u << 20;
  void emit(std::string_view text);

  Sink* sink_;
  std::string prefix_;
  bool whole_lines_;
  std::string line_;
};

// The outputs of ranks as files of this machine, FOLDER/rank.N/stdout and stderr, as Open MPI names
// them: N with as many digits as the last rank has.
class RankFiles {
 public:
  RankFiles() = default;
  ~RankFiles();
  RankFiles(const RankFiles&) = delete;
  RankFiles& operator=(const RankFiles&) = delete;

  // Makes the folders and the files, or empties these, unless they go on. bad_argument names what
  // cannot be made.
  Status open(const std::string& folder, int num_ranks, bool go_on);
  // Returns an errno once, when a file cannot be written; from then on its output is dropped.
  int write(int rank, bool is_out, std::string_view bytes);
  std::string path(int rank, bool is_out) const;

 private:
  std::string folder_of(int rank) const;

  std::string folder_;
  int num_digits_ = 1;
  std::vector<std::array<int, 2>> fds_;  // of standard output and standard error; -1: given up
};

}  // namespace weft::weftrun
