// What peers may reach: allocated and shared memory. Each has a random key of its own, so that
// nobody who was not told finds it; the provider checks key and bounds, or this process does
// (serving.cpp).
#include <fmt/core.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/mapped.hpp"
#include "base/mix.hpp"
#include "fabric/ofi/library.hpp"
#include "fabric/ofi/ofi.hpp"

namespace weft::ofi {

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Status Mapping::map(std::size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    return {Code::no_memory,
            fmt::format("cannot map {} bytes: {} (see ulimit -v)", bytes, std::strerror(errno))};
  data_ = static_cast<std::byte*>(address);
  bytes_ = bytes;
  return {};
}

// Whoever is told a key must not learn the next one from it: a second secret lies between.
std::uint64_t OfiFabric::next_key() noexcept {
  // The low half must not be 0, which means "no region".
  for (;;) {
    std::uint64_t z = mix(mix(next_key_ += kMixStep) ^ key_secret_);
    if (!by_message_ && endpoint_->info().domain_attr->mr_key_size < 8)
      z &= (std::uint64_t{1} << endpoint_->info().domain_attr->mr_key_size * 8) - 1;
    if (static_cast<std::uint32_t>(z) != 0) return z;
  }
}

Status OfiFabric::add(void* address, std::size_t bytes, std::uint64_t access,
                      Registration& registration) {
  int error = 0;
  // Another try with another key, should two collide.
  for (int i = 0; i < 4; ++i) {
    error = fi_mr_reg(endpoint_->domain(), address, bytes, access, 0, next_key(), 0,
                      &registration.mr, nullptr);
    if (error != -FI_ENOKEY) break;
  }
  if (error != 0)
    return {Code::no_memory, fmt::format("libfabric cannot register {} bytes: {} (see ulimit -l)",
                                         bytes, error_text(error))};
  registration.key = fi_mr_key(registration.mr);
  registration.start = static_cast<std::byte*>(address);
  registration.bytes = bytes;
  registration.address =
      endpoint_->has_mode(FI_MR_VIRT_ADDR) ? reinterpret_cast<std::uintptr_t>(address) : 0;
  if (static_cast<std::uint32_t>(registration.key) == 0) {
    // The provider's own choice; region 0 would mean "not shared".
    fi_close(&registration.mr->fid);
    registration = {};
    return {Code::no_memory, "libfabric gave a key that Weft cannot use"};
  }
  return {};
}

namespace {

RemoteMemory remote_memory(const Registration& registration, std::size_t offset,
                           std::size_t bytes) {
  return {registration.address + offset, bytes, static_cast<std::uint32_t>(registration.key),
          static_cast<std::uint32_t>(registration.key >> 32)};
}

}  // namespace

Status OfiFabric::open_to_peers(void* address, std::size_t bytes, bool is_writable,
                                Registration& registration) {
  registration.is_writable = is_writable;
  if (by_message_) {
    registration.key = next_key();
    registration.start = static_cast<std::byte*>(address);
    registration.address = reinterpret_cast<std::uintptr_t>(address);
    registration.bytes = bytes;
    return {};
  }
  return add(address, bytes, FI_REMOTE_READ | (is_writable ? FI_REMOTE_WRITE : 0), registration);
}

// It has been taken out of the table. Nothing is read or written on anybody's behalf afterwards.
void OfiFabric::close_to_peers(const Registration& registration) noexcept {
  if (by_message_) return end_pushes(registration.key);
  const std::lock_guard lock(lock_);
  fi_close(&registration.mr->fid);
}

Status OfiFabric::allocate(std::size_t bytes, void*& address, RemoteMemory& memory) {
  if (bytes == 0 || bytes > (std::size_t{1} << 46))
    return {Code::bad_argument, fmt::format("cannot allocate {} bytes", bytes)};
  auto mapping = std::make_unique<Mapping>();
  if (Status status = mapping->map((bytes + 4095) / 4096 * 4096); !status) return status;
  Registration registration;
  {
    const std::lock_guard lock(lock_);
    if (Status status = open_to_peers(mapping->data(), bytes, true, registration); !status)
      return status;
  }
  address = mapping->data();
  memory = remote_memory(registration, 0, bytes);
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(memory_lock_);
  allocated_[start] = {std::move(mapping), registration.key};
  registrations_.emplace(registration.key, registration);
  return {};
}

Status OfiFabric::release(void* address) {
  Allocated taken;
  Registration registration;
  {
    const std::lock_guard lock(memory_lock_);
    const auto found = allocated_.find(reinterpret_cast<std::uintptr_t>(address));
    if (found == allocated_.end())
      return {Code::bad_argument, "this address was not allocated here, or is free already"};
    taken = std::move(found->second);
    allocated_.erase(found);
    registration = registrations_.at(taken.key);
    registrations_.erase(taken.key);
  }
  close_to_peers(registration);
  return {};
}

Status OfiFabric::share(void* address, std::size_t bytes, RemoteMemory& memory) {
  memory = describe(address, bytes);
  if (memory.region != 0) return {};
  bool is_writable = false;
  if (Status status = find_writable(address, bytes, is_writable); !status) return status;
  return share_as(address, bytes, is_writable, memory);
}

Status OfiFabric::share_once(void* address, std::size_t bytes, RemoteMemory& memory) {
  return share_as(address, bytes, false, memory);
}

Status OfiFabric::share_as(void* address, std::size_t bytes, bool is_writable,
                           RemoteMemory& memory) {
  Registration registration;
  {
    const std::lock_guard lock(lock_);
    if (Status status = open_to_peers(address, bytes, is_writable, registration); !status)
      return status;
  }
  memory = remote_memory(registration, 0, bytes);
  const std::lock_guard lock(memory_lock_);
  registrations_.emplace(registration.key, registration);
  return {};
}

Status OfiFabric::unshare(const RemoteMemory& memory) {
  const std::uint64_t key = std::uint64_t{memory.extra} << 32 | memory.region;
  Registration registration;
  {
    const std::lock_guard lock(memory_lock_);
    const auto found = registrations_.find(key);
    if (found == registrations_.end()) return {Code::bad_argument, "this memory is not shared"};
    const auto start = reinterpret_cast<std::uintptr_t>(found->second.start);
    const auto owner = allocated_.find(start);
    if (owner != allocated_.end() && owner->second.key == key) return {};  // release() ends it
    registration = found->second;
    registrations_.erase(found);
  }
  close_to_peers(registration);
  return {};
}

RemoteMemory OfiFabric::describe(const void* address, std::size_t bytes) const noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(memory_lock_);
  auto after = allocated_.upper_bound(start);
  if (after != allocated_.begin()) {
    --after;
    const std::size_t offset = start - after->first;
    const Registration& registration = registrations_.at(after->second.key);
    if (offset < registration.bytes && bytes <= registration.bytes - offset)
      return remote_memory(registration, offset, bytes);
  }
  return {start, bytes, 0, 0};
}

}  // namespace weft::ofi
