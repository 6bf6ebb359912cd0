#pragma once
// Context: an opened device of libibverbs, and what its calls were before this folder's took their
// place. Of this folder's sources alone.
#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <memory>

#include "tests/devices/device.hpp"

// A function of libibverbs, for all of the process: the build hides others.
#define DESCRIBED_CALL extern "C" [[gnu::visibility("default")]]

namespace weft::devices {

struct Context {
  std::shared_ptr<Device> device;
  ibv_context* context = nullptr;
  ibv_context_ops real_ops{};
  decltype(verbs_context::query_port) real_query_port = nullptr;
  decltype(verbs_context::query_device_ex) real_query_device_ex = nullptr;
  // A bell for events of the description, and a timer for those that come by themselves. A program
  // that adds the context's descriptor of events to an epoll instance gets them with it.
  int bell = -1, timer = -1;
  std::deque<ibv_event_type> events;  // under the device's lock
  std::size_t num_states_told = 1;    // the same
};

// Null: the context is of no described device.
std::shared_ptr<Context> find(ibv_context* context);

// The descriptors that belong to a context's descriptor of events.
std::vector<int> beside(int events);

// What libibverbs itself has by this name.
template <class F>
F* real(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

// A port's GID: as the description has it, or false.
bool described_gid(Context& context, std::uint32_t port, std::uint32_t index, ibv_gid_entry& entry);
// The real index of the described one.
std::uint32_t real_gid_index(Context& context, std::uint32_t index);

// queues.cpp
void take_over_queues(ibv_context& context);
void end_queues(ibv_context* context);

inline unsigned bytes_of(ibv_mtu mtu) { return 128u << static_cast<unsigned>(mtu); }
ibv_mtu mtu_of(std::int64_t bytes);

}  // namespace weft::devices
