// The initiator's side: puts, gets, atomics and long messages, by the fabric or by target-side
// emulation.
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
constexpr std::size_t kMaxWithdrawn = 65536;  // handles of a peer
}  // namespace

void finish(NodeRequest& request) {
  const Code code = request.code;
  if (Batch* batch = request.batch; batch != nullptr) {
    if (code != Code::ok && batch->code == Code::ok) batch->code = code;
    if (--batch->left > 0) return;
    Operation& operation = *batch->operation;
    const Code all = batch->code;
    delete batch;
    return OperationAccess::finish(operation, all);
  }
  Operation& operation = *request.operation;
  OperationAccess::set_previous(operation, request.previous);
  request.~NodeRequest();
  OperationAccess::finish(operation, code);
}

void Session::start(NodeRequest& request) {
  request.session = this;
  request.done = request_done;
  FinishedRequests finished;
  Rail* rail = nullptr;
  {
    std::lock_guard lock(lock_);
    if (state() == State::lost) {
      request.code = Code::peer_lost;
      finished.push_back(request);
    } else {
      if (request.is_send) ++num_sends_;
      const bool is_next = waiting_.empty() && state() == State::up && reposts_.empty();
      // Without memory for a rail the request goes over the main link.
      if (is_next && !request.is_send) or_no_memory([&] { rail = rail_of_thread(); });
      if (rail != nullptr && !take_for(*rail, request)) rail = nullptr;
      if (rail == nullptr) {
        waiting_.push_back(request);
        if (is_next)
          advance(request, finished);
        else
          link_.want();
      }
    }
  }
  if (rail != nullptr) return post_on(*rail, request);
  finished.finish_all();
}

// Checks bounds and rights.
Code Session::check(const NodeRequest& request, const RemoteRegion& region) {
  if (request.offset > region.bytes || request.bytes > region.bytes - request.offset ||
      (is_atomic(request.access) && request.offset % 8 != 0))
    return Code::bad_argument;
  const std::uint32_t right = request.access == Access::put   ? kWrite
                              : request.access == Access::get ? kRead
                                                              : kAtomic;
  return (region.rights & right) != 0 ? Code::ok : Code::not_permitted;
}

// The notification is numbered, so it is delivered once; it stays behind the put, even if both are
// posted again.
void Session::post_tag(NodeRequest& request) {
  if (!std::exchange(request.has_tag, false)) return;
  request.was_tagged = true;
  NotifyMessage message{{.kind = Kind::notify}, request.tag};
  post_control(message);
}

// The fabric has finished a request on the region.
void Session::drop_posted(RemoteRegion& region) {
  if (--region.num_posted == 0 && region.is_withdrawn) let_go(region);
}

// For the first request of `waiting_` or `reposts_`.
void Session::end_request(NodeRequest& request, Code code, RequestList& finished) {
  if (request.is_send) --num_sends_;
  target_side_.drop(request);  // which may have part of it
  (request.is_repost ? reposts_ : waiting_).remove(request);
  request.code = code;
  finished.push_back(request);
}

bool Session::advance(NodeRequest& request, RequestList& finished) {
  if (request.is_send) return send_fragments(request, finished);
  // A later message has arrived, so this put has, too, and the owner may have reused the memory.
  if (request.was_put && request.id == 0 && link_.has_later_than(request.put_after)) {
    count_moved(request);
    end_request(request, Code::ok, finished);
    return true;
  }
  RemoteRegion& region = *request.region;
  if (region.state == RemoteRegion::State::asking) return false;
  if (region.state == RemoteRegion::State::gone) {
    end_request(request, region.why, finished);
    return true;
  }
  if (const Code refused = check(request, region); refused != Code::ok) {
    end_request(request, refused, finished);
    return true;
  }
  if (region.mapped) {
    do_mapped(request, region.mapped.data() + request.offset);
    post_tag(request);
    end_request(request, Code::ok, finished);
    return true;
  }
  const fabric::Key* key = region.key_on(main_.theirs);
  // A request that target-side emulation has begun stays there.
  const bool by_target = key == nullptr || request.id != 0 ||
                         !can_do(endpoint()->limits(), request) ||
                         (request.is_for_owner(endpoint()->limits()) && !request.was_tagged);
  // Target-side emulation uses messages, which the link holds until all reposts are posted. A put
  // must not follow its notification, as it would there.
  if (request.is_repost && by_target && request.id == 0) {
    if (request.was_tagged) {
      needs_puts_ = true;
      return false;
    }
    reposts_.remove(request);
    // Later messages may now arrive before it, so they no longer imply its completion.
    request.is_repost = request.was_put = false;
    waiting_.push_back(request);
    return true;
  }
  if (!by_target && is_striped(request)) {
    (request.is_repost ? reposts_ : waiting_).remove(request);
    request.is_repost = false;
    start_striped(request, finished);
    return true;
  }
  const Code code =
      by_target ? target_side_.post(request,
                                    {region.handle, request.offset, request.bytes, request.bytes})
                : post_access(*endpoint(), *link_.link(), request, *key, request.offset);
  if (code == Code::again || code == Code::peer_lost) {
    make_busy();
    return false;
  }
  if (code != Code::ok) {
    end_request(request, code, finished);
    return true;
  }
  (request.is_repost ? reposts_ : waiting_).remove(request);
  request.is_repost = false;
  posted_.push_back(request);
  ++region.num_posted;
  if (!by_target && !request.was_put && request.access == Access::put) {
    request.was_put = true;
    request.put_after = link_.last_number();
  }
  post_tag(request);
  return true;
}

