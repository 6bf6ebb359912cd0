// Opening and closing. All members agree on the outcome: the first one makes the file, the others
// open it, and an error of one of them ends the call for all, with its reason.
#include "mpi/file/file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "mpi/core/request.hpp"
#include "mpi/file/threads.hpp"
#include "mpi/file/uring.hpp"

namespace weft::mpi {

Immortal<FileTable> files;

namespace {

// Maps a hint to its choice.
FileHints::Choice choice_of(const Info* info, const char* key, FileHints::Choice otherwise) {
  const std::string* value = info == nullptr ? nullptr : info->find(key);
  if (value == nullptr) return otherwise;
  if (*value == "enable" || *value == "true") return FileHints::Choice::enable;
  if (*value == "disable" || *value == "false") return FileHints::Choice::disable;
  if (*value == "automatic") return FileHints::Choice::automatic;
  return otherwise;
}

template <class Number>
Number number_of(const Info* info, const char* key, Number otherwise, Number most) {
  const std::string* value = info == nullptr ? nullptr : info->find(key);
  if (value == nullptr) return otherwise;
  Number number{};
  const char* const end = value->data() + value->size();
  const auto [stopped, error] = std::from_chars(value->data(), end, number);
  return error == std::errc() && stopped == end && number > 0 && number <= most ? number
                                                                                : otherwise;
}

const char* word_of(FileHints::Choice choice) {
  return choice == FileHints::Choice::enable    ? "enable"
         : choice == FileHints::Choice::disable ? "disable"
                                                : "automatic";
}

FileError check_amode(int amode) {
  constexpr int kAll = MPI_MODE_APPEND | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE |
                       MPI_MODE_EXCL | MPI_MODE_RDONLY | MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL |
                       MPI_MODE_UNIQUE_OPEN | MPI_MODE_WRONLY;
  if ((amode & ~kAll) != 0) return {MPI_ERR_AMODE, "the access mode has unknown bits"};
  const int access = amode & (MPI_MODE_RDONLY | MPI_MODE_RDWR | MPI_MODE_WRONLY);
  if (access != MPI_MODE_RDONLY && access != MPI_MODE_RDWR && access != MPI_MODE_WRONLY)
    return {MPI_ERR_AMODE,
            "the access mode needs one of MPI_MODE_RDONLY, MPI_MODE_RDWR and MPI_MODE_WRONLY"};
  if (access == MPI_MODE_RDONLY && (amode & (MPI_MODE_CREATE | MPI_MODE_EXCL)) != 0)
    return {MPI_ERR_AMODE, "MPI_MODE_RDONLY with MPI_MODE_CREATE or MPI_MODE_EXCL"};
  if (access == MPI_MODE_RDWR && (amode & MPI_MODE_SEQUENTIAL) != 0)
    return {MPI_ERR_AMODE, "MPI_MODE_RDWR with MPI_MODE_SEQUENTIAL"};
  return {};
}

int flags_of(int amode, bool makes) {
  int flags = O_CLOEXEC;
  flags |= (amode & MPI_MODE_RDWR) != 0     ? O_RDWR
           : (amode & MPI_MODE_WRONLY) != 0 ? O_WRONLY
                                            : O_RDONLY;
  if (makes && (amode & MPI_MODE_CREATE) != 0) flags |= O_CREAT;
  if (makes && (amode & MPI_MODE_EXCL) != 0) flags |= O_EXCL;
  return flags;
}

FileError open_descriptor(File& file, bool makes) {
  // A pipe without a process at its other end would block.
  do file.descriptor = ::open(file.name.c_str(), flags_of(file.amode, makes) | O_NONBLOCK, 0666);
  while (file.descriptor < 0 && errno == EINTR);
  if (file.descriptor < 0) return error_of_errno(errno, "opening", file.name);
  struct stat found {};
  if (::fstat(file.descriptor, &found) != 0) return error_of_errno(errno, "querying", file.name);
  if (S_ISDIR(found.st_mode)) return error_of_errno(EISDIR, "opening", file.name);
  if (S_ISFIFO(found.st_mode) || S_ISSOCK(found.st_mode))
    return {MPI_ERR_BAD_FILE, fmt::format("{} is a pipe or a socket, which has no places to read "
                                          "and write at",
                                          file.name)};
  const int flags = ::fcntl(file.descriptor, F_GETFL);
  if (flags < 0 || ::fcntl(file.descriptor, F_SETFL, flags & ~O_NONBLOCK) != 0)
    return error_of_errno(errno, "opening", file.name);
  return {};
}

// Strips the kind of the file system from a name, as in "ufs:".
const char* plain_name(const char* name) {
  for (const char* prefix : {"ufs:", "nfs:", "xfs:", "lustre:", "gpfs:", "testfs:"})
    if (std::strncmp(name, prefix, std::strlen(prefix)) == 0) return name + std::strlen(prefix);
  return name;
}

// The first exchange: every member's state before opening.
struct Opening {
  std::int32_t code;
  std::int32_t amode;
};

void close_descriptor(File& file, FileError& error) {
  if (file.descriptor < 0) return;
  if (::close(std::exchange(file.descriptor, -1)) != 0 && errno != EINTR && !error)
    error = error_of_errno(errno, "closing", file.name);
}

// The resources got before the members agree to open.
struct Opened {
  std::unique_ptr<File> file;
  std::string comm_name;

