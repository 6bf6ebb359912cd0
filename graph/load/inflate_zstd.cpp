#include "inflaters.hpp"

#ifdef WEFT_HAVE_ZSTD
#include <zstd.h>

#include <new>
#endif

namespace weft::graph {
#ifdef WEFT_HAVE_ZSTD
namespace {

class ZstdStream : public ByteStream {
 public:
  explicit ZstdStream(std::unique_ptr<ByteStream> packed) : packed_(std::move(packed)) {
    if (state_ == nullptr) throw std::bad_alloc();
  }
  ~ZstdStream() override { ZSTD_freeDStream(state_); }
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

  Status read(char* to, std::size_t bytes, std::size_t* got) override {
    *got = 0;
    ZSTD_outBuffer out{to, bytes, 0};
    for (; out.pos < bytes; *got = out.pos) {
      *got = out.pos;
      if (const Status status = packed_.fill(); !status.ok()) return status;
      const std::string_view left = packed_.left();
      if (left.empty() && !in_frame_) return Code::ok;
      const std::size_t before = out.pos;
      ZSTD_inBuffer in{left.data(), left.size(), 0};
      const std::size_t result = ZSTD_decompressStream(state_, &out, &in);
      if (ZSTD_isError(result) != 0) return cannot_inflate(ZSTD_getErrorName(result));
      packed_.use(in.pos);
      in_frame_ = result != 0;
      if (left.empty() && out.pos == before) return ends_early();
    }
    return Code::ok;
  }
  std::uint64_t consumed() const override { return packed_.consumed(); }

 private:
  PackedBytes packed_;
  ZSTD_DStream* state_ = ZSTD_createDStream();
  bool in_frame_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> inflate_zstd(std::unique_ptr<ByteStream> packed) {
  return std::make_unique<ZstdStream>(std::move(packed));
}
#else
std::unique_ptr<ByteStream> inflate_zstd(std::unique_ptr<ByteStream>) { return nullptr; }
#endif

}  // namespace weft::graph
