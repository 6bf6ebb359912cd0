// The store's loop. A store that received a request polls the control areas of those clients for a
// while (settings.spin_us): a call then costs no system call on either side. Before it sleeps it
// sets store_polls to 0, so that clients ring its doorbell.
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "objstore/shared/clock.hpp"
#include "server.hpp"

namespace weft::objstore {
namespace {

constexpr std::uint64_t kSweepNs = 20'000'000;     // how often erased objects are checked
constexpr std::uint64_t kHelloNs = 5'000'000'000;  // how long a client may take to say hello
constexpr std::uint64_t kPollNs = 10'000;          // then others get the core between two polls

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void Server::run() {
  std::uint64_t last_work_ns = monotonic_ns();
  std::uint32_t turns = 0;
  while (!is_over_.load(std::memory_order_relaxed)) {
    bool has_worked;
    {
      const std::lock_guard lock(mutex_);
      has_worked = serve_active();
      if (!copies_.empty()) {
        advance_copy();
        has_worked = true;
      }
      if (objects_.take_spilled()) room_may_have_come_ = has_worked = true;
      advance_restores();
      retry_creates();
      if (++turns % 64 == 0) {
        serve_events(0);
        run_clocks(monotonic_ns());
      }
      remove_broken();
    }
    has_worked |= help();
    if (has_worked) {
      last_work_ns = monotonic_ns();
      continue;
    }
    const std::uint64_t idle_ns = monotonic_ns() - last_work_ns;
    if (idle_ns < settings_.spin_us * std::uint64_t{1000}) {
      if (idle_ns < kPollNs)
        relax();
      else
        ::sched_yield();
      continue;
    }
    int timeout_ms;
    {
      const std::lock_guard lock(mutex_);
      timeout_ms = run_clocks(monotonic_ns());
      if (!fall_asleep()) continue;
    }
    help();
    idle();
    epoll_event event;
    if (::epoll_wait(epoll_.get(), &event, 1, timeout_ms) > 0) {
      const std::lock_guard lock(mutex_);
      serve_events(0);
      remove_broken();
    }
    help();
    // The client that rang has written a request: one poll is enough to keep polling.
    last_work_ns = monotonic_ns() - std::min<std::uint64_t>(settings_.spin_us, 1) * 1000;
  }
}

void Server::idle() {
  const std::lock_guard guard(helper_mutex_);
  if (helper_ != nullptr) helper_->idle();
}

bool Server::help() {
  const std::lock_guard guard(helper_mutex_);
  return helper_ != nullptr && helper_->help();
}

void Server::stop() {
  is_over_.store(true, std::memory_order_relaxed);
  wake();
}

void Server::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

bool Server::serve_active() {
  bool has_worked = false;
  for (std::size_t i = 0; i < active_.size(); ++i) has_worked |= serve(*active_[i]);
  return has_worked;
}

bool Server::serve(Client& client) {
  Control& control = client.control();
  // acquire: the requests; pairs with ObjectStore's submit.
  const std::uint32_t submitted = control.submitted.load(std::memory_order_acquire);
  if (submitted == client.taken || client.is_broken) return false;
  if (submitted - client.taken > kCalls) {
    client.is_broken = true;
    broken_.push_back(client.serial);
    return false;
  }
  while (client.taken != submitted && !client.is_broken) {
    if (client.under_way == kCalls) {
      client.is_broken = true;
      broken_.push_back(client.serial);
      break;
    }
    // A copy: the client can change it while it is checked.
    Request request{};
    copy_request(request, control.requests[client.taken % kCalls]);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    ++client.taken;
    ++client.under_way;
    ++num_calls_;
    try {
      carry_out(client, request);
    } catch (const std::bad_alloc&) {
      run_short(client, request);
    }
  }
  return true;
}

// Refuses a call that there is no memory for, and undoes what it has begun. A part of what follows
// a seal may be left out: a call that waits for that object then waits until its deadline.
void Server::run_short(Client& client, const Request& request) {
  const Outcome outcome{Code::no_memory, Reason::short_of_memory};
  if (request.op == Op::put)
    if (const auto found = client.creating.find(request.id); found != client.creating.end()) {
      objects_.abort(found->second);
      client.creating.erase(found);
    }
  for (const auto& [number, wait] : waits_)
    if (wait.client == client.serial && wait.tag == request.tag) return end_wait(number, outcome);
  // Remote was not asked yet.
  const auto is_its = [&](const auto& item) {
    return item.second.client == client.serial && item.second.tag == request.tag;
  };
  std::erase_if(intos_, is_its);
  std::erase_if(replications_, is_its);
  std::erase_if(confirms_, [&](const auto& item) {
    return item.second.client == client.serial && item.second.request.tag == request.tag;
  });
  std::erase_if(pushes_, [&](const auto& item) {
    return item.second.client == client.serial && item.second.request.tag == request.tag;
  });
  complete(client, request.tag, outcome);
}

void Server::activate(Client& client) {
  if (client.is_active) return;
  client.is_active = true;
  client.control().store_polls.store(1, std::memory_order_relaxed);
  active_.push_back(&client);
}

// False if a request has come meanwhile.
bool Server::fall_asleep() {
  if (!copies_.empty()) return false;
  for (Client* client : active_) client->control().store_polls.store(0, std::memory_order_relaxed);
  // seq_cst: either the client sees that nobody polls, or its request is seen here; pairs with the
  // fence in ObjectStore's submit.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (Client* client : active_)
    if (client->control().submitted.load(std::memory_order_relaxed) != client->taken &&
        !client->is_broken) {
      for (Client* other : active_)
        other->control().store_polls.store(1, std::memory_order_relaxed);
      return false;
    }
  for (Client* client : active_) client->is_active = false;
  active_.clear();
  return true;
}

void Server::serve_events(int timeout_ms) {
  std::array<epoll_event, 64> events;
  const int num = ::epoll_wait(epoll_.get(), events.data(), events.size(), timeout_ms);
  for (int i = 0; i < num; ++i) {
    const auto serial = static_cast<std::uint32_t>(events[i].data.u64);
    const auto kind = static_cast<std::uint32_t>(events[i].data.u64 >> 32);  // as watch() names it
    if (serial == 0) {
      if (kind == 0) {
        accept_clients();
      } else {
        std::uint64_t count;
        [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof count);
      }
      continue;
    }
    const auto found = clients_.find(serial);
    if (found == clients_.end()) continue;
    Client& client = *found->second;
    if (kind == 0) {
      read_socket(client);
    } else if (kind == 2) {
      broken_.push_back(serial);
    } else {
      std::uint64_t count;
      [[maybe_unused]] const ssize_t got = ::read(client.doorbell.get(), &count, sizeof count);
      if (client.has_met) activate(client);
    }
  }
}

// Runs what is due; returns the milliseconds until something else is.
int Server::run_clocks(std::uint64_t now_ns) {
  std::uint64_t next = now_ns + 1'000'000'000;
  const auto due_at = [&next, now_ns](std::uint64_t at_ns) {
    next = std::min(next, std::max(at_ns, now_ns));
  };
  if (const std::uint64_t at_ns = objects_.expire(now_ns)) due_at(at_ns);
  if (objects_.num_dying() != 0) {
    if (now_ns >= next_sweep_ns_) {
      next_sweep_ns_ = now_ns + kSweepNs;
      if (objects_.sweep()) due_at(next_sweep_ns_);
    } else {
      due_at(next_sweep_ns_);
    }
  }
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ns)
    end_late_wait(deadlines_.begin()->second);
  if (!deadlines_.empty()) due_at(deadlines_.begin()->first);
  due_at(end_due_intos(now_ns));
  end_replications(now_ns);
  end_confirms(now_ns);
  end_pushes(now_ns);
  if (!replications_.empty() || !confirms_.empty() || !pushes_.empty()) due_at(now_ns + 20'000'000);
  if (!room_waits_.empty()) {
    // References go without a notice, so room is searched for periodically.
    room_may_have_come_ = true;
    retry_creates();
    due_at(now_ns + 5'000'000);
  }
  if (!restores_.empty()) due_at(now_ns + 5'000'000);
  if (!graces_.empty()) due_at(graces_.front().until_ns);
  for (auto& [serial, client] : clients_)
    if (!client->has_met) {
      if (now_ns - client->met_ns > kHelloNs) {
        broken_.push_back(serial);
      } else {
        due_at(client->met_ns + kHelloNs);
      }
    }
  return static_cast<int>((next - now_ns) / 1'000'000) + 1;
}

}  // namespace weft::objstore
