// Queries and settings of files: views, pointers, size, hints, error handlers.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/os/file_size.hpp"
#include "mpi/comm/group.hpp"
#include "mpi/file/file.hpp"

namespace weft::mpi {
namespace {

struct Default {
  std::mutex mutex;
  ErrorHandler* errhandler = nullptr;  // null: MPI_ERRORS_RETURN
};
Immortal<Default> initial;

// Finds a file whose result goes to `out`. MPI_SUCCESS or the code that was raised.
int find_with(MPI_File fh, const void* out, File*& file, const char* function) {
  file = find_file(fh);
  if (file == nullptr) return raise_on(file, MPI_ERR_FILE, function);
  if (out == nullptr) return raise_on(file, MPI_ERR_ARG, function, "an argument is null");
  return MPI_SUCCESS;
}

int finish(File* file, const FileError& error, const char* function) {
  return error ? raise_on(file, error, function) : MPI_SUCCESS;
}

ViewPtr view_of(File& file) {
  const std::lock_guard lock(file.mutex);
  return file.view;
}

bool has_split(File& file) {
  const std::lock_guard lock(file.mutex);
  return file.split != File::Split::none;
}
bool is_busy(File& file) {
  const std::lock_guard lock(file.mutex);
  return file.num_pending != 0 || file.split != File::Split::none;
}

// The values that all members must give alike.
struct Given {
  std::int64_t value;
  std::int64_t other = 0;
  bool operator==(const Given&) const = default;
};

// Runs `act` on the first member, for all, after the values that they give were compared.
// Collective.
template <class Do>
FileError do_for_all(File& file, Given given, FileError error, Do&& act) {
  struct Contribution {
    Given given;
    std::int64_t code;
  };
  if (FileError revoked = check_revoked(file)) return revoked;
  coll::Team& team = *file.comm->team;
  std::vector<Contribution> all;
  if (const Status status = gather_from_all(team, Contribution{given, error.code}, all); !status)
    return error_of(status);
  if (error) return error;
  for (const Contribution& other : all) {
    if (other.code != MPI_SUCCESS)
      return {static_cast<int>(other.code), "another member's arguments are not valid"};
    if (other.given != given) return {MPI_ERR_NOT_SAME, "the members give different values"};
  }
  if (file.rank() == 0) error = or_no_memory_error(act);
  std::int32_t code = error.code;
  if (const Status status = bcast_from_first(team, code); !status) return error_of(status);
  if (code != MPI_SUCCESS && !error) error = {code, "the first member failed"};
  return error;
}

FileError check_writable(const File& file) {
  if ((file.amode & MPI_MODE_RDONLY) != 0)
    return {MPI_ERR_READ_ONLY, "the file was opened with MPI_MODE_RDONLY"};
  return {};
}
FileError check_not_sequential(const File& file) {
  if ((file.amode & MPI_MODE_SEQUENTIAL) != 0)
    return {MPI_ERR_UNSUPPORTED_OPERATION, "the file was opened with MPI_MODE_SEQUENTIAL"};
  return {};
}

FileError size_of(const File& file, std::int64_t& bytes) {
  struct stat found {};
  if (::fstat(file.descriptor, &found) != 0) return error_of_errno(errno, "querying", file.name);
  bytes = found.st_size;
  return {};
}

// Computes the target of a seek, in etypes.
FileError seek_to(const File& file, const View& view, std::int64_t current, std::int64_t offset,
                  int whence, std::int64_t& target) {
  target = offset;
  if (whence == MPI_SEEK_CUR) {
    if (__builtin_add_overflow(current, offset, &target))
      return {MPI_ERR_ARG, "the offset is too large"};
  } else if (whence == MPI_SEEK_END) {
    std::int64_t bytes = 0;
    if (FileError error = size_of(file, bytes)) return error;
    const auto etype = static_cast<std::uint64_t>(view.etype_bytes);
    const auto end = static_cast<std::int64_t>((view.position_at(bytes) + etype - 1) / etype);
    if (__builtin_add_overflow(end, offset, &target))
      return {MPI_ERR_ARG, "the offset is too large"};
  } else if (whence != MPI_SEEK_SET) {
    return {MPI_ERR_ARG, "whence is none of MPI_SEEK_SET, MPI_SEEK_CUR and MPI_SEEK_END"};
  }
  if (target < 0) return {MPI_ERR_ARG, "the place is before the beginning"};
  return {};
}

FileError place_in_view(const View& view, std::int64_t offset, std::int64_t& place) {
  std::int64_t position = 0;
  if (offset < 0) return {MPI_ERR_ARG, "the offset is negative"};
  if (__builtin_mul_overflow(offset, view.etype_bytes, &position) ||
      static_cast<std::uint64_t>(position) >= view.shape->bytes())
    return {MPI_ERR_ARG, "the offset is beyond 2^61 bytes"};
  place = view.place_of(static_cast<std::uint64_t>(position));
  return {};
}

FileError find_view(File& file, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype,
                    const char* datarep, ViewPtr& view) {
  Datatype* elementary = find_datatype(etype);
  Datatype* whole = find_datatype(filetype);
  if (elementary == nullptr || !elementary->committed()) return {MPI_ERR_TYPE, "the etype"};
  if (whole == nullptr || !whole->committed()) return {MPI_ERR_TYPE, "the filetype"};
  const bool is_sequential = (file.amode & MPI_MODE_SEQUENTIAL) != 0;
  if (disp == MPI_DISPLACEMENT_CURRENT) {
    if (!is_sequential)
      return {MPI_ERR_ARG, "MPI_DISPLACEMENT_CURRENT without MPI_MODE_SEQUENTIAL"};
    std::int64_t pointer = 0;
    if (FileError error = read_shared_pointer(file, pointer)) return error;
    if (FileError error = place_in_view(*view_of(file), pointer, disp)) return error;
  }
  if (disp < 0) return {MPI_ERR_ARG, "the displacement is negative"};
  if (datarep == nullptr) return {MPI_ERR_ARG, "datarep is null"};
  std::shared_ptr<const Datarep> rep = find_datarep(datarep);
  if (rep == nullptr)
    return {MPI_ERR_UNSUPPORTED_DATAREP, std::string("no representation ") + datarep};
  return make_view(disp, *elementary, *whole, std::move(rep), (file.amode & MPI_MODE_RDONLY) == 0,
                   view);
}

// The hints of the file merged with new ones.
struct NewHints {
  InfoPtr info;  // null: none are new
  FileHints hints;
};
FileError merge_hints(File& file, MPI_Info handle, NewHints& merged) {
  const Info* added = find_info(handle);
  if (handle != MPI_INFO_NULL && added == nullptr) return {MPI_ERR_INFO, {}};
  const std::lock_guard lock(file.mutex);
  merged.hints = file.hints;
  if (added == nullptr) return {};
  auto all = std::make_shared<Info>();
  if (file.info != nullptr) all->pairs = file.info->pairs;
  for (const auto& [key, value] : added->pairs) all->set(key, value);
  merged.hints = FileHints::from(all.get());
  merged.info = std::move(all);
  return {};
}
// Takes the first member's hints where all must act alike. Collective.
FileError take_hints(File& file, NewHints merged) {
  if (const Status status = bcast_from_first(*file.comm->team, merged.hints); !status)
    return error_of(status);
  const std::lock_guard lock(file.mutex);
  file.hints = merged.hints;
  if (merged.info != nullptr) file.info = std::move(merged.info);
  return {};
}

FileError set_view(File& file, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype,
                   const char* datarep, MPI_Info info) {
  ViewPtr view;
  NewHints hints;
  FileError error = or_no_memory_error([&]() -> FileError {
    if (FileError failed = merge_hints(file, info, hints)) return failed;
    // Accesses in the background keep the view that they began with.
    if (has_split(file)) return {MPI_ERR_OTHER, "a split collective has not ended"};
    return find_view(file, disp, etype, filetype, datarep, view);
  });
  // All members have their pointers at the beginning, or none has.
  const Given given =
      view == nullptr ? Given{0, 0}
                      : Given{view->etype_bytes,
                              static_cast<std::int64_t>(std::hash<std::string>()(view->rep->name))};
  error =
      do_for_all(file, given, std::move(error), [&file] { return set_shared_pointer(file, 0); });
  if (error) return error;
  {
    const std::lock_guard lock(file.mutex);
    file.view = std::move(view);
    file.pointer = 0;
  }
  return take_hints(file, std::move(hints));
}

template <class Extent>
int get_type_extent(MPI_File fh, MPI_Datatype datatype, Extent* extent, const char* function) {
  File* file = nullptr;
  if (const int code = find_with(fh, extent, file, function); code != MPI_SUCCESS) return code;
  Datatype* type = find_datatype(datatype);
  if (type == nullptr) return raise_on(file, MPI_ERR_TYPE, function);
  std::int64_t bytes = 0;
  if (const FileError error = extent_in_file(*view_of(*file)->rep, *type, bytes))
    return raise_on(file, error, function);
  *extent = static_cast<Extent>(bytes);
  return MPI_SUCCESS;
}

// Makes a handle for the program of a type that a view has.
MPI_Datatype give_type(Datatype* type) {
  if (type->predefined_) return type->handle_;
  const MPI_Datatype handle = datatypes().insert(type);
  if (handle == nullptr) throw std::bad_alloc();
  retain(type);
  return handle;
}

}  // namespace

void reset_default_file_errhandler() {
  const std::lock_guard lock(initial->mutex);
  if (initial->errhandler != nullptr) release(std::exchange(initial->errhandler, nullptr));
}

ErrorHandler* default_file_errhandler() {
  const std::lock_guard lock(initial->mutex);
  return retain(initial->errhandler != nullptr ? initial->errhandler
                                               : find_errhandler(MPI_ERRORS_RETURN));
}

int raise_on(File* file, int code, const char* function, std::string_view text) {
  if (!is_running()) return not_running(function);
  // What a revocation has ended looks like a loss.
  if (file != nullptr && file->comm != nullptr && code == MPIX_ERR_PROC_FAILED) {
    hear_of_revocations();
    if (is_revoked(*file->comm)) code = MPIX_ERR_REVOKED;
  }
  if (code == MPIX_ERR_REVOKED) text = {};
  ErrorHandler* handler;
  if (file != nullptr) {
    const std::lock_guard lock(file->mutex);
    handler = retain(file->errhandler);
  } else {
    handler = default_file_errhandler();
  }
  int result = code;
  if (handler->action == ErrorHandler::Action::call) {
    MPI_File handle = file != nullptr ? file->handle : MPI_FILE_NULL;
    reinterpret_cast<MPI_File_errhandler_function*>(handler->function)(&handle, &code);
    result = code;  // the handler may have changed it
  } else {
    result = call_errhandler(file != nullptr ? file->comm : nullptr, handler, code, function, text);
  }
  release(handler);
  return result;
}

}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(File_set_view)
(MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype, const char* datarep,
 MPI_Info info) {
  File* file = find_file(fh);
  if (file == nullptr) return raise_on(file, MPI_ERR_FILE, __func__);
  return finish(file, set_view(*file, disp, etype, filetype, datarep, info), __func__);
}

