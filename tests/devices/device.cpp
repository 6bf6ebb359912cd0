#include "tests/devices/device.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <unordered_map>

#include "tests/devices/context.hpp"

namespace weft::devices {
namespace {

std::mutex table_lock;
std::unordered_map<ibv_context*, std::shared_ptr<Context>> table;
std::shared_ptr<Device> current;

std::shared_ptr<Device> current_device() {
  std::lock_guard lock(table_lock);
  static bool has_read = false;
  if (const char* path = std::getenv("DEVICE_DESCRIPTION"); path != nullptr && !has_read) try {
      current = std::make_shared<Device>(load(path));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "DEVICE_DESCRIPTION: %s\n", error.what());
      std::_Exit(2);
    }
  has_read = true;
  return current;
}

void ring(Context& context) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(context.bell, &one, sizeof one);
}

// The events of port states that have begun since the last time; under the device's lock.
void note_states(Context& context) {
  const auto& states = context.device->described.port_states;
  const auto since = std::chrono::steady_clock::now() - context.device->begin;
  for (std::size_t& told = context.num_states_told; told < states.size(); ++told) {
    if (since < std::chrono::milliseconds(states[told].first)) return;
    context.events.push_back(states[told].second == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE
                                                                    : IBV_EVENT_PORT_ERR);
  }
}

void take_over_events(Context& context) {
  context.bell = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  context.timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  const auto& states = context.device->described.port_states;
  if (states.size() > 1) {
    itimerspec every{};
    every.it_value.tv_nsec = every.it_interval.tv_nsec = 50'000'000;
    ::timerfd_settime(context.timer, 0, &every, nullptr);
  }
}

void lower(const Description& described, ibv_device_attr& limits) {
  const auto at_most = [&](const char* name, auto& value) {
    using T = std::remove_reference_t<decltype(value)>;
    value = static_cast<T>(
        std::min<std::uint64_t>(static_cast<std::uint64_t>(value),
                                static_cast<std::uint64_t>(described.limit(name, INT64_MAX))));
  };
  at_most("max_qp", limits.max_qp);
  at_most("max_qp_wr", limits.max_qp_wr);
  at_most("max_sge", limits.max_sge);
  at_most("max_cq", limits.max_cq);
  at_most("max_cqe", limits.max_cqe);
  at_most("max_mr", limits.max_mr);
  at_most("max_mr_size", limits.max_mr_size);
  at_most("max_qp_rd_atom", limits.max_qp_rd_atom);
  at_most("max_qp_init_rd_atom", limits.max_qp_init_rd_atom);
  at_most("max_res_rd_atom", limits.max_res_rd_atom);
  at_most("max_srq", limits.max_srq);
  at_most("max_srq_wr", limits.max_srq_wr);
  at_most("max_srq_sge", limits.max_srq_sge);
  at_most("local_ca_ack_delay", limits.local_ca_ack_delay);
  // The further ports of a device are down.
  if (const auto ports = described.limit("phys_port_cnt", 1); ports > 1)
    limits.phys_port_cnt = static_cast<std::uint8_t>(ports);
  if (const auto ports = described.limits.find("phys_port_cnt"); ports != described.limits.end())
    limits.phys_port_cnt = static_cast<std::uint8_t>(ports->second);
  if (described.atomics >= 0) limits.atomic_cap = static_cast<ibv_atomic_cap>(described.atomics);
}

int query_device_ex(ibv_context* of, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* limits, std::size_t bytes) {
  const auto context = find(of);
  if (const int error = context->device->enter("ibv_query_device"); error != 0) return error;
  const int error = context->real_query_device_ex(of, input, limits, bytes);
  std::lock_guard lock(context->device->lock);
  if (error == 0) lower(context->device->described, limits->orig_attr);
  return error;
}

