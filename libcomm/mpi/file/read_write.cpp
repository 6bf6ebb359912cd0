// The functions that read and write: 4 kinds of pointers, independent or collective, blocking, in
// the background or split.
//
// Split collectives do all their work in the first half, as the standard allows. Nonblocking
// collectives are done by each member for itself: no member waits in them for others, which may be
// in other calls.
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/shortage.hpp"
#include "mpi/core/request.hpp"
#include "mpi/file/access.hpp"
#include "mpi/file/threads.hpp"
#include "mpi/file/uring.hpp"
#include "mpi/p2p/transfer.hpp"

namespace weft::mpi {
namespace {

enum class Pointer { given, individual, shared, ordered };
enum class Together : bool { no, yes };

struct Call {
  MPI_File fh;
  Pointer pointer;
  bool writes;
  MPI_Offset offset;  // Pointer::given
  const void* buffer;
  MPI_Count count;
  MPI_Datatype type;
  const char* function;
};

FileError check_mode(const File& file, const Call& call) {
  if (call.writes && (file.amode & MPI_MODE_RDONLY) != 0)
    return {MPI_ERR_READ_ONLY, "the file was opened with MPI_MODE_RDONLY"};
  if (!call.writes && (file.amode & MPI_MODE_WRONLY) != 0)
    return {MPI_ERR_ACCESS, "the file was opened with MPI_MODE_WRONLY"};
  const bool is_shared = call.pointer == Pointer::shared || call.pointer == Pointer::ordered;
  if (!is_shared && (file.amode & MPI_MODE_SEQUENTIAL) != 0)
    return {MPI_ERR_UNSUPPORTED_OPERATION, "the file was opened with MPI_MODE_SEQUENTIAL"};
  if (call.pointer == Pointer::given && call.offset < 0)
    return {MPI_ERR_ARG, "the offset is negative"};
  return {};
}

// Computes the positions of all members in their order. Collective: an error of any member is one
// of all.
FileError take_ordered(File& file, const FileError& error, std::int64_t etypes,
                       std::int64_t& first) {
  if (error && file.size() == 1) return error;
  if (file.size() == 1) return add_shared_pointer(file, etypes, first);
  struct Contribution {
    std::int64_t etypes;
    std::int64_t code;
  };
  coll::Team& team = *file.comm->team;
  std::vector<Contribution> all;
  Status status = gather_from_all(team, Contribution{etypes, error.code}, all);
  if (status && error) return error;
  std::int64_t before = 0, total = 0;
  for (std::size_t i = 0; i < all.size() && status; ++i) {
    if (all[i].code != MPI_SUCCESS)
      return {static_cast<int>(all[i].code), "another member's arguments are not valid"};
    if (i < static_cast<std::size_t>(file.rank())) before += all[i].etypes;
    total += all[i].etypes;
  }
  std::int64_t base[2] = {0, MPI_SUCCESS};
  if (status && file.rank() == 0) base[1] = add_shared_pointer(file, total, base[0]).code;
  if (status) status = bcast_from_first(team, base);
  if (!status) return error_of(status);
  first = base[0] + before;
  if (base[1] != MPI_SUCCESS)
    return {static_cast<int>(base[1]), "the first member could not move the shared pointer"};
  return {};
}

// Computes the position of an access that starts so many etypes into the view.
FileError find_place(const Access& access, std::int64_t first, std::uint64_t& position) {
  std::int64_t start = 0, end = 0;
  if (__builtin_mul_overflow(first, access.view->etype_bytes, &start) ||
      __builtin_add_overflow(start, static_cast<std::int64_t>(access.bytes), &end) ||
      static_cast<std::uint64_t>(end) > access.view->shape->bytes())
    return {MPI_ERR_ARG, access.view->shape->bytes() == 0 ? "the view's filetype has no data"
                                                          : "the access reaches beyond 2^61 bytes"};
  position = static_cast<std::uint64_t>(start);
  return {};
}

// Prepares a call, all but the reading or writing; moves the pointers.
FileError prepare(File& file, const Call& call, Access& access) {
  access.file = &file;
  access.writes = call.writes;
  FileError error;
  {
    const std::lock_guard lock(file.mutex);
    access.view = file.view;
    access.is_atomic = file.is_atomic;
    access.hints = file.hints;
    if (file.split != File::Split::none && call.pointer == Pointer::ordered)
      error = {MPI_ERR_OTHER, "a split collective has not ended"};
  }
  if (!error) error = check_mode(file, call);
  if (!error)
    error = or_no_memory_error(
        [&] { return access.set(const_cast<void*>(call.buffer), call.count, call.type); });
  const std::int64_t etype = access.view->etype_bytes;
  const std::int64_t etypes = error ? 0 : static_cast<std::int64_t>(access.bytes) / etype;
  std::int64_t first = call.offset;
  if (call.pointer == Pointer::ordered) {
    error = take_ordered(file, error, etypes, first);
  } else if (!error && call.pointer == Pointer::shared) {
    error = add_shared_pointer(file, etypes, first);
  } else if (!error && call.pointer == Pointer::individual) {
    const std::lock_guard lock(file.mutex);
    first = file.pointer;
    // The pointer stays where it is if there is no such position.
    error = find_place(access, first, access.position);
    if (!error) file.pointer += etypes;
  }
  if (!error) error = find_place(access, first, access.position);
  return error ? error : access.convert();
}

void fill(const Access& access, MPI_Status* status) {
  fill_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, static_cast<std::int64_t>(access.memory_bytes));
}

FileError read_write(File& file, const Call& call, Together together, MPI_Status* status) {
  Access access;
  access.error = or_no_memory_error([&] { return prepare(file, call, access); });
  if (together == Together::yes)
    run_together(access);
  else if (!access.error)
    run(access);
  fill(access, status);
  return std::move(access.error);
}

int block(const Call& call, Together together, MPI_Status* status) {
  File* file = find_file(call.fh);
  if (file == nullptr) return raise_on(file, MPI_ERR_FILE, call.function);
  if (const FileError revoked = check_revoked(*file)) return raise_on(file, revoked, call.function);
  const FileError error = read_write(*file, call, together, status);
  return error ? raise_on(file, error, call.function) : MPI_SUCCESS;
}

// Reads up to this size are done when they are started, if the kernel has the data in memory: the
// copy takes less time than to pass it to another thread and wait for its end.
constexpr std::uint64_t kShortBytes = std::uint64_t{64} << 10;

// An access in the background.
class Running final : public Operation, private RingRead {
 public:
  ~Running() override {
    if (kept_ != nullptr) release(kept_);
  }
  Code start() override {
    retain(access.type);
    kept_ = access.type;
    return or_no_memory([this] { return begin(); });
  }
  bool advance(Code& code) override {
    if (!is_done()) reap_ring();
    if (!is_done()) return false;
    code = access.error ? Code::internal : Code::ok;
    return true;
  }
  void before_sleep() noexcept override { watch_ring(); }
  int failure(Code code, const Comm*) const noexcept override {
    return access.error ? access.error.code : error_class(code);
  }
  void describe(MPI_Status* status) const override { fill(access, status); }

