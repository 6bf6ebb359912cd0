#pragma once
// The invariant CRC of RoCEv2 packets: that of Ethernet frames, over what switches do not change on
// the way (InfiniBand Architecture Specification, volume 1, annex A17.3). Pure functions; any
// thread.
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::innet {

// As zlib's crc32: `crc` is that of what comes before, 0 of nothing.
std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes) noexcept;
// The same without the processor's help.
std::uint32_t crc32_by_table(std::uint32_t crc, std::span<const std::byte> bytes) noexcept;

// Of a packet from its IPv4 header, which has no options, to the end of its payload and padding.
std::uint32_t icrc(std::span<const std::byte> packet) noexcept;

}  // namespace weft::innet
