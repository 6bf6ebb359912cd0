#pragma once
// CRC-32C (Castagnoli; RFC 3720, appendix B.4) of bytes that have been away: on disk, or on another
// host. Any thread.
#include <cstddef>
#include <cstdint>

namespace weft::objstore {

// Of `bytes` bytes behind those that `before` is of.
std::uint32_t crc32c(const std::byte* data, std::size_t bytes, std::uint32_t before = 0);

}  // namespace weft::objstore
