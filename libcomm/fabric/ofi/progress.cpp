// Progress: what the provider has completed, and events.
#include <algorithm>
#include <chrono>
#include <thread>

#include "base/os/descriptor.hpp"
#include "fabric/ofi/endpoint_impl.hpp"

namespace weft::fabric::ofi {

namespace {

constexpr unsigned kVainArms = 64;

}  // namespace

// Ends what the provider has completed; error null: with success.
void OfiEndpoint::end(Posted& posted, const fi_cq_err_entry* error, std::size_t length,
                      Events* events, Lock& lock) {
  if (posted.is_access) return end_access(static_cast<PostedAccess&>(posted), error, lock);
  auto& buffer = static_cast<Buffer&>(posted);
  if (buffer.receives == nullptr) return end_send(buffer, error == nullptr, lock);
  if (error == nullptr) return on_received(buffer, length, events, lock);
  post_receive(buffer);  // also where its connection was replaced in the middle of a message
}

bool OfiEndpoint::read_completions(Events* events, Lock& lock) {
  bool any = false;
  for (int round = 0; round < 8; ++round) {
    if (next_entry_ == num_entries_) {
      const ssize_t count = fi_cq_read(ep_->cq(), entries_, kBatch);
      if (count == -FI_EAVAIL) {
        fi_cq_err_entry error{};
        if (fi_cq_readerr(ep_->cq(), &error, 0) < 0 || error.op_context == nullptr) continue;
        any = true;
        end(*static_cast<Posted*>(error.op_context), &error, 0, events, lock);
        continue;
      }
      if (count <= 0) return any;
      num_entries_ = static_cast<int>(count);
      next_entry_ = 0;
    }
    any = true;
    const bool was_full = num_entries_ == kBatch;
    // What an event calls may read the rest, and more.
    while (next_entry_ < num_entries_) {
      const fi_cq_data_entry entry = entries_[next_entry_++];
      end(*static_cast<Posted*>(entry.op_context), nullptr, entry.len, events, lock);
    }
    if (!was_full) return any;
  }
  may_hold_ = true;
  return any;
}

bool OfiEndpoint::poll(Events& events) {
  Lock lock(mutex_);
  bool any = read_completions(&events, lock);
  if (any) num_vain_arms_ = 0;
  if (num_accesses_ > 0) [[unlikely]]
    look_at_accesses();
  if (std::exchange(is_stuck_, false)) [[unlikely]]
    for (auto& [token, link] : links_) send_held(*link);
  for (std::size_t left = events_.size(); left > 0 && !events_.empty(); --left) {
    Event event = std::move(events_.front());
    events_.erase(events_.begin());
    lock.unlock();
    dispatch(events, event);
    lock.lock();
    if (event.buffer != nullptr) post_receive(*event.buffer);
    any = true;
  }
  return any;
}

bool OfiEndpoint::arm() {
  std::lock_guard lock(mutex_);
  // A connection that waits to be accepted, for which there is no descriptor, keeps the wait's
  // descriptor readable. Nothing can be done for it, so it is looked at now and then.
  if (++num_vain_arms_ % kVainArms == 0 && !has_descriptors_left())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  // What waits for a connection, or for accesses, is woken by it, or by the next look at it.
  const bool is_idle = std::ranges::all_of(events_, [](const Event& event) {
    return event.kind == EventKind::hello_again || event.until_ns != 0;
  });
  return is_idle && !std::exchange(may_hold_, false) && ep_->try_wait();
}

}  // namespace weft::fabric::ofi
