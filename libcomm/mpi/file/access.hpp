#pragma once
// One call's reading or writing: which data, where in memory and where in the file. Called by the
// functions of read_write.cpp; run() by the threads of the background too.
#include <memory>
#include <optional>

#include "mpi/file/file.hpp"

namespace weft::mpi {

// The memory of a call as a stream of bytes, whatever its type.
class MemoryStream {
 public:
  MemoryStream(void* buffer, MPI_Count count, const Datatype& type);
  MemoryStream(std::byte* data) : data_(data) {}
  bool is_contiguous() const noexcept { return !cursor_.has_value(); }
  // The next bytes of contiguous memory.
  std::byte* take(std::uint64_t bytes) noexcept {
    data_ += bytes;
    return data_ - bytes;
  }
  // The next bytes are copied.
  void copy_to(std::byte* to, std::uint64_t bytes) noexcept;
  void copy_from(const std::byte* from, std::uint64_t bytes) noexcept;

 private:
  std::byte* data_ = nullptr;
  std::optional<Cursor> cursor_;
};

struct Access {
  File* file = nullptr;
  ViewPtr view;
  bool writes = false;
  void* buffer = nullptr;
  MPI_Count count = 0;
  Datatype* type = nullptr;
  std::uint64_t bytes = 0;     // in the file
  std::uint64_t position = 0;  // in the view, in bytes of data
  bool is_atomic = false;
  FileHints hints;
  std::unique_ptr<std::byte[]> converted;  // as the file has it, if that is not as memory has it

  // What came of it.
  std::uint64_t memory_bytes = 0;
  FileError error;

  // Finds what the data are in the file, and room for them if they are converted; convert() does
  // that for what is written.
  FileError set(void* data, MPI_Count num, MPI_Datatype handle);
  FileError convert();
  MemoryStream memory() const;
  // The first byte of the file that is touched and the one behind the last.
  void find_range(std::int64_t& first, std::int64_t& last) const;
  // So many bytes of the file were read or written: converts what was read, and counts.
  void finish(std::uint64_t file_bytes);
  // Whether all of it is one piece of the file and of memory, that nobody need be kept from.
  bool find_piece(std::byte*& data, std::int64_t& place) const;
};

// Reads or writes by itself.
void run(Access& access);
// With the others. An access with an error takes part in what they agree on.
void run_together(Access& access);

// All of it, unless the file ends: `done` says how much.
FileError read_at(const File& file, std::byte* to, std::uint64_t bytes, std::int64_t place,
                  std::uint64_t& done);
// What the kernel has of it in memory: `done` grows by that. 0: it is all there, or the file ends;
// EAGAIN: the rest is not in memory; else errno of a file that cannot tell, or cannot be read.
int read_cached(int descriptor, std::byte* to, std::size_t bytes, std::int64_t place,
                std::size_t& done) noexcept;
FileError write_at(const File& file, const std::byte* from, std::uint64_t bytes,
                   std::int64_t place);

// Keeps others from a range of the file, in this process and elsewhere, if they ask in the same
// way. Waits for them, but not for who is stopped: an error, once neither the file nor the lock in
// the way has changed for twelve times WEFT_PEER_TIMEOUT_MS.
class RangeLock {
 public:
  RangeLock(File& file, std::int64_t first, std::int64_t last, bool is_exclusive);
  ~RangeLock();
  RangeLock(const RangeLock&) = delete;
  RangeLock& operator=(const RangeLock&) = delete;
  const FileError& error() const noexcept { return error_; }

 private:
  File& file_;
  std::int64_t first_, last_;
  std::unique_lock<std::mutex> mutex_;
  FileError error_;
};

}  // namespace weft::mpi