MPI_FUNCTION(File_get_view)
(MPI_File fh, MPI_Offset* disp, MPI_Datatype* etype, MPI_Datatype* filetype, char* datarep) {
  File* file = nullptr;
  if (const int code = find_with(fh, disp, file, __func__); code != MPI_SUCCESS) return code;
  if (etype == nullptr || filetype == nullptr || datarep == nullptr)
    return raise_on(file, MPI_ERR_ARG, __func__, "an argument is null");
  const ViewPtr view = view_of(*file);
  const MPI_Datatype elementary = give_type(view->etype);
  *filetype = give_type(view->filetype);
  *etype = elementary;
  *disp = view->displacement;
  std::memcpy(datarep, view->rep->name.c_str(), view->rep->name.size() + 1);
  return MPI_SUCCESS;
}

MPI_FUNCTION(File_seek)(MPI_File fh, MPI_Offset offset, int whence) {
  File* file = find_file(fh);
  if (file == nullptr) return raise_on(file, MPI_ERR_FILE, __func__);
  FileError error = check_not_sequential(*file);
  if (!error) {
    const std::lock_guard lock(file->mutex);
    std::int64_t target = 0;
    error = seek_to(*file, *file->view, file->pointer, offset, whence, target);
    if (!error) file->pointer = target;
  }
  return finish(file, error, __func__);
}

