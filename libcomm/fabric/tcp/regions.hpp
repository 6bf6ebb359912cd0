#pragma once
// Regions: the memory that peers may reach. Whoever reads or writes there on a peer's behalf holds
// `mutex` shared and looks it up anew, so that none does once it is removed. Any thread.
#include <sys/random.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "fabric/endpoint.hpp"
#include "fabric/tcp/wire.hpp"

namespace weft::fabric::tcp {

class Regions {
 public:
  // May throw std::bad_alloc. unsupported: the kernel has no random numbers.
  Status add(void* address, std::size_t bytes, std::uint32_t rights, std::uint64_t& secret) {
    std::lock_guard lock(mutex);
    do {
      if (::getrandom(&secret, sizeof secret, 0) != sizeof secret)
        return {Code::unsupported, "the kernel gives no random numbers for a key (getrandom)"};
    } while (static_cast<std::uint32_t>(secret) == 0 || regions_.contains(secret));
    regions_[secret] = {reinterpret_cast<std::uintptr_t>(address), bytes, rights};
    return {};
  }
  void remove(std::uint64_t secret) {
    std::lock_guard lock(mutex);
    regions_.erase(secret);
  }

  mutable std::shared_mutex mutex;
  // Under `mutex`. ok: all of it lies in memory that may be accessed so.
  Code check(const Access& access, std::size_t bytes, std::uint32_t right) const {
    const auto found = regions_.find(access.secret);
    if (found == regions_.end()) return Code::not_permitted;
    const Region& region = found->second;
    if ((region.rights & right) == 0) return Code::not_permitted;
    const std::uint64_t offset = access.address - region.address;  // wraps to beyond the end
    return offset <= region.bytes && bytes <= region.bytes - offset ? Code::ok : Code::bad_argument;
  }
  bool has(std::uint64_t secret) const { return regions_.contains(secret); }

 private:
  struct Region {
    std::uint64_t address, bytes;
    std::uint32_t rights;
  };
  std::unordered_map<std::uint64_t, Region> regions_;
};

}  // namespace weft::fabric::tcp
