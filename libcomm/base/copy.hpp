#pragma once
// Copies for data that another core reads next. Any thread.
#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "weft/copy.hpp"

namespace weft {

using detail::copy_small;

// Copies past the caches: whole lines are written to memory without being fetched first. A core
// that writes lines which another core read last pays for taking each of them back; this does not.
// Slower to start than memcpy, faster from some KiB on (docs/design/tried.md). Ends
// with a store fence.
inline void copy_past_cache(void* to, const void* from, std::size_t n) noexcept {
#if defined(__SSE2__)
  auto* t = static_cast<char*>(to);
  const auto* f = static_cast<const char*>(from);
  const std::size_t lead = (64 - reinterpret_cast<std::uintptr_t>(t) % 64) % 64;
  if (n < lead + 64) return copy_small(to, from, n);
  copy_small(t, f, lead);
  t += lead;
  f += lead;
  n -= lead;
  for (; n >= 64; n -= 64, t += 64, f += 64) {
    const auto* source = reinterpret_cast<const __m128i*>(f);
    auto* target = reinterpret_cast<__m128i*>(t);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  copy_small(t, f, n);
  _mm_sfence();
#else
  std::memcpy(to, from, n);
#endif
}

}  // namespace weft