MPI_FUNCTION(File_seek_shared)(MPI_File fh, MPI_Offset offset, int whence) {
  File* file = find_file(fh);
  if (file == nullptr) return raise_on(file, MPI_ERR_FILE, __func__);
  FileError error = check_not_sequential(*file);
  const bool is_known = whence == MPI_SEEK_SET || whence == MPI_SEEK_CUR || whence == MPI_SEEK_END;
  if (!error && !is_known)
    error = {MPI_ERR_ARG, "whence is none of MPI_SEEK_SET, MPI_SEEK_CUR and MPI_SEEK_END"};
  error = do_for_all(*file, {offset, whence}, std::move(error), [&] {
    std::int64_t current = 0, target = 0;
    FileError failed = read_shared_pointer(*file, current);
    if (!failed) failed = seek_to(*file, *view_of(*file), current, offset, whence, target);
    return failed ? failed : set_shared_pointer(*file, target);
  });
  return finish(file, error, __func__);
}

MPI_FUNCTION(File_get_position)(MPI_File fh, MPI_Offset* offset) {
  File* file = nullptr;
  if (const int code = find_with(fh, offset, file, __func__); code != MPI_SUCCESS) return code;
  if (const FileError error = check_not_sequential(*file)) return raise_on(file, error, __func__);
  const std::lock_guard lock(file->mutex);
  *offset = file->pointer;
  return MPI_SUCCESS;
}

