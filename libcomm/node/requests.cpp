// The asking side: puts, gets, atomics and long messages, by the fabric or by the owner's side.
#include <algorithm>
#include <new>
#include <utility>

#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "node/session.hpp"
#include "node/transport.hpp"
#include "weft/copy.hpp"

namespace weft::transport {

namespace {
// More links do not break under one request within the timeout, unless it is the one that breaks
// them.
constexpr std::uint8_t kMostBreaks = 16;
constexpr std::size_t kMostWithdrawn = 65536;  // a peer has no more handles
}  // namespace

void finish(Work& work) {
  const Code code = work.code;
  if (Batch* batch = work.batch; batch != nullptr) {
    if (code != Code::ok && batch->code == Code::ok) batch->code = code;
    if (--batch->left > 0) return;
    Operation& operation = *batch->operation;
    const Code all = batch->code;
    delete batch;
    return OperationAccess::finish(operation, all);
  }
  Operation& operation = *work.operation;
  OperationAccess::set_previous(operation, work.previous);
  work.~Work();
  OperationAccess::finish(operation, code);
}

void Session::start(Work& work) {
  work.session = this;
  work.done = request_done;
  FinishedWorks finished;
  Rail* rail = nullptr;
  {
    std::lock_guard lock(lock_);
    if (state() == State::lost) {
      work.code = Code::peer_lost;
      finished.push_back(work);
    } else {
      if (work.is_send) ++num_sends_;
      const bool is_next = waiting_.empty() && state() == State::up && reposts_.empty();
      // Without memory for one of its own it goes over the main link.
      if (is_next && !work.is_send) or_no_memory([&] { rail = rail_of_thread(); });
      if (rail != nullptr && !take_for(*rail, work)) rail = nullptr;
      if (rail == nullptr) {
        waiting_.push_back(work);
        if (is_next) advance(work, finished);
      }
    }
  }
  if (rail != nullptr) return post_on(*rail, work);
  finished.finish_all();
}

// What a peer may ask for that the owner allows.
Code Session::check(const Work& work, const RemoteRegion& region) {
  if (work.offset > region.bytes || work.bytes > region.bytes - work.offset ||
      (is_atomic(work.access) && work.offset % 8 != 0))
    return Code::bad_argument;
  const std::uint32_t right = work.access == Access::put   ? kWrite
                              : work.access == Access::get ? kRead
                                                           : kAtomic;
  return (region.rights & right) != 0 ? Code::ok : Code::not_permitted;
}

// Numbered, so it is sent once; and behind the put, also when both are posted again.
void Session::post_tag(Work& work) {
  if (!std::exchange(work.has_tag, false)) return;
  work.was_tagged = true;
  NotifyMessage message{{.kind = Kind::notify}, work.tag};
  post_control(message);
}

// The fabric is done with something there.
void Session::drop_posted(RemoteRegion& region) {
  if (--region.num_posted == 0 && region.is_withdrawn) let_go(region);
}

// Takes it from `waiting_` or `reposts_`, where it is first.
void Session::end_work(Work& work, Code code, WorkList& finished) {
  if (work.is_send) --num_sends_;
  target_side_.drop(work);  // which may have some of it
  (work.is_repost ? reposts_ : waiting_).remove(work);
  work.code = code;
  finished.push_back(work);
}

bool Session::advance(Work& work, WorkList& finished) {
  if (work.is_send) return post_pieces(work, finished);
  // A message behind it has arrived, so it had, and the owner may use the memory for other data.
  if (work.was_put && work.id == 0 && link_.has_later_than(work.put_after)) {
    count_moved(work);
    end_work(work, Code::ok, finished);
    return true;
  }
  RemoteRegion& region = *work.region;
  if (region.state == RemoteRegion::State::asking) return false;
  if (region.state == RemoteRegion::State::gone) {
    end_work(work, region.why, finished);
    return true;
  }
  if (const Code refused = check(work, region); refused != Code::ok) {
    end_work(work, refused, finished);
    return true;
  }
  if (region.mapped != nullptr) {
    do_mapped(work, region.mapped + work.offset);
    post_tag(work);
    end_work(work, Code::ok, finished);
    return true;
  }
  const fabric::Key* key = region.key_on(main_.theirs);
  // What the owner's side has begun it ends.
  const bool by_owner = key == nullptr || work.id != 0 || !can_do(endpoint()->limits(), work);
  // By messages, which the link holds until all that is put again is under way. A put must not come
  // behind its notification, which it would there.
  if (work.is_repost && by_owner && work.id == 0) {
    if (work.was_tagged) {
      is_stuck_ = true;
      return false;
    }
    reposts_.remove(work);
    // Messages behind it may now arrive before it, so they are no longer its completion.
    work.is_repost = work.was_put = false;
    waiting_.push_back(work);
    return true;
  }
  if (!by_owner && is_striped(work)) {
    (work.is_repost ? reposts_ : waiting_).remove(work);
    work.is_repost = false;
    start_striped(work, finished);
    return true;
  }
  const Code code =
      by_owner ? target_side_.post(work, {region.handle, work.offset, work.bytes, work.bytes})
               : post_access(*endpoint(), *link_.link(), work, *key, work.offset);
  if (code == Code::again || code == Code::peer_lost) {
    make_busy();
    return false;
  }
  if (code != Code::ok) {
    end_work(work, code, finished);
    return true;
  }
  (work.is_repost ? reposts_ : waiting_).remove(work);
  work.is_repost = false;
  posted_.push_back(work);
  ++region.num_posted;
  if (!by_owner && !work.was_put && work.access == Access::put) {
    work.was_put = true;
    work.put_after = link_.last_number();
  }
  post_tag(work);
  return true;
}

void Session::do_mapped(Work& work, std::byte* at) {
  switch (work.access) {
    case Access::put:
      weft::detail::copy(at, work.local, work.bytes);
      return;
    case Access::get:
      weft::detail::copy(work.local, at, work.bytes);
      return;
    default:
      work.previous = fabric::apply(atomic_of(work.access), at, work.operand, work.compare);
  }
}

bool Session::post_pieces(Work& work, WorkList& finished) {
  const std::size_t most = endpoint()->limits().message_max - sizeof(PieceMessage);
  do {
    const std::size_t part = std::min(work.bytes - work.moved, most);
    PieceMessage message{{.kind = Kind::piece}, work.bytes, work.moved};
    if (post(message, {work.local + work.moved, part}) != Code::ok) return false;
    work.moved += part;
  } while (work.moved < work.bytes);
  end_work(work, Code::ok, finished);
  return true;
}

void Session::request_done(fabric::Request& request, Code code) noexcept {
  auto& work = static_cast<Work&>(request);
  work.session->on_request_done(work, code);
}

void Session::on_request_done(Work& work, Code code) {
  WorkList finished;
  bool is_main = true;
  {
    std::lock_guard lock(lock_);
    posted_.remove(work);
    is_main = work.rail == nullptr;
    leave_rail(work);
    drop_posted(*work.region);
    const bool is_broken = code == Code::peer_lost || code == Code::cancelled;
    const bool atomic = is_atomic(work.access);
    if (is_broken && state() == State::lost) code = Code::peer_lost;
    if (is_broken && state() != State::lost && !atomic && !is_main) {
      waiting_.push_back(work);
      make_busy();
    } else if (is_broken && state() != State::lost && !atomic) {
      repost(work);
    } else {
      if (code == Code::ok) count_moved(work);
      work.code = is_broken && atomic && state() != State::lost ? Code::outcome_unknown : code;
      finished.push_back(work);
    }
    if (!waiting_.empty()) make_busy();
  }
  // What ends on a rail says nothing of the main link.
  if (is_main) link_.note_received(transport_.now_ns_);
  finished.finish_all();
}

// Over the next link, and before the messages that were posted after it.
void Session::repost(Work& work) {
  const std::uint64_t now = now_ns();
  if (work.num_breaks == 0) work.broken_ns = now;
  if (work.num_breaks < kMostBreaks)
    ++work.num_breaks;
  else if (now > work.broken_ns + transport_.timeout_ns())
    is_worn_ = true;
  work.is_repost = true;
  work.is_asked = false;
  reposts_.push_back(work);
  link_.hold(true);
  make_busy();
}

// What the owner's sides say to each other.
bool Session::on_target_side(Kind kind, fabric::Bytes bytes) {
  AccessRequest* ended = nullptr;
  Code code = Code::ok;
  {
    std::lock_guard lock(lock_);
    if (!target_side_.on_message(kind, bytes, ended, code)) return false;
  }
  if (ended != nullptr) on_request_done(static_cast<Work&>(*ended), code);
  return true;
}

// Regions of the peer.

RegionUse::RegionUse(std::shared_ptr<Session> of, std::shared_ptr<RemoteRegion> named)
    : region(std::move(named)), session(std::move(of)) {
  session->add_use(*this);
}
// In a forked child the session, and its lock, are the parent's.
RegionUse::~RegionUse() {
  if (process == process_id()) session->remove_use(*this);
}

std::shared_ptr<RemoteRegion> Session::import(const MemoryKey& key) {
  std::lock_guard lock(lock_);
  const auto found = regions_.find(key);
  if (found != regions_.end() && found->second->state != RemoteRegion::State::gone)
    return found->second;
  const auto region = std::make_shared<RemoteRegion>();
  region->key = key;
  if (state() == State::lost) {
    region->state = RemoteRegion::State::gone;
    region->why = Code::peer_lost;
    return region;
  }
  regions_[key] = region;
  ask(*region);
  return region;
}

void Session::ask(RemoteRegion& region) {
  region.id = ++last_question_;
  ResolveMessage message{{.kind = Kind::resolve, .id = region.id}, region.key.bytes};
  post_control(message);
  ++num_asked_;
  // The answer may come by the socket.
  if (endpoint()->mapped() != nullptr) ++transport_.num_awaited_;
}

void Session::add_use(RegionUse& use) {
  std::lock_guard lock(lock_);
  RemoteRegion& region = *use.region;
  region.uses.push_back(&use);
  if (region.state != RemoteRegion::State::ready || region.mapped == nullptr) return;
  use.bytes = region.bytes;
  use.rights = region.rights;
  use.base.store(region.mapped, std::memory_order_release);
}

void Session::remove_use(RegionUse& use) {
  std::lock_guard lock(lock_);
  RemoteRegion& region = *use.region;
  std::erase(region.uses, &use);
  // Only the map and this use know it: no work is under way. What is still asked for goes with the
  // answer.
  if (!region.uses.empty() || region.state == RemoteRegion::State::asking ||
      use.region.use_count() > 2)
    return;
  drop_region(region);
}

// Nobody uses it any more. What was refused need not be let go.
void Session::drop_region(RemoteRegion& region) {
  if (region.state == RemoteRegion::State::ready) {
    end_region(region, Code::cancelled);
    let_go(region);
  }
  const auto found = regions_.find(region.key);
  if (found != regions_.end() && found->second.get() == &region) regions_.erase(found);
}

void Session::let_go(RemoteRegion& region) {
  region.is_withdrawn = false;
  if (state() == State::lost) return;
  HandleMessage message{{.kind = Kind::let_go, .id = region.handle}};
  post_control(message);
}

void Session::end_region(RemoteRegion& region, Code why) {
  if (region.state == RemoteRegion::State::asking) {
    --num_asked_;
    if (endpoint()->mapped() != nullptr) --transport_.num_awaited_;
  }
  region.state = RemoteRegion::State::gone;
  region.why = why;
  if (region.mapped == nullptr) return;
  for (RegionUse* use : region.uses) use->base.store(nullptr, std::memory_order_relaxed);
  heavy_fence();  // pairs with the compiler's in RegionUse::enter
  for (RegionUse* use : region.uses)
    while (use->busy.load(std::memory_order_acquire)) cpu_relax();
  endpoint()->mapped()->unmap(std::exchange(region.mapped, nullptr), region.bytes);
}

bool Session::on_device_key(const DeviceKeyMessage& message) {
  if (message.device == 0 || message.device >= kMaxDevices) return false;
  std::lock_guard lock(lock_);
  for (auto& [key, region] : regions_) {
    if (region->id != message.id || region->state != RemoteRegion::State::asking) continue;
    region->keys.resize(kMaxDevices);
    region->keys[message.device] = message.key;
    region->devices |= 1u << message.device;
  }
  return true;
}

bool Session::on_resolved(const ResolvedMessage& message, int* descriptor) {
  std::lock_guard lock(lock_);
  std::shared_ptr<RemoteRegion> region;
  for (auto& [key, item] : regions_)
    if (item->id == message.id) region = item;
  if (region == nullptr || region->state != RemoteRegion::State::asking) return true;  // dropped
  --num_asked_;
  if (endpoint()->mapped() != nullptr) --transport_.num_awaited_;
  region->state = RemoteRegion::State::gone;
  const bool is_granted = message.code == 0;
  const bool is_withdrawn = is_granted && std::erase(withdrawn_early_, message.handle) > 0;
  if (num_asked_ == 0) withdrawn_early_.clear();
  const bool refused = !is_granted || is_withdrawn;
  region->why = refused ? Code::not_permitted : Code::internal;
  region->handle = message.handle;
  region->bytes = message.bytes;
  region->rights = message.rights & kAllRights;
  region->devices = message.devices & (region->devices | 1);
  if (region->keys.empty()) region->keys.resize(1);
  region->keys[0] = message.key;
  if (!refused && descriptor != nullptr) {
    fabric::Mapped* mapped = endpoint()->mapped();
    if (mapped == nullptr) return false;
    Status status =
        mapped->map(std::exchange(*descriptor, -1), region->bytes, region->rights, region->mapped);
    if (status == Code::corrupt) return false;
    if (!status) region->mapped = nullptr;  // no room here: the owner's side does it all
  }
  if (!refused) region->state = RemoteRegion::State::ready;
  if (is_withdrawn) let_go(*region);
  if (region->mapped != nullptr)
    for (RegionUse* use : region->uses) {
      use->bytes = region->bytes;
      use->rights = region->rights;
      // release: the two before it.
      use->base.store(region->mapped, std::memory_order_release);
    }
  make_busy();  // for those who wait for it
  // The map and this function alone know it.
  if (region->uses.empty() && region.use_count() <= 2) drop_region(*region);
  return true;
}

bool Session::on_withdrawn(std::uint32_t handle) {
  std::lock_guard lock(lock_);
  for (auto it = regions_.begin(); it != regions_.end(); ++it) {
    const std::shared_ptr<RemoteRegion> region = it->second;
    if (region->state != RemoteRegion::State::ready || region->handle != handle) continue;
    end_region(*region, Code::not_permitted);
    if (region->num_posted > 0)
      region->is_withdrawn = true;
    else
      let_go(*region);
    regions_.erase(it);
    make_busy();
    return true;
  }
  // It was let go meanwhile, or the answer with it is still on its way through the socket.
  if (num_asked_ > 0 && withdrawn_early_.size() < kMostWithdrawn)
    withdrawn_early_.push_back(handle);
  return true;
}

bool Session::on_piece(const PieceMessage& message, fabric::Bytes data) {
  if (message.total > kMaxMessageBytes || data.size() > message.total ||
      message.offset != assembled_.size() ||
      (message.offset > 0 && message.total != assembled_total_) ||
      data.size() > message.total - message.offset)
    return false;
  try {
    if (message.offset == 0) {
      assembled_total_ = message.total;
      // What a peer only claims costs nothing.
      assembled_.reserve(std::min<std::size_t>(message.total, 4 << 20));
    }
    assembled_.insert(assembled_.end(), data.begin(), data.end());
  } catch (const std::bad_alloc&) {
    lose(Code::no_memory, "sends a message that there is no memory for");
    return true;
  }
  if (assembled_.size() < message.total) return data.size() > 0;
  transport_.events_.on_message(*this, assembled_);
  assembled_.clear();
  if (assembled_.capacity() > (4u << 20)) assembled_.shrink_to_fit();
  return true;
}

}  // namespace weft::transport
