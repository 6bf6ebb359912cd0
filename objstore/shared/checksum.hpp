#pragma once
// CRC-32C (Castagnoli; RFC 3720, appendix B.4) of bytes that have been away: on disk, or on another
// host. Any thread.
#include <cstddef>
#include <cstdint>

namespace weft::objstore {

// Of `bytes` bytes behind those that `before` is of.
std::uint32_t crc32c(const std::byte* data, std::size_t bytes, std::uint32_t before = 0);

// Of an object: of its data in the lower half, of its metadata in the upper one, all bits turned,
// so that even of nothing it is not 0, which stands for none.
std::uint64_t checksum_of(const std::byte* object, std::uint64_t data_bytes,
                          std::uint32_t metadata_bytes);

}  // namespace weft::objstore