void Session::do_mapped(NodeRequest& request, std::byte* at) {
  switch (request.access) {
    case Access::put:
      weft::detail::copy(at, request.local, request.bytes);
      return;
    case Access::get:
      weft::detail::copy(request.local, at, request.bytes);
      return;
    default:
      request.previous =
          fabric::apply(atomic_of(request.access), at, request.operand, request.compare);
  }
}

bool Session::send_fragments(NodeRequest& request, RequestList& finished) {
  const std::size_t most = endpoint()->limits().message_max - sizeof(PieceMessage);
  do {
    const std::size_t part = std::min(request.bytes - request.moved, most);
    PieceMessage message{{.kind = Kind::piece}, request.bytes, request.moved};
    if (post(message, {request.local + request.moved, part}) != Code::ok) return false;
    request.moved += part;
  } while (request.moved < request.bytes);
  end_request(request, Code::ok, finished);
  return true;
}

void Session::request_done(fabric::WorkRequest& posted, Code code) noexcept {
  auto& request = static_cast<NodeRequest&>(posted);
  request.session->on_request_done(request, code);
}

void Session::on_request_done(NodeRequest& request, Code code) {
  RequestList finished;
  bool is_main = true;
  {
    std::lock_guard lock(lock_);
    posted_.remove(request);
    is_main = request.rail == nullptr;
    leave_rail(request);
    drop_posted(*request.region);
    const bool is_broken = code == Code::peer_lost || code == Code::cancelled;
    const bool is_once = request.is_once();
    if (is_broken && state() == State::lost) code = Code::peer_lost;
    if (is_broken && state() != State::lost && !is_once && !is_main) {
      waiting_.push_back(request);
      make_busy();
    } else if (is_broken && state() != State::lost && !is_once) {
      repost(request);
    } else {
      if (code == Code::ok) count_moved(request);
      request.code = is_broken && is_once && state() != State::lost ? Code::outcome_unknown : code;
      finished.push_back(request);
    }
    if (!waiting_.empty()) make_busy();
  }
  // A completion on a rail is no sign of life on the main link.
  if (is_main) link_.note_received(transport_.now_ns_);
  finished.finish_all();
}

// Posts the request again over the next link, before the messages that were posted after it.
void Session::repost(NodeRequest& request) {
  const std::uint64_t now = now_ns();
  if (request.num_breaks == 0) request.broken_ns = now;
  if (request.count_break() && now > request.broken_ns + transport_.timeout_ns())
    retry_limit_reached_ = true;
  request.is_repost = true;
  request.is_asked = false;
  reposts_.push_back(request);
  link_.hold(true);
  make_busy();
}

// Messages between the two sides of target-side emulation.
bool Session::on_target_side(Kind kind, fabric::Bytes bytes) {
  AccessRequest* ended = nullptr;
  Code code = Code::ok;
  {
    std::lock_guard lock(lock_);
    if (!target_side_.on_message(kind, bytes, ended, code)) return false;
  }
  if (ended != nullptr) on_request_done(static_cast<NodeRequest&>(*ended), code);
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
  // The answer may arrive on the socket.
  if (endpoint()->mapped() != nullptr) ++transport_.num_awaited_;
}

void Session::add_use(RegionUse& use) {
  std::lock_guard lock(lock_);
  RemoteRegion& region = *use.region;
  region.uses.push_back(&use);
  if (region.state != RemoteRegion::State::ready || !region.mapped) return;
  use.bytes = region.bytes;
  use.rights = region.rights;
  use.base.store(region.mapped.data(), std::memory_order_release);
}

void Session::remove_use(RegionUse& use) {
  std::lock_guard lock(lock_);
  RemoteRegion& region = *use.region;
  std::erase(region.uses, &use);
  // Only the map and this use refer to it: no request is under way. A region that is being resolved
  // is dropped with the answer.
  if (!region.uses.empty() || region.state == RemoteRegion::State::asking ||
      use.region.use_count() > 2)
    return;
  drop_region(region);
}

// For a region without uses. A refused one has no handle to release.
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
  if (!region.mapped) return;
  for (RegionUse* use : region.uses) use->base.store(nullptr, std::memory_order_relaxed);
  heavy_fence();  // pairs with the compiler's in RegionUse::enter
  for (RegionUse* use : region.uses)
    while (use->busy.load(std::memory_order_acquire)) cpu_relax();
  region.mapped = {};
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
    const Descriptor file(std::exchange(*descriptor, -1));
    // Without room here target-side emulation does it all.
    if (mapped->map(file, region->bytes, region->rights, region->mapped) == Code::corrupt)
      return false;
  }
  if (!refused) region->state = RemoteRegion::State::ready;
  if (is_withdrawn) let_go(*region);
  if (region->mapped)
    for (RegionUse* use : region->uses) {
      use->bytes = region->bytes;
      use->rights = region->rights;
      // release: the two stores before it.
      use->base.store(region->mapped.data(), std::memory_order_release);
    }
  make_busy();  // for requests that wait for it
  // Only the map and this function refer to it.
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
  // The handle was released meanwhile, or the answer with it is still in the socket.
  if (num_asked_ > 0 && withdrawn_early_.size() < kMaxWithdrawn) withdrawn_early_.push_back(handle);
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
      // The claimed length alone must not make this process allocate much.
      assembled_.reserve(std::min<std::size_t>(message.total, 4 << 20));
    }
    assembled_.insert(assembled_.end(), data.begin(), data.end());
  } catch (const std::bad_alloc&) {
    lose(Code::no_memory, "sends a message, and there is no memory to receive it");
    return true;
  }
  if (assembled_.size() < message.total) return data.size() > 0;
  transport_.events_.on_message(*this, assembled_);
  assembled_.clear();
  if (assembled_.capacity() > (4u << 20)) assembled_.shrink_to_fit();
  return true;
}

}  // namespace weft::transport
