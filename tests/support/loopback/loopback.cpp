#include "tests/support/loopback/loopback.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <list>
#include <unordered_set>

#include "base/wait.hpp"
#include "fabric/registry.hpp"

namespace weft::fabric::loopback {

namespace {

constexpr std::size_t kMaxQueued = 64;  // packets of one direction of a link
constexpr std::size_t kMaxRequestBytes = std::size_t{1} << 30;
constexpr std::size_t kMaxWriteBytes = std::size_t{1} << 20;

}  // namespace

enum class PacketKind { hello, message, put, write, get, atomic };

struct Packet {
  PacketKind kind;
  std::uint64_t due_ns = 0;
  std::vector<std::byte> data = {};  // hello, message
  WorkRequest* request = nullptr;
  std::byte* local = nullptr;  // put, get; atomic: where the previous value goes
  std::size_t bytes = 0;
  Key key = {};
  std::uint64_t offset = 0, operand = 0, compare = 0;
  Atomic atomic = Atomic::fetch_add;
  std::uint32_t number = 0;  // write
};

struct Address {
  std::uint64_t process, id;
};

struct Memory {
  std::byte* address;
  std::size_t bytes;
  std::uint32_t rights;
};

struct WireEnd : Link {
  std::shared_ptr<Wire> wire;
  int side = 0;
  std::list<Packet> sent;  // not yet at the other side
  std::size_t unread = 0;  // messages for it in its endpoint's inbox
  bool has_room = false;   // it counts as one of the links of its endpoint
};

struct Wire {
  LoopbackEndpoint* endpoints[2] = {};
  WireEnd* ends[2] = {};  // null: closed, or not yet opened
  bool listed[2] = {};    // in the endpoint's `active`
  bool is_up = false, is_down = false;
  bool is_stalled = false;
};

class LoopbackEndpoint final : public Endpoint {
 public:
  explicit LoopbackEndpoint(std::shared_ptr<Network> network) : network_(std::move(network)) {
    std::lock_guard lock(network_->mutex_);
    const Options& options = network_->options_[network_->num_made_++ % 2];
    limits_ = {.message_max = options.message_max,
               .puts = options.puts,
               .gets = options.gets,
               .atomics = options.atomics,
               .writes = options.writes,
               .breaks = true,
               .links = options.links};
    most_links_ = options.most_links;
    id_ = ++network_->last_id_;
    network_->endpoints_[id_] = this;
  }
  ~LoopbackEndpoint() override {
    std::lock_guard lock(network_->mutex_);
    network_->endpoints_.erase(id_);
    // What peers opened and nobody here has been told of.
    for (WireEnd* end : ends_) {
      Wire& wire = *end->wire;
      take_down(wire, Code::peer_lost);
      wire.ends[end->side] = nullptr;
      wire.endpoints[end->side] = nullptr;
      delete end;
    }
    // Hellos on their way here.
    for (const auto& wire : active_) take_down(*wire, Code::peer_lost);
    ::close(wake_fd_);
  }

  std::string_view name() const noexcept override { return "loopback"; }
  const Limits& limits() const noexcept override { return limits_; }
  std::string address() const override {
    const Address address{network_->process_, id_};
    return {reinterpret_cast<const char*>(&address), sizeof address};
  }
  std::string kind() const override { return "loopback-" + std::to_string(network_->process_); }

  Status open(Bytes address, Bytes hello, Link*& link) override {
    Address to{};
    if (address.size() != sizeof to || hello.size() > kMaxHelloBytes) return Code::bad_argument;
    std::memcpy(&to, address.data(), sizeof to);
    if (to.process != network_->process_) return {Code::bad_argument, "it is of another process"};
    auto end = std::make_unique<WireEnd>();
    end->wire = std::make_shared<Wire>();
    std::lock_guard lock(network_->mutex_);
    const auto found = network_->endpoints_.find(to.id);
    Wire& wire = *end->wire;
    wire.endpoints[0] = this;
    wire.endpoints[1] = found == network_->endpoints_.end() ? nullptr : found->second;
    wire.ends[0] = end.get();
    ends_.insert(end.get());
    ++num_opened_;
    link = end.get();
    if (!take_room(*end)) {
      wire.is_down = true;
      tell({EventKind::down, end.get(), nullptr, why_full(), {}});
    } else if (wire.endpoints[1] == nullptr) {
      wire.is_down = true;
      tell({EventKind::down, end.get(), nullptr, Code::peer_lost, {}});
    } else {
      post(*end, {.kind = PacketKind::hello, .data = {hello.begin(), hello.end()}});
    }
    end.release();
    return {};
  }

