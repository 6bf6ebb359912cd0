#pragma once
// Conversions from Fortran's arguments to C's: sentinels by their address, handles as integers,
// strings with blanks. Only the wrappers call them, from any thread.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "mpi.h"

namespace weft::mpi::fortran {

// The common blocks of mpif.h and of the modules. A program's own copy takes the place of the
// library's, so comparisons use addresses that the dynamic linker resolves.
struct Sentinels {
  MPI_Fint bottom, in_place, buffer_automatic, unweighted, weights_empty, errcodes_ignore;
  MPI_Fint status_ignore[MPI_F_STATUS_SIZE], statuses_ignore[MPI_F_STATUS_SIZE];
};
struct ArgvSentinels {
  char argv_null, argvs_null;
};
extern "C" {
// NOLINTBEGIN: names that the Fortran compiler makes
__attribute__((visibility("default"))) extern Sentinels weft_sentinels_;
__attribute__((visibility("default"))) extern ArgvSentinels weft_argv_sentinels_;
// NOLINTEND
}

void* translate_sentinel(std::size_t offset, void* address) noexcept;

// Converts a buffer, status, or array: one compare for all that are no sentinel.
inline void* translate(void* address) noexcept {
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(address) -
                             reinterpret_cast<std::uintptr_t>(&weft_sentinels_);
  if (offset < sizeof(Sentinels)) [[unlikely]]
    return translate_sentinel(offset, address);
  return address;
}
inline bool is_in_place(const void* address) noexcept {
  return address == &weft_sentinels_.in_place;
}

template <class Handle>
Handle to_c(MPI_Fint number) noexcept;
// Predefined handles have one number in all languages, which the standard fixes: two calls less
// in a short MPI_Send.
#define WEFT_HANDLE(type, name)                                                             \
  template <>                                                                               \
  inline type to_c<type>(MPI_Fint number) noexcept {                                        \
    if (number >= 0 && number < 4096) return reinterpret_cast<type>(std::intptr_t{number}); \
    return PMPI_##name##_fromint(number);                                                   \
  }                                                                                         \
  inline MPI_Fint to_fortran(type handle) noexcept { return PMPI_##name##_toint(handle); }
WEFT_HANDLE(MPI_Comm, Comm)
WEFT_HANDLE(MPI_Datatype, Type)
WEFT_HANDLE(MPI_Request, Request)
WEFT_HANDLE(MPI_Info, Info)
WEFT_HANDLE(MPI_File, File)
WEFT_HANDLE(MPI_Win, Win)
WEFT_HANDLE(MPI_Op, Op)
WEFT_HANDLE(MPI_Group, Group)
WEFT_HANDLE(MPI_Errhandler, Errhandler)
WEFT_HANDLE(MPI_Session, Session)
WEFT_HANDLE(MPI_Message, Message)
#undef WEFT_HANDLE

// Raises the error on MPI_COMM_SELF's handler, where errors without an object go.
[[gnu::cold]] void refuse(int code, MPI_Fint* ierror) noexcept;

// Memory of a call: a few elements without the allocator.
template <class Element, std::size_t kInline>
class Scratch {
 public:
  explicit Scratch(std::size_t count) noexcept {
    if (count > kInline) elements_ = static_cast<Element*>(std::calloc(count, sizeof(Element)));
  }
  ~Scratch() {
    if (elements_ != inline_) std::free(elements_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  Element* data() noexcept { return elements_; }
  Element* data() const noexcept { return elements_; }

 private:
  Element inline_[kInline];
  Element* elements_ = inline_;
};

template <class Handle>
class HandleArray {
 public:
  HandleArray(const MPI_Fint* handles, std::int64_t count, bool is_read) noexcept
      : count_(count > 0 ? static_cast<std::size_t>(count) : 0), handles_(count_) {
    if (!is_valid()) return;
    for (std::size_t i = 0; i < count_; ++i)
      handles_.data()[i] = is_read ? to_c<Handle>(handles[i]) : nullptr;
  }
  bool is_valid() const noexcept { return handles_.data() != nullptr; }
  static int error() noexcept { return MPI_ERR_NO_MEM; }
  Handle* data() noexcept { return handles_.data(); }
  // Handles that the call has not written stay as they were.
  void store(MPI_Fint* handles) const noexcept {
    for (std::size_t i = 0; i < count_; ++i)
      if (handles_.data()[i] != nullptr) handles[i] = to_fortran(handles_.data()[i]);
  }

 private:
  std::size_t count_;
  Scratch<Handle, 32> handles_;
};

// A string without trailing blanks; keys and values of infos also without leading ones.
class InString {
 public:
  InString(const char* text, std::size_t length, bool drops_leading) noexcept
      : first_(drops_leading ? num_leading(text, length) : 0),
        length_(num_trimmed(text, length, first_)),
        copy_(length_ + 1) {
    if (!is_valid()) return;
    std::memcpy(copy_.data(), text + first_, length_);
    copy_.data()[length_] = '\0';
  }
  bool is_valid() const noexcept { return copy_.data() != nullptr; }
  static int error() noexcept { return MPI_ERR_NO_MEM; }
  char* data() const noexcept { return copy_.data(); }

 private:
  static std::size_t num_leading(const char* text, std::size_t length) noexcept {
    std::size_t i = 0;
    while (i < length && text[i] == ' ') ++i;
    return i;
  }
  static std::size_t num_trimmed(const char* text, std::size_t end, std::size_t first) noexcept {
    while (end > first && text[end - 1] == ' ') --end;
    return end - first;
  }

  std::size_t first_, length_;
  Scratch<char, 256> copy_;
};

// A string filled by C, then cut or padded with blanks to the length of the program's variable.
class OutString {
 public:
  explicit OutString(std::int64_t limit) noexcept
      : text_(limit > 0 ? static_cast<std::size_t>(limit) + 1 : 1) {
    if (is_valid()) text_.data()[0] = '\0';
  }
  bool is_valid() const noexcept { return text_.data() != nullptr; }
  static int error() noexcept { return MPI_ERR_NO_MEM; }
  char* data() const noexcept { return text_.data(); }
  void store(char* text, std::size_t length) const noexcept {
    const std::size_t written = strnlen(text_.data(), length);
    std::memcpy(text, text_.data(), written);
    std::memset(text + written, ' ', length - written);
  }

 private:
  Scratch<char, 512> text_;
};

// The size of arrays of datatypes, one for each process to communicate with; 0 without a
// communicator, which is an error of the call.
std::int64_t num_group(MPI_Comm comm) noexcept;
std::int64_t num_indegree(MPI_Comm comm) noexcept;
std::int64_t num_outdegree(MPI_Comm comm) noexcept;

// True if the call got so far as to report which requests are complete.
inline bool has_results(int result) noexcept {
  return result == MPI_SUCCESS || result == MPI_ERR_IN_STATUS;
}
inline void count_from_one(MPI_Fint* indices, MPI_Fint count) noexcept {
  for (MPI_Fint i = 0; i < count; ++i)
    if (indices[i] >= 0) ++indices[i];
}

}  // namespace weft::mpi::fortran