MPI_FUNCTION(File_get_position_shared)(MPI_File fh, MPI_Offset* offset) {
  File* file = nullptr;
  if (const int code = find_with(fh, offset, file, __func__); code != MPI_SUCCESS) return code;
  FileError error = check_not_sequential(*file);
  std::int64_t pointer = 0;
  if (!error) error = read_shared_pointer(*file, pointer);
  if (!error) *offset = pointer;
  return finish(file, error, __func__);
}

MPI_FUNCTION(File_get_byte_offset)(MPI_File fh, MPI_Offset offset, MPI_Offset* disp) {
  File* file = nullptr;
  if (const int code = find_with(fh, disp, file, __func__); code != MPI_SUCCESS) return code;
  FileError error = check_not_sequential(*file);
  std::int64_t place = 0;
  if (!error) error = place_in_view(*view_of(*file), offset, place);
  if (!error) *disp = place;
  return finish(file, error, __func__);
}

MPI_FUNCTION(File_set_size)(MPI_File fh, MPI_Offset size) {
  File* file = find_file(fh);
  if (file == nullptr) return raise_on(file, MPI_ERR_FILE, __func__);
  FileError error = check_writable(*file);
  if (!error && size < 0) error = {MPI_ERR_ARG, "the size is negative"};
  error = do_for_all(*file, {size, 0}, std::move(error), [&]() -> FileError {
    while (!size_file(file->descriptor, static_cast<std::size_t>(size)))
      if (errno != EINTR) return error_of_errno(errno, "setting the size of", file->name);
    return {};
  });
  return finish(file, error, __func__);
}

