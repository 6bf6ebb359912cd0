// Data representations of files: "native" and "internal", which are those of memory, "external32",
// and those that the program registers.
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "mpi/datatype/external32.hpp"
#include "mpi/file/file.hpp"

namespace weft::mpi {
namespace {

struct Datareps {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Datarep>, std::less<>> by_name;
  Datareps() {
    for (const char* name : {"native", "internal", "external32"}) {
      auto rep = std::make_shared<Datarep>();
      rep->name = name;
      rep->is_external32 = rep->name == "external32";
      by_name.emplace(name, std::move(rep));
    }
  }
};
Immortal<Datareps> datareps;

// The ratio of numbers' sizes in the file and in memory, by the program's extent function for each
// predefined type.
struct Ratio {
  std::int64_t in_file = 0;
  std::int64_t in_memory = 0;
};
// asked: the types done already, as a type may be part of others many times over.
FileError ask(const Datarep& rep, Datatype& type, Ratio& ratio, std::set<Datatype*>& asked) {
  if (!asked.insert(&type).second) return {};
  if (!type.types_.empty()) {
    for (Datatype* part : type.types_)
      if (FileError error = ask(rep, *part, ratio, asked)) return error;
    return {};
  }
  if (type.size() == 0) return {};
  MPI_Aint extent = 0;
  if (const int code = rep.extent(type.handle_, &extent, rep.extra_state); code != MPI_SUCCESS)
    return {MPI_ERR_CONVERSION, "the representation's extent function failed"};
  if (extent <= 0) return {MPI_ERR_CONVERSION, "the representation's extent is not positive"};
  if (ratio.in_file == 0) ratio = {extent, type.extent()};
  if (ratio.in_file * type.extent() != extent * ratio.in_memory)
    return {MPI_ERR_UNSUPPORTED_DATAREP, "a type of numbers whose sizes differ in the file"};
  return {};
}

template <class Function>
int add(const char* name, Function* read, Function* write, MPI_Datarep_extent_function* extent,
        void* extra_state, const char* function) {
  MPI_MUST_RUN_IN(function);
  const auto fail = [function](int code, const char* text) {
    return raise_on(static_cast<File*>(nullptr), code, function, text);
  };
  if (name == nullptr || name[0] == 0 || std::strlen(name) >= MPI_MAX_DATAREP_STRING)
    return fail(MPI_ERR_ARG, "the name is empty or too long");
  if (extent == nullptr) return fail(MPI_ERR_ARG, "the extent function is null");
  auto rep = std::make_shared<Datarep>();
  rep->name = name;
  if constexpr (std::is_same_v<Function, MPI_Datarep_conversion_function>) {
    rep->read = read;
    rep->write = write;
  } else {
    rep->read_large = read;
    rep->write_large = write;
  }
  rep->extent = extent;
  rep->extra_state = extra_state;
  {
    const std::lock_guard lock(datareps->mutex);
    if (datareps->by_name.emplace(name, std::move(rep)).second) return MPI_SUCCESS;
  }
  return fail(MPI_ERR_DUP_DATAREP, "a representation of that name exists");
}

// Converts elements. The functions' `position` is where to begin in memory, in elements: all of it
// is one access.
FileError convert(const Datarep& rep, bool reads, Datatype& type, MPI_Count count, void* memory,
                  std::byte* file) {
  int code = MPI_SUCCESS;
  pin_handles(&type);
  if (auto* large = reads ? rep.read_large : rep.write_large) {
    code = large(memory, type.handle_, count, file, 0, rep.extra_state);
  } else {
    auto* small = reads ? rep.read : rep.write;
    // The form with an int count takes no more at a time.
    for (MPI_Count done = 0; done < count && code == MPI_SUCCESS;) {
      const MPI_Count part = std::min<MPI_Count>(count - done, std::numeric_limits<int>::max());
      code = small(memory, type.handle_, static_cast<int>(part), file, done, rep.extra_state);
      std::int64_t bytes = 0;
      if (FileError error = size_in_file(rep, type, bytes)) code = error.code;
      file += part * bytes;
      done += part;
    }
  }
  unpin_handles(&type);
  if (code == MPI_SUCCESS) return {};
  return {MPI_ERR_CONVERSION, "a conversion function of \"" + rep.name + "\" failed"};
}

}  // namespace

std::shared_ptr<const Datarep> find_datarep(std::string_view name) {
  const std::lock_guard lock(datareps->mutex);
  const auto found = datareps->by_name.find(name);
  return found == datareps->by_name.end() ? nullptr : found->second;
}

FileError size_in_file(const Datarep& rep, Datatype& type, std::int64_t& bytes) {
  bytes = static_cast<std::int64_t>(type.size());
  if (rep.is_external32) bytes = external_bytes(type);
  if (rep.extent == nullptr) return {};
  Ratio ratio;
  std::set<Datatype*> asked;
  if (FileError error = ask(rep, type, ratio, asked)) return error;
  if (ratio.in_memory != 0) bytes = bytes / ratio.in_memory * ratio.in_file;
  return {};
}

FileError extent_in_file(const Datarep& rep, Datatype& type, std::int64_t& bytes) {
  std::int64_t size = 0;
  if (FileError error = size_in_file(rep, type, size)) return error;
  bytes = type.extent();
  const auto in_memory = static_cast<std::int64_t>(type.size());
  if (size != in_memory && in_memory != 0)
    bytes = static_cast<std::int64_t>(static_cast<__int128>(bytes) * size / in_memory);
  return {};
}

FileError to_file(const Datarep& rep, Datatype& type, MPI_Count count, const void* memory,
                  std::byte* file) {
  if (!rep.is_external32) return convert(rep, false, type, count, const_cast<void*>(memory), file);
  const int code = encode_external(type, memory, count, file);
  if (code == MPI_ERR_CONVERSION) return {code, "external32 cannot hold a number"};
  return {code, {}};
}

FileError from_file(const Datarep& rep, Datatype& type, MPI_Count count, void* memory,
                    std::byte* file, std::uint64_t bytes, std::uint64_t& memory_bytes) {
  if (rep.is_external32)
    return {decode_external(type, file, bytes, memory, count, memory_bytes), {}};
  // The program's function takes whole elements.
  std::int64_t element = 0;
  if (FileError error = size_in_file(rep, type, element)) return error;
  const MPI_Count whole = element == 0 ? 0 : static_cast<MPI_Count>(bytes) / element;
  memory_bytes = static_cast<std::uint64_t>(whole) * type.size();
  return convert(rep, true, type, whole, memory, file);
}

}  // namespace weft::mpi

using namespace weft::mpi;  // NOLINT: the bodies below are the C interface

MPI_FUNCTION(Register_datarep)
(const char* datarep, MPI_Datarep_conversion_function* read_conversion_fn,
 MPI_Datarep_conversion_function* write_conversion_fn,
 MPI_Datarep_extent_function* dtype_file_extent_fn, void* extra_state) {
  return add(datarep, read_conversion_fn, write_conversion_fn, dtype_file_extent_fn, extra_state,
             __func__);
}
MPI_FUNCTION(Register_datarep_c)
(const char* datarep, MPI_Datarep_conversion_function_c* read_conversion_fn,
 MPI_Datarep_conversion_function_c* write_conversion_fn,
 MPI_Datarep_extent_function* dtype_file_extent_fn, void* extra_state) {
  return add(datarep, read_conversion_fn, write_conversion_fn, dtype_file_extent_fn, extra_state,
             __func__);
}