  ~Opened() {
    if (file == nullptr) return;
    FileError ignored;
    close_descriptor(*file, ignored);
    if (file->handle != nullptr) files->erase(file->handle);
  }
};

FileError prepare_open(const char* name, int amode, MPI_Info info, Opened& opened) {
  opened.file = std::make_unique<File>();
  File& file = *opened.file;
  file.amode = amode;
  if (name == nullptr || *name == 0) return {MPI_ERR_BAD_FILE, "the name is empty"};
  file.name = opened.comm_name = plain_name(name);
  if (FileError error = check_amode(amode)) return error;
  const Info* hints = find_info(info);
  if (info != MPI_INFO_NULL && hints == nullptr) return {MPI_ERR_INFO, {}};
  file.errhandler = default_file_errhandler();
  file.info = copy_of(hints);
  file.hints = FileHints::from(hints);
  Datatype& byte = *find_datatype(MPI_BYTE);
  if (FileError error = make_view(0, byte, byte, find_datarep("native"), true, file.view))
    return error;
  file.handle = files->insert(&file);
  if (file.handle == nullptr) return {MPI_ERR_NO_MEM, {}};
  return {};
}

FileError open_descriptors(coll::Team& team, File* file, int amode, FileError error) {
  std::vector<Opening> all;
  if (const Status status = gather_from_all(team, Opening{error.code, amode}, all); !status)
    return error_of(status);
  if (error) return error;
  for (const Opening& other : all) {
    if (other.code != MPI_SUCCESS) return {other.code, "another member's arguments are not valid"};
    if (other.amode != amode) return {MPI_ERR_NOT_SAME, "the members give different access modes"};
  }
  if (team.rank() == 0) error = open_descriptor(*file, true);
  // The first member has made the file when the others open it.
  std::int32_t code = error.code;
  if (const Status status = bcast_from_first(team, code); !status) return error_of(status);
  if (code != MPI_SUCCESS)
    return error ? error
                 : FileError{code, fmt::format("the first member could not open {}", file->name)};
  if (team.rank() != 0) error = open_descriptor(*file, false);
  return team.size() > 1 ? agree(team, error) : error;
}

// The values that all members take from the first, with the shared pointer's value.
struct Common {
  FileHints hints;
  std::int64_t pointer;
  std::int32_t errno_of_first;
};

// All members have the file open: makes the window and state that they share.
FileError open_window(Comm& comm, Opened& opened) {
  File& file = *opened.file;
  if (const Status status = allocate_window(comm, comm.rank == 0 ? 8 : 0, file.window); !status)
    return {error_class(status.code()),
            "the word of the shared pointer cannot be had: " + status.text()};
  file.comm = file.window->comm;
  file.window->file = file.handle;
  {
    // Requests name the window's communicator.
    ErrorHandler* returns = find_errhandler(MPI_ERRORS_RETURN);
    const std::lock_guard lock(file.comm->mutex);
    release(std::exchange(file.comm->errhandler, retain(returns)));
    release(std::exchange(file.window->errhandler, retain(returns)));
    file.comm->name = std::move(opened.comm_name);
  }
  static_cast<void>(PMPI_Win_lock_all(MPI_MODE_NOCHECK, file.window->handle));
  // The first member's hints count where all must act alike, and no member moves the shared pointer
  // or makes the file longer before all have these.
  Common common{file.hints, 0, 0};
  struct stat found {};
  if (comm.rank == 0) {
    if ((file.amode & MPI_MODE_APPEND) != 0) {
      if (::fstat(file.descriptor, &found) == 0)
        common.pointer = found.st_size;
      else
        common.errno_of_first = errno;
    }
    *reinterpret_cast<std::int64_t*>(file.window->base) = common.pointer;
  }
  if (const Status status = bcast_from_first(*file.comm->team, common); !status)
    return error_of(status);
  if (common.errno_of_first != 0)
    return error_of_errno(common.errno_of_first, "finding the end of", file.name);
  file.hints = common.hints;
  file.pointer = common.pointer;
  return {};
}

void unlink_if_wanted(File& file, FileError& error) {
  if ((file.amode & MPI_MODE_DELETE_ON_CLOSE) == 0 || file.rank() != 0) return;
  if (::unlink(file.name.c_str()) != 0 && errno != ENOENT && !error)
    error = error_of_errno(errno, "deleting", file.name);
}

void wait_for_pending(File& file) {
  wait_progressing([&file] {
    const std::lock_guard lock(file.mutex);
    return file.num_pending == 0;
  });
}

FileError open_file(MPI_Comm handle, const char* name, int amode, MPI_Info info, MPI_File* out) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) return {MPI_ERR_COMM, {}};
  if (comm->is_inter()) return {MPI_ERR_COMM, "an intercommunicator"};
  if (is_revoked(*comm)) return {MPIX_ERR_REVOKED, {}};
  if (comm->group->has_foreign_members())
    return {MPI_ERR_UNSUPPORTED_OPERATION,
            "processes that open a file together must be of one job"};
  if (out != nullptr) *out = MPI_FILE_NULL;
  Opened opened;
  FileError error = or_no_memory_error([&] { return prepare_open(name, amode, info, opened); });
  if (out == nullptr) error = {MPI_ERR_ARG, "fh is null"};
  error = open_descriptors(*comm->team, opened.file.get(), amode, std::move(error));
  if (!error) error = open_window(*comm, opened);
  if (error) return error;
  File* file = opened.file.release();
  *out = file->handle;
  note_made(*file->window);
  return {};
}

