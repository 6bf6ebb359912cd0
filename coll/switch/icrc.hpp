#pragma once
// The invariant CRC of RoCEv2 packets: that of Ethernet frames, over the fields that switches do
// not change on the way (InfiniBand Architecture Specification, volume 1, annex A17.3). Pure
// functions; any thread.
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::innet {

// As zlib's crc32: `crc` is that of the bytes before, 0 if there are none.
std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes) noexcept;
// The same without the processor's instructions for it.
std::uint32_t crc32_by_table(std::uint32_t crc, std::span<const std::byte> bytes) noexcept;

// The ICRC of a packet from its IPv4 header, which has no options, to the end of its payload and
// padding.
std::uint32_t icrc(std::span<const std::byte> packet) noexcept;

}  // namespace weft::innet