int query_port(ibv_context* of, std::uint8_t number, ibv_port_attr* port, std::size_t bytes) {
  const auto context = find(of);
  Device& device = *context->device;
  if (const int error = device.enter("ibv_query_port"); error != 0) return error;
  if (const int error = context->real_query_port(of, 1, port, bytes); error != 0) return error;
  port->state = number == 1 ? device.port_state(port->state) : IBV_PORT_DOWN;
  std::lock_guard lock(device.lock);
  const Description& described = device.described;
  const auto mtu = [&](const char* name, ibv_mtu real_mtu) {
    return mtu_of(described.limit(name, bytes_of(real_mtu)));
  };
  port->max_mtu = mtu("max_mtu", port->max_mtu);
  port->active_mtu = std::min(port->max_mtu, mtu("active_mtu", port->active_mtu));
  port->max_msg_sz = static_cast<std::uint32_t>(described.limit("max_msg_sz", port->max_msg_sz));
  if (described.link_layer >= 0) port->link_layer = static_cast<std::uint8_t>(described.link_layer);
  if (!described.gids.empty()) port->gid_tbl_len = static_cast<int>(described.gids.size());
  return 0;
}

}  // namespace

ibv_mtu mtu_of(std::int64_t bytes) {
  int mtu = IBV_MTU_256;
  while (mtu < IBV_MTU_4096 && bytes_of(static_cast<ibv_mtu>(mtu + 1)) <= bytes) ++mtu;
  return static_cast<ibv_mtu>(mtu);
}

void Device::fail(const std::string& call, int error, int skipped, int count) {
  std::lock_guard guard(lock);
  described.failures[call] = {error, calls[call] + skipped, count};
}
void Device::stop_failing(const std::string& call) {
  std::lock_guard guard(lock);
  described.failures.erase(call);
}
int Device::num_calls(const std::string& call) {
  std::lock_guard guard(lock);
  return calls[call];
}
void Device::lose_confirms(bool lose) {
  std::lock_guard guard(lock);
  described.loses_confirms = lose;
}

void Device::hold_posts(int count) {
  std::lock_guard guard(lock);
  described.holds_posts = count;
}

void Device::raise(ibv_event_type type) {
  std::lock_guard guard(lock);
  for (Context* context : contexts) {
    context->events.push_back(type);
    ring(*context);
  }
}

