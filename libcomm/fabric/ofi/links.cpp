// Links: opened, let in, closed; and the endpoints of the provider that they are opened from.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "fabric/ofi/endpoint_impl.hpp"
#include "fabric/ofi/messages.hpp"

namespace weft::fabric::ofi {

namespace {

// The longest message. ofi_rxm sends no more without asking first.
constexpr std::size_t kBufferBytes = (128 << 10) + 128, kBufferBytesRxm = 16 << 10;
constexpr std::size_t kNumSends = 64;
constexpr std::size_t kMaxRefusals = 64;
constexpr std::size_t kInPlaceMin = 4096;  // a shorter body is copied faster than it is waited for
constexpr std::uint64_t kGoodbyeNs = 50'000'000;
constexpr std::uint64_t kHelloAgainNs = 200'000;

}  // namespace

OfiEndpoint::OfiEndpoint(std::unique_ptr<lib::Endpoint> endpoint)
    : ep_(std::move(endpoint)), one_sided_(ep_->one_sided()) {
  const std::string_view provider = ep_->info().fabric_attr->prov_name;
  buffer_bytes_ = provider.ends_with("ofi_rxm") ? kBufferBytesRxm : kBufferBytes;
  // The ring's size, so that an entry is as long as one message carries, and credit, which costs
  // a message, is seldom sent.
  limits_ = {.message_max = buffer_bytes_ - sizeof(Head),
             .puts = one_sided_.puts,
             .gets = one_sided_.gets,
             .atomics = one_sided_.atomics,
             // A provider's error may be a refusal or a broken connection.
             .refuses_by_breaks = one_sided_.puts,
             .lane_eager_max = 64u << 10,
             .lane_ring_min = 1056u << 10};
  if (!ep_->has_mode(FI_MR_LOCAL)) limits_.in_place_min = kInPlaceMin;
  // A buffer of the endpoint is registered already.
  in_place_min_ = !one_sided_.is_in_place      ? ~std::size_t{0}
                  : ep_->has_mode(FI_MR_LOCAL) ? buffer_bytes_ + 1
                                               : kInPlaceMin;
  is_over_tcp_ = lib::is_tcp(provider);
  inject_max_ = std::min(ep_->info().tx_attr->inject_size, kMaxInject);
}

OfiEndpoint::~OfiEndpoint() {
  // The messages that report closed links are still to be sent.
  for (const std::uint64_t limit = now_ns() + kGoodbyeNs;
       free_.size() < buffers_.size() - num_receives_ && now_ns() < limit;) {
    Lock lock(mutex_);
    read_completions(nullptr, lock);
  }
  for (auto& [token, link] : links_) delete link;
  for (PostedAccess& access : accesses_)
    if (access.local != nullptr) fi_close(&access.local->fid);
  ep_.reset();
  for (fid_mr* mr : mrs_) fi_close(&mr->fid);
}

Status OfiEndpoint::start() {
  if (ep_->is_native_tcp()) {
    // Two of these that connect to each other at once may end up unconnected (libfabric 1.17), so
    // some only connect, and one is only connected to.
    if (Status status = add_opener(); !status) return status;
  } else {
    openers_.push_back(std::make_unique<Opener>());
    openers_.back()->ep = ep_->ep();
    openers_.back()->address = ep_->address();
  }
  if (Status status = add_buffers(ep_->is_native_tcp() ? kFewReceives : kNumReceives, ep_->ep());
      !status)
    return status;
  return add_buffers(kNumSends, nullptr);
}

std::string OfiEndpoint::kind() const {
  return fmt::format("{}/{}", ep_->info().fabric_attr->prov_name, ep_->address().size());
}

std::string OfiEndpoint::way_to(Bytes address) const {
  const std::string to =
      address_text({reinterpret_cast<const char*>(address.data()), address.size()});
  std::string text = ep_->info().fabric_attr->prov_name;
  if (!to.empty())
    text += fmt::format(" from {} to {} (WEFT_INTERFACE chooses others)",
                        list_text({ep_->interface()}), to);
  return text;
}

// Endpoints of the provider.

Status OfiEndpoint::add_opener() {
  make_room(openers_);
  auto opener = std::make_unique<Opener>();
  if (Status status = ep_->add_opener(opener->ep, opener->address); !status) return status;
  openers_.push_back(std::move(opener));
  fid_ep* ep = openers_.back()->ep;
  std::size_t num_posted = 0;
  for (; num_posted < kFewReceives && !spare_receives_.empty(); ++num_posted) {
    Buffer& buffer = *spare_receives_.back();
    spare_receives_.pop_back();
    buffer.receives = ep;
    post_receive(buffer);
  }
  return num_posted < kFewReceives ? add_buffers(kFewReceives - num_posted, ep) : Status();
}

void OfiEndpoint::close_unused_openers() {
  for (std::size_t i = 0; i + 1 < openers_.size();) {
    if (openers_[i]->num_links > 0) {
      ++i;
      continue;
    }
    fid_ep* ep = openers_[i]->ep;
    make_room(spare_receives_, num_receives_);
    for (Buffer& buffer : buffers_)
      if (buffer.receives == ep) buffer.receives = &closed_ep_;
    ep_->close_opener(ep);
    openers_.erase(openers_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// Opening.

OfiLink* OfiEndpoint::add_link(fid_ep* ep, fi_addr_t peer, std::string_view address,
                               Opener* opener) {
  // Reserves space, so that later events of the link are noted without an allocation, and so is
  // what it leaves under way.
  events_.reserve(num_receives_ + kMaxEvents * (links_.size() + 1));
  old_.reserve(old_.size() + links_.size() + 1);
  auto link = std::make_unique<OfiLink>();
  link->accesses = std::make_shared<Accesses>();
  link->accesses->address = address;
  std::memcpy(link->address, address.data(), address.size());
  link->ep = ep;
  link->peer = peer;
  link->opener = opener;
  while (link->own_token == 0 || links_.contains(link->own_token))
    if (::getrandom(&link->own_token, sizeof link->own_token, 0) < 0) link->own_token = 0;
  links_[link->own_token] = link.get();
  if (opener != nullptr) ++opener->num_links;
  return link.release();
}

Status OfiEndpoint::open(Bytes address, Bytes hello, Link*& out) {
  if (address.size() != ep_->address().size() || hello.size() > kMaxHelloBytes)
    return Code::bad_argument;
  std::lock_guard lock(mutex_);
  return or_no_memory([&] { return open_locked(address, hello, out); });
}

Status OfiEndpoint::open_locked(Bytes address, Bytes hello, Link*& out) {
  fi_addr_t peer = FI_ADDR_UNSPEC;
  if (fi_av_insert(ep_->av(), address.data(), 1, &peer, 0, nullptr) != 1)
    return {Code::bad_argument, "libfabric does not take the peer's address"};
  const std::string_view to{reinterpret_cast<const char*>(address.data()), address.size()};
  if (const auto& distrusted = openers_.back()->distrusted;
      std::ranges::find(distrusted, to) != distrusted.end())
    if (Status status = add_opener(); !status) return status;
  close_unused_openers();
  Opener& opener = *openers_.back();
  HelloBody body{};
  const std::string& own = opener.address;
  body.address_bytes = static_cast<std::uint16_t>(own.size());
  body.hello_bytes = static_cast<std::uint16_t>(hello.size());
  std::memcpy(body.address, own.data(), own.size());
  if (!hello.empty()) std::memcpy(body.hello, hello.data(), hello.size());
  const auto* first = reinterpret_cast<const std::byte*>(&body);
  Event again{EventKind::hello_again, 0, Code::ok, {first, first + sizeof body}};
  OfiLink* link = add_link(opener.ep, peer, to, &opener);
  again.link = link->own_token;
  if (has_old_accesses(*link) ||
      // As while a connection is made.
      send(*link, Kind::hello, link->own_token, {first, sizeof body}, {}) == Code::again)
    events_.push_back(std::move(again));
  out = link;
  return {};
}

// Says hello where that was not possible at once.
void OfiEndpoint::greet(OfiLink& link, Event& event, Lock& lock) {
  if (link.is_down) return;
  // A host that refuses connections would be asked for another one by each poll.
  const std::uint64_t now = now_ns();
  const bool waits = waits_for_old(link, event, lock);
  if (find(event.link) != &link || link.is_down) return;
  if (waits) return events_.push_back(std::move(event));
  if (now >= event.at_ns && send(link, Kind::hello, link.own_token, event.data, {}) != Code::again)
    return;
  if (now >= event.at_ns) event.at_ns = now + kHelloAgainNs;
  events_.push_back(std::move(event));
}

void OfiEndpoint::on_hello(const Head& head, Bytes bytes) {
  HelloBody body;
  if (bytes.size() != sizeof body || head.token == 0) return;
  std::memcpy(&body, bytes.data(), sizeof body);
  if (body.address_bytes != ep_->address().size() || body.hello_bytes > kMaxHelloBytes) return;
  // Without memory there is no answer, and the peer tries again.
  [[maybe_unused]] const Code code = or_no_memory([&] {
    Event event{EventKind::incoming, 0, Code::ok, {body.hello, body.hello + body.hello_bytes}};
    OfiLink* link = add_link(ep_->ep(), FI_ADDR_UNSPEC, {body.address, body.address_bytes});
    link->peer_token = head.token;
    event.link = link->own_token;
    events_.push_back(std::move(event));
  });
}

void OfiEndpoint::on_given_up(std::uint64_t token) {
  for (auto& [own, link] : links_)
    if (link->peer_token == token && link->ep == ep_->ep())
      return take_down(*link, Code::peer_lost);
}

// Reports to the peer that it is let in.
void OfiEndpoint::accept(OfiLink& link, Event& event, Lock& lock) {
  if (link.is_down) return;
  bool waits = waits_for_old(link, event, lock);
  if (find(event.link) != &link || link.is_down) return;
  if (!waits) {
    const auto* token = reinterpret_cast<const std::byte*>(&link.own_token);
    waits = send(link, Kind::accept, link.peer_token, {token, sizeof link.own_token}, {}) ==
            Code::again;  // until the route back is there
  }
  if (!waits) {
    link.is_up = true;
    return;
  }
  event.kind = EventKind::accept_again;
  events_.push_back(std::move(event));
}

void OfiEndpoint::let_in(Events& events, Event& event) {
  Lock lock(mutex_);
  OfiLink* link = find(event.link);
  if (link->is_down) return drop(event.link);  // given up by now
  lock.unlock();
  const bool accepted = events.on_incoming(*link, event.data);
  lock.lock();
  link = find(event.link);
  if (link == nullptr) return;
  // A refused link's address may be forged, and answering connects to it: after some refusals
  // no more are answered.
  const bool answers = accepted || num_refused_++ < kMaxRefusals;
  const bool known =
      answers && fi_av_insert(ep_->av(), link->address, 1, &link->peer, 0, nullptr) == 1;
  if (accepted && known) return accept(*link, event, lock);
  if (known) {
    [[maybe_unused]] const Code sent = send(*link, Kind::closed, link->peer_token, {}, {});
  }
  drop(event.link);
}

void OfiEndpoint::drop(std::uint64_t token) {
  const auto found = links_.find(token);
  delete found->second;
  links_.erase(found);
}

// Ending.

void OfiEndpoint::distrust(Link& base) {
  const auto& link = static_cast<OfiLink&>(base);
  // Other providers choose connections by themselves.
  if (link.opener == nullptr || !ep_->is_native_tcp()) return;
  std::lock_guard lock(mutex_);
  // Without memory for its address the old connection is used again.
  [[maybe_unused]] const Code code = or_no_memory(
      [&] { link.opener->distrusted.emplace_back(link.address, ep_->address().size()); });
}

void OfiEndpoint::close(Link& base) {
  auto& link = static_cast<OfiLink&>(base);
  Lock lock(mutex_);
  link.is_cut_off = link.is_up && !link.is_down;
  if (!link.is_down && link.peer != FI_ADDR_UNSPEC) {
    // Best effort: silence ends the link at the peer as well. Without a message, a peer that may
    // have let this link in already would keep it.
    const bool was_answered = link.peer_token != 0;
    [[maybe_unused]] const Code code = was_answered
                                           ? send(link, Kind::closed, link.peer_token, {}, {})
                                           : send(link, Kind::given_up, link.own_token, {}, {});
  }
  link.is_down = true;
  const std::shared_ptr<Accesses> accesses = link.accesses;
  end_in_place(link.own_token, accesses, Code::cancelled, lock);
  drop_held(link.own_token, Code::cancelled, lock);
  for (auto it = events_.begin(); it != events_.end();) {
    if (it->link != link.own_token) {
      ++it;
      continue;
    }
    if (it->buffer != nullptr) post_receive(*it->buffer);
    it = events_.erase(it);
  }
  if (link.is_cut_off && buffers_.size() < kMostBuffers) {
    // It may have stopped in the middle of a message, whose buffer the provider keeps.
    [[maybe_unused]] const Status status = or_no_memory([&] { return add_buffers(2, link.ep); });
  }
  const std::uint64_t token = link.own_token;
  links_.erase(token);
  if (link.opener != nullptr) --link.opener->num_links;
  delete &link;
  if (accesses->num > 0) old_.push_back(accesses);  // there is room
  end_requests(token, accesses, Code::cancelled, lock);
}

void OfiEndpoint::end_requests(std::uint64_t token, const std::shared_ptr<Accesses>& accesses,
                               Code code, Lock& lock) {
  for (;;) {
    WorkRequest* request = take_body_request(token);
    if (request == nullptr) request = take_untold(token);
    for (PostedAccess* access = accesses->first; request == nullptr && access != nullptr;
         access = access->after)
      request = std::exchange(access->request, nullptr);
    if (request == nullptr) return;
    lock.unlock();
    request->done(*request, code);
    lock.lock();
  }
}

// Events.

void OfiEndpoint::dispatch(Events& events, Event& event) {
  Lock lock(mutex_);
  OfiLink* link = find(event.link);
  if (link == nullptr) return;  // closed by an event before
  switch (event.kind) {
    case EventKind::incoming:
      lock.unlock();
      return let_in(events, event);
    case EventKind::accept_again:
      return accept(*link, event, lock);
    case EventKind::hello_again:
      return greet(*link, event, lock);
    case EventKind::up:
      lock.unlock();
      return events.on_up(*link);
    case EventKind::down: {
      if (accesses_end_soon(*link, event)) return events_.push_back(std::move(event));
      const std::shared_ptr<Accesses> accesses = link->accesses;
      end_in_place(event.link, accesses, event.code, lock);
      drop_held(event.link, event.code, lock);
      end_requests(event.link, accesses, event.code, lock);
      link = find(event.link);
      lock.unlock();
      if (link != nullptr) events.on_down(*link, event.code);
      return;
    }
    case EventKind::message: {
      lock.unlock();
      Head head;
      std::memcpy(&head, event.buffer->data, sizeof head);
      return events.on_message(*link, {event.buffer->data + sizeof head, head.length});
    }
  }
}

Status make_endpoint(const Settings& settings, std::unique_ptr<Endpoint>& endpoint) {
  std::unique_ptr<lib::Endpoint> opened;
  if (Status status = lib::Endpoint::open(settings, opened); !status) return status;
  auto made = std::make_unique<OfiEndpoint>(std::move(opened));
  if (Status status = made->start(); !status) return status;
  endpoint = std::move(made);
  return {};
}

}  // namespace weft::fabric::ofi
