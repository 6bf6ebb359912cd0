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
constexpr std::uint64_t kFirstRailBackoffNs = 2'000'000, kMostRailBackoffNs = 250'000'000;
}

// Opening and ending.

Rail& Session::rail_at(std::size_t number) {
  if (rails_.size() < number) rails_.resize(number);
  auto& rail = rails_[number - 1];
  if (rail == nullptr) rail = std::make_unique<Rail>(*this, static_cast<std::uint16_t>(number));
  has_rails_.store(true, std::memory_order_relaxed);  // a hint: the lock orders the rest
  return *rail;
}

void Session::want(Rail& rail) {
  if (rail.link != nullptr || std::exchange(rail.is_wanted, true)) return;
  make_busy();
}

// Null: the main link is this thread's.
Rail* Session::rail_of_thread() {
  const std::size_t most = std::min<std::size_t>(endpoint()->limits().links, kMaxThreadRails + 1);
  if (most <= 1) return nullptr;
  const pthread_t self = ::pthread_self();
  auto found = std::ranges::find(posters_, self);
  std::size_t place = static_cast<std::size_t>(found - posters_.begin());
  if (found == posters_.end()) {
    if (posters_.size() < most)
      posters_.push_back(self);
    else
      place = self / 4096 % most;  // more threads than links share them
  }
  if (place == 0) return nullptr;
  Rail& rail = rail_at(kMaxDevices + place);
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
  // Only the main link tries every pair: those of one number are those of one network.
  const std::size_t theirs = own % num_their_devices();
  fabric::Endpoint& over = *(*devices_)[own];
  fabric::Link* link = nullptr;
  rail.is_wanted = false;
  if (!open_over(over, own, theirs, rail.number, link)) return back_off(rail, now);
  link->client = &rail;
  transport_.note_used(over);
  set_link(rail, over, link, static_cast<std::uint32_t>(theirs), now);
}

void Session::set_link(Rail& rail, fabric::Endpoint& over, fabric::Link* link, std::uint32_t theirs,
                       std::uint64_t now) {
  std::lock_guard lock(lock_);
  std::lock_guard posting(rail.lock);
  rail.endpoint = &over;
  rail.link = link;
  rail.theirs = theirs;
  rail.is_wanted = false;
  rail.still_since_ns = now;
}

void Session::back_off(Rail& rail, std::uint64_t now) {
  rail.open_at_ns = now + rail.backoff_ns;
  rail.backoff_ns = std::clamp(rail.backoff_ns * 2, kFirstRailBackoffNs, kMostRailBackoffNs);
}

// What it has under way goes to the others.
void Session::drop_rail(Rail& rail) {
  fabric::Link* link = nullptr;
  {
    std::lock_guard lock(lock_);
    std::lock_guard posting(rail.lock);
    link = std::exchange(rail.link, nullptr);
    rail.is_up = rail.is_taken = false;
  }
  if (link != nullptr) rail.endpoint->close(*link);
}

void Session::drop_rails() {
  for (const auto& rail : rails_)
    if (rail != nullptr) drop_rail(*rail);
}

bool Session::take_rail(fabric::Endpoint& over, fabric::Link& link, std::size_t number,
                        std::uint32_t theirs) {
  if (state() == State::lost || devices_ == nullptr || number > kMaxDevices + kMaxThreadRails ||
      theirs >= num_their_devices())
    return false;
  Rail* rail = nullptr;
  {
    std::lock_guard lock(lock_);
    rail = &rail_at(number);
    // Of two that open the same at once, that of who connected counts.
    if (rail->link != nullptr && !rail->is_up && !rail->is_taken && opens_) return false;
  }
  drop_rail(*rail);
  link.client = rail;
  transport_.note_used(over);
  set_link(*rail, over, &link, theirs, transport_.now_ns_);
  std::lock_guard lock(lock_);
  rail->is_taken = true;
  make_busy();
  return true;
}

void Session::on_rail_up(Rail& rail) {
  std::lock_guard lock(lock_);
  rail.is_up = true;
  rail.backoff_ns = 0;
  make_busy();
}

