// Calls that wait for objects, notices to subscribers, and the effect of objects' changes on both;
// the doorbells of clients; reading all slots.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "objstore/shared/clock.hpp"
#include "server.hpp"

namespace weft::objstore {

void Server::ring(Client& client) {
  // seq_cst: either a thread that goes to sleep sees what was written, or it is seen here; pairs
  // with the fence in ObjectStore's sleep.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  Control& control = client.control();
  if (control.sleepers.load(std::memory_order_relaxed) != 0) {
    control.wakes.fetch_add(1, std::memory_order_relaxed);
    ::syscall(SYS_futex, &control.wakes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  if (control.armed.load(std::memory_order_relaxed) != 0) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(client.bell.get(), &one, sizeof one);
  }
}

void Server::end_wait(std::uint64_t number, Outcome outcome) {
  const auto found = waits_.find(number);
  const Wait wait = std::move(found->second);
  waits_.erase(found);
  deadlines_.erase(wait.deadline);
  for (const ObjectId& id : wait.missing) {
    const auto [begin, end] = waiting_for_.equal_range(id);
    const auto mine =
        std::find_if(begin, end, [&](const auto& pair) { return pair.second == number; });
    if (mine == end) continue;
    waiting_for_.erase(mine);
    if (!waiting_for_.contains(id)) lack_room_.erase(id);
    if (wait.fetches && remote_ != nullptr && !waiting_for_.contains(id)) remote_->unwanted(id);
  }
  if (const auto client = clients_.find(wait.client); client != clients_.end())
    complete(*client->second, wait.tag, outcome, 0, wait.here);
}

void Server::end_late_wait(std::uint64_t number) {
  const std::vector<ObjectId>& missing = waits_.at(number).missing;
  const bool lacks_room = !lack_room_.empty() &&
                          std::any_of(missing.begin(), missing.end(), [this](const ObjectId& id) {
                            return lack_room_.contains(id);
                          });
  end_wait(number, {Code::timed_out, lacks_room ? Reason::no_room_here : Reason::none});
}

void Server::set_lacks_room(const ObjectId& id, bool lacks_room) {
  if (lacks_room && waiting_for_.contains(id))
    lack_room_.insert(id);
  else
    lack_room_.erase(id);
}

void Server::end_waits_of(std::uint32_t client) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, wait] : waits_)
    if (wait.client == client) numbers.push_back(number);
  for (const std::uint64_t number : numbers) end_wait(number, {Code::cancelled});
}

void Server::fail_waits(const ObjectId& id, Code code, Reason reason) {
  std::vector<std::uint64_t> numbers;
  const auto [begin, end] = waiting_for_.equal_range(id);
  for (auto it = begin; it != end; ++it) numbers.push_back(it->second);
  for (const std::uint64_t number : numbers) {
    const auto found = waits_.find(number);
    // Others of a wait's objects may still be enough.
    if (found == waits_.end() || !found->second.fetches) continue;
    end_wait(number, {code, reason});
  }
}

// Ends waits for an object that is in memory from now on.
void Server::appeared(const ObjectId& id) {
  std::vector<std::uint64_t> numbers;
  const auto [begin, end] = waiting_for_.equal_range(id);
  for (auto it = begin; it != end; ++it) numbers.push_back(it->second);
  waiting_for_.erase(begin, end);
  lack_room_.erase(id);
  for (const std::uint64_t number : numbers) {
    Wait& wait = waits_.at(number);
    if (++wait.here >= wait.least) end_wait(number, {});
  }
  end_intos_here(id);
}

void Server::sealed(const ObjectId& id, std::uint32_t entry) {
  appeared(id);
  notify_subscribers(id, entry);
  if (remote_ != nullptr) remote_->sealed(id, entry);
}

void Server::gone(const ObjectId& id, bool is_deleted) {
  end_intos_of_spilled(id, {Code::not_found, is_deleted ? Reason::deleted : Reason::no_holder});
  if (remote_ == nullptr) return;
  remote_->gone(id, is_deleted);
  // A client that waits for a spilled object may get it from another host.
  if (waiting_for_.contains(id)) remote_->wanted(id);
}

void Server::freed(std::uint32_t owner, std::uint64_t bytes) {
  if (const auto client = clients_.find(owner); client != clients_.end())
    client->second->charged_bytes -= std::min(client->second->charged_bytes, bytes);
}

void Server::notify_subscribers(const ObjectId& id, std::uint32_t entry) {
  for (auto& [serial, client] : clients_) {
    if (!client->is_subscribed) continue;
    Control& control = client->control();
    // acquire: the client has copied what it counts as read; pairs with ObjectStore's next_event.
    const std::uint64_t read = control.events_read.load(std::memory_order_acquire);
    if (client->events_written - read >= kEvents) {
      control.events_lost.store(++client->events_lost, std::memory_order_relaxed);
    } else {
      const Entry& object = objects_.index().entry(entry);
      control.events[client->events_written % kEvents] = {id, object.metadata_bytes,
                                                          object.data_bytes};
      // release: the event; pairs with next_event.
      control.events_written.store(++client->events_written, std::memory_order_release);
    }
    ring(*client);
  }
}

// A slot holds whatever its client wrote: numbers are compared, never followed.
void Server::read(std::vector<std::uint64_t>& held, std::vector<std::uint64_t>& used) {
  for (auto& [serial, client] : clients_) {
    if (!client->has_met) continue;
    const Control& control = client->control();
    // acquire: slots below are in use; pairs with ObjectStore's take_slot.
    const std::uint32_t num = std::min(control.slots_used.load(std::memory_order_acquire), kSlots);
    if (client->seen_uses.size() < num) client->seen_uses.resize(num);
    for (std::uint32_t i = 0; i < num; ++i) {
      const Slot& slot = control.slots[i];
      const std::uint64_t object = slot.object.load(std::memory_order_relaxed);
      if (object == 0) continue;
      if (slot.count.load(std::memory_order_relaxed) != 0) held.push_back(object);
      const std::uint32_t uses = slot.uses.load(std::memory_order_relaxed);
      if (uses != client->seen_uses[i]) {
        client->seen_uses[i] = uses;
        used.push_back(object);
      }
    }
  }
}

Outcome Server::create_in_place(const ObjectId& id, std::uint64_t data_bytes,
                                std::uint32_t metadata_bytes, std::uint32_t& entry) {
  return objects_.create(id, data_bytes, metadata_bytes, 0, entry);
}

}  // namespace weft::objstore
