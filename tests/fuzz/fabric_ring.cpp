// A ring whose bytes a hostile peer wrote: no entry may reach beyond the ring's memory, be it
// mapped, or written by a fabric on behalf of a peer that tells any count of what has arrived.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "fabric/ring.hpp"

namespace {

template <class Peek>
void read_all(std::byte* memory, std::uint32_t ring_bytes, Peek&& peek) {
  std::atomic<std::uint64_t> consumed{0};
  weft::RingReader reader;
  reader.attach(memory, ring_bytes, &consumed);
  weft::Entry entry;
  unsigned sum = 0;
  for (int i = 0; i < 1000 && peek(reader, entry); ++i) {
    for (std::uint32_t k = 0; k < entry.length; ++k) sum += static_cast<unsigned>(entry.data[k]);
    reader.pop(entry.length);
    reader.return_credit(sum & 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint32_t kRing = 8192;
  // The ring and the page behind it, as fabrics make them; the sanitizer guards the ends.
  constexpr std::size_t kWhole = kRing + 4096;
  const std::unique_ptr<std::byte, void (*)(void*)> memory(
      static_cast<std::byte*>(std::aligned_alloc(64, kWhole)), std::free);
  std::memset(memory.get(), 0, kWhole);
  std::memcpy(memory.get(), data, std::min(size, kWhole));
  read_all(memory.get(), kRing, [](auto& reader, auto& entry) { return reader.peek(entry); });
  // As if the writer had gone back to the start never, at once, or behind the first line.
  for (const std::uint64_t arrived : {std::uint64_t{size}, ~std::uint64_t{0} / 2})
    for (const std::uint64_t restarted : {~std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{64}})
      read_all(memory.get(), kRing, [=](auto& reader, auto& entry) {
        return reader.peek_arrived(entry, arrived, restarted);
      });
  return 0;
}