FileError close_file(File& file, bool with_others) {
  wait_for_pending(file);
  FileError error;
  if (file.split != File::Split::none && !check_revoked(file))
    error = {MPI_ERR_OTHER, "a split collective has not ended"};
  close_descriptor(file, error);
  Window* window = file.window;
  if (with_others) {
    // Delete the file when no member has it open any more; nobody can be met on a revoked one.
    static_cast<void>(PMPI_Win_unlock_all(window->handle));
    if (file.size() > 1 && (file.amode & MPI_MODE_DELETE_ON_CLOSE) != 0 && !check_revoked(file))
      if (const Status status = insist([&] { return coll::barrier(*file.comm->team); }); !status) {
        hear_of_revocations();
        if (!error && !check_revoked(file)) error = error_of(status);
      }
  }
  unlink_if_wanted(file, error);
  files->erase(file.handle);
  if (with_others) {
    if (const Status status = free_window(window); !status && !error) error = error_of(status);
  }
  return error;
}

}  // namespace

File::~File() {
  if (errhandler != nullptr) release(errhandler);
}

void destroy_files() {
  files->for_each([](MPI_File, File* file) {
    log_line(LogLevel::info, engine->rank(), "MPI_Finalize: {} is still open", file->name);
    // Its window ends with all windows.
    static_cast<void>(close_file(*file, false));
    delete file;
  });
  close_ring();
  end_background();
  reset_default_file_errhandler();
}

FileHints FileHints::from(const Info* info) {
  FileHints hints;
  hints.collective_read = choice_of(info, "romio_cb_read", hints.collective_read);
  hints.collective_write = choice_of(info, "romio_cb_write", hints.collective_write);
  // The standard's own name of the same hint.
  if (info != nullptr && info->find("collective_buffering") != nullptr) {
    hints.collective_read = choice_of(info, "collective_buffering", hints.collective_read);
    hints.collective_write = choice_of(info, "collective_buffering", hints.collective_write);
  }
  hints.sieve_read = choice_of(info, "romio_ds_read", hints.sieve_read);
  if (choice_of(info, "romio_ds_write", hints.sieve_write) == Choice::enable)
    hints.sieve_write = Choice::enable;
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  hints.collective_bytes = number_of(info, "cb_buffer_size", hints.collective_bytes, kMostBytes);
  hints.num_aggregators = number_of(info, "cb_nodes", 0, 1 << 24);
  hints.sieve_read_bytes =
      number_of(info, "ind_rd_buffer_size", hints.sieve_read_bytes, kMostBytes);
  hints.sieve_write_bytes =
      number_of(info, "ind_wr_buffer_size", hints.sieve_write_bytes, kMostBytes);
  // "*:N": N of each host; "*:*": all.
  if (const std::string* value = info == nullptr ? nullptr : info->find("cb_config_list");
      value != nullptr && value->starts_with("*:")) {
    Info rest;
    rest.set("n", value->substr(2));
    hints.per_host = value->substr(2) == "*" ? 1 << 24 : number_of(&rest, "n", 0, 1 << 24);
  }
  return hints;
}

