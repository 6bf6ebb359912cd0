#include "byte_stream.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "inflaters.hpp"

namespace weft::graph {
namespace {

Status failed() {
  return {Code::not_permitted, std::string("cannot read it: ") + std::strerror(errno)};
}

class RawStream : public ByteStream {
 public:
  RawStream(int descriptor, bool is_pipe) : descriptor_(descriptor), is_pipe_(is_pipe) {}
  Status read(char* to, std::size_t bytes, std::size_t* got) override {
    for (*got = 0; *got < bytes;) {
      const ssize_t more =
          is_pipe_ ? ::read(descriptor_, to + *got, bytes - *got)
                   : pread(descriptor_, to + *got, bytes - *got, static_cast<off_t>(at_));
      if (more < 0 && errno == EINTR) continue;
      if (more < 0) return failed();
      if (more == 0) break;
      *got += static_cast<std::size_t>(more);
      at_ += static_cast<std::uint64_t>(more);
    }
    return Code::ok;
  }
  std::uint64_t consumed() const override { return at_; }

 private:
  int descriptor_;
  bool is_pipe_;
  std::uint64_t at_ = 0;
};

class StreamBehind : public ByteStream {
 public:
  StreamBehind(std::string read, std::unique_ptr<ByteStream> rest)
      : read_(std::move(read)), rest_(std::move(rest)) {}
  Status read(char* to, std::size_t bytes, std::size_t* got) override {
    const std::size_t first = std::min(bytes, read_.size() - at_);
    std::memcpy(to, read_.data() + at_, first);
    at_ += first;
    *got = first;
    if (first == bytes) return Code::ok;
    const Status status = rest_->read(to + first, bytes - first, got);
    *got += first;
    return status;
  }
  std::uint64_t consumed() const override { return rest_->consumed(); }

 private:
  std::string read_;
  std::size_t at_ = 0;
  std::unique_ptr<ByteStream> rest_;
};

struct Kind {
  Compression compression;
  std::string_view magic, suffix;
  const char* name;
};
constexpr Kind kKinds[] = {{Compression::gzip, "\x1f\x8b\x08", ".gz", "gzip"},
                           {Compression::zstd, "\x28\xb5\x2f\xfd", ".zst", "zstd"},
                           {Compression::xz,
                            "\xfd"
                            "7zXZ",
                            ".xz", "xz"}};

}  // namespace

Compression compression_of(std::string_view head) noexcept {
  for (const Kind& kind : kKinds)
    if (head.starts_with(kind.magic)) return kind.compression;
  return Compression::none;
}

Compression compression_by_name(std::string& path) {
  for (const Kind& kind : kKinds)
    if (path.size() > kind.suffix.size() && path.ends_with(kind.suffix)) {
      path.resize(path.size() - kind.suffix.size());
      return kind.compression;
    }
  return Compression::none;
}

const char* name_of(Compression compression) noexcept {
  for (const Kind& kind : kKinds)
    if (kind.compression == compression) return kind.name;
  return "nothing";
}

std::unique_ptr<ByteStream> stream_of_file(int descriptor) {
  return std::make_unique<RawStream>(descriptor, false);
}
std::unique_ptr<ByteStream> stream_of_pipe(int descriptor) {
  return std::make_unique<RawStream>(descriptor, true);
}
std::unique_ptr<ByteStream> stream_behind(std::string read, std::unique_ptr<ByteStream> rest) {
  return std::make_unique<StreamBehind>(std::move(read), std::move(rest));
}

Status PackedBytes::fill() {
  if (at_ < size_ || has_ended_) return Code::ok;
  at_ = 0;
  const Status status = from_->read(block_.data(), block_.size(), &size_);
  has_ended_ = size_ < block_.size();
  return status;
}

Status inflate(Compression compression, std::unique_ptr<ByteStream> packed,
               std::unique_ptr<ByteStream>& inflated) {
  switch (compression) {
    case Compression::none:
      inflated = std::move(packed);
      break;
    case Compression::gzip:
      inflated = inflate_gzip(std::move(packed));
      break;
    case Compression::zstd:
      inflated = inflate_zstd(std::move(packed));
      break;
    case Compression::xz:
      inflated = inflate_xz(std::move(packed));
      break;
  }
  if (inflated != nullptr) return Code::ok;
  return {Code::unsupported,
          std::string("is compressed by ") + name_of(compression) +
              ", whose library was missing when this Weft was built: inflate it"};
}

}  // namespace weft::graph
