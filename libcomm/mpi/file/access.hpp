#pragma once
// Access: one call's reading or writing: its data, memory and position in the file. Called by the
// functions of read_write.cpp; background threads call run() too.
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
  // Returns the next bytes of contiguous memory.
  std::byte* take(std::uint64_t bytes) noexcept {
    data_ += bytes;
    return data_ - bytes;
  }
  // Copy the next bytes.
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
  std::unique_ptr<std::byte[]> converted;  // the data in the file's representation, or null

  // The outcome.
  std::uint64_t memory_bytes = 0;
  FileError error;

  // Sets the data, computes their size in the file, and allocates for them if they are converted.
  // convert() then converts the data to be written.
  FileError set(void* data, MPI_Count num, MPI_Datatype handle);
  FileError convert();
  MemoryStream memory() const;
  // The first byte of the file that is touched, and the one behind the last.
  void find_range(std::int64_t& first, std::int64_t& last) const;
  // Called when so many bytes of the file were read or written: converts the data read, and counts.
  void finish(std::uint64_t file_bytes);
  // True if all of it is one piece of the file and of memory, and needs no lock against others.
  bool find_piece(std::byte*& data, std::int64_t& place) const;
};

// Reads or writes independently.
void run(Access& access);
// Reads or writes collectively. A member whose access has an error still takes part in the
// exchanges.
void run_together(Access& access);

// Reads all bytes unless the file ends; `done` is the number read.
FileError read_at(const File& file, std::byte* to, std::uint64_t bytes, std::int64_t place,
                  std::uint64_t& done);
// Reads the bytes that the kernel has in memory: `done` grows by them. 0: all bytes are there, or
// the file ends; EAGAIN: the rest is not in memory; else errno of a file that does not support
// this, or cannot be read.
int read_cached(int descriptor, std::byte* to, std::size_t bytes, std::int64_t place,
                std::size_t& done) noexcept;
FileError write_at(const File& file, const std::byte* from, std::uint64_t bytes,
                   std::int64_t place);

// Locks a range of the file against others, in this process and elsewhere, that take this lock.
// Waits for them, but not for a stopped process: an error, once neither the file nor the
// conflicting lock has changed for twelve times Settings::patience_ns().
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
