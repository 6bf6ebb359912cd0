// Independent access: reads and writes the pieces of one member's view, one after the other. Small
// pieces that lie close together are read by the buffer (data sieving: Thakur, Gropp, Lusk 1999).
// Writing that way also writes bytes that others may write meanwhile, so it is done only where the
// hint romio_ds_write asks for it, and then all writers of the file lock the range they write.
#include "mpi/file/access.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>

#include "base/wait.hpp"
#include "mpi/p2p/transfer.hpp"

namespace weft::mpi {
namespace {

// The size of the buffer through which memory that is not contiguous goes.
constexpr std::uint64_t kStagingBytes = std::uint64_t{1} << 20;
// Blocks that begin less than this apart, on average, are read by the buffer.
constexpr std::uint64_t kDenseBytes = std::uint64_t{16} << 10;

int set_lock(int descriptor, int command, short type, std::int64_t first, std::int64_t last,
             struct flock& range) {
  range = {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = first;
  range.l_len = last - first;
  int result;
  do result = ::fcntl(descriptor, command, &range);
  while (result != 0 && errno == EINTR);
  return result;
}

// The signs that the holder of a lock makes progress.
struct Signs {
  std::int64_t first, bytes, seconds, nanoseconds, size;
  bool operator==(const Signs&) const = default;
};

// A stopped process may hold a lock for ever, so a wait in the kernel would have no end.
FileError wait_for_lock(const File& file, short type, std::int64_t first, std::int64_t last) {
  const std::uint64_t limit_ns = process->job->settings().patience_ns() * 12;
  constexpr std::chrono::microseconds kLongest{1000};
  std::chrono::microseconds pause{10};
  Signs seen{};
  std::uint64_t changed_ns = now_ns();
  struct flock range {};
  while (set_lock(file.descriptor, F_OFD_SETLK, type, first, last, range) != 0) {
    if (errno != EAGAIN && errno != EACCES)
      return error_of_errno(errno, "locking a range of", file.name);
    struct stat found {};
    if (set_lock(file.descriptor, F_OFD_GETLK, type, first, last, range) != 0 ||
        ::fstat(file.descriptor, &found) != 0)
      return error_of_errno(errno, "locking a range of", file.name);
    if (range.l_type == F_UNLCK) continue;  // released just now
    const Signs signs{range.l_start, range.l_len, found.st_mtim.tv_sec, found.st_mtim.tv_nsec,
                      found.st_size};
    const std::uint64_t now = now_ns();
    if (signs != seen) {
      seen = signs;
      changed_ns = now;
    } else if (now - changed_ns > limit_ns) {
      return {MPI_ERR_IO,
              fmt::format("bytes {} to {} of {} could not be locked: another process has held a "
                          "lock on bytes from {} on for {} s and written nothing (is it stopped?)",
                          first, last - 1, file.name, signs.first, limit_ns / 1'000'000'000)};
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongest);
  }
  return {};
}

class Independent {
 public:
  explicit Independent(Access& access)
      : access_(access),
        file_(*access.file),
        displacement_(access.view->displacement),
        cursor_(access.view->shape, access.position),
        memory_(access.memory()) {}

  void run() {
    const View& view = *access_.view;
    const FileHints& hints = access_.hints;
    const bool is_one_piece = view.shape->is_block();
    const bool is_dense =
        view.shape->is_ascending() && view.tile_extent > 0 &&
        static_cast<std::uint64_t>(view.tile_extent) / view.tile_blocks <= kDenseBytes;
    const FileHints::Choice choice = access_.writes ? hints.sieve_write : hints.sieve_read;
    const bool may_sieve =
        !is_one_piece && view.shape->is_ascending() && choice != FileHints::Choice::disable &&
        (choice == FileHints::Choice::enable || is_dense) && (file_.amode & MPI_MODE_WRONLY) == 0;
    std::int64_t first = 0, last = 0;
    const bool locks =
        access_.is_atomic || (access_.writes && hints.sieve_write == FileHints::Choice::enable);
    std::optional<RangeLock> lock;
    if (locks) {
      access_.find_range(first, last);
      lock.emplace(file_, first, last, access_.writes);
      access_.error = lock->error();
    }
    if (!access_.error) {
      if (!may_sieve)
        run_pieces();
      else if (access_.writes)
        write_sieving();
      else
        read_sieving();
    }
    access_.finish(done_);
  }

 private:
  std::uint64_t left() const noexcept { return access_.bytes - done_; }

  // Reads or writes each piece by its own call.
  void run_pieces() {
    while (left() != 0) {
      const ByteRange range = cursor_.next_joined(left());
      if (range.bytes == 0) {
        access_.error = {MPI_ERR_ARG, "the access reaches beyond 2^61 bytes"};
        return;
      }
      const std::int64_t place = displacement_ + range.offset;
      for (std::uint64_t begun = 0; begun < range.bytes;) {
        std::uint64_t part = range.bytes - begun;
        if (!memory_.is_contiguous()) part = std::min(part, kStagingBytes);
        if (!move(place + static_cast<std::int64_t>(begun), part)) return;
        begun += part;
      }
    }
  }

  // Moves one piece. False: it was the last.
  bool move(std::int64_t place, std::uint64_t bytes) {
    std::byte* data;
    if (memory_.is_contiguous()) {
      data = memory_.take(bytes);
    } else {
      get_staging(std::min(kStagingBytes, access_.bytes));
      data = staging_.get();
      if (access_.writes) memory_.copy_to(data, bytes);
    }
    if (access_.writes) {
      access_.error = write_at(file_, data, bytes, place);
      if (access_.error) return false;
      done_ += bytes;
      return true;
    }
    std::uint64_t got = 0;
    access_.error = read_at(file_, data, bytes, place, got);
    if (!memory_.is_contiguous()) memory_.copy_from(data, got);
    done_ += got;
    return got == bytes && !access_.error;
  }

  void get_staging(std::uint64_t bytes) {
    if (staging_ == nullptr) staging_.reset(new std::byte[bytes]);
  }

  // Gets the next piece, of which the buffer may hold a part.
  bool next_piece(ByteRange& piece) {
    if (left() == 0) return false;
    piece = cursor_.next_joined(left());
    if (piece.bytes == 0) access_.error = {MPI_ERR_ARG, "the access reaches beyond 2^61 bytes"};
    return piece.bytes != 0;
  }

  void read_sieving() {
    std::int64_t first = 0, last = 0;
    access_.find_range(first, last);
    const std::uint64_t room = std::max<std::uint64_t>(access_.hints.sieve_read_bytes, 4096);
    get_staging(std::min(room, static_cast<std::uint64_t>(last - first)));
    std::int64_t begin = 0;
    std::uint64_t held = 0;  // bytes in the buffer, from `begin` on
    ByteRange piece{};
    while (next_piece(piece)) {
      std::int64_t place = displacement_ + piece.offset;
      while (piece.bytes != 0) {
        if (place >= begin + static_cast<std::int64_t>(held) || place < begin) {
          begin = place;
          const std::uint64_t wanted = std::min(room, static_cast<std::uint64_t>(last - begin));
          access_.error = read_at(file_, staging_.get(), wanted, begin, held);
          if (access_.error || held == 0) return;
        }
        const auto skipped = static_cast<std::uint64_t>(place - begin);
        const std::uint64_t part = std::min(piece.bytes, held - skipped);
        memory_.copy_from(staging_.get() + skipped, part);
        done_ += part;
        place += static_cast<std::int64_t>(part);
        piece.bytes -= part;
      }
    }
  }

  // Writes by the buffer; the caller has locked the range.
  void write_sieving() {
    const std::uint64_t room = std::max<std::uint64_t>(access_.hints.sieve_write_bytes, 4096);
    std::int64_t first = 0, last = 0;
    access_.find_range(first, last);
    get_staging(std::min(room, static_cast<std::uint64_t>(last - first)));
    ByteRange piece{};
    bool has_piece = next_piece(piece);
    while (has_piece && !access_.error) {
      const std::int64_t begin = displacement_ + piece.offset;
      const std::uint64_t reach = std::min(room, static_cast<std::uint64_t>(last - begin));
      std::uint64_t got = 0;
      // A piece that fills the buffer needs no data of the file.
      if (piece.bytes < reach) access_.error = read_at(file_, staging_.get(), reach, begin, got);
      if (access_.error) return;
      std::memset(staging_.get() + got, 0, reach - got);
      std::uint64_t end = 0, gathered = 0;
      while (has_piece) {
        const auto skipped = static_cast<std::uint64_t>(displacement_ + piece.offset - begin);
        if (skipped >= reach) break;
        const std::uint64_t part = std::min(piece.bytes, reach - skipped);
        memory_.copy_to(staging_.get() + skipped, part);
        gathered += part;
        end = skipped + part;
        piece.offset += static_cast<std::int64_t>(part);
        piece.bytes -= part;
        if (piece.bytes != 0) break;
        done_ += gathered;
        has_piece = next_piece(piece);
        done_ -= gathered;
        if (access_.error) return;
      }
      access_.error = write_at(file_, staging_.get(), end, begin);
      if (!access_.error) done_ += gathered;
    }
  }

  Access& access_;
  File& file_;
  std::int64_t displacement_;
  Cursor cursor_;
  MemoryStream memory_;
  std::unique_ptr<std::byte[]> staging_;
  std::uint64_t done_ = 0;  // bytes of the file
};

}  // namespace

MemoryStream::MemoryStream(void* buffer, MPI_Count count, const Datatype& type) {
  if (type.is_contiguous()) {
    data_ = reinterpret_cast<std::byte*>(first_byte(buffer, type));
    return;
  }
  data_ = static_cast<std::byte*>(buffer);
  cursor_.emplace(Shape::make(type.layout_, count, type.extent()));
}

void MemoryStream::copy_to(std::byte* to, std::uint64_t bytes) noexcept {
  if (is_contiguous()) {
    std::memcpy(to, take(bytes), bytes);
    return;
  }
  while (bytes != 0) {
    const ByteRange range = cursor_->next(bytes);
    if (range.bytes == 0) return;
    std::memcpy(to, data_ + range.offset, range.bytes);
    to += range.bytes;
    bytes -= range.bytes;
  }
}

void MemoryStream::copy_from(const std::byte* from, std::uint64_t bytes) noexcept {
  if (is_contiguous()) {
    std::memcpy(take(bytes), from, bytes);
    return;
  }
  while (bytes != 0) {
    const ByteRange range = cursor_->next(bytes);
    if (range.bytes == 0) return;
    std::memcpy(data_ + range.offset, from, range.bytes);
    from += range.bytes;
    bytes -= range.bytes;
  }
}

FileError Access::set(void* data, MPI_Count num, MPI_Datatype handle) {
  if (const int code = check_elements(num, handle, type); code != MPI_SUCCESS) return {code, {}};
  buffer = data;
  count = num;
  std::int64_t element = 0;
  if (FileError failed = size_in_file(*view->rep, *type, element)) return failed;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(num), static_cast<std::uint64_t>(element),
                             &bytes) ||
      bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return {MPI_ERR_COUNT, "the data are beyond 2^63 bytes"};
  if (bytes % static_cast<std::uint64_t>(view->etype_bytes) != 0)
    return {MPI_ERR_IO, "the data are no whole number of etypes"};
  if (bytes != 0 && type->is_contiguous() && first_byte(buffer, *type) == nullptr)
    return {MPI_ERR_BUFFER, "the buffer is null"};
  const Datarep& rep = *view->rep;
  if ((writes ? rep.converts_writes() : rep.converts_reads()) && bytes != 0)
    converted.reset(new std::byte[bytes]);
  return {};
}

FileError Access::convert() {
  if (!writes || converted == nullptr) return {};
  return to_file(*view->rep, *type, count, buffer, converted.get());
}

MemoryStream Access::memory() const {
  if (converted != nullptr) return {converted.get()};
  return {buffer, count, *type};
}

void Access::find_range(std::int64_t& first, std::int64_t& last) const {
  first = view->place_of(position);
  last = bytes == 0 ? first : view->place_of(position + bytes - 1) + 1;
  // The ends of a view that is not ascending may lie anywhere behind the displacement.
  if (!view->shape->is_ascending()) {
    first = view->displacement;
    last = std::int64_t{1} << 62;
  }
}

void Access::finish(std::uint64_t file_bytes) {
  if (converted == nullptr) {
    memory_bytes = file_bytes;
  } else if (writes) {
    // The share of the elements that was written, as bytes of memory.
    memory_bytes = static_cast<std::uint64_t>(
        bytes == 0 ? 0
                   : static_cast<unsigned __int128>(file_bytes) * type->size() *
                         static_cast<std::uint64_t>(count) / bytes);
  } else if (FileError failed = from_file(*view->rep, *type, count, buffer, converted.get(),
                                          file_bytes, memory_bytes);
             failed && !error) {
    error = failed;
  }
}

bool Access::find_piece(std::byte*& data, std::int64_t& place) const {
  if (converted != nullptr || is_atomic || bytes == 0 || !type->is_contiguous() ||
      !view->shape->is_ascending())
    return false;
  std::int64_t end = 0;
  find_range(place, end);
  data = memory().take(bytes);
  return static_cast<std::uint64_t>(end - place) == bytes;
}

void run(Access& access) {
  if (access.bytes == 0) return;
  try {
    Independent(access).run();
  } catch (const std::bad_alloc&) {
    access.error = {MPI_ERR_NO_MEM, {}};
  }
}

FileError write_at(const File& file, const std::byte* from, std::uint64_t bytes,
                   std::int64_t place) {
  for (std::uint64_t done = 0; done < bytes;) {
    const ssize_t put = ::pwrite(file.descriptor, from + done, bytes - done,
                                 place + static_cast<std::int64_t>(done));
    if (put > 0)
      done += static_cast<std::uint64_t>(put);
    else if (put == 0 || errno != EINTR)
      return error_of_errno(put == 0 ? EIO : errno, "writing", file.name);
  }
  return {};
}

RangeLock::RangeLock(File& file, std::int64_t first, std::int64_t last, bool is_exclusive)
    : file_(file), first_(first), last_(last), mutex_(file.range_mutex) {
  // A descriptor that cannot read takes no lock for reading, one that cannot write none for
  // writing.
  const bool exclusive = is_exclusive && (file.amode & MPI_MODE_RDONLY) == 0;
  error_ = wait_for_lock(file, exclusive ? F_WRLCK : F_RDLCK, first, last);
}

RangeLock::~RangeLock() {
  struct flock range {};
  if (!error_)
    static_cast<void>(set_lock(file_.descriptor, F_OFD_SETLK, F_UNLCK, first_, last_, range));
}

}  // namespace weft::mpi
