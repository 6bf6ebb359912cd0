#pragma once
// Place: where in the program something was called. Places travel to other processes as numbers:
// the ranks of a job run the same files, which have these numbers in common.
#include <cstdint>
#include <string>

namespace weft::check {

// "main (file.c:12)"; without the lines of -g "main (program)". Empty: not known.
std::string place_of(const void* caller);

struct SentPlace {
  std::uint32_t module = 0;  // a hash of the file's name; 0: not known
  std::uint32_t offset = 0;  // of the address in it
};
SentPlace sent_place(const void* caller) noexcept;
std::string text_of(const SentPlace& place);

}  // namespace weft::check
