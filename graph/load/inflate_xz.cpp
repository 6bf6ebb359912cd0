#include "inflaters.hpp"

#ifdef WEFT_HAVE_LZMA
#include <lzma.h>

#include <new>
#endif

namespace weft::graph {
#ifdef WEFT_HAVE_LZMA
namespace {

class XzStream : public ByteStream {
 public:
  explicit XzStream(std::unique_ptr<ByteStream> packed) : packed_(std::move(packed)) {
    constexpr std::uint64_t kMostMemory = std::uint64_t{1} << 30;  // xz -9 takes 65 MiB
    if (lzma_stream_decoder(&state_, kMostMemory, LZMA_CONCATENATED) != LZMA_OK)
      throw std::bad_alloc();
  }
  ~XzStream() override { lzma_end(&state_); }
  XzStream(const XzStream&) = delete;
  XzStream& operator=(const XzStream&) = delete;

  Status read(char* to, std::size_t bytes, std::size_t* got) override {
    for (*got = 0; *got < bytes && !has_ended_;) {
      if (const Status status = packed_.fill(); !status.ok()) return status;
      const std::string_view left = packed_.left();
      state_.next_in = reinterpret_cast<const std::uint8_t*>(left.data());
      state_.avail_in = left.size();
      state_.next_out = reinterpret_cast<std::uint8_t*>(to + *got);
      state_.avail_out = bytes - *got;
      const lzma_ret result = lzma_code(&state_, left.empty() ? LZMA_FINISH : LZMA_RUN);
      packed_.use(left.size() - state_.avail_in);
      *got = bytes - state_.avail_out;
      if (result == LZMA_STREAM_END)
        has_ended_ = true;
      else if (result == LZMA_BUF_ERROR)
        return ends_early();
      else if (result == LZMA_MEMLIMIT_ERROR)
        return cannot_inflate("it takes more than 1 GiB of memory");
      else if (result != LZMA_OK)
        return cannot_inflate("wrong data");
    }
    return Code::ok;
  }
  std::uint64_t consumed() const override { return packed_.consumed(); }

 private:
  PackedBytes packed_;
  lzma_stream state_ = LZMA_STREAM_INIT;
  bool has_ended_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> inflate_xz(std::unique_ptr<ByteStream> packed) {
  return std::make_unique<XzStream>(std::move(packed));
}
#else
std::unique_ptr<ByteStream> inflate_xz(std::unique_ptr<ByteStream>) { return nullptr; }
#endif

}  // namespace weft::graph
