#pragma once
// CRC-32C (Castagnoli; RFC 3720, appendix B.4) of bytes that have been away: on disk, or on another
// host. Any thread.
#include <cstddef>
#include <cstdint>

namespace weft::objstore {

// The checksum of `bytes` bytes that follow those of which `before` is the checksum.
std::uint32_t crc32c(const std::byte* data, std::size_t bytes, std::uint32_t before = 0);

// The checksum of an object: data in the lower half, metadata in the upper one, all bits inverted
// so that an empty object does not yield 0, which means none.
std::uint64_t checksum_of(const std::byte* object, std::uint64_t data_bytes,
                          std::uint32_t metadata_bytes);

}  // namespace weft::objstore
