#pragma once
// File: what an MPI_File names (MPI 5.0 chapter 14): a file that the members of a communicator have
// opened together.
//
// Each member has a descriptor of its own and reads and writes by itself (access.hpp). A collective
// call first gathers the pieces of all at some members, if those interleave and are small
// (collective.cpp). Threads (threads.hpp) and io_uring (uring.hpp) do the background part of calls.
// The shared pointer is a word in a window of the library's own, whose communicator is the file's
// too.
//
// Threads: any thread may call any function, if MPI_THREAD_MULTIPLE was granted. `mutex` guards the
// members that may change; no thread waits with it held.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/collective/insist.hpp"
#include "mpi/comm/comm.hpp"
#include "mpi/core/errors.hpp"
#include "mpi/datatype/datatype.hpp"
#include "mpi/file/shape.hpp"
#include "mpi/window/window.hpp"

namespace weft::mpi {

// An error: its class, and a sentence for the reader of the message. MPI_SUCCESS: no error.
struct FileError {
  int code = MPI_SUCCESS;
  std::string text;

  explicit operator bool() const noexcept { return code != MPI_SUCCESS; }
};

// A data representation (MPI 5.0 section 14.5).
struct Datarep {
  std::string name;
  bool is_external32 = false;
  // The program's functions; null: as in memory. The functions take an int count unless `large`.
  MPI_Datarep_conversion_function* read = nullptr;
  MPI_Datarep_conversion_function* write = nullptr;
  MPI_Datarep_conversion_function_c* read_large = nullptr;
  MPI_Datarep_conversion_function_c* write_large = nullptr;
  MPI_Datarep_extent_function* extent = nullptr;
  void* extra_state = nullptr;

  bool converts_reads() const noexcept {
    return is_external32 || read != nullptr || read_large != nullptr;
  }
  bool converts_writes() const noexcept {
    return is_external32 || write != nullptr || write_large != nullptr;
  }
};
// Returns null if there is no representation of that name.
std::shared_ptr<const Datarep> find_datarep(std::string_view name);
// Computes the bytes of one element in the file, or the extent there.
FileError size_in_file(const Datarep& rep, Datatype& type, std::int64_t& bytes);
FileError extent_in_file(const Datarep& rep, Datatype& type, std::int64_t& bytes);
// Convert elements in memory to bytes of the file, and the reverse for the first `bytes` of them;
// the reverse also returns how many bytes of memory those are.
FileError to_file(const Datarep& rep, Datatype& type, MPI_Count count, const void* memory,
                  std::byte* file);
FileError from_file(const Datarep& rep, Datatype& type, MPI_Count count, void* memory,
                    std::byte* file, std::uint64_t bytes, std::uint64_t& memory_bytes);

// The part of the file that a member sees. Immutable; calls under way keep theirs.
struct View {
  View() = default;
  ~View();
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  std::int64_t displacement = 0;
  Datatype* etype = nullptr;  // counted; the types that the program gave
  Datatype* filetype = nullptr;
  std::shared_ptr<const Datarep> rep;
  std::int64_t etype_bytes = 1;        // in the file
  std::shared_ptr<const Shape> shape;  // of all that is visible, without displacement
  std::int64_t tile_extent = 1;        // of one filetype in the file
  std::uint64_t tile_bytes = 1;        // data of one filetype
  std::uint64_t tile_blocks = 1;

  // Convert a position in the data to one in the file, and the reverse: the first data at or behind
  // it.
  std::int64_t place_of(std::uint64_t position) const;
  std::uint64_t position_at(std::int64_t place) const;
};
using ViewPtr = std::shared_ptr<const View>;
// Makes a view; null and an error if it cannot.
FileError make_view(std::int64_t displacement, Datatype& etype, Datatype& filetype,
                    std::shared_ptr<const Datarep> rep, bool is_written, ViewPtr& out);

// Hints that are heeded (docs/use/files.md).
struct FileHints {
  enum class Choice { automatic, enable, disable };
  Choice collective_read = Choice::automatic;
  Choice collective_write = Choice::automatic;
  Choice sieve_read = Choice::automatic;
  Choice sieve_write = Choice::disable;
  std::uint64_t collective_bytes = std::uint64_t{4} << 20;
  int num_aggregators = 0;  // of all hosts; 0: as many as per_host says
  int per_host = 0;         // 0: the default
  std::uint64_t sieve_read_bytes = std::uint64_t{1} << 20;
  std::uint64_t sieve_write_bytes = std::uint64_t{512} << 10;