  void close(Link& link) override {
    auto& end = static_cast<WireEnd&>(link);
    std::vector<std::pair<WorkRequest*, Code>> ended;
    {
      std::lock_guard lock(network_->mutex_);
      take_down(*end.wire, Code::peer_lost);
      for (std::deque<Event>* events : {&taken_, &inbox_}) {
        std::erase_if(*events, [&](const Event& event) {
          if (event.end != &end) return false;
          if (event.kind == EventKind::done)
            ended.emplace_back(event.request,
                               event.code == Code::peer_lost ? Code::cancelled : event.code);
          return true;
        });
      }
      end.wire->ends[end.side] = nullptr;
      end.wire->endpoints[end.side] = nullptr;  // which may be gone before the other end is
      ends_.erase(&end);
      if (end.has_room) --num_links_;
    }
    delete &end;
    for (auto [request, code] : ended) request->done(*request, code);
  }

  Status register_memory(void* address, std::size_t bytes, std::uint32_t rights,
                         Registration& registration) override {
    std::lock_guard lock(network_->mutex_);
    KeyParts key{reinterpret_cast<std::uintptr_t>(address), bytes, 0};
    // Its lower half is not 0, as a number of memory wants it.
    while (static_cast<std::uint32_t>(key.secret) == 0 || memory_.contains(key.secret))
      key.secret = network_->random_();
    memory_[key.secret] = {static_cast<std::byte*>(address), bytes, rights};
    registration.key = key_of(key);
    return {};
  }
  void deregister(Registration& registration) override {
    std::lock_guard lock(network_->mutex_);
    memory_.erase(parts_of(registration.key).secret);
  }

  Code put(Link& link, const void* from, std::size_t bytes, const Key& key, std::uint64_t offset,
           WorkRequest& request) override {
    if (!limits_.puts) return Code::unsupported;
    return post_request(link, {.kind = PacketKind::put,
                               .request = &request,
                               .local = static_cast<std::byte*>(const_cast<void*>(from)),
                               .bytes = bytes,
                               .key = key,
                               .offset = offset});
  }
  Code get(Link& link, void* to, std::size_t bytes, const Key& key, std::uint64_t offset,
           WorkRequest& request) override {
    if (!limits_.gets) return Code::unsupported;
    return post_request(link, {.kind = PacketKind::get,
                               .request = &request,
                               .local = static_cast<std::byte*>(to),
                               .bytes = bytes,
                               .key = key,
                               .offset = offset});
  }
  Code write(Link& link, Bytes from, const Registration& source, const Key& key,
             std::uint64_t offset, std::uint32_t number, WorkRequest& request) override {
    if (!limits_.writes) return Code::unsupported;
    if (from.empty() || from.size() > kMaxWriteBytes || !is_registered(source, from))
      return Code::bad_argument;
    return post_request(link, {.kind = PacketKind::write,
                               .request = &request,
                               .local = const_cast<std::byte*>(from.data()),
                               .bytes = from.size(),
                               .key = key,
                               .offset = offset,
                               .number = number});
  }
  Code atomic(Link& link, Atomic kind, const Key& key, std::uint64_t offset, std::uint64_t operand,
              std::uint64_t compare, std::uint64_t& previous, WorkRequest& request) override {
    if (!limits_.atomics) return Code::unsupported;
    return post_request(link, {.kind = PacketKind::atomic,
                               .request = &request,
                               .local = reinterpret_cast<std::byte*>(&previous),
                               .bytes = 8,
                               .key = key,
                               .offset = offset,
                               .operand = operand,
                               .compare = compare,
                               .atomic = kind});
  }
  Code message(Link& link, Bytes head, Bytes body) override {
    if (head.size() + body.size() > limits_.message_max) return Code::bad_argument;
    std::vector<std::byte> data(head.begin(), head.end());
    data.insert(data.end(), body.begin(), body.end());
    return post_request(link, {.kind = PacketKind::message, .data = std::move(data)});
  }

