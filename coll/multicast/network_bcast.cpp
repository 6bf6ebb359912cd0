#include "coll/multicast/network_bcast.hpp"

#include <fmt/core.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "coll/plan/links.hpp"
#include "lanes/fabrics.hpp"
#include "lanes/linked/remote_lanes.hpp"

namespace weft::coll {

using mcast::PacketStream;
using Bytes = std::span<const std::byte>;

namespace {

constexpr std::size_t kMostTextBytes = 1024;
// A repair is the longest message: packets of 64 KiB, or one that is longer.
constexpr std::size_t kMostMessageBytes = 256 << 10;
// Bytes of repairs on their way from one member.
constexpr std::size_t kMostUnderWayBytes = 256 << 10;
// While datagrams may come, which ring no doorbell: the channel has room for some milliseconds.
constexpr std::uint64_t kLongestSleepUs = 250;
constexpr int kSomePort = 9;  // finding a route sends no packet
constexpr std::string_view kNoAddress = "none";
// A member heard no datagram of this process as a root: for some time its other streams do not try,
// as every try takes the time of the probes.
constexpr std::uint64_t kQuietNs = 60'000'000'000;
std::atomic<std::uint64_t> quiet_until_ns{0};

}  // namespace

enum class NetworkBcast::Kind : std::uint32_t {
  form = 1,  // to children: the root's address follows
  joined,    // to the parent: what the subtree can receive follows, and why not
  start,     // to children: the token, and the kind of datagrams
  announce,  // to children: bytes of the next message and of its packets; 0: no datagrams any more
  have,      // to the parent: broadcasts that the subtree has
  // Of PacketStream::Tree.
  heard,
  able,
  progress,
  mark,
  lack,
  repair
};

struct NetworkBcast::Note {
  Kind kind{};
  std::uint32_t first = 0, count = 0;
  std::uint32_t stream = 0;  // set by send()
  std::uint64_t number = 0, more = 0;
};

struct NetworkBcast::Transfer final : tagged::Kept {
  bool is_over() const noexcept override { return request.is_over(); }
  tagged::Request request;
  std::vector<std::byte> bytes;
};

NetworkBcast::NetworkBcast(Team& team, std::vector<int> members, std::int32_t tag)
    : team_(team),
      members_(std::move(members)),
      tag_(tag),
      number_(
          static_cast<int>(std::ranges::find(members_, team.engine().rank()) - members_.begin())),
      children_([&] {
        // A member's children are those whose number has one more bit set, below its lowest one.
        std::vector<Child> children;
        const int n = static_cast<int>(members_.size());
        for (int bit = 1; number_ + bit < n && (number_ & bit) == 0; bit *= 2)
          children.push_back({members_[static_cast<std::size_t>(number_ + bit)]});
        return children;
      }()),
      stream_(*this, number_ == 0, children_.size()) {
  while (is_root() && stream_id_ == 0) ::randombytes_buf(&stream_id_, sizeof stream_id_);
  if (!is_root()) parent_ = members_[static_cast<std::size_t>(number_ & (number_ - 1))];
}

// The engine may still use memory of messages after a loss.
NetworkBcast::~NetworkBcast() {
  tagged::Engine& engine = team_.engine();
  if (incoming_ != nullptr && !incoming_->is_over()) engine.keep(std::move(incoming_));
  for (auto& transfer : sending_)
    if (!transfer->is_over()) engine.keep(std::move(transfer));
}

Status NetworkBcast::bcast(void* data, std::size_t bytes, bool& is_done) {
  is_done = false;
  deadline_.emplace(team_);
  const Status status = or_no_memory([&] { return run(data, bytes, is_done); });
  if (!status && !is_done) team_.give_up();
  return status;
}

Status NetworkBcast::run(void* data, std::size_t bytes, bool& is_done) {
  if (!is_formed_) WEFT_COLL_TRY(form());
  const std::uint64_t sequence = num_begun_++;
  if (!is_root()) return receive(sequence, static_cast<std::byte*>(data), bytes, is_done);
  WEFT_COLL_TRY(go_on([&] { return stream_.state() != Code::again; }));
  const std::uint32_t packet_bytes = stream_.takes(bytes) ? stream_.packet_bytes() : 0;
  announce(bytes, packet_bytes);
  if (packet_bytes == 0) {
    why_not_ = stream_.state();
    // A stream that did not try says nothing new.
    if (num_begun_ == 1 && root_address_ != kNoAddress && !team_.is_broken())
      quiet_until_ns = now_ns() + kQuietNs;
    return go_on([&] { return sending_.empty(); });
  }
  WEFT_COLL_TRY(copy(sequence, static_cast<std::byte*>(data), bytes, packet_bytes));
  is_done = true;
  return {};
}

Status NetworkBcast::receive(std::uint64_t sequence, std::byte* data, std::size_t bytes,
                             bool& is_done) {
  WEFT_COLL_TRY(go_on([&] { return num_announced_ > sequence; }));
  const std::uint32_t packet_bytes = announced_packet_;
  const std::uint64_t length = announced_bytes_;
  announce(length, packet_bytes);
  if (packet_bytes == 0) return go_on([&] { return sending_.empty(); });
  if (!stream_.may_receive(length, packet_bytes))
    return {Code::corrupt, fmt::format("rank {} announces {} bytes in packets of {}",
                                       members_.front(), length, packet_bytes)};
  if (length == bytes) {
    WEFT_COLL_TRY(copy(sequence, data, bytes, packet_bytes));
    is_done = true;
    return {};
  }
  // The others' data do not depend on this member's mistake.
  std::vector<std::byte> other(length);
  WEFT_COLL_TRY(copy(sequence, other.data(), length, packet_bytes));
  is_done = true;
  std::memcpy(data, other.data(), std::min<std::size_t>(bytes, length));
  return {Code::truncated, fmt::format("a broadcast of {} bytes here has {} bytes at rank {}, its "
                                       "root",
                                       bytes, length, members_.front())};
}

Status NetworkBcast::copy(std::uint64_t sequence, std::byte* data, std::size_t bytes,
                          std::uint32_t packet_bytes) {
  const PacketStream::Message& message = stream_.add(sequence, bytes, packet_bytes, data);
  WEFT_COLL_TRY(go_on([&] {
    return message.is_whole() && (is_root() || stream_.is_marked()) &&
           std::ranges::all_of(children_,
                               [&](const Child& child) { return child.num_have > sequence; });
  }));
  if (!is_root()) send(parent_, {.kind = Kind::have, .number = sequence + 1});
  const Status status = go_on([&] { return sending_.empty(); });
  stream_.drop_first();
  return status;
}

// Forming.

Status NetworkBcast::form() {
  bool may_use_verbs = false;
  for (const transport::RemoteLanes* lanes : team_.engine().fabrics().remote()) {
    may_use_verbs = may_use_verbs || lanes->fabric_name() == "verbs";
    if (is_root() && root_address_.empty()) root_address_ = lanes->interface_address();
  }
  if (is_root() && (root_address_.empty() || now_ns() < quiet_until_ns)) root_address_ = kNoAddress;
  WEFT_COLL_TRY(go_on([&] { return !root_address_.empty(); }));
  send_to_children({.kind = Kind::form}, std::as_bytes(std::span(root_address_)));
  if (Status status = open(may_use_verbs); !status) stream_.refuse(status);
  WEFT_COLL_TRY(go_on([&] { return std::ranges::all_of(children_, &Child::has_joined); }));
  mcast::AllLimits limits = stream_.limits();
  for (const Child& child : children_) limits = mcast::least_of(limits, child.limits);
  if (!stream_.why_not())
    why_below_ = fmt::format("rank {}: {}", members_[index(number_)], stream_.why_not().text());
  if (is_root()) {
    start_ = stream_.choose(limits);
    if (start_.token == 0 && !why_below_.empty()) stream_.refuse({Code::unsupported, why_below_});
  } else {
    if (why_below_.size() > kMostTextBytes) why_below_.resize(kMostTextBytes);
    std::vector<std::byte> body(sizeof limits + why_below_.size());
    std::memcpy(body.data(), &limits, sizeof limits);
    std::memcpy(body.data() + sizeof limits, why_below_.data(), why_below_.size());
    send(parent_, {.kind = Kind::joined}, body);
    WEFT_COLL_TRY(go_on([&] { return has_started_; }));
  }
  send_to_children({.kind = Kind::start,
                    .first = static_cast<std::uint32_t>(start_.kind),
                    .number = start_.token});
  stream_.start(start_);
  is_formed_ = true;
  return {};
}

Status NetworkBcast::open(bool may_use_verbs) {
  if (root_address_ == kNoAddress)
    return {Code::unsupported,
            fmt::format("the fabric of rank {} has no network address, or its datagrams were "
                        "not heard less than a minute ago",
                        members_.front())};
  peer::SocketAddress root;
  mcast::ChannelAddress address;
  const bool is_v6 = root_address_.find(':') != std::string::npos;
  WEFT_COLL_TRY(peer::resolve(
      fmt::format(fmt::runtime(is_v6 ? "[{}]:{}" : "{}:{}"), root_address_, kSomePort), root,
      peer::Names::refuse));
  WEFT_COLL_TRY(mcast::local_towards(root, address.local));
  struct {
    std::uint64_t job;
    std::uint32_t context;
    std::int32_t root;
  } const name{team_.engine().job().id(), team_.context(), members_.front()};
  std::array<std::uint8_t, 16> seed;
  crypto_generichash(seed.data(), seed.size(), reinterpret_cast<const unsigned char*>(&name),
                     sizeof name, nullptr, 0);
  WEFT_COLL_TRY(mcast::multicast_address("", address.local, seed, address.group));
  stream_.open(address, may_use_verbs);
  return {};
}

// Root: begins a message; the others pass it on.
void NetworkBcast::announce(std::uint64_t bytes, std::uint32_t packet_bytes) {
  send_to_children({.kind = Kind::announce, .first = packet_bytes, .number = bytes});
}

// Waiting.

template <class Done>
Status NetworkBcast::go_on(Done&& done) {
  for (;;) {
    if (!failed_) return failed_;
    if (done()) return {};
    bool has_moved = false, has_passed = false;
    Code code = Code::ok;
    const auto is_over = [&] {
      code = or_no_memory([&] { has_moved = step(); });
      has_passed = !has_moved && deadline_->has_passed();
      return has_moved || has_passed || code != Code::ok;
    };
    team_.engine().wait_until(is_over, team_.context(), nullptr,
                              stream_.needs_time() ? kLongestSleepUs : tagged::kAnySleep);
    if (code != Code::ok) return code;
    if (has_passed && !done()) return Code::peer_lost;
  }
}

bool NetworkBcast::step() {
  bool any = stream_.advance(PacketStream::Clock::now());
  any |= read_messages();
  while (!sending_.empty() && sending_.front()->request.is_over()) {
    const tagged::Request& request = sending_.front()->request;
    if (request.code != Code::ok && failed_.ok()) failed_ = request.code;
    bytes_under_way_ -= sending_.front()->bytes.size();
    sending_.pop_front();
    any = true;
  }
  return any;
}

// Messages.

bool NetworkBcast::read_messages() {
  tagged::Engine& engine = team_.engine();
  bool any = false;
  for (;;) {
    if (incoming_ == nullptr) {
      tagged::MessageInfo info;
      if (engine.iprobe(tagged::kAnySource, team_.context(), tag_, info) != Code::ok) return any;
      incoming_ = std::make_unique<Transfer>();
      incoming_->bytes.resize(std::min(info.bytes, kMostMessageBytes));
      engine.irecv(incoming_->request, info.source, team_.context(), tag_, incoming_->bytes.data(),
                   incoming_->bytes.size());
    }
    if (!incoming_->request.is_complete()) return any;
    const std::unique_ptr<Transfer> message = std::move(incoming_);
    any = true;
    if (message->request.code != Code::ok)
      failed_ = message->request.code;
    else
      take(message->request.peer, message->bytes);
    if (!failed_) return true;
  }
}

void NetworkBcast::take(int from, Bytes bytes) {
  Note note;
  if (bytes.size() < sizeof note)
    return fail(from, fmt::format("sends a message of {} bytes", bytes.size()));
  std::memcpy(&note, bytes.data(), sizeof note);
  const Bytes body = bytes.subspan(sizeof note);
  // Of a communicator that had this context before.
  if (note.stream != stream_id_ && note.kind != Kind::form) return;
  if (from == parent_) return take_from_parent(note, body);
  const auto child = std::ranges::find(children_, from, &Child::world);
  if (child == children_.end()) return fail(from, "is no neighbor");
  take_from_child(static_cast<std::size_t>(child - children_.begin()), note, body);
}

void NetworkBcast::take_from_child(std::size_t number, const Note& note, Bytes body) {
  Child& child = children_[number];
  const auto check = [&](const Status& status) {
    if (!status) fail(child.world, status.text());
  };
  switch (note.kind) {
    case Kind::joined:
      if (body.size() < sizeof child.limits) break;
      std::memcpy(&child.limits, body.data(), sizeof child.limits);
      body = body.subspan(sizeof child.limits);
      if (why_below_.empty())
        why_below_.assign(reinterpret_cast<const char*>(body.data()), body.size());
      child.has_joined = true;
      return;
    case Kind::have:
      child.num_have = note.number;
      return;
    case Kind::heard:
      return stream_.on_heard(number);
    case Kind::able:
      return stream_.on_able(number, note.number);
    case Kind::progress:
      return check(stream_.on_progress(number, note.number, note.more));
    case Kind::lack:
      return check(stream_.on_lack(number, note.number, note.first, body));
    default:
      break;
  }
  fail(child.world,
       fmt::format("sends an invalid message (kind {})", static_cast<unsigned>(note.kind)));
}

void NetworkBcast::take_from_parent(const Note& note, Bytes body) {
  const auto check = [&](const Status& status) {
    if (!status) fail(parent_, status.text());
  };
  switch (note.kind) {
    case Kind::form:
      stream_id_ = note.stream;
      root_address_.assign(reinterpret_cast<const char*>(body.data()), body.size());
      return;
    case Kind::start:
      start_ = {note.number, static_cast<mcast::ChannelKind>(note.first)};
      has_started_ = true;
      return;
    case Kind::announce:
      ++num_announced_;
      announced_bytes_ = note.number;
      announced_packet_ = note.first;
      return;
    case Kind::mark:
      return check(stream_.on_mark(note.number));
    case Kind::repair: {
      const std::span<std::byte> place =
          stream_.place_of_repair(note.number, note.first, note.count);
      if (place.size() == body.size() && !place.empty())
        std::memcpy(place.data(), body.data(), body.size());
      return check(
          stream_.on_repair(note.number, note.first, place.size() == body.size() ? note.count : 0));
    }
    default:
      return fail(parent_, fmt::format("sends an invalid message (kind {})",
                                       static_cast<unsigned>(note.kind)));
  }
}

void NetworkBcast::fail(int rank, std::string_view what) {
  if (failed_.ok()) failed_ = {Code::corrupt, fmt::format("rank {} {} in a broadcast", rank, what)};
}

void NetworkBcast::send(int world, Note note, Bytes body) {
  note.stream = stream_id_;
  auto transfer = std::make_unique<Transfer>();
  transfer->bytes.resize(sizeof note + body.size());
  std::memcpy(transfer->bytes.data(), &note, sizeof note);
  if (!body.empty()) std::memcpy(transfer->bytes.data() + sizeof note, body.data(), body.size());
  tagged::Engine& engine = team_.engine();
  if (engine.try_send(world, team_.context(), tag_, transfer->bytes.data(), transfer->bytes.size()))
    return;
  Transfer& sent = *sending_.emplace_back(std::move(transfer));
  bytes_under_way_ += sent.bytes.size();
  engine.isend(sent.request, world, team_.context(), tag_, sent.bytes.data(), sent.bytes.size());
}

void NetworkBcast::send_to_children(const Note& note, Bytes body) {
  for (const Child& child : children_) send(child.world, note, body);
}

void NetworkBcast::send_heard() { send(parent_, {.kind = Kind::heard}); }

void NetworkBcast::send_able(std::uint64_t able) {
  send(parent_, {.kind = Kind::able, .number = able});
}

void NetworkBcast::send_progress(std::uint64_t packets, std::uint64_t lost) {
  send(parent_, {.kind = Kind::progress, .number = packets, .more = lost});
}

void NetworkBcast::send_lack(std::uint64_t sequence, std::uint32_t first, Bytes bitmap) {
  send(parent_, {.kind = Kind::lack, .first = first, .number = sequence}, bitmap);
}

void NetworkBcast::send_mark(std::uint64_t packets) {
  send_to_children({.kind = Kind::mark, .number = packets});
}

bool NetworkBcast::send_repair(std::size_t child, const PacketStream::Message& message,
                               std::uint32_t first, std::uint32_t count) {
  if (bytes_under_way_ >= kMostUnderWayBytes) return false;
  send(children_[child].world,
       {.kind = Kind::repair, .first = first, .count = count, .number = message.sequence()},
       message.packets(first, count));
  return true;
}

std::string NetworkBcast::name_of_child(std::size_t child) const {
  return fmt::format("rank {}", children_[child].world);
}

}  // namespace weft::coll