  static FileHints from(const Info* info);
  // Adds the hints in effect.
  void echo(Info& info) const;
};

struct File {
  ~File();

  int size() const noexcept { return comm->size(); }
  int rank() const noexcept { return comm->rank; }

  MPI_File handle = MPI_FILE_NULL;
  Window* window = nullptr;  // one word at the first member: the shared pointer, in etypes
  Comm* comm = nullptr;      // the window's
  int descriptor = -1;
  int amode = 0;
  std::string name;

  std::mutex mutex;
  ErrorHandler* errhandler = nullptr;
  ViewPtr view;
  std::int64_t pointer = 0;  // the individual one, in etypes
  bool is_atomic = false;
  InfoPtr info;
  FileHints hints;
  // The split collective that has begun and has not ended.
  enum class Split {
    none,
    read_all,
    read_at_all,
    read_ordered,
    write_all,
    write_at_all,
    write_ordered
  };
  Split split = Split::none;
  MPI_Status split_status{};
  int split_code = MPI_SUCCESS;
  // The number of accesses in the background.
  int num_pending = 0;

  // Locks of a file belong to the descriptor: threads of this process exclude each other by this.
  std::mutex range_mutex;
};

using FileTable = HandleTable<MPI_File, File, Kind::file>;
extern Immortal<FileTable> files;
inline File* find_file(MPI_File handle) noexcept { return files->find(handle); }
// Closes the files that the program has not closed and ends the background threads; for
// MPI_Finalize, while messages still move.
void destroy_files();

// Does as raise(), on the file's error handler; null: on that of MPI_FILE_NULL.
[[nodiscard, gnu::cold]] int raise_on(File* file, int code, const char* function,
                                      std::string_view text = {});
[[nodiscard, gnu::cold]] inline int raise_on(File* file, const FileError& error,
                                             const char* function) {
  return raise_on(file, error.code, function, error.text);
}
// Returns the error handler of MPI_FILE_NULL, which new files get; the caller releases it.
ErrorHandler* default_file_errhandler();
// Resets it to MPI_ERRORS_RETURN, the initial one.
void reset_default_file_errhandler();

// What a call on a revoked file ends with; no error on any other.
inline FileError check_revoked(const File& file) {
  return is_revoked(*file.comm) ? FileError{MPIX_ERR_REVOKED, {}} : FileError();
}

// Converts errno of an action tried with a file.
FileError error_of_errno(int number, std::string_view tried, std::string_view name);
// Converts the status of a collective call of the library's own.
FileError error_of(const Status& status);
// Returns the first error of any member, or that of the exchange. Collective.
FileError agree(coll::Team& team, const FileError& mine);
// Gathers the values of all members, by rank. Collective; waits for memory, as the others wait for
// the value.
template <class Contribution>
Status gather_from_all(coll::Team& team, const Contribution& mine, std::vector<Contribution>& all) {
  return insist([&] {
    all.resize(static_cast<std::size_t>(team.size()));
    return coll::allgather(team, &mine, all.data(), sizeof mine);
  });
}
// Broadcasts the first member's value.
template <class Contribution>
Status bcast_from_first(coll::Team& team, Contribution& said) {
  return insist([&] { return coll::bcast(team, &said, sizeof said, 0); });
}
// A step before the members agree: a member without memory for it reports that to the others, which
// would wait.
template <class Step>
FileError or_no_memory_error(Step&& step) {
  try {
    return step();
  } catch (const std::bad_alloc&) {
    return {MPI_ERR_NO_MEM, {}};
  }
}

// Change the shared pointer, in etypes. The first adds and returns the old value.
FileError add_shared_pointer(File& file, std::int64_t etypes, std::int64_t& before);
FileError set_shared_pointer(File& file, std::int64_t etypes);
inline FileError read_shared_pointer(File& file, std::int64_t& etypes) {
  return add_shared_pointer(file, 0, etypes);
}

}  // namespace weft::mpi