  bool poll(Events& events) override {
    if (has_at_poll_.load(std::memory_order_acquire)) at_poll_();
    // acquire: pairs with the release of who has something for this endpoint.
    if (!has_work_.load(std::memory_order_acquire)) return false;
    {
      std::lock_guard lock(network_->mutex_);
      advance_all();
      taken_.swap(inbox_);
      for (const Event& event : taken_)
        if (event.kind == EventKind::message || event.kind == EventKind::written)
          --event.end->unread;
      has_work_.store(!active_.empty(), std::memory_order_relaxed);
    }
    const bool any = !taken_.empty();
    while (!taken_.empty()) {
      Event event = std::move(taken_.front());
      taken_.pop_front();
      dispatch(events, event);
    }
    return any;
  }

  bool arm() override {
    std::lock_guard lock(network_->mutex_);
    std::uint64_t rings;
    if (::read(wake_fd_, &rings, sizeof rings) < 0) rings = 0;  // none
    armed_ = true;
    advance_all();
    // What is delayed comes by polling.
    return inbox_.empty() && active_.empty();
  }
  int wait_fd() const noexcept override { return wake_fd_; }

 private:
  friend class Network;

  enum class EventKind { incoming, up, down, message, written, done };
  struct Event {
    EventKind kind;
    WireEnd* end;
    WorkRequest* request;
    Code code;
    std::vector<std::byte> data;
    std::uint32_t number = 0;  // written
    std::size_t bytes = 0;
  };

  bool is_registered(const Registration& source, Bytes from) {
    std::lock_guard lock(network_->mutex_);
    const auto found = memory_.find(parts_of(source.key).secret);
    return found != memory_.end() && from.data() >= found->second.address &&
           from.data() + from.size() <= found->second.address + found->second.bytes;
  }

  // All below: under the network's lock.

  void tell(Event event) {
    const bool waits = (holds_ && event.kind == EventKind::incoming) ||
                       (holds_ups_ && event.kind == EventKind::up) ||
                       std::ranges::find(held_, event.end, &Event::end) != held_.end();
    if (waits) {
      held_.push_back(std::move(event));
      return;
    }
    inbox_.push_back(std::move(event));
    wake();
  }
  void hold(bool& holds, bool are_held) {
    holds = are_held;
    if (holds_ || holds_ups_ || held_.empty()) return;
    std::ranges::move(held_, std::back_inserter(inbox_));
    held_.clear();
    wake();
  }
  void wake() {
    has_work_.store(true, std::memory_order_release);
    if (!armed_) return;
    armed_ = false;
    const std::uint64_t one = 1;
    if (::write(wake_fd_, &one, sizeof one) < 0) return;  // it is readable already
  }

  bool take_room(WireEnd& end) {
    if (most_links_ != 0 && num_links_ == most_links_) {
      ++num_refused_;
      return false;
    }
    ++num_links_;
    return end.has_room = true;
  }
  // As on a device that other processes use, too.
  Code why_full() const { return num_links_ > 0 ? Code::no_memory : Code::peer_lost; }

  void list(const std::shared_ptr<Wire>& wire) {
    for (int side = 0; side < 2; ++side) {
      LoopbackEndpoint* endpoint = wire->endpoints[side];
      if (!wire->listed[side]) endpoint->active_.push_back(wire);
      wire->listed[side] = true;
      endpoint->wake();
    }
  }