  Access access;

 private:
  Code begin() {
    // A program's conversion function runs in the program's own thread.
    if (access.converted != nullptr && !access.view->rep->is_external32) {
      run(access);
      set_done();
      return Code::ok;
    }
    const bool is_short =
        !access.writes && access.bytes <= kShortBytes && access.find_piece(to, place);
    descriptor = access.file->descriptor;
    bytes = access.bytes;
    const int error = is_short ? read_cached(descriptor, to, bytes, place, done) : 0;
    if (is_short && error == 0) {
      access.finish(done);
      set_done();
      return Code::ok;
    }
    count_pending(1);
    if (error == EAGAIN && begin_ring_read(*this)) return Code::ok;
    const Code code = hand_to_thread();
    if (code != Code::ok) count_pending(-1);
    return code;
  }
  Code hand_to_thread() noexcept {
    return or_no_memory([this] {
      run_in_background([this] {
        run(access);
        end();
      });
    });
  }
  void on_end(bool is_read) noexcept override {
    if (!is_read && hand_to_thread() == Code::ok) return;
    if (!is_read) access.error = {MPI_ERR_NO_MEM, {}};
    access.finish(done);
    end();
  }
  // Ends an access in the background. The file may be gone once nothing is pending, and the owner
  // once it is done.
  void end() noexcept {
    count_pending(-1);
    set_done();
    engine->ring(engine->rank());
  }
  void count_pending(int change) noexcept {
    const std::lock_guard lock(access.file->mutex);
    access.file->num_pending += change;
  }
  // acquire: a thread that sees the end sees the outcome.
  bool is_done() const noexcept { return is_done_.load(std::memory_order_acquire); }
  void set_done() noexcept { is_done_.store(true, std::memory_order_release); }