void Device::set_port(ibv_port_state state) {
  {
    std::lock_guard guard(lock);
    described.port_states = {{0, state}};
  }
  raise(state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

void Device::vanish() {
  {
    std::lock_guard guard(lock);
    if (is_gone) return;
    is_gone = true;
  }
  raise(IBV_EVENT_DEVICE_FATAL);
}

int Device::enter(const std::string& call) {
  int delay_ms = 0, error = 0;
  {
    std::lock_guard guard(lock);
    const int number = calls[call]++;
    if (const auto found = described.delays_ms.find(call); found != described.delays_ms.end())
      delay_ms = found->second;
    if (const auto found = described.failures.find(call); found != described.failures.end()) {
      const Failure& failure = found->second;
      const int place = number - failure.skipped;
      if (place >= 0 && (failure.count < 0 || place < failure.count)) error = failure.error;
    }
    if (is_gone) error = EIO;
  }
  if (delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
  return error;
}

ibv_port_state Device::port_state(ibv_port_state state) {
  std::lock_guard guard(lock);
  const auto since = std::chrono::steady_clock::now() - begin;
  for (const auto& [from_ms, next] : described.port_states)
    if (since >= std::chrono::milliseconds(from_ms)) state = next;
  return state;
}

Described::Described(std::string_view text) : device_(std::make_shared<Device>(parse(text))) {
  std::lock_guard lock(table_lock);
  before_ = std::exchange(current, device_);
}
Described::~Described() {
  std::lock_guard lock(table_lock);
  current = before_;
}

std::shared_ptr<Context> find(ibv_context* context) {
  std::lock_guard lock(table_lock);
  const auto found = table.find(context);
  return found == table.end() ? nullptr : found->second;
}

std::vector<int> beside(int events) {
  std::lock_guard lock(table_lock);
  for (const auto& [opened, context] : table)
    if (opened->async_fd == events) return {context->bell, context->timer};
  return {};
}

}  // namespace weft::devices

using namespace weft::devices;

DESCRIBED_CALL ibv_device** ibv_get_device_list(int* count) {
  static auto* const list = real<decltype(ibv_get_device_list)>("ibv_get_device_list");
  ibv_device** const devices = list(count);
  const auto device = current_device();
  for (ibv_device** each = devices; device != nullptr && each != nullptr && *each != nullptr;
       ++each)
    if (device->described.transport >= 0)
      (*each)->transport_type = static_cast<ibv_transport_type>(device->described.transport);
  return devices;
}

DESCRIBED_CALL const char* ibv_get_device_name(ibv_device* of) {
  const auto device = current_device();
  return device == nullptr || device->described.name.empty() ? of->name
                                                             : device->described.name.c_str();
}

DESCRIBED_CALL ibv_context* ibv_open_device(ibv_device* of) {
  static auto* const open = real<decltype(ibv_open_device)>("ibv_open_device");
  const auto device = current_device();
  if (device == nullptr) return open(of);
  if (const int error = device->enter("ibv_open_device"); error != 0) {
    errno = error;
    return nullptr;
  }
  ibv_context* const opened = open(of);
  if (opened == nullptr) return nullptr;
  auto context = std::make_shared<Context>();
  context->device = device;
  context->context = opened;
  context->real_ops = opened->ops;
  verbs_context* const verbs = verbs_get_ctx(opened);
  context->real_query_port = std::exchange(verbs->query_port, query_port);
  context->real_query_device_ex = std::exchange(verbs->query_device_ex, query_device_ex);
  {
    std::lock_guard lock(device->lock);
    take_over_events(*context);
    device->contexts.push_back(context.get());
  }
  take_over_queues(*opened);
  std::lock_guard lock(table_lock);
  table[opened] = std::move(context);
  return opened;
}

DESCRIBED_CALL int ibv_close_device(ibv_context* opened) {
  static auto* const close_device = real<decltype(ibv_close_device)>("ibv_close_device");
  if (const auto context = find(opened); context != nullptr) {
    end_queues(opened);
    {
      std::lock_guard lock(context->device->lock);
      std::erase(context->device->contexts, context.get());
    }
    for (const int fd : {context->bell, context->timer}) ::close(fd);
    std::lock_guard lock(table_lock);
    table.erase(opened);
  }
  return close_device(opened);
}

DESCRIBED_CALL int ibv_query_device(ibv_context* of, ibv_device_attr* limits) {
  static auto* const query = real<decltype(ibv_query_device)>("ibv_query_device");
  const auto context = find(of);
  if (context == nullptr) return query(of, limits);
  if (const int error = context->device->enter("ibv_query_device"); error != 0) return error;
  const int error = query(of, limits);
  std::lock_guard lock(context->device->lock);
  if (error == 0) lower(context->device->described, *limits);
  return error;
}

DESCRIBED_CALL int ibv_get_async_event(ibv_context* of, ibv_async_event* event) {
  static auto* const get = real<decltype(ibv_get_async_event)>("ibv_get_async_event");
  const auto context = find(of);
  if (context == nullptr) return get(of, event);
  for (;;) {
    {
      std::lock_guard lock(context->device->lock);
      std::uint64_t number = 0;
      [[maybe_unused]] auto taken = ::read(context->timer, &number, sizeof number);
      note_states(*context);
      if (!context->events.empty()) {
        *event = {};
        event->event_type = context->events.front();
        event->element.port_num = event->event_type == IBV_EVENT_CQ_ERR ? 0 : 1;
        context->events.pop_front();
        // The descriptor of a device that is gone stays readable, and tells nothing more.
        if (context->events.empty() && !context->device->is_gone)
          taken = ::read(context->bell, &number, sizeof number);
        return 0;
      }
      if (context->device->is_gone) {
        errno = EIO;
        return -1;
      }
    }
    pollfd ready[] = {
        {of->async_fd, POLLIN, 0}, {context->bell, POLLIN, 0}, {context->timer, POLLIN, 0}};
    if ((::fcntl(of->async_fd, F_GETFL) & O_NONBLOCK) != 0) return get(of, event);
    (void)::poll(ready, 3, -1);
    if (ready[0].revents != 0) return get(of, event);
  }
}

DESCRIBED_CALL int epoll_ctl(int instance, int what, int fd, epoll_event* event) {
  static auto* const control = real<decltype(epoll_ctl)>("epoll_ctl");
  if (what != EPOLL_CTL_MOD)
    for (const int more : beside(fd)) (void)control(instance, what, more, event);
  return control(instance, what, fd, event);
}

DESCRIBED_CALL void ibv_ack_async_event(ibv_async_event* event) {
  static auto* const ack = real<decltype(ibv_ack_async_event)>("ibv_ack_async_event");
  if (event->event_type != IBV_EVENT_CQ_ERR || event->element.cq != nullptr) ack(event);
}