void FileHints::echo(Info& info) const {
  info.set("romio_cb_read", word_of(collective_read));
  info.set("romio_cb_write", word_of(collective_write));
  info.set("romio_ds_read", word_of(sieve_read));
  info.set("romio_ds_write", word_of(sieve_write));
  info.set("cb_buffer_size", std::to_string(collective_bytes));
  if (num_aggregators > 0) info.set("cb_nodes", std::to_string(num_aggregators));
  info.set("ind_rd_buffer_size", std::to_string(sieve_read_bytes));
  info.set("ind_wr_buffer_size", std::to_string(sieve_write_bytes));
}

FileError error_of_errno(int number, std::string_view tried, std::string_view name) {
  int code = MPI_ERR_IO;
  switch (number) {
    case ENOENT:
      code = MPI_ERR_NO_SUCH_FILE;
      break;
    case EACCES:
    case EPERM:
      code = MPI_ERR_ACCESS;
      break;
    case EEXIST:
      code = MPI_ERR_FILE_EXISTS;
      break;
    case EBUSY:
    case ETXTBSY:
      code = MPI_ERR_FILE_IN_USE;
      break;
    case ENOSPC:
      code = MPI_ERR_NO_SPACE;
      break;
    case EDQUOT:
      code = MPI_ERR_QUOTA;
      break;
    case EROFS:
      code = MPI_ERR_READ_ONLY;
      break;
    case EISDIR:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP:
      code = MPI_ERR_BAD_FILE;
      break;
    case ENOMEM:
      code = MPI_ERR_NO_MEM;
      break;
    default:
      break;
  }
  return {code, fmt::format("{} {}: {}", tried, name.empty() ? "of the file" : name,
                            std::strerror(number))};
}

FileError add_shared_pointer(File& file, std::int64_t etypes, std::int64_t& before) {
  const MPI_Win window = file.window->handle;
  int code = PMPI_Fetch_and_op(&etypes, &before, MPI_INT64_T, 0, 0, MPI_SUM, window);
  if (code == MPI_SUCCESS) code = PMPI_Win_flush(0, window);
  if (code == MPI_SUCCESS) return {};
  return {code, "the shared pointer is at the first member, which is lost"};
}

FileError set_shared_pointer(File& file, std::int64_t etypes) {
  const MPI_Win window = file.window->handle;
  std::int64_t before = 0;
  int code = PMPI_Fetch_and_op(&etypes, &before, MPI_INT64_T, 0, 0, MPI_REPLACE, window);
  if (code == MPI_SUCCESS) code = PMPI_Win_flush(0, window);
  if (code == MPI_SUCCESS) return {};
  return {code, "the shared pointer is at the first member, which is lost"};
}

}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_CONVERSIONS(File, MPI_File, files)

MPI_FUNCTION(File_open)
(MPI_Comm comm, const char* filename, int amode, MPI_Info info, MPI_File* fh) {
  MPI_MUST_RUN();
  const FileError error = open_file(comm, filename, amode, info, fh);
  return error ? raise_on(static_cast<File*>(nullptr), error, __func__) : MPI_SUCCESS;
}

MPI_FUNCTION(File_close)(MPI_File* fh) {
  if (fh == nullptr)
    return raise_on(static_cast<File*>(nullptr), MPI_ERR_ARG, __func__, "fh is null");
  File* file = find_file(*fh);
  if (file == nullptr) return raise_on(file, MPI_ERR_FILE, __func__);
  // A revoked file may be closed all the same, and this process may not have heard of it.
  if (file->split != File::Split::none) hear_of_revocations();
  if (file->split != File::Split::none && !check_revoked(*file))
    return raise_on(file, MPI_ERR_OTHER, __func__, "a split collective has not ended");
  const FileError error = close_file(*file, true);
  file->comm = nullptr;
  *fh = MPI_FILE_NULL;
  const std::unique_ptr<File> ended(file);
  return error ? raise_on(file, error, __func__) : MPI_SUCCESS;
}

MPI_FUNCTION(File_delete)(const char* filename, MPI_Info info) {
  MPI_MUST_RUN();
  File* const none = nullptr;
  if (filename == nullptr || *filename == 0)
    return raise_on(none, MPI_ERR_BAD_FILE, __func__, "the name is empty");
  if (info != MPI_INFO_NULL && find_info(info) == nullptr)
    return raise_on(none, MPI_ERR_INFO, __func__);
  const char* name = plain_name(filename);
  if (::unlink(name) == 0) return MPI_SUCCESS;
  return raise_on(none, error_of_errno(errno, "deleting", name), __func__);
}
