#include "node/rails.hpp"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "node/session.hpp"
#include "node/transport.hpp"

namespace weft::transport {

namespace {
constexpr std::uint64_t kFirstRailBackoffNs = 2'000'000, kMaxRailBackoffNs = 250'000'000;
// The time without an end of anything after which a rail is given up.
constexpr std::uint64_t kMostStillNs = 2'500'000'000;

void back_off(Rail& rail, std::uint64_t now) {
  rail.open_at_ns = now + rail.backoff_ns;
  rail.backoff_ns = std::clamp(rail.backoff_ns * 2, kFirstRailBackoffNs, kMaxRailBackoffNs);
}

}  // namespace

// Opening and ending.

Rail& Session::rail_at(std::size_t number) {
  if (rails_.size() < number) rails_.resize(number);
  auto& rail = rails_[number - 1];
  if (rail == nullptr) rail = std::make_unique<Rail>(*this, static_cast<std::uint16_t>(number));
  has_rails_.store(true, std::memory_order_relaxed);  // a hint: the lock orders all else
  return *rail;
}

void Session::want(Rail& rail) {
  if (rail.link != nullptr || std::exchange(rail.is_wanted, true)) return;
  make_busy();
}

// Returns null if this thread posts on the main link.
Rail* Session::rail_of_thread() {
  const std::size_t most = std::min<std::size_t>(endpoint()->limits().links, kMaxThreadRails + 1);
  if (most <= 1) return nullptr;
  const pthread_t self = ::pthread_self();
  auto found = std::ranges::find(posters_, self);
  std::size_t index = static_cast<std::size_t>(found - posters_.begin());
  if (found == posters_.end()) {
    if (posters_.size() < most)
      posters_.push_back(self);
    else
      index = self / 4096 % most;  // more threads than links share them
  }
  if (index == 0) return nullptr;
  Rail& rail = rail_at(kMaxDevices + index);
  if (rail.is_up) return &rail;
  want(rail);
  return nullptr;
}

void Session::open_rails(std::uint64_t now) {
  std::vector<Rail*> due;
  {
    std::lock_guard lock(lock_);
    if (!link_.is_up()) return;
    for (const auto& rail : rails_)
      if (rail != nullptr && rail->is_wanted && rail->link == nullptr && now >= rail->open_at_ns)
        due.push_back(rail.get());
  }
  for (Rail* rail : due) open_rail(*rail, now);
}

void Session::open_rail(Rail& rail, std::uint64_t now) {
  const std::size_t attempt = rail.num_attempts++;
  const std::size_t own = rail.number <= kMaxDevices
                              ? rail.number - 1u
                              : (rail.number - kMaxDevices + attempt) % devices_->size();
  // Only the main link tries every pair: devices of one number are on one network.
  const std::size_t theirs = own % num_their_devices();
  fabric::Endpoint& over = *(*devices_)[own];
  fabric::Link* link = nullptr;
  {
    std::lock_guard lock(lock_);
    rail.is_wanted = false;
  }
  if (transport_.is_crowded()) return back_off(rail, now);
  const std::uint32_t opening = link_.next_opening();
  if (!open_over(over, own, theirs, rail.number, opening, link)) return back_off(rail, now);
  link->client = &rail;
  transport_.note_used(over);
  set_link(rail, over, link, static_cast<std::uint32_t>(theirs), opening, now);
}

void Session::set_link(Rail& rail, fabric::Endpoint& over, fabric::Link* link, std::uint32_t theirs,
                       std::uint32_t opening, std::uint64_t now) {
  std::lock_guard lock(lock_);
  std::lock_guard posting(rail.lock);
  rail.endpoint = &over;
  rail.link = link;
  rail.theirs = theirs;
  rail.opening = opening;
  rail.is_wanted = false;
  rail.rest = Rail::Rest::no;
  rail.still_since_ns = now;
}

// The requests that it has in flight go to the other rails.
void Session::drop_rail(Rail& rail) {
  fabric::Link* link = nullptr;
  {
    std::lock_guard lock(lock_);
    std::lock_guard posting(rail.lock);
    link = std::exchange(rail.link, nullptr);
    rail.is_up = rail.is_taken = rail.is_theirs = false;
  }
  if (link != nullptr) rail.endpoint->close(*link);
}

bool Session::take_rail(fabric::Endpoint& over, fabric::Link& link, const LinkHello& hello) {
  if (state() == State::lost || devices_ == nullptr || hello.rail > kMaxDevices + kMaxThreadRails ||
      hello.device >= num_their_devices() || transport_.is_crowded())
    return false;
  const std::uint64_t now = transport_.now_ns_;
  Rail* rail = nullptr;
  {
    std::lock_guard lock(lock_);
    rail = &rail_at(hello.rail);
    if (is_late(hello.opening, rail->last_taken)) return false;
    const bool is_own = rail->link != nullptr && !rail->is_theirs;
    // If both sides open it at once, the link of the side that connected wins.
    if (is_own && !rail->is_up && opens_) return false;
    // The peer took the one from here, most likely after it had asked for this, which it has left.
    // Where it alone has seen that one end, its requests go over the main link for a while.
    if (is_own && rail->is_up && now < rail->up_since_ns + transport_.timeout_ns()) return false;
  }
  drop_rail(*rail);
  link.client = rail;
  transport_.note_used(over);
  set_link(*rail, over, &link, hello.device, hello.opening, now);
  std::lock_guard lock(lock_);
  rail->is_taken = rail->is_theirs = true;
  if (hello.opening != 0) rail->last_taken = hello.opening;
  make_busy();
  return true;
}

void Session::on_rail_up(Rail& rail) {
  std::lock_guard lock(lock_);
  rail.is_up = rail.rest == Rail::Rest::no;  // the peer may have taken it, and given it up since
  rail.up_since_ns = now_ns();
  rail.backoff_ns = 0;
  make_busy();
}

void Session::on_rail_down(Rail& rail, Code why) {
  drop_rail(rail);
  if (why == Code::corrupt) return lose(why, "sends invalid data");
  back_off(rail, now_ns());
  if (why == Code::no_memory || why == Code::again)
    transport_.put_rails_off();
  else
    transport_.note_room(true);
  std::lock_guard lock(lock_);
  make_busy();
}

// Closes rails without an answer, or without completions.
void Session::tick_rails(std::uint64_t now) {
  std::vector<Rail*> stopped;
  {
    std::lock_guard lock(lock_);
    for (const auto& rail : rails_) {
      if (rail == nullptr || rail->link == nullptr) continue;
      if (rail->num_posted == 0 && rail->rest == Rail::Rest::to_tell) {
        Head message{.kind = Kind::rail_rest,
                     .flags = rail->is_theirs ? std::uint8_t{0} : kOwnOpening,
                     .id = rail->opening};
        post_control(message);
        rail->rest = Rail::Rest::told;
      }
      if (rail->num_posted == 0 && rail->rest == Rail::Rest::asked) {
        stopped.push_back(rail.get());
      } else if ((rail->is_up && rail->num_posted == 0) || rail->num_ended != rail->seen_ended) {
        rail->seen_ended = rail->num_ended;
        rail->still_since_ns = now;
      } else if (now > rail->still_since_ns + std::min(transport_.timeout_ns() / 2, kMostStillNs) /
                                                  (rail->is_up ? 1 : 2)) {
        stopped.push_back(rail.get());
      }
    }
  }
  for (Rail* rail : stopped) {
    drop_rail(*rail);
    back_off(*rail, now);
  }
  if (!stopped.empty()) transport_.note_room(true);
  open_rails(now);
}

std::size_t Session::num_leaving_rails(const fabric::Endpoint& over) {
  std::lock_guard lock(lock_);
  return static_cast<std::size_t>(std::ranges::count_if(rails_, [&](const auto& rail) {
    return rail != nullptr && rail->link != nullptr && rail->endpoint == &over &&
           rail->rest != Rail::Rest::no;
  }));
}

// False: there is none over this device.
bool Session::give_up_rail(const fabric::Endpoint& over) {
  std::lock_guard lock(lock_);
  for (const auto& rail : rails_) {
    if (rail == nullptr || !rail->is_up || rail->endpoint != &over) continue;
    rail->is_up = false;
    rail->rest = Rail::Rest::to_tell;
    return true;
  }
  return false;
}

// That link may have ended, and the rail have another.
void Session::on_rail_rest(std::uint32_t opening, bool is_theirs) {
  std::lock_guard lock(lock_);
  for (const auto& rail : rails_) {
    if (rail == nullptr || rail->link == nullptr || rail->opening != opening ||
        rail->is_theirs != is_theirs)
      continue;
    rail->is_up = rail->is_taken = false;
    rail->rest = Rail::Rest::asked;
  }
}

void Session::note_used() {
  if (endpoint() != nullptr) transport_.note_used(*endpoint());
  if (!has_rails_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(lock_);
  for (const auto& rail : rails_)
    if (rail != nullptr && rail->link != nullptr) transport_.note_used(*rail->endpoint);
}

// Posting on a thread's rail.

// Under lock_: takes a request that the fabric can do on the rail, and that nothing must precede.
bool Session::take_for(Rail& rail, NodeRequest& request) {
  const RemoteRegion& region = *request.region;
  if (request.has_tag || region.state != RemoteRegion::State::ready || region.mapped ||
      region.key_on(rail.theirs) == nullptr || check(request, region) != Code::ok ||
      !can_do(rail.endpoint->limits(), request) || is_striped(request))
    return false;
  request.rail = &rail;
  posted_.push_back(request);
  ++request.region->num_posted;
  ++rail.num_posted;
  num_posting_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// Without lock_. lose() waits until this has returned.
void Session::post_on(Rail& rail, NodeRequest& request) {
  RequestList finished;
  Code code = Code::peer_lost;
  {
    std::lock_guard posting(rail.lock);
    const fabric::Key* key = rail.link != nullptr ? request.region->key_on(rail.theirs) : nullptr;
    if (key != nullptr)
      code = post_access(*rail.endpoint, *rail.link, request, *key, request.offset);
  }
  if (code != Code::ok) {
    std::lock_guard lock(lock_);
    leave_rail(request);
    posted_.remove(request);
    drop_posted(*request.region);
    if (code == Code::again || code == Code::peer_lost) {
      waiting_.push_back(request);
      make_busy();
    } else {
      request.code = code;
      finished.push_back(request);
    }
  }
  // release: the posts above; pairs with lose().
  num_posting_.fetch_sub(1, std::memory_order_release);
  finished.finish_all();
}

void Session::leave_rail(NodeRequest& request) {
  if (request.rail == nullptr) return;
  --request.rail->num_posted;
  ++request.rail->num_ended;
  request.rail = nullptr;
}

// Stripes; all under lock_.

bool Session::is_striped(const NodeRequest& request) const {
  return devices_->size() > 1 && request.bytes >= kStripeMin;
}

void Session::start_striped(NodeRequest& request, RequestList& finished) {
  request.moved = request.ended = 0;
  striped_.push_back(request);
  ++request.region->num_posted;
  pump_stripes(finished);
}

// False: no segment is available to this rail.
bool Session::next_segment(const Rail& rail, Segment& segment, RequestList& finished) {
  if (!retries_.empty()) {
    if (retries_.back().request->region->key_on(rail.theirs) == nullptr) return false;
    segment = retries_.back();
    retries_.pop_back();
    return true;
  }
  while (NodeRequest* request = striped_.first()) {
    if (request->region->state != RemoteRegion::State::ready) {
      fail_striped(*request, request->region->why, finished);
      continue;
    }
    if (request->region->key_on(rail.theirs) == nullptr) return false;
    segment = {request, request->moved, std::min(request->bytes - request->moved, kSegmentBytes)};
    request->moved += segment.bytes;
    if (request->moved == request->bytes) {
      striped_.remove(*request);
      posted_.push_back(*request);
    }
    return true;
  }
  return false;
}

void Session::pump_stripes(RequestList& finished) {
  if (striped_.empty() && retries_.empty()) return;
  if (link_.is_up() && reposts_.empty()) hand_out(main_, *endpoint(), *link_.link(), finished);
  for (std::size_t device = 0; device < std::min(devices_->size(), kMaxDevices); ++device) {
    if ((*devices_)[device] == endpoint() && (rails_.size() <= device || rails_[device] == nullptr))
      continue;
    // Without memory for a rail the others do its part.
    Rail* rail = nullptr;
    if (or_no_memory([&] { rail = &rail_at(device + 1); }) != Code::ok) continue;
    if (rail->is_up)
      hand_out(*rail, *rail->endpoint, *rail->link, finished);
    else if ((*devices_)[device] != endpoint())
      want(*rail);
  }
}

void Session::hand_out(Rail& rail, fabric::Endpoint& over, fabric::Link& link,
                       RequestList& finished) {
  for (Rail::Stripe& stripe : rail.stripes) {
    Segment& segment = stripe.segment;
    if (segment.request != nullptr) continue;
    if (!next_segment(rail, segment, finished)) return;
    NodeRequest& request = *segment.request;
    stripe.done = stripe_done;
    const fabric::Key& key = *request.region->key_on(rail.theirs);
    std::byte* at = request.local + segment.from;
    const std::uint64_t offset = request.offset + segment.from;
    const Code code = request.access == Access::put
                          ? over.put(link, at, segment.bytes, key, offset, stripe)
                          : over.get(link, at, segment.bytes, key, offset, stripe);
    if (code == Code::ok) {
      ++request.num_stripes;
      ++rail.num_posted;
      continue;
    }
    retries_.push_back(std::exchange(segment, {}));
    if (code == Code::again) return make_busy();
    if (code == Code::peer_lost) return;  // on_down follows
    fail_striped(request, code, finished);
  }
}

void Session::stripe_done(fabric::WorkRequest& posted, Code code) noexcept {
  auto& stripe = static_cast<Rail::Stripe&>(posted);
  stripe.rail->session.on_stripe_done(stripe, code);
}

void Session::on_stripe_done(Rail::Stripe& stripe, Code code) {
  RequestList finished;
  Rail& rail = *stripe.rail;
  {
    std::lock_guard lock(lock_);
    const Segment segment = std::exchange(stripe.segment, {});
    NodeRequest& request = *segment.request;
    --request.num_stripes;
    --rail.num_posted;
    ++rail.num_ended;
    if (state() == State::lost) return;  // lose() ends the request
    const bool is_broken = code == Code::peer_lost || code == Code::cancelled;
    if (code == Code::ok)
      request.ended += segment.bytes;
    else if (is_broken && request.code == Code::ok)
      retries_.push_back(segment);
    if (code != Code::ok && !is_broken)
      fail_striped(request, code, finished);
    else
      end_striped(request, finished);
    pump_stripes(finished);
    if (!waiting_.empty()) make_busy();
  }
  if (&rail == &main_ && code == Code::ok) link_.note_received(transport_.now_ns_);
  finished.finish_all();
}

// Posts no more segments of the request; it ends once those in flight have.
void Session::fail_striped(NodeRequest& request, Code code, RequestList& finished) {
  if (request.code == Code::ok) request.code = code;
  std::erase_if(retries_, [&](const Segment& segment) { return segment.request == &request; });
  if (request.moved < request.bytes) {
    striped_.remove(request);
    posted_.push_back(request);
    request.moved = request.bytes;
  }
  end_striped(request, finished);
}

void Session::end_striped(NodeRequest& request, RequestList& finished) {
  if (request.num_stripes > 0 || (request.code == Code::ok && request.ended < request.bytes))
    return;
  posted_.remove(request);
  drop_posted(*request.region);
  if (request.code == Code::ok) {
    count_moved(request);
    post_tag(request);
  }
  finished.push_back(request);
}

}  // namespace weft::transport