  Datatype* kept_ = nullptr;
  std::atomic<bool> is_done_{false};
};

int begin(const Call& call, MPI_Request* out) {
  File* file = find_file(call.fh);
  if (file == nullptr) return raise_on(file, MPI_ERR_FILE, call.function);
  if (out == nullptr) return raise_on(file, MPI_ERR_ARG, call.function, "request is null");
  *out = MPI_REQUEST_NULL;
  if (const FileError revoked = check_revoked(*file)) return raise_on(file, revoked, call.function);
  RequestPtr request(new_request(file->comm, RequestObject::Kind::operation));
  if (request == nullptr) return raise_on(file, MPI_ERR_NO_MEM, call.function);
  auto made = std::make_unique<Running>();
  Running& running = *made;
  FileError error = prepare(*file, call, running.access);
  if (error) return raise_on(file, error, call.function);
  request->operation = std::move(made);
  if (running.start() != Code::ok) return raise_on(file, MPI_ERR_NO_MEM, call.function);
  *out = request->handle;
  add_operation(request.release());
  return MPI_SUCCESS;
}

int split_begin(const Call& call, File::Split kind) {
  File* file = find_file(call.fh);
  if (file == nullptr) return raise_on(file, MPI_ERR_FILE, call.function);
  {
    const std::lock_guard lock(file->mutex);
    if (file->split != File::Split::none) kind = File::Split::none;
  }
  if (kind == File::Split::none)
    return raise_on(file, MPI_ERR_OTHER, call.function, "a split collective has not ended");
  if (const FileError revoked = check_revoked(*file)) return raise_on(file, revoked, call.function);
  MPI_Status status;
  fill_empty(&status);
  const FileError error = read_write(*file, call, Together::yes, &status);
  if (error) return raise_on(file, error, call.function);
  const std::lock_guard lock(file->mutex);
  file->split = kind;
  file->split_status = status;
  return MPI_SUCCESS;
}

int split_end(MPI_File fh, MPI_Status* status, File::Split kind, const char* function) {
  File* file = find_file(fh);
  if (file == nullptr) return raise_on(file, MPI_ERR_FILE, function);
  const FileError revoked = check_revoked(*file);
  {
    const std::lock_guard lock(file->mutex);
    if (revoked) file->split = File::Split::none;
    if (file->split == kind) {
      file->split = File::Split::none;
      if (status != MPI_STATUS_IGNORE) {
        const int error = status->MPI_ERROR;
        *status = file->split_status;
        status->MPI_ERROR = error;
      }
      return MPI_SUCCESS;
    }
  }
  if (revoked) return raise_on(file, revoked, function);
  return raise_on(file, MPI_ERR_OTHER, function, "no such split collective has begun");
}

}  // namespace
}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

#define WEFT_FILE_CALL(which, writes) \
  (Call{fh, Pointer::which, writes, offset, buf, count, datatype, __func__})
