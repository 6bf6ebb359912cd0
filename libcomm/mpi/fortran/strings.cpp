#include "mpi/fortran/strings.hpp"

#include <new>

namespace weft::mpi::fortran {

StringArray::StringArray(const char* text, std::size_t length, std::size_t stride,
                         std::int64_t count) noexcept try {
  if (text == &weft_argv_sentinels_.argv_null) {
    is_null_ = true;
    return;
  }
  for (std::int64_t i = 0; i != count; ++i, text += length * stride) {
    const InString one(text, length, false);
    if (!one.is_valid()) throw std::bad_alloc();
    if (count < 0 && *one.data() == '\0') break;
    strings_.emplace_back(one.data());
  }
  for (auto& string : strings_) pointers_.push_back(string.data());
  pointers_.push_back(nullptr);
} catch (const std::bad_alloc&) {
  is_valid_ = false;
}

StringArrays::StringArrays(const char* text, std::size_t length, std::int64_t count) noexcept try {
  if (text == &weft_argv_sentinels_.argvs_null) {
    is_null_ = true;
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    rows_.emplace_back(text + static_cast<std::size_t>(i) * length, length,
                       static_cast<std::size_t>(count));
    if (!rows_.back().is_valid()) throw std::bad_alloc();
  }
  for (const auto& row : rows_) pointers_.push_back(row.data());
  pointers_.push_back(nullptr);
} catch (const std::bad_alloc&) {
  is_valid_ = false;
}

}  // namespace weft::mpi::fortran
