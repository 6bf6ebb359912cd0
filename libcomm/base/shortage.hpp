#pragma once
// Shortage of memory, where exceptions end: at the public interface and on datapaths.
#include <cerrno>
#include <cstddef>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>

#include "weft/status.hpp"

namespace weft {

// Returns the result of f, a Code or a Status, and ok where f returns nothing; no_memory if an
// allocation in f failed.
template <class F>
auto or_no_memory(F&& f) noexcept {
  constexpr bool kReturns = !std::is_void_v<decltype(f())>;
  using Result = std::conditional_t<kReturns, decltype(f()), Code>;
  try {
    if constexpr (kReturns) {
      return Result(f());
    } else {
      f();
      return Code::ok;
    }
  } catch (const std::bad_alloc&) {
    return Result(Code::no_memory);
  }
}

// A status with this text, or without it where there is no memory for the text.
inline Status status_of(Code code, std::string_view text) noexcept {
  Status status(code);
  or_no_memory([&] { status = {code, std::string(text)}; });
  return status;
}

// Whether a system call failed, with this errno, for want of descriptors or memory.
inline bool is_shortage(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

// After it so many calls of push_back do not allocate.
template <class Vector>
void make_room(Vector& vector, std::size_t num = 1) {
  if (vector.capacity() - vector.size() < num) vector.reserve(2 * vector.size() + num);
}

}  // namespace weft
