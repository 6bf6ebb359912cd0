#include "memory.hpp"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weft::objstore {

Status system_error(const std::string& what) {
  const int error = errno;
  Code code = Code::internal;
  switch (error) {
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
    case EAGAIN:
      code = Code::no_memory;
      break;
    case EACCES:
    case EPERM:
      code = Code::not_permitted;
      break;
    case ENOENT:
    case ECONNREFUSED:
      code = Code::not_found;
      break;
    default:
      break;
  }
  return {code, what + ": " + std::strerror(error)};
}

Mapping::~Mapping() {
  if (address_ != nullptr) ::munmap(address_, bytes_);
}

Status Mapping::map(const Descriptor& file, std::size_t bytes, bool is_writable) {
  void* address = ::mmap(nullptr, bytes, is_writable ? PROT_READ | PROT_WRITE : PROT_READ,
                         MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (address == MAP_FAILED)
    return system_error("mapping " + std::to_string(bytes) + " bytes of shared memory");
  Mapping made;
  made.address_ = static_cast<std::byte*>(address);
  made.bytes_ = bytes;
  *this = std::move(made);
  return Code::ok;
}

Status Mapping::map_own_page() {
  const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return system_error("mapping a page of memory");
  Mapping made;
  made.address_ = static_cast<std::byte*>(address);
  made.bytes_ = bytes;
  if (::madvise(address, bytes, MADV_WIPEONFORK) != 0)
    return system_error("keeping a page of memory from children (MADV_WIPEONFORK)");
  *this = std::move(made);
  return Code::ok;
}

Status ForkMark::make() {
  if (Status status = page_.map_own_page(); !status) return status;
  *page_.data() = std::byte{1};
  return Code::ok;
}

Status make_memory(const char* name, bool huge, Descriptor& file) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB | MFD_HUGE_2MB : 0);
  Descriptor made(::memfd_create(name, flags));
  if (!made) return system_error("making shared memory (memfd_create)");
  file = std::move(made);
  return Code::ok;
}

Status make_sealed_memory(const char* name, std::size_t bytes, Descriptor& file) {
  Descriptor made;
  if (Status status = make_memory(name, false, made); !status) return status;
  if (::ftruncate(made.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(made.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error("making " + std::to_string(bytes) + " bytes of shared memory");
  file = std::move(made);
  return Code::ok;
}

Status forbid_new_writers(const Descriptor& file) {
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    return system_error("making shared memory read-only for others (F_SEAL_FUTURE_WRITE)");
  return Code::ok;
}

Status back_with_memory(const Descriptor& file, std::uint64_t offset, std::uint64_t bytes) {
  int result;
  do result = ::fallocate(file.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  while (result != 0 && errno == EINTR);
  if (result != 0) return system_error("taking " + std::to_string(bytes) + " more bytes of memory");
  return Code::ok;
}

}  // namespace weft::objstore
