// MPI_Pack_external and its reverse: data in "external32", the representation that the standard
// defines for every machine (MPI 5.0 section 14.5.2): big-endian, without padding; MPI_LONG has 4
// bytes there, MPI_WCHAR 2, MPI_LONG_DOUBLE is a quadruple of IEEE 754.
#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

#include "mpi/core/state.hpp"
#include "mpi/datatype/datatype.hpp"
#include "mpi/datatype/external32.hpp"

namespace weft::mpi {
namespace {

// The number of bytes of one number in external32.
std::int64_t external_unit(Form form) noexcept {
  switch (form.kind) {
    case Form::Kind::is_long:
    case Form::Kind::is_unsigned_long:
      return 4;
    case Form::Kind::wide_character:
      return 2;
    case Form::Kind::long_double:
      return 16;
    case Form::Kind::plain:
      break;
  }
  return form.unit;
}

std::int64_t external_bytes(const Signature& signature) {
  std::int64_t bytes = 0;
  signature.for_each_run([&bytes](Form form, std::int64_t numbers) {
    bytes += numbers * external_unit(form);
    return true;
  });
  return bytes;
}

void put_reversed(char* to, const void* from, std::size_t bytes) noexcept {
  const char* in = static_cast<const char*>(from);
  for (std::size_t i = 0; i < bytes; ++i) to[i] = in[bytes - 1 - i];
}

// Converts a number; false: Narrow cannot hold it.
template <class Wide, class Narrow>
bool narrow(char* to, const char* from) noexcept {
  Wide wide;
  std::memcpy(&wide, from, sizeof wide);
  const auto value = static_cast<Narrow>(wide);
  put_reversed(to, &value, sizeof value);
  return static_cast<Wide>(value) == wide;
}
template <class Wide, class Narrow>
void widen(char* to, const char* from) noexcept {
  Narrow value;
  put_reversed(reinterpret_cast<char*>(&value), from, sizeof value);
  const auto wide = static_cast<Wide>(value);
  std::memcpy(to, &wide, sizeof wide);
}

// Encodes one number; false if external32 cannot hold it.
bool encode(Form form, char* to, const char* from) noexcept {
  switch (form.kind) {
    case Form::Kind::is_long:
      return narrow<long, std::int32_t>(to, from);
    case Form::Kind::is_unsigned_long:
      return narrow<unsigned long, std::uint32_t>(to, from);
    case Form::Kind::wide_character:
      return narrow<wchar_t, char16_t>(to, from);
    case Form::Kind::long_double: {
      long double value;
      std::memcpy(&value, from, sizeof value);
      const auto quadruple = static_cast<__float128>(value);
      put_reversed(to, &quadruple, sizeof quadruple);
      return true;
    }
    case Form::Kind::plain:
      break;
  }
  put_reversed(to, from, form.unit);
  return true;
}
void decode(Form form, char* to, const char* from) noexcept {
  switch (form.kind) {
    case Form::Kind::is_long:
      return widen<long, std::int32_t>(to, from);
    case Form::Kind::is_unsigned_long:
      return widen<unsigned long, std::uint32_t>(to, from);
    case Form::Kind::wide_character:
      return widen<wchar_t, char16_t>(to, from);
    case Form::Kind::long_double: {
      __float128 quadruple;
      put_reversed(reinterpret_cast<char*>(&quadruple), from, sizeof quadruple);
      const auto value = static_cast<long double>(quadruple);
      std::memset(to, 0, sizeof value);
      std::memcpy(to, &value, 10);  // the rest is padding
      return;
    }
    case Form::Kind::plain:
      break;
  }
  put_reversed(to, from, form.unit);
}

// Both directions go through the packed bytes, some elements at a time.
template <class Step>
int in_pieces(const Datatype& type, std::int64_t count, Step&& step) {
  constexpr std::int64_t kPieceBytes = 64 * 1024;
  const auto element = static_cast<std::int64_t>(type.size());
  if (element == 0) return MPI_SUCCESS;
  const std::int64_t most =
      std::min(std::max(std::int64_t{1}, kPieceBytes / element), std::max(std::int64_t{1}, count));
  const std::unique_ptr<char[]> native(
      new (std::nothrow) char[static_cast<std::size_t>(most * element)]);
  if (native == nullptr) return MPI_ERR_NO_MEM;
  for (std::int64_t i = 0; i < count; i += most)
    if (const int code = step(native.get(), i, std::min(most, count - i)); code != MPI_SUCCESS)
      return code;
  return MPI_SUCCESS;
}

}  // namespace

std::int64_t external_bytes(const Datatype& type) { return external_bytes(type.signature_); }

bool is_evenly_external(const Datatype& type) {
  const auto native = static_cast<std::int64_t>(type.size());
  const std::int64_t external = external_bytes(type);
  return type.signature_.for_each_run([=](Form form, std::int64_t) {
    return external_unit(form) * native == static_cast<std::int64_t>(form.unit) * external;
  });
}

int encode_external(const Datatype& type, const void* memory, std::int64_t count, void* external) {
  char* to = static_cast<char*>(external);
  return in_pieces(type, count, [&](char* native, std::int64_t first, std::int64_t n) {
    type.pack(native, static_cast<const char*>(memory) + first * type.extent(), n);
    const char* from = native;
    const auto encode_run = [&](Form form, std::int64_t numbers) {
      const std::int64_t step = external_unit(form);
      for (std::int64_t i = 0; i < numbers; ++i, to += step, from += form.unit)
        if (!encode(form, to, from)) return false;
      return true;
    };
    for (std::int64_t i = 0; i < n; ++i)
      if (!type.signature_.for_each_run(encode_run)) return MPI_ERR_CONVERSION;
    return MPI_SUCCESS;
  });
}

int decode_external(const Datatype& type, const void* external, std::uint64_t bytes, void* memory,
                    std::int64_t count, std::uint64_t& memory_bytes) {
  const char* from = static_cast<const char*>(external);
  const char* const end = from + bytes;
  memory_bytes = 0;
  return in_pieces(type, count, [&](char* native, std::int64_t first, std::int64_t n) {
    char* to = native;
    const auto decode_run = [&](Form form, std::int64_t numbers) {
      const std::int64_t step = external_unit(form);
      for (std::int64_t i = 0; i < numbers; ++i, to += form.unit, from += step) {
        if (end - from < step) return false;
        decode(form, to, from);
      }
      return true;
    };
    for (std::int64_t i = 0; i < n; ++i)
      if (!type.signature_.for_each_run(decode_run)) break;
    type.unpack(static_cast<char*>(memory) + first * type.extent(), native, n,
                static_cast<std::size_t>(to - native));
    memory_bytes += static_cast<std::uint64_t>(to - native);
    return MPI_SUCCESS;
  });
}

namespace {

// Checks the arguments that all functions have; `bytes` are those in external32.
template <class Count>
int check(const char* datarep, Count count, MPI_Datatype handle, const Datatype*& type,
          std::int64_t& bytes, const char* function) {
  MPI_MUST_RUN_IN(function);
  if (datarep == nullptr || std::string_view(datarep) != "external32")
    return raise(nullptr, MPI_ERR_ARG, function, "the representation is not \"external32\"");
  if (count < 0) return raise(nullptr, MPI_ERR_COUNT, function);
  type = find_datatype(handle);
  if (type == nullptr || !type->committed()) return raise(nullptr, MPI_ERR_TYPE, function);
  if (__builtin_mul_overflow(external_bytes(type->signature_), static_cast<std::int64_t>(count),
                             &bytes))
    return raise(nullptr, MPI_ERR_COUNT, function, "the data are beyond 2^63 bytes");
  return MPI_SUCCESS;
}

template <class Count, class Size>
int size(const char* datarep, Count count, MPI_Datatype handle, Size* out, const char* function) {
  const Datatype* type = nullptr;
  std::int64_t bytes = 0;
  if (const int code = check(datarep, count, handle, type, bytes, function); code != MPI_SUCCESS)
    return code;
  if (out == nullptr) return raise(nullptr, MPI_ERR_ARG, function, "size is null");
  *out = static_cast<Size>(bytes);
  return MPI_SUCCESS;
}

template <class Count, class Size>
int pack(const char* datarep, const void* in, Count count, MPI_Datatype handle, void* out,
         Size room, Size* position, const char* function) {
  const Datatype* type = nullptr;
  std::int64_t bytes = 0;
  if (const int code = check(datarep, count, handle, type, bytes, function); code != MPI_SUCCESS)
    return code;
  if (position == nullptr) return raise(nullptr, MPI_ERR_ARG, function, "position is null");
  if (*position < 0 || room < *position || bytes > room - *position)
    return raise(nullptr, MPI_ERR_TRUNCATE, function, "the data do not fit into the buffer");
  char* to = static_cast<char*>(out) + *position;
  int code = encode_external(*type, in, count, to);
  if (code == MPI_ERR_CONVERSION)
    code = raise(nullptr, code, function, "external32 cannot hold a number");
  else if (code != MPI_SUCCESS)
    code = raise(nullptr, code, function);
  if (code == MPI_SUCCESS) *position += static_cast<Size>(bytes);
  return code;
}

template <class Count, class Size>
int unpack(const char* datarep, const void* in, Size room, Size* position, void* out, Count count,
           MPI_Datatype handle, const char* function) {
  const Datatype* type = nullptr;
  std::int64_t bytes = 0;
  if (const int code = check(datarep, count, handle, type, bytes, function); code != MPI_SUCCESS)
    return code;
  if (position == nullptr) return raise(nullptr, MPI_ERR_ARG, function, "position is null");
  if (*position < 0 || room < *position || bytes > room - *position)
    return raise(nullptr, MPI_ERR_TRUNCATE, function, "the buffer holds less than that");
  const char* from = static_cast<const char*>(in) + *position;
  std::uint64_t memory_bytes = 0;
  int code =
      decode_external(*type, from, static_cast<std::uint64_t>(bytes), out, count, memory_bytes);
  if (code != MPI_SUCCESS) code = raise(nullptr, code, function);
  if (code == MPI_SUCCESS) *position += static_cast<Size>(bytes);
  return code;
}

}  // namespace
}  // namespace weft::mpi