MPI_FUNCTION(File_preallocate)(MPI_File fh, MPI_Offset size) {
  File* file = find_file(fh);
  if (file == nullptr) return raise_on(file, MPI_ERR_FILE, __func__);
  FileError error = check_writable(*file);
  if (!error) error = check_not_sequential(*file);
  if (!error && size < 0) error = {MPI_ERR_ARG, "the size is negative"};
  error = do_for_all(*file, {size, 0}, std::move(error), [&]() -> FileError {
    if (size == 0) return {};
    int failed = 0;
    do failed = ::posix_fallocate(file->descriptor, 0, size);
    while (failed == EINTR);
    if (failed == 0) return {};
    return error_of_errno(failed, "getting room for", file->name);
  });
  return finish(file, error, __func__);
}

MPI_FUNCTION(File_get_size)(MPI_File fh, MPI_Offset* size) {
  File* file = nullptr;
  if (const int code = find_with(fh, size, file, __func__); code != MPI_SUCCESS) return code;
  std::int64_t bytes = 0;
  const FileError error = size_of(*file, bytes);
  if (!error) *size = bytes;
  return finish(file, error, __func__);
}

MPI_FUNCTION(File_sync)(MPI_File fh) {
  File* file = find_file(fh);
  if (file == nullptr) return raise_on(file, MPI_ERR_FILE, __func__);
  FileError error = check_revoked(*file);
  if (error) return raise_on(file, error, __func__);
  if (is_busy(*file)) error = {MPI_ERR_OTHER, "an access is under way"};
  while (!error && (file->amode & MPI_MODE_RDONLY) == 0 && ::fsync(file->descriptor) != 0) {
    if (errno == EINVAL || errno == EROFS) break;  // a file that cannot be synchronised
    if (errno != EINTR) error = error_of_errno(errno, "synchronising", file->name);
  }
  return finish(file, agree(*file->comm->team, error), __func__);
}

MPI_FUNCTION(File_set_atomicity)(MPI_File fh, int flag) {
  File* file = find_file(fh);
  if (file == nullptr) return raise_on(file, MPI_ERR_FILE, __func__);
  const FileError error = do_for_all(*file, {flag != 0, 0}, {}, [] { return FileError(); });
  if (!error) {
    const std::lock_guard lock(file->mutex);
    file->is_atomic = flag != 0;
  }
  return finish(file, error, __func__);
}

MPI_FUNCTION(File_get_atomicity)(MPI_File fh, int* flag) {
  File* file = nullptr;
  if (const int code = find_with(fh, flag, file, __func__); code != MPI_SUCCESS) return code;
  const std::lock_guard lock(file->mutex);
  *flag = file->is_atomic ? 1 : 0;
  return MPI_SUCCESS;
}

MPI_FUNCTION(File_get_amode)(MPI_File fh, int* amode) {
  File* file = nullptr;
  if (const int code = find_with(fh, amode, file, __func__); code != MPI_SUCCESS) return code;
  *amode = file->amode;
  return MPI_SUCCESS;
}

MPI_FUNCTION(File_get_group)(MPI_File fh, MPI_Group* group) {
  File* file = nullptr;
  if (const int code = find_with(fh, group, file, __func__); code != MPI_SUCCESS) return code;
  *group = make_group_handle(file->comm->group);
  return MPI_SUCCESS;
}

MPI_FUNCTION(File_set_info)(MPI_File fh, MPI_Info info) {
  File* file = find_file(fh);
  if (file == nullptr) return raise_on(file, MPI_ERR_FILE, __func__);
  if (const FileError revoked = check_revoked(*file)) return raise_on(file, revoked, __func__);
  NewHints hints;
  FileError error = or_no_memory_error([&] { return merge_hints(*file, info, hints); });
  error = agree(*file->comm->team, error);
  if (!error) error = take_hints(*file, std::move(hints));
  return finish(file, error, __func__);
}