  void post(WireEnd& end, Packet packet) {
    const Faults& faults = network_->faults_;
    const std::uint64_t now = now_ns();
    packet.due_ns = now;
    if (faults.max_delay_us > 0)
      packet.due_ns += network_->random_() % (faults.max_delay_us * std::uint64_t{1000});
    if (!end.sent.empty()) packet.due_ns = std::max(packet.due_ns, end.sent.back().due_ns);
    end.sent.push_back(std::move(packet));
    // At once, as long as the other side reads what it gets.
    Wire& wire = *end.wire;
    const WireEnd* other = wire.ends[1 - end.side];
    if (other == nullptr || other->unread < kMaxQueued) advance(wire, now);
    if (!end.sent.empty()) list(end.wire);
  }
  Code post_request(Link& link, Packet packet) {
    if (packet.bytes > kMaxRequestBytes) return Code::bad_argument;
    auto& end = static_cast<WireEnd&>(link);
    std::lock_guard lock(network_->mutex_);
    if (end.wire->is_down) return Code::peer_lost;
    if (!end.wire->is_up || end.sent.size() >= kMaxQueued) return Code::again;
    post(end, std::move(packet));
    return Code::ok;
  }

  // Ends everything on the wire; its ends hear of that once their requests have ended.
  static void take_down(Wire& wire, Code why) {
    if (wire.is_down) return;
    wire.is_down = true;
    for (int side = 0; side < 2; ++side) {
      WireEnd* end = wire.ends[side];
      if (end == nullptr) continue;
      LoopbackEndpoint& endpoint = *wire.endpoints[side];
      for (const Packet& packet : end->sent)
        if (packet.request != nullptr)
          endpoint.tell({EventKind::done, end, packet.request, Code::peer_lost, {}});
      end->sent.clear();
      endpoint.tell({EventKind::down, end, nullptr, why, {}});
    }
  }

  void advance_all() {
    const std::uint64_t now = now_ns();
    for (std::size_t i = 0; i < active_.size();) {
      Wire& wire = *active_[i];
      advance(wire, now);
      bool has_more = false;
      if (!wire.is_down)
        for (WireEnd* end : wire.ends) has_more |= end != nullptr && !end->sent.empty();
      if (has_more) {
        ++i;
        continue;
      }
      for (int side = 0; side < 2; ++side)
        if (wire.endpoints[side] == this) wire.listed[side] = false;
      active_[i] = std::move(active_.back());
      active_.pop_back();
    }
  }

  static void advance(Wire& wire, std::uint64_t now) {
    for (int side = 0; side < 2 && !wire.is_down; ++side) {
      if (wire.is_stalled || wire.endpoints[0]->silent_ || wire.endpoints[1]->silent_) return;
      WireEnd* end = wire.ends[side];
      while (end != nullptr && !wire.is_down && !end->sent.empty() &&
             end->sent.front().due_ns <= now)
        deliver(wire, side);
    }
  }

  static void deliver(Wire& wire, int side) {
    WireEnd& end = *wire.ends[side];
    LoopbackEndpoint& from = *wire.endpoints[side];
    LoopbackEndpoint& to = *wire.endpoints[1 - side];
    Network& network = *from.network_;
    const Faults& faults = network.faults_;
    const bool cut = (faults.cut_one_in > 0 && network.random_() % faults.cut_one_in == 0) ||
                     (faults.cuts_puts && end.sent.front().kind == PacketKind::put);
    // What was under way when a link goes down may have arrived or not.
    if (cut && network.random_() % 2 == 0) return take_down_at_work(wire);
    Packet packet = std::move(end.sent.front());
    end.sent.pop_front();
    switch (packet.kind) {
      case PacketKind::hello: {
        auto* accepted = new WireEnd;
        accepted->wire = end.wire;
        accepted->side = 1;
        wire.ends[1] = accepted;
        to.ends_.insert(accepted);
        to.tell({EventKind::incoming, accepted, nullptr, Code::ok, std::move(packet.data)});
        break;
      }
      case PacketKind::message:
        if (WireEnd* reader = wire.ends[1 - side]) {
          ++reader->unread;
          ++to.num_messages_;
          to.tell({EventKind::message, reader, nullptr, Code::ok, std::move(packet.data)});
        }
        break;
      default: {
        const Code code = to.serve(packet);
        WireEnd* reader = wire.ends[1 - side];
        if (packet.kind == PacketKind::write && code == Code::ok && reader != nullptr) {
          ++reader->unread;
          ++to.num_writes_;
          to.tell({EventKind::written, reader, nullptr, Code::ok, {}, packet.number, packet.bytes});
        }
        from.tell({EventKind::done, &end, packet.request, cut ? Code::peer_lost : code, {}});
      }
    }
    if (cut) take_down_at_work(wire);
  }

