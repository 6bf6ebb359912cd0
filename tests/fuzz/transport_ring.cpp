// A ring whose bytes a hostile peer wrote: no entry may reach beyond the ring's memory.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "transport/ring.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint32_t kRing = 8192;
  // The ring and the page behind it, as fabrics make them; the sanitizer guards the ends.
  constexpr std::size_t kWhole = kRing + 4096;
  const std::unique_ptr<std::byte, void (*)(void*)> memory(
      static_cast<std::byte*>(std::aligned_alloc(64, kWhole)), std::free);
  std::memset(memory.get(), 0, kWhole);
  std::memcpy(memory.get(), data, std::min(size, kWhole));
  std::atomic<std::uint64_t> consumed{0};
  weft::RingReader reader;
  reader.attach(memory.get(), kRing, &consumed);
  weft::Entry entry;
  unsigned sum = 0;
  for (int i = 0; i < 1000 && reader.peek(entry); ++i) {
    for (std::uint32_t k = 0; k < entry.length; ++k) sum += static_cast<unsigned>(entry.data[k]);
    reader.pop(entry.length);
    reader.return_credit(sum & 1);
  }
  return 0;
}