using namespace weft::mpi;  // NOLINT(google-build-using-namespace): bodies of a C interface

MPI_FUNCTION(Pack_external)
(const char* datarep, const void* in, int count, MPI_Datatype type, void* out, MPI_Aint room,
 MPI_Aint* position) {
  return pack(datarep, in, count, type, out, room, position, __func__);
}
MPI_FUNCTION(Pack_external_c)
(const char* datarep, const void* in, MPI_Count count, MPI_Datatype type, void* out, MPI_Count room,
 MPI_Count* position) {
  return pack(datarep, in, count, type, out, room, position, __func__);
}
MPI_FUNCTION(Pack_external_size)
(const char* datarep, int count, MPI_Datatype type, MPI_Aint* bytes) {
  return size(datarep, count, type, bytes, __func__);
}
MPI_FUNCTION(Pack_external_size_c)
(const char* datarep, MPI_Count count, MPI_Datatype type, MPI_Count* bytes) {
  return size(datarep, count, type, bytes, __func__);
}
MPI_FUNCTION(Unpack_external)
(const char datarep[], const void* in, MPI_Aint room, MPI_Aint* position, void* out, int count,
 MPI_Datatype type) {
  return unpack(datarep, in, room, position, out, count, type, __func__);
}
MPI_FUNCTION(Unpack_external_c)
(const char datarep[], const void* in, MPI_Count room, MPI_Count* position, void* out,
 MPI_Count count, MPI_Datatype type) {
  return unpack(datarep, in, room, position, out, count, type, __func__);
}