  // The answers to what was done last may have been under way, too: who asked cannot tell.
  static void take_down_at_work(Wire& wire) {
    for (int side = 0; side < 2; ++side) {
      const WireEnd* end = wire.ends[side];
      if (end == nullptr) continue;
      LoopbackEndpoint& from = *wire.endpoints[side];
      for (auto event = from.inbox_.rbegin(); event != from.inbox_.rend(); ++event) {
        if (event->end != end || event->kind != EventKind::done) continue;
        if (from.network_->random_() % 2 == 0) break;
        event->code = Code::peer_lost;
      }
    }
    take_down(wire, Code::peer_lost);
  }

  void cut_all() {
    for (WireEnd* end : ends_) take_down(*end->wire, Code::peer_lost);
  }

  // At the owner's side.
  Code serve(const Packet& packet) {
    const KeyParts key = parts_of(packet.key);
    const auto found = memory_.find(key.secret);
    if (found == memory_.end()) return Code::not_permitted;
    const Memory& memory = found->second;
    const bool puts = packet.kind == PacketKind::put || packet.kind == PacketKind::write;
    const std::uint32_t need = puts ? kWrite : packet.kind == PacketKind::get ? kRead : kAtomic;
    if ((memory.rights & need) == 0) return Code::not_permitted;
    const auto start = reinterpret_cast<std::uintptr_t>(memory.address);
    if (packet.offset > key.bytes || packet.bytes > key.bytes - packet.offset ||
        key.address < start || key.address - start > memory.bytes ||
        key.bytes > memory.bytes - (key.address - start))
      return Code::bad_argument;
    std::byte* at = memory.address + (key.address - start) + packet.offset;
    served_bytes_ += packet.bytes;
    if (puts) {
      store(at, {packet.local, packet.bytes});
    } else if (packet.kind == PacketKind::get) {
      if (packet.bytes > 0) std::memcpy(packet.local, at, packet.bytes);
    } else {
      if (reinterpret_cast<std::uintptr_t>(at) % 8 != 0) return Code::bad_argument;
      const std::uint64_t previous = apply(packet.atomic, at, packet.operand, packet.compare);
      std::memcpy(packet.local, &previous, sizeof previous);
    }
    return Code::ok;
  }

  void dispatch(Events& events, Event& event) {
    WireEnd& end = *event.end;
    switch (event.kind) {
      case EventKind::incoming: {
        const bool accepted = events.on_incoming(end, event.data);
        {
          std::lock_guard lock(network_->mutex_);
          if (!ends_.contains(&end)) return;  // closed by the client
        }
        if (!accepted) return close(end);
        std::lock_guard lock(network_->mutex_);
        Wire& wire = *end.wire;
        if (wire.is_down) return;
        if (!take_room(end)) {
          wire.is_down = true;
          const Code why = why_full();
          tell({EventKind::down, &end, nullptr, why, {}});
          if (wire.ends[0] != nullptr)
            wire.endpoints[0]->tell({EventKind::down,
                                     wire.ends[0],
                                     nullptr,
                                     why == Code::no_memory ? Code::again : why,
                                     {}});
          return;
        }
        wire.is_up = true;
        if (wire.ends[0] != nullptr)
          wire.endpoints[0]->tell({EventKind::up, wire.ends[0], nullptr, Code::ok, {}});
        return;
      }
      case EventKind::up:
        return events.on_up(end);
      case EventKind::down:
        return events.on_down(end, event.code);
      case EventKind::message:
        return events.on_message(end, event.data);
      case EventKind::written:
        return events.on_written(end, event.number, event.bytes);
      case EventKind::done:
        return event.request->done(*event.request, event.code);
    }
  }

