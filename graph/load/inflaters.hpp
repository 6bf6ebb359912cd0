#pragma once
// The streams that inflate; null if the library is missing. Called by byte_stream.cpp.
#include "byte_stream.hpp"

namespace weft::graph {

std::unique_ptr<ByteStream> inflate_gzip(std::unique_ptr<ByteStream> packed);
std::unique_ptr<ByteStream> inflate_zstd(std::unique_ptr<ByteStream> packed);
std::unique_ptr<ByteStream> inflate_xz(std::unique_ptr<ByteStream> packed);

inline Status cannot_inflate(const std::string& why) {
  return {Code::corrupt, "cannot inflate it: " + why};
}
inline Status ends_early() { return cannot_inflate("it ends before its last block does"); }

}  // namespace weft::graph
