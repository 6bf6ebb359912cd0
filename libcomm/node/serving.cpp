// The target's side: the meaning of keys, and target-side emulation of puts, gets and atomics.
#include <sodium.h>
#include <unistd.h>

#include <algorithm>

#include "base/shortage.hpp"
#include "node/session.hpp"
#include "node/transport.hpp"
#include "rma/memory.hpp"

namespace weft::transport {

namespace {
constexpr std::size_t kMaxHandles = 65536;  // of one session

// Registers the region there at its first use. False: it cannot be.
bool registered_key(fabric::Endpoint& endpoint, Region& region, std::uint32_t rights,
                    fabric::Key& key) {
  const fabric::Limits& limits = endpoint.limits();
  if (!limits.puts && !limits.gets && !limits.atomics) return false;
  auto found = std::ranges::find_if(region.registered, [&](const auto& item) {
    return item.endpoint == &endpoint && item.rights == rights;
  });
  if (found == region.registered.end()) {
    Region::Registered made{&endpoint, rights, {}};
    make_room(region.registered);
    if (!endpoint.register_memory(region.address, region.bytes, rights, made.registration))
      return false;
    region.registered.push_back(made);
    found = region.registered.end() - 1;
  }
  key = found->registration.key;
  return true;
}

}  // namespace

bool Session::on_resolve(const ResolveMessage& message) {
  KeyParts parts;
  std::memcpy(&parts, message.key.data(), sizeof parts);
  ResolvedMessage answer{};
  answer.kind = Kind::resolved;
  answer.id = message.id;
  answer.code = static_cast<std::uint32_t>(Code::not_permitted);

  std::shared_ptr<Region> region;
  if (parts.generation == transport_.generation()) {
    const auto found = transport_.regions_.find(parts.region);
    if (found != transport_.regions_.end() && !found->second->is_withdrawn) region = found->second;
  }
  const Region::Grant* grant = nullptr;
  if (region != nullptr)
    for (const Region::Grant& item : region->grants)
      if (sodium_memcmp(item.secret.data(), parts.secret.data(), item.secret.size()) == 0 &&
          (item.only == 0 || item.only == theirs_.generation))
        grant = &item;
  if (grant == nullptr || granted_.size() >= kMaxHandles) {
    std::lock_guard lock(lock_);
    post_control(answer);
    return true;
  }
  granted_.make_room();
  ++region->num_users;
  answer.code = 0;
  answer.handle = granted_.add({region, grant->rights});
  answer.bytes = region->bytes;
  answer.rights = grant->rights;

  fabric::Mapped* mapped = endpoint()->mapped();
  if (mapped != nullptr && region->is_allocated && connection_ != nullptr) {
    int descriptor = -1;
    if (mapped->share(region->address, grant->rights, descriptor)) {
      const std::string_view body(reinterpret_cast<const char*>(&answer), sizeof answer);
      Status status = or_no_memory([&] {
        return transport_.bootstrap_.send(*connection_, peer::FrameType::mapping, body,
                                          {&descriptor, 1});
      });
      ::close(descriptor);
      if (status) return true;
    }
  }
  // Target-side emulation serves memory that cannot be registered.
  for (std::uint32_t device = 0; device < std::min(devices_->size(), kMaxDevices); ++device) {
    fabric::Key key;
    if (!registered_key(*(*devices_)[device], *region, grant->rights, key)) continue;
    answer.devices |= 1u << device;
    if (device == 0) {
      answer.key = key;
      continue;
    }
    DeviceKeyMessage further{{.kind = Kind::device_key, .id = message.id}, device, 0, key};
    std::lock_guard lock(lock_);
    post_control(further);
  }
  std::lock_guard lock(lock_);
  post_control(answer);
  return true;
}

std::byte* Session::find_shared(const RemoteRange& range, std::uint32_t rights, Code& code) {
  code = Code::not_permitted;
  if (range.key > ~std::uint32_t{0}) return nullptr;
  const Granted* found = granted_.find(static_cast<std::uint32_t>(range.key));
  if (found == nullptr) return nullptr;
  const Region& region = *found->region;
  if (region.is_withdrawn || (found->rights & rights) != rights) return nullptr;
  code = Code::bad_argument;
  if (!is_within(range.address, std::max(range.bytes, range.room), 0, region.bytes)) return nullptr;
  code = Code::ok;
  return region.address + range.address;
}

bool Session::on_let_go(std::uint32_t handle) {
  if (granted_.find(handle) == nullptr) return false;
  --granted_.remove(handle).region->num_users;
  return true;
}

void Session::withdraw(const std::shared_ptr<Region>& region) {
  granted_.for_each([&](std::uint32_t handle, Granted& granted) {
    if (granted.region != region || granted.is_withdrawn) return;
    granted.is_withdrawn = true;
    HandleMessage message{{.kind = Kind::withdrawn, .id = handle}};
    std::lock_guard lock(lock_);
    post_control(message);
  });
}

}  // namespace weft::transport
