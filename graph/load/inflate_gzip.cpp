#include <zlib.h>

#include <algorithm>
#include <new>

#include "inflaters.hpp"

namespace weft::graph {
namespace {

class GzipStream : public ByteStream {
 public:
  explicit GzipStream(std::unique_ptr<ByteStream> packed) : packed_(std::move(packed)) {
    constexpr int kGzipAlone = 15 + 16;
    if (inflateInit2(&state_, kGzipAlone) != Z_OK) throw std::bad_alloc();
  }
  ~GzipStream() override { inflateEnd(&state_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  Status read(char* to, std::size_t bytes, std::size_t* got) override {
    for (*got = 0; *got < bytes;) {
      if (const Status status = packed_.fill(); !status.ok()) return status;
      const std::string_view left = packed_.left();
      if (between_members_) {
        if (left.empty()) return Code::ok;
        // Zeros fill the last block of a tape.
        if (left[0] == 0) {
          packed_.use(1);
          continue;
        }
        inflateReset(&state_);
        between_members_ = false;
      }
      if (left.empty()) return ends_early();
      state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(left.data()));
      state_.avail_in = static_cast<uInt>(left.size());
      state_.next_out = reinterpret_cast<Bytef*>(to + *got);
      state_.avail_out = static_cast<uInt>(std::min<std::size_t>(bytes - *got, 1u << 30));
      const uInt before = state_.avail_out;
      const int result = ::inflate(&state_, Z_NO_FLUSH);
      packed_.use(left.size() - state_.avail_in);
      *got += before - state_.avail_out;
      if (result == Z_STREAM_END)
        between_members_ = true;
      else if (result != Z_OK && result != Z_BUF_ERROR)
        return cannot_inflate(state_.msg != nullptr ? state_.msg : "wrong data");
    }
    return Code::ok;
  }
  std::uint64_t consumed() const override { return packed_.consumed(); }

 private:
  PackedBytes packed_;
  z_stream state_{};
  bool between_members_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> inflate_gzip(std::unique_ptr<ByteStream> packed) {
  return std::make_unique<GzipStream>(std::move(packed));
}

}  // namespace weft::graph
