#pragma once
// OutputFile: a file that is written completely or not at all. It is written without a name
// (O_TMPFILE) if the file system can, so that a killed process leaves nothing behind; else under a
// temporary name in the same folder.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/status.hpp"

namespace weft::graph {

class OutputFile {
 public:
  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  ~OutputFile();  // without commit, nothing is left
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // not_permitted or no_memory (the disk is full), naming the file and why.
  Status open();
  Status write(const void* data, std::size_t bytes);
  // Elsewhere, without moving on.
  Status write_at(std::uint64_t offset, const void* data, std::size_t bytes);
  // Goes on there.
  Status seek(std::uint64_t offset);
  Status write(std::string_view text) { return write(text.data(), text.size()); }
  // Flushes the data to the disk, so that they survive a crash of the machine.
  Status sync();
  // Gives the file its name, which replaces an older file. Nothing can be written afterwards.
  Status commit();

 private:
  Status flush();
  Status failed(const char* doing) const;

  std::string path_, temporary_;
  int descriptor_ = -1;
  std::vector<char> block_;
};

}  // namespace weft::graph