MPI_FUNCTION(File_get_info)(MPI_File fh, MPI_Info* info_used) {
  File* file = nullptr;
  if (const int code = find_with(fh, info_used, file, __func__); code != MPI_SUCCESS) return code;
  Info used;
  {
    const std::lock_guard lock(file->mutex);
    if (file->info != nullptr) used.pairs = file->info->pairs;
    file->hints.echo(used);
  }
  *info_used = make_info(&used);
  return MPI_SUCCESS;
}

MPI_FUNCTION(File_get_type_extent)(MPI_File fh, MPI_Datatype datatype, MPI_Aint* extent) {
  return get_type_extent(fh, datatype, extent, __func__);
}
MPI_FUNCTION(File_get_type_extent_c)(MPI_File fh, MPI_Datatype datatype, MPI_Count* extent) {
  return get_type_extent(fh, datatype, extent, __func__);
}

MPI_FUNCTION(File_create_errhandler)
(MPI_File_errhandler_function* file_errhandler_fn, MPI_Errhandler* errhandler) {
  if (file_errhandler_fn == nullptr || errhandler == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "the function or errhandler is null");
  *errhandler = make_errhandler(Kind::file, reinterpret_cast<void (*)()>(file_errhandler_fn));
  return MPI_SUCCESS;
}

MPI_FUNCTION(File_set_errhandler)(MPI_File fh, MPI_Errhandler errhandler) {
  File* file = find_file(fh);
  if (file == nullptr && fh != MPI_FILE_NULL) return raise_on(file, MPI_ERR_FILE, __func__);
  ErrorHandler* handler = find_errhandler(errhandler);
  if (handler == nullptr ||
      (handler->action == ErrorHandler::Action::call && handler->object != Kind::file))
    return raise_on(file, MPI_ERR_ERRHANDLER, __func__);
  ErrorHandler* old;
  if (file == nullptr) {
    const std::lock_guard lock(initial->mutex);
    old = std::exchange(initial->errhandler, retain(handler));
  } else {
    // Requests name the file's communicator, which cannot have a handler for files.
    ErrorHandler* of_requests = handler->action == ErrorHandler::Action::call
                                    ? find_errhandler(MPI_ERRORS_RETURN)
                                    : handler;
    ErrorHandler* old_of_requests;
    {
      const std::lock_guard lock(file->comm->mutex);
      old_of_requests = std::exchange(file->comm->errhandler, retain(of_requests));
    }
    release(old_of_requests);
    const std::lock_guard lock(file->mutex);
    old = std::exchange(file->errhandler, retain(handler));
  }
  if (old != nullptr) release(old);
  return MPI_SUCCESS;
}

MPI_FUNCTION(File_get_errhandler)(MPI_File fh, MPI_Errhandler* errhandler) {
  File* file = find_file(fh);
  if (file == nullptr && fh != MPI_FILE_NULL) return raise_on(file, MPI_ERR_FILE, __func__);
  if (errhandler == nullptr) return raise_on(file, MPI_ERR_ARG, __func__, "errhandler is null");
  if (file == nullptr) {
    ErrorHandler* handler = default_file_errhandler();
    *errhandler = give(handler);
    release(handler);
    return MPI_SUCCESS;
  }
  const std::lock_guard lock(file->mutex);
  *errhandler = give(file->errhandler);
  return MPI_SUCCESS;
}

MPI_FUNCTION(File_call_errhandler)(MPI_File fh, int errorcode) {
  File* file = find_file(fh);
  if (file == nullptr && fh != MPI_FILE_NULL) return raise_on(file, MPI_ERR_FILE, __func__);
  // The handler is called whatever it returns; the call itself succeeded.
  static_cast<void>(raise_on(file, errorcode, __func__));
  return MPI_SUCCESS;
}
