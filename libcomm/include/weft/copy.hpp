#pragma once
// Copies that are quick at any length: of a few bytes without a call, which would cost as much as
// the copy. For Weft's own headers and sources. As with memcpy the two places must not overlap. Any
// thread.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "weft/export.hpp"

namespace weft::detail {

// From the size of a Piece to twice that: the first and the last one, which may share bytes.
template <class Piece>
void copy_ends(char* to, const char* from, std::size_t n) noexcept {
  Piece first, last;
  std::memcpy(&first, from, sizeof first);
  std::memcpy(&last, from + n - sizeof last, sizeof last);
  std::memcpy(to, &first, sizeof first);
  std::memcpy(to + n - sizeof last, &last, sizeof last);
}

// Copies n bytes by memcpy, but in pieces where that would be slow. From some 2 KiB on C libraries
// use `rep movsb`, which runs at 2 GB/s on AMD's Zen 3 and 4 where the target lies less than 32
// bytes behind the source within a page (glibc's bug 30994): from the start of a page to memory of
// malloc, say. Shorter pieces are copied by vectors.
inline void copy(void* to, const void* from, std::size_t n) noexcept {
  constexpr std::size_t kPiece = 1024;
  const auto behind = reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
  auto* t = static_cast<char*>(to);
  const auto* f = static_cast<const char*>(from);
  if (n >= 2 * kPiece && (behind - 1) % 4096 < 63) [[unlikely]] {
    for (; n > kPiece; n -= kPiece, t += kPiece, f += kPiece) {
      std::size_t piece = kPiece;
      asm volatile("" : "+r"(piece));  // else compilers write `rep movsq` here
      std::memcpy(t, f, piece);
    }
  }
  std::memcpy(t, f, n);
}

// Copies n bytes; up to 16 without a call.
inline void copy_small(void* to, const void* from, std::size_t n) noexcept {
  auto* t = static_cast<char*>(to);
  const auto* f = static_cast<const char*>(from);
  if (n > 16) {
    copy(t, f, n);
  } else if (n >= 8) {
    copy_ends<std::uint64_t>(t, f, n);
  } else if (n >= 4) {
    copy_ends<std::uint32_t>(t, f, n);
  } else if (n > 0) {
    t[0] = f[0];
    t[n / 2] = f[n / 2];
    t[n - 1] = f[n - 1];
  }
}

// The same up to 64, in more code.
inline void copy_line(void* to, const void* from, std::size_t n) noexcept {
  struct Piece {
    std::uint64_t words[2];
  };
  auto* t = static_cast<char*>(to);
  const auto* f = static_cast<const char*>(from);
  if (n <= 16 || n > 64) return copy_small(t, f, n);
  if (n <= 32) return copy_ends<Piece>(t, f, n);
  copy_ends<Piece>(t, f, 32);
  copy_ends<Piece>(t + n - 32, f + n - 32, 32);
}

}  // namespace weft::detail