void Session::on_rail_down(Rail& rail, Code why) {
  drop_rail(rail);
  if (why == Code::corrupt) return lose(why, "sends what makes no sense");
  back_off(rail, now_ns());
  std::lock_guard lock(lock_);
  make_busy();
}

// Those that get no answer, or on which nothing ends, are closed.
void Session::tick_rails(std::uint64_t now) {
  std::vector<Rail*> stopped;
  {
    std::lock_guard lock(lock_);
    for (const auto& rail : rails_) {
      if (rail == nullptr || rail->link == nullptr) continue;
      if (rail->is_up && (rail->num_posted == 0 || rail->num_ended != rail->seen_ended)) {
        rail->seen_ended = rail->num_ended;
        rail->still_since_ns = now;
      } else if (now > rail->still_since_ns + transport_.timeout_ns() / (rail->is_up ? 2 : 4)) {
        stopped.push_back(rail.get());
      }
    }
  }
  for (Rail* rail : stopped) {
    drop_rail(*rail);
    back_off(*rail, now);
  }
  open_rails(now);
}

void Session::note_used() {
  if (endpoint() != nullptr) transport_.note_used(*endpoint());
  if (!has_rails_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(lock_);
  for (const auto& rail : rails_)
    if (rail != nullptr && rail->link != nullptr) transport_.note_used(*rail->endpoint);
}

// Posting on a thread's rail.

// Under lock_: whether the fabric can do it there, and nothing must go before it.
bool Session::take_for(Rail& rail, Work& work) {
  const RemoteRegion& region = *work.region;
  if (work.has_tag || region.state != RemoteRegion::State::ready || region.mapped != nullptr ||
      region.key_on(rail.theirs) == nullptr || check(work, region) != Code::ok ||
      !can_do(rail.endpoint->limits(), work) || is_striped(work))
    return false;
  work.rail = &rail;
  posted_.push_back(work);
  ++work.region->num_posted;
  ++rail.num_posted;
  num_posting_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// Without lock_. Whoever ends the session waits until this has returned.
void Session::post_on(Rail& rail, Work& work) {
  WorkList finished;
  Code code = Code::peer_lost;
  {
    std::lock_guard posting(rail.lock);
    const fabric::Key* key = rail.link != nullptr ? work.region->key_on(rail.theirs) : nullptr;
    if (key != nullptr) code = post_access(*rail.endpoint, *rail.link, work, *key, work.offset);
  }
  if (code != Code::ok) {
    std::lock_guard lock(lock_);
    leave_rail(work);
    posted_.remove(work);
    drop_posted(*work.region);
    if (code == Code::again || code == Code::peer_lost) {
      waiting_.push_back(work);
      make_busy();
    } else {
      work.code = code;
      finished.push_back(work);
    }
  }
  // release: all of the above; pairs with lose().
  num_posting_.fetch_sub(1, std::memory_order_release);
  finished.finish_all();
}

void Session::leave_rail(Work& work) {
  if (work.rail == nullptr) return;
  --work.rail->num_posted;
  ++work.rail->num_ended;
  work.rail = nullptr;
}

// Stripes; all under lock_.

bool Session::is_striped(const Work& work) const {
  return devices_->size() > 1 && work.bytes >= kStripeMin;
}

void Session::start_striped(Work& work, WorkList& finished) {
  work.moved = work.ended = 0;
  striped_.push_back(work);
  ++work.region->num_posted;
  pump_stripes(finished);
}

// False: there is none for this rail.
bool Session::next_piece(const Rail& rail, Piece& piece, WorkList& finished) {
  if (!again_.empty()) {
    if (again_.back().work->region->key_on(rail.theirs) == nullptr) return false;
    piece = again_.back();
    again_.pop_back();
    return true;
  }
  while (Work* work = striped_.first()) {
    if (work->region->state != RemoteRegion::State::ready) {
      fail_striped(*work, work->region->why, finished);
      continue;
    }
    if (work->region->key_on(rail.theirs) == nullptr) return false;
    piece = {work, work->moved, std::min(work->bytes - work->moved, kPieceBytes)};
    work->moved += piece.bytes;
    if (work->moved == work->bytes) {
      striped_.remove(*work);
      posted_.push_back(*work);
    }
    return true;
  }
  return false;
}

void Session::pump_stripes(WorkList& finished) {
  if (striped_.empty() && again_.empty()) return;
  if (link_.is_up() && reposts_.empty()) hand_out(main_, *endpoint(), *link_.link(), finished);
  for (std::size_t device = 0; device < std::min(devices_->size(), kMaxDevices); ++device) {
    if ((*devices_)[device] == endpoint() && (rails_.size() <= device || rails_[device] == nullptr))
      continue;
    // Without memory for it the others do its part.
    Rail* rail = nullptr;
    if (or_no_memory([&] { rail = &rail_at(device + 1); }) != Code::ok) continue;
    if (rail->is_up)
      hand_out(*rail, *rail->endpoint, *rail->link, finished);
    else if ((*devices_)[device] != endpoint())
      want(*rail);
  }
}

void Session::hand_out(Rail& rail, fabric::Endpoint& over, fabric::Link& link, WorkList& finished) {
  for (Rail::Stripe& stripe : rail.stripes) {
    Piece& piece = stripe.piece;
    if (piece.work != nullptr) continue;
    if (!next_piece(rail, piece, finished)) return;
    Work& work = *piece.work;
    stripe.done = stripe_done;
    const fabric::Key& key = *work.region->key_on(rail.theirs);
    std::byte* at = work.local + piece.from;
    const std::uint64_t offset = work.offset + piece.from;
    const Code code = work.access == Access::put
                          ? over.put(link, at, piece.bytes, key, offset, stripe)
                          : over.get(link, at, piece.bytes, key, offset, stripe);
    if (code == Code::ok) {
      ++work.num_stripes;
      ++rail.num_posted;
      continue;
    }
    again_.push_back(std::exchange(piece, {}));
    if (code == Code::again) return make_busy();
    if (code == Code::peer_lost) return;  // its end is told next
    fail_striped(work, code, finished);
  }
}

void Session::stripe_done(fabric::Request& request, Code code) noexcept {
  auto& stripe = static_cast<Rail::Stripe&>(request);
  stripe.rail->session.on_stripe_done(stripe, code);
}

void Session::on_stripe_done(Rail::Stripe& stripe, Code code) {
  WorkList finished;
  Rail& rail = *stripe.rail;
  {
    std::lock_guard lock(lock_);
    const Piece piece = std::exchange(stripe.piece, {});
    Work& work = *piece.work;
    --work.num_stripes;
    --rail.num_posted;
    ++rail.num_ended;
    if (state() == State::lost) return;  // who ends the session ends the work
    const bool is_broken = code == Code::peer_lost || code == Code::cancelled;
    if (code == Code::ok)
      work.ended += piece.bytes;
    else if (is_broken && work.code == Code::ok)
      again_.push_back(piece);
    if (code != Code::ok && !is_broken)
      fail_striped(work, code, finished);
    else
      end_striped(work, finished);
    pump_stripes(finished);
    if (!waiting_.empty()) make_busy();
  }
  if (&rail == &main_ && code == Code::ok) link_.note_received(transport_.now_ns_);
  finished.finish_all();
}

// No more pieces of it; it ends once those under way have.
void Session::fail_striped(Work& work, Code code, WorkList& finished) {
  if (work.code == Code::ok) work.code = code;
  std::erase_if(again_, [&](const Piece& piece) { return piece.work == &work; });
  if (work.moved < work.bytes) {
    striped_.remove(work);
    posted_.push_back(work);
    work.moved = work.bytes;
  }
  end_striped(work, finished);
}

void Session::end_striped(Work& work, WorkList& finished) {
  if (work.num_stripes > 0 || (work.code == Code::ok && work.ended < work.bytes)) return;
  posted_.remove(work);
  drop_posted(*work.region);
  if (work.code == Code::ok) {
    count_moved(work);
    post_tag(work);
  }
  finished.push_back(work);
}

}  // namespace weft::transport