#define WEFT_FILE_BLOCKING(name, Buffer, Count, which, writes, together)                 \
  MPI_FUNCTION(File_##name)                                                              \
  (MPI_File fh, Buffer * buf, Count count, MPI_Datatype datatype, MPI_Status * status) { \
    constexpr MPI_Offset offset = 0;                                                     \
    return block(WEFT_FILE_CALL(which, writes), Together::together, status);             \
  }
#define WEFT_FILE_BACKGROUND(name, Buffer, Count, which, writes)                           \
  MPI_FUNCTION(File_##name)                                                                \
  (MPI_File fh, Buffer * buf, Count count, MPI_Datatype datatype, MPI_Request * request) { \
    constexpr MPI_Offset offset = 0;                                                       \
    return begin(WEFT_FILE_CALL(which, writes), request);                                  \
  }
#define WEFT_FILE_SPLIT(name, Buffer, Count, which, writes, kind)         \
  MPI_FUNCTION(File_##name)                                               \
  (MPI_File fh, Buffer * buf, Count count, MPI_Datatype datatype) {       \
    constexpr MPI_Offset offset = 0;                                      \
    return split_begin(WEFT_FILE_CALL(which, writes), File::Split::kind); \
  }
// The same with explicit offsets.
#define WEFT_FILE_BLOCKING_AT(name, Buffer, Count, writes, together)                 \
  MPI_FUNCTION(File_##name)                                                          \
  (MPI_File fh, MPI_Offset offset, Buffer * buf, Count count, MPI_Datatype datatype, \
   MPI_Status * status) {                                                            \
    return block(WEFT_FILE_CALL(given, writes), Together::together, status);         \
  }
#define WEFT_FILE_BACKGROUND_AT(name, Buffer, Count, writes)                         \
  MPI_FUNCTION(File_##name)                                                          \
  (MPI_File fh, MPI_Offset offset, Buffer * buf, Count count, MPI_Datatype datatype, \
   MPI_Request * request) {                                                          \
    return begin(WEFT_FILE_CALL(given, writes), request);                            \
  }
#define WEFT_FILE_SPLIT_AT(name, Buffer, Count, writes, kind)                          \
  MPI_FUNCTION(File_##name)                                                            \
  (MPI_File fh, MPI_Offset offset, Buffer * buf, Count count, MPI_Datatype datatype) { \
    return split_begin(WEFT_FILE_CALL(given, writes), File::Split::kind);              \
  }

#define WEFT_FILE_DIRECTION(verb, Buffer, Count, suffix, writes)                           \
  WEFT_FILE_BLOCKING_AT(verb##_at##suffix, Buffer, Count, writes, no)                      \
  WEFT_FILE_BLOCKING_AT(verb##_at_all##suffix, Buffer, Count, writes, yes)                 \
  WEFT_FILE_BACKGROUND_AT(i##verb##_at##suffix, Buffer, Count, writes)                     \
  WEFT_FILE_BACKGROUND_AT(i##verb##_at_all##suffix, Buffer, Count, writes)                 \
  WEFT_FILE_SPLIT_AT(verb##_at_all_begin##suffix, Buffer, Count, writes, verb##_at_all)    \
  WEFT_FILE_BLOCKING(verb##suffix, Buffer, Count, individual, writes, no)                  \
  WEFT_FILE_BLOCKING(verb##_all##suffix, Buffer, Count, individual, writes, yes)           \
  WEFT_FILE_BACKGROUND(i##verb##suffix, Buffer, Count, individual, writes)                 \
  WEFT_FILE_BACKGROUND(i##verb##_all##suffix, Buffer, Count, individual, writes)           \
  WEFT_FILE_SPLIT(verb##_all_begin##suffix, Buffer, Count, individual, writes, verb##_all) \
  WEFT_FILE_BLOCKING(verb##_shared##suffix, Buffer, Count, shared, writes, no)             \
  WEFT_FILE_BACKGROUND(i##verb##_shared##suffix, Buffer, Count, shared, writes)            \
  WEFT_FILE_BLOCKING(verb##_ordered##suffix, Buffer, Count, ordered, writes, yes)          \
  WEFT_FILE_SPLIT(verb##_ordered_begin##suffix, Buffer, Count, ordered, writes, verb##_ordered)

WEFT_FILE_DIRECTION(read, void, int, , false)
WEFT_FILE_DIRECTION(read, void, MPI_Count, _c, false)
WEFT_FILE_DIRECTION(write, const void, int, , true)
WEFT_FILE_DIRECTION(write, const void, MPI_Count, _c, true)

#define WEFT_FILE_END(name, Buffer, kind)                                      \
  MPI_FUNCTION(File_##name##_end)(MPI_File fh, Buffer*, MPI_Status * status) { \
    return split_end(fh, status, File::Split::kind, __func__);                 \
  }
WEFT_FILE_END(read_all, void, read_all)
WEFT_FILE_END(read_at_all, void, read_at_all)
WEFT_FILE_END(read_ordered, void, read_ordered)
WEFT_FILE_END(write_all, const void, write_all)
WEFT_FILE_END(write_at_all, const void, write_at_all)
WEFT_FILE_END(write_ordered, const void, write_ordered)
