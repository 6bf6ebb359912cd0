#pragma once
// ByteStream: the bytes of a file or of standard input from their beginning, as they are or
// inflated. One thread.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/status.hpp"

namespace weft::graph {

enum class Compression : std::uint32_t { none, gzip, zstd, xz };

// By the first bytes.
Compression compression_of(std::string_view head) noexcept;
// By a name's suffix, as "gz"; its length with the dot is taken off the name.
Compression compression_by_name(std::string& path);
const char* name_of(Compression compression) noexcept;

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills `to` with `bytes` bytes; *got is less only at the end. not_permitted with errno's text,
  // or corrupt.
  virtual Status read(char* to, std::size_t bytes, std::size_t* got) = 0;
  // Bytes of the file that were used so far.
  virtual std::uint64_t consumed() const = 0;
};

// A file from its beginning, whose descriptor stays the caller's.
std::unique_ptr<ByteStream> stream_of_file(int descriptor);
// A pipe from where it is; each byte can be read once.
std::unique_ptr<ByteStream> stream_of_pipe(int descriptor);
// `read` and what follows it in the stream.
std::unique_ptr<ByteStream> stream_behind(std::string read, std::unique_ptr<ByteStream> rest);
// unsupported if this build lacks the library.
Status inflate(Compression compression, std::unique_ptr<ByteStream> packed,
               std::unique_ptr<ByteStream>& inflated);

// For inflating streams: the packed bytes, block by block.
class PackedBytes {
 public:
  explicit PackedBytes(std::unique_ptr<ByteStream> from)
      : from_(std::move(from)), block_(std::size_t{1} << 17) {}
  // If none are left, reads the next block. An empty view: the stream has ended.
  Status fill();
  std::string_view left() const { return {block_.data() + at_, size_ - at_}; }
  void use(std::size_t bytes) { at_ += bytes; }
  bool has_ended() const { return has_ended_ && at_ == size_; }
  std::uint64_t consumed() const { return from_->consumed() - (size_ - at_); }

 private:
  std::unique_ptr<ByteStream> from_;
  std::vector<char> block_;
  std::size_t at_ = 0, size_ = 0;
  bool has_ended_ = false;
};

}  // namespace weft::graph