  std::shared_ptr<Network> network_;
  Limits limits_;
  std::uint64_t id_ = 0;
  int wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::atomic<bool> has_work_{false};  // changed under the network's lock
  std::atomic<bool> has_at_poll_{false};
  std::function<void()> at_poll_;
  std::deque<Event> taken_;  // out of inbox_, by the poll that is under way
  // Under the network's lock:
  std::deque<Event> inbox_;
  std::vector<std::shared_ptr<Wire>> active_;  // wires that carry something
  std::unordered_set<WireEnd*> ends_;
  std::unordered_map<std::uint64_t, Memory> memory_;  // by the key's secret
  bool armed_ = false;
  std::size_t most_links_ = 0, num_links_ = 0, num_refused_ = 0;
  bool silent_ = false;
  bool holds_ = false, holds_ups_ = false;
  std::deque<Event> held_;  // of links that have been asked for and are not told yet
  std::uint64_t served_bytes_ = 0, num_messages_ = 0, num_writes_ = 0, num_opened_ = 0;
};

std::shared_ptr<Network> Network::of_process() {
  // The loopback of a process is one by nature.
  static const auto network = std::make_shared<Network>();
  return network;
}

unsigned Options::links_of_environment() {
  static const char* const text = std::getenv("LOOPBACK_LINKS");
  return text == nullptr ? 0 : static_cast<unsigned>(std::atoi(text));
}

void Network::set_faults(const Faults& faults) {
  std::lock_guard lock(mutex_);
  faults_ = faults;
  random_.seed(faults.seed);
}

void Network::set_options(const Options& options, const Options& second) {
  std::lock_guard lock(mutex_);
  options_[0] = options;
  options_[1] = second;
  num_made_ = 0;
}

namespace {
std::uint64_t id_of(const std::string& bytes) {
  Address address{};
  std::memcpy(&address, bytes.data(), std::min(bytes.size(), sizeof address));
  return address.id;
}
std::uint64_t random_process() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}
}  // namespace

Network::Network() : process_(random_process()) {}

void Network::cut(const std::string& address) {
  std::lock_guard lock(mutex_);
  const auto found = endpoints_.find(id_of(address));
  if (found != endpoints_.end()) found->second->cut_all();
}

void Network::silence(const std::string& address, bool silent) {
  std::lock_guard lock(mutex_);
  const auto found = endpoints_.find(id_of(address));
  if (found != endpoints_.end()) found->second->silent_ = silent;
}

Network::Counts Network::counts(const std::string& address) {
  std::lock_guard lock(mutex_);
  const auto found = endpoints_.find(id_of(address));
  if (found == endpoints_.end()) return {};
  const LoopbackEndpoint& endpoint = *found->second;
  return {endpoint.ends_.size(),  endpoint.num_refused_, endpoint.served_bytes_,
          endpoint.num_messages_, endpoint.num_writes_,  endpoint.num_opened_};
}

void Network::hold_requests(const std::string& address, bool are_held) {
  std::lock_guard lock(mutex_);
  const auto found = endpoints_.find(id_of(address));
  if (found != endpoints_.end()) found->second->hold(found->second->holds_, are_held);
}

void Network::hold_ups(const std::string& address, bool are_held) {
  std::lock_guard lock(mutex_);
  const auto found = endpoints_.find(id_of(address));
  if (found != endpoints_.end()) found->second->hold(found->second->holds_ups_, are_held);
}

void Network::set_at_poll(const std::string& address, std::function<void()> at_poll) {
  std::lock_guard lock(mutex_);
  const auto found = endpoints_.find(id_of(address));
  if (found == endpoints_.end()) return;
  found->second->at_poll_ = std::move(at_poll);
  found->second->has_at_poll_.store(true, std::memory_order_release);
}

void Network::stall() {
  std::lock_guard lock(mutex_);
  for (const auto& [id, endpoint] : endpoints_)
    for (const WireEnd* end : endpoint->ends_) end->wire->is_stalled = true;
}

std::unique_ptr<Endpoint> make_endpoint(std::shared_ptr<Network> network) {
  return std::make_unique<LoopbackEndpoint>(std::move(network));
}

namespace {
// A program of tests that is linked with this file has the fabric.
[[maybe_unused]] const bool is_there = [] {
  set_loopback([] { return make_endpoint(Network::of_process()); });
  return true;
}();
}  // namespace

}  // namespace weft::fabric::loopback
