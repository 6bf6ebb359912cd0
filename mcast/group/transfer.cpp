// Messages of a group: announced, matched with buffers, forwarded block by block, completed in
// order.
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "mcast/group/group_impl.hpp"

namespace weft::mcast {

namespace {

// Blocks are put in parts of kPartBytes, and a group has kWindowBytes in flight: more than a
// network's bandwidth-delay product, and so little that blocks still leave one after the other.
constexpr std::size_t kPartBytes = 64 << 10;
// Credit (schedules/credit.hpp). A receiver gives the one for the next block when so much of a
// block is still to come: two senders then share its link for a moment only, and the credit's way,
// which may queue behind blocks, is no gap. Where blocks are small, parts of them are not told, and
// the credits reach so far beyond the block that comes.
constexpr std::uint64_t kLeadBytes = 128 << 10;
constexpr std::uint64_t kAheadBytes = 256 << 10;
// The bytes that one group posts before the next group is served.
constexpr std::size_t kBudgetBytes = 4 << 20;
constexpr std::size_t kMaxBegun = 2;        // long messages at the root at a time
constexpr std::uint64_t kSmallWindow = 64;  // small messages that some receiver has not completed
constexpr std::uint64_t kTakenStep = 16;    // completed messages between two reports of a receiver
constexpr std::size_t kMaxPosted = 32;      // receive buffers
constexpr std::size_t kMaxArrivals = 4096;  // messages announced out of order
constexpr std::size_t kMaxEarlyBlocks = 1 << 20;
constexpr std::size_t kMaxMemories = 4;  // cached mappings per neighbor
constexpr std::size_t kMaxCredits = kMaxPosted + kMaxBegun + kSmallWindow;  // messages with credit
// Blocks whose size is chosen: a message has some hundred, so that the steps before all members
// receive at full rate are few among all, and each takes some milliseconds of a slow network, so
// that work and waking for each are little.
constexpr std::uint64_t kChosenBlocks = 128, kLeastBlock = 64 << 10, kMostBlock = 256 << 10;
// Within a host each block is a wakening, and costs more than the steps.
constexpr std::uint64_t kHostBlock = 1 << 20;

}  // namespace

std::uint64_t GroupImpl::block_bytes_of(std::uint64_t bytes) const {
  if (settings_.block_bytes > 0) return settings_.block_bytes;
  if (is_one_host_) return kHostBlock;
  return std::clamp(std::bit_ceil(std::min(bytes, kChosenBlocks * kMostBlock) / kChosenBlocks),
                    kLeastBlock, kMostBlock);
}

bool GroupImpl::has_few_blocks(std::uint64_t bytes) const {
  return bytes / block_bytes_of(bytes) < kNearlyHere;
}

GroupImpl::Message& GroupImpl::add_message(std::uint64_t sequence, std::uint64_t bytes,
                                           std::uint32_t packet_bytes) {
  messages_.push_back(std::make_unique<Message>());
  Message& message = *messages_.back();
  message.sequence = sequence;
  message.bytes = bytes;
  message.block_bytes = packet_bytes > 0 ? packet_bytes : block_bytes_of(bytes);
  message.num_blocks =
      static_cast<std::uint32_t>((bytes + message.block_bytes - 1) / message.block_bytes);
  if (events_.on_times) message.log = std::make_shared<TimeLog>(bytes, message.block_bytes);
  num_begun_ = sequence + 1;
  if (packet_bytes > 0) {
    message.copied = &native_->add(sequence, bytes, packet_bytes, nullptr);
    return message;
  }
  message.shape = {size(), message.num_blocks, &racks_};
  message.num_steps = message.num_blocks == 0 ? 0 : algorithm_->num_steps(message.shape);
  prepare_credit(message);
  return message;
}

void GroupImpl::prepare_credit(Message& message) {
  const std::uint64_t window = 1 + kAheadBytes / message.block_bytes;
  message.uses_credit =
      !is_one_host_ && uses_credit(*algorithm_, message.shape) && window < message.num_blocks;
  if (!message.uses_credit) return;
  message.shape.window = static_cast<int>(window);
  message.has_early_credit = window == 1;
  if (message.has_early_credit) message.nearly_here.assign(message.num_blocks, false);
  message.edges.resize(neighbors_.size());
  message.receipts = Receipts(*algorithm_, message.shape, settings_.self);
  for (std::uint64_t i = 0; i < window; ++i) message.receipts.next();
}

GroupImpl::Message* GroupImpl::message_of(std::uint64_t sequence) {
  if (messages_.empty() || sequence < messages_.front()->sequence) return nullptr;
  const std::uint64_t place = sequence - messages_.front()->sequence;
  return place < messages_.size() ? messages_[place].get() : nullptr;
}

// Sending, at the root.

Status GroupImpl::send(const void* data, std::uint64_t bytes) {
  std::lock_guard guard(multicast_.lock());
  if (failed_) return *failed_;
  if (!is_root()) return {Code::bad_argument, "only the first member of a group sends"};
  if (num_in_all_) return {Code::bad_argument, "the group is closed"};
  if (data == nullptr && bytes > 0) return {Code::bad_argument, "the message has no data"};
  if (!has_few_blocks(bytes)) return {Code::bad_argument, "the message has more than 2^31 blocks"};
  queued_.push_back({static_cast<const std::byte*>(data), bytes});
  ++num_sent_;
  multicast_.make_active(*this);
  if (!multicast_.is_own_thread()) multicast_.wake();
  return {};
}

void GroupImpl::start_queued() {
  while (!queued_.empty()) {
    const Queued next = queued_.front();
    const bool is_small = uses_small_ && next.bytes <= settings_.small_bytes && size() > 1;
    if (is_small) {
      for (const Neighbor& neighbor : neighbors_)
        if (num_begun_ >= neighbor.num_taken + kSmallWindow) return;
    } else {
      std::size_t num_long = 0;
      for (const auto& item : messages_) num_long += item->is_small ? 0 : 1;
      if (num_long >= kMaxBegun) return;
    }
    const bool is_copied = !is_small && this->is_copied(next.bytes);
    if (is_copied && !native_->is_on()) return;
    queued_.pop_front();
    const std::uint64_t sequence = num_begun_;
    const std::uint32_t packet_bytes = is_copied ? native_->packet_bytes() : 0;
    Message& message = add_message(sequence, next.bytes, packet_bytes);
    message.data = const_cast<std::byte*>(next.data);
    message.has_buffer = true;
    if (is_copied) native_->set_buffer(sequence, message.data);
    message.num_received = message.num_blocks;
    message.is_small = is_small;
    if (is_small) {
      message.all_sent = true;
      for (Neighbor& neighbor : neighbors_)
        send_to(neighbor, AnnounceMessage{{.kind = Kind::small}, sequence, next.bytes, 0, 0},
                {next.data, next.bytes});
    } else {
      send_to_children(
          AnnounceMessage{{.kind = Kind::announce}, sequence, next.bytes, packet_bytes, 0});
    }
  }
  if (num_in_all_ && !has_sent_ending_) {
    has_sent_ending_ = true;
    send_to_children(CountMessage{{.kind = Kind::ending}, *num_in_all_});
  }
}

// Receiving.

void GroupImpl::on_arrival(std::uint64_t sequence, Arrival arrival) {
  if (is_over()) return;
  const bool makes_sense =
      sequence >= num_begun_ && !arrivals_.contains(sequence) && arrivals_.size() < kMaxArrivals &&
      has_few_blocks(arrival.bytes) &&
      (arrival.packet_bytes == 0 ||
       (native_ != nullptr && native_->may_receive(arrival.bytes, arrival.packet_bytes)));
  if (!makes_sense) {
    const int from = arrival.small ? 0 : parent_;
    return fail(Code::corrupt, from,
                fmt::format("{} announces message {} of {} bytes in packets of {}, which is not "
                            "expected",
                            name(from), sequence, arrival.bytes, arrival.packet_bytes));
  }
  arrivals_.emplace(sequence, std::move(arrival));
  take_arrivals();
}

void GroupImpl::take_arrivals() {
  while (!arrivals_.empty() && arrivals_.begin()->first == num_begun_) {
    Arrival arrival = std::move(arrivals_.begin()->second);
    arrivals_.erase(arrivals_.begin());
    Message& message = add_message(num_begun_, arrival.bytes, arrival.packet_bytes);
    if (arrival.small) {
      message.is_small = true;
      message.all_sent = true;
      message.small = std::move(*arrival.small);
    } else if (message.copied == nullptr) {
      message.received.assign(message.num_blocks, false);
    }
    want_buffer(message);
    if (is_over()) return;
    std::vector<std::pair<int, BlockTag>> early;
    early.swap(early_blocks_);
    for (const auto& [rank, tag] : early)
      if (Neighbor* neighbor = find(rank)) on_block(*neighbor->connection, tag);
  }
  multicast_.make_active(*this);
}

void GroupImpl::want_buffer(Message& message) {
  if (!posted_.empty() && posted_.front().sequence == message.sequence) {
    const Posted posted = posted_.front();
    posted_.pop_front();
    return on_buffer(message.sequence, posted.memory, posted.bytes, true);
  }
  // The program may give memory again whose message is complete.
  complete_some();
  call_user([this, sequence = message.sequence, bytes = message.bytes] {
    void* data = events_.on_incoming ? events_.on_incoming(bytes) : nullptr;
    std::lock_guard guard(multicast_.lock());
    on_buffer(sequence, data, bytes, false);
  });
}

// `room`: bytes that the buffer has at least.
void GroupImpl::on_buffer(std::uint64_t sequence, void* data, std::uint64_t room, bool was_posted) {
  Message* message = message_of(sequence);
  if (is_over() || message == nullptr) return;
  if ((data == nullptr && message->bytes > 0) || room < message->bytes)
    return fail(
        Code::truncated, settings_.self,
        fmt::format("{} has {} for a message of {} bytes", name(settings_.self),
                    data == nullptr ? "no buffer" : fmt::format("{} bytes", room), message->bytes));
  if (!was_posted)
    if (Status status = hold({sequence, message->bytes, static_cast<const std::byte*>(data)});
        !status)
      return fail(status.code(), settings_.self, status.text());
  message->data = static_cast<std::byte*>(data);
  message->has_buffer = true;
  multicast_.make_active(*this);
  if (message->is_small) {
    std::copy(message->small.begin(), message->small.end(), message->data);
    message->num_received = message->num_blocks;
  } else if (message->bytes > 0 && !was_posted) {
    offer_buffer(*message, room);
  }
  if (message->copied != nullptr && !is_over()) native_->set_buffer(sequence, message->data);
}

// Two messages in one place would be mixed, and nobody would notice.
Status GroupImpl::hold(const Held& given) {
  const auto begin = [](const Held& item) { return reinterpret_cast<std::uintptr_t>(item.memory); };
  for (const Held& item : held_) {
    const std::uintptr_t from = std::max(begin(item), begin(given));
    const std::uintptr_t to = std::min(begin(item) + item.bytes, begin(given) + given.bytes);
    if (from >= to) continue;
    return {Code::bad_argument,
            fmt::format("{} gives message {} memory of which message {} has {} bytes until its "
                        "on_complete (the first message is 0): give each message memory of its "
                        "own, and use it for another one after on_complete",
                        name(settings_.self), given.sequence, item.sequence, to - from)};
  }
  if (given.bytes > 0) held_.push_back(given);
  return {};
}

void GroupImpl::let_go(std::uint64_t sequence) {
  const auto found = std::ranges::find(held_, sequence, &Held::sequence);
  if (found == held_.end()) return;
  *found = held_.back();
  held_.pop_back();
}

void GroupImpl::offer_buffer(Message& message, std::uint64_t room) {
  MemoryKey key;
  Status status = multicast_.node().key(message.data, kWrite, key);
  if (status == Code::not_found) {
    status = multicast_.node().register_memory(message.data, message.bytes);
    if (status) status = multicast_.node().key(message.data, kWrite, key);
    message.is_registered_here = status.ok();
  }
  if (!status)
    return fail(
        status.code(), settings_.self,
        fmt::format("the buffer of {} can't be used: {}", name(settings_.self), status.text()));
  std::set<int> senders;
  if (message.copied != nullptr) senders.insert(parent_);
  for (std::uint64_t step = 0; step < message.num_steps; ++step)
    if (const Move move = algorithm_->turn(message.shape, settings_.self, step).receive)
      senders.insert(move.peer);
  for (const int sender : senders) send_ready(*find(sender), message.sequence, room, key);
  if (message.log) message.log->enter(Spent::first_block);
}

Status GroupImpl::post(void* memory, std::uint64_t bytes) {
  std::lock_guard guard(multicast_.lock());
  if (failed_) return *failed_;
  if (is_root()) return {Code::bad_argument, "the first member of a group receives nothing"};
  if (posted_.size() >= kMaxPosted)
    return {Code::again, fmt::format("{} buffers are posted already", kMaxPosted)};
  Posted posted{0, bytes, static_cast<std::byte*>(memory), {}};
  if (Status status = multicast_.node().key(memory, kWrite, posted.key); !status) return status;
  posted.sequence = posted_.empty() ? num_begun_ : posted_.back().sequence + 1;
  if (Status status = hold({posted.sequence, bytes, posted.memory}); !status) return status;
  posted_.push_back(posted);
  if (is_going_)
    for (Neighbor& neighbor : neighbors_)
      send_ready(neighbor, posted.sequence, posted.bytes, posted.key);
  return {};
}

void GroupImpl::send_ready(Neighbor& neighbor, std::uint64_t sequence, std::uint64_t bytes,
                           const MemoryKey& key) {
  send_to(neighbor, ReadyMessage{{.kind = Kind::ready}, sequence, bytes, key});
}

void GroupImpl::on_ready(Neighbor& neighbor, const ReadyMessage& message) {
  if (message.sequence < num_completed_) return;  // posted for a message that is complete here
  if (neighbor.buffers.size() > kMaxPosted + kMaxBegun + kSmallWindow)
    return fail(Code::corrupt, neighbor.rank,
                fmt::format("{} has too many buffers", name(neighbor.rank)));
  std::shared_ptr<PeerMemory> memory;
  for (const auto& [key, item] : neighbor.memories)
    if (key == message.key) memory = item;
  if (memory == nullptr) {
    memory = std::make_shared<PeerMemory>(
        multicast_.node().memory(neighbor.connection->peer, message.key));
    neighbor.memories.emplace_back(message.key, memory);
    if (neighbor.memories.size() > kMaxMemories) neighbor.memories.pop_front();
  }
  neighbor.buffers[message.sequence] = {message.bytes, std::move(memory)};
  multicast_.make_active(*this);
}

GroupImpl::Edge& GroupImpl::edge(Message& message, const Neighbor& neighbor) {
  return message.edges[static_cast<std::size_t>(&neighbor - neighbors_.data())];
}

// At a receiver: one more block is here or nearly, so it is ready for one more.
void GroupImpl::give_credit(Message& message) {
  if (!message.uses_credit) return;
  const Move next = message.receipts.next();
  if (!next) return;
  Neighbor& sender = *find(next.peer);
  const std::uint64_t count = ++edge(message, sender).num_given;
  send_to(sender, CreditMessage{{.kind = Kind::credit}, message.sequence, count});
}

void GroupImpl::on_credit(Neighbor& neighbor, const CreditMessage& message) {
  // A message is complete here once all of its blocks are sent, each with its credit. The receiver
  // may have begun a message that is not announced here yet.
  const bool makes_sense =
      algorithm_->has_meetings && message.sequence >= num_completed_ &&
      (neighbor.credits.contains(message.sequence) || neighbor.credits.size() < kMaxCredits);
  if (!makes_sense || message.count != neighbor.credits[message.sequence] + 1)
    return fail(Code::corrupt, neighbor.rank,
                fmt::format("{} gives credit {} of message {}, which is not expected",
                            name(neighbor.rank), message.count, message.sequence));
  neighbor.credits[message.sequence] = message.count;
  multicast_.make_active(*this);
}

bool GroupImpl::has_credit(Message& message, const Neighbor& neighbor) {
  if (!message.uses_credit) return true;
  Edge& to = edge(message, neighbor);
  if (!to.first_credit)
    to.first_credit = first_credit(*algorithm_, message.shape, settings_.self, neighbor.rank);
  const auto more = neighbor.credits.find(message.sequence);
  return to.num_sent < *to.first_credit + (more == neighbor.credits.end() ? 0 : more->second);
}

void GroupImpl::on_block(Connection& connection, const BlockTag& tag) {
  const Neighbor* neighbor = find(connection);
  if (neighbor == nullptr || is_over()) return;
  const bool is_nearly = (tag.block & kNearlyHere) != 0;
  const std::uint32_t block = tag.block & ~kNearlyHere;
  const std::uint64_t sequence = whole_sequence(tag.sequence);
  Message* message = message_of(sequence);
  const auto is_posted = [&] {
    return std::ranges::any_of(posted_,
                               [&](const Posted& item) { return item.sequence == sequence; });
  };
  if (message == nullptr && sequence >= num_begun_ && is_posted() &&
      early_blocks_.size() < kMaxEarlyBlocks) {
    early_blocks_.emplace_back(neighbor->rank, tag);
    return;
  }
  if (message != nullptr && message->copied != nullptr)
    return on_repair(*neighbor, *message, tag.block);
  if (message == nullptr || is_root() || message->is_small || !message->has_buffer ||
      block >= message->num_blocks ||
      (is_nearly ? !message->has_early_credit || message->nearly_here[block]
                 : message->received[block]))
    return fail(Code::corrupt, neighbor->rank,
                fmt::format("{} sends block {} of message {}, which is not expected",
                            name(neighbor->rank), block, sequence));
  const bool has_credit = message->has_early_credit && message->nearly_here[block];
  if (message->has_early_credit) message->nearly_here[block] = true;
  if (!is_nearly) {
    message->received[block] = true;
    ++message->num_received;
    if (message->log) message->log->received(block, neighbor->rank);
  }
  if (!has_credit) give_credit(*message);
  multicast_.make_active(*this);
}

// Progress.

bool GroupImpl::advance(Clock::time_point now, bool& has_more) {
  bool any = reap();
  if (!is_over()) {
    if (!is_going_) end_waiting(now);
    if (is_going_ && is_root()) start_queued();
    budget_ = kBudgetBytes;
    any |= advance_native(now);
    if (!is_over()) any |= pump();
    if (!is_over()) any |= complete_some();
  }
  if (is_over() && puts_.empty()) multicast_.changed().notify_all();
  has_more = !puts_.empty() || (!is_going_ && !is_over()) || (any && !is_over()) || waits_native();
  return any;
}

bool GroupImpl::reap() {
  bool any = false;
  for (std::size_t i = 0; i < puts_.size();) {
    Put& put = *puts_[i];
    if (!put.operation.is_done()) {
      ++i;
      continue;
    }
    any = true;
    bytes_under_way_ -= put.bytes;
    --put.message->num_puts;
    if (put.last_of > 0) put.message->log->end_sending(put.last_of);
    const Code code = put.operation.code();
    const int to = put.to;
    free_puts_.push_back(std::move(puts_[i]));
    puts_.erase(puts_.begin() + static_cast<std::ptrdiff_t>(i));
    if (code == Code::ok || is_over()) continue;
    if (code == Code::peer_lost)
      fail(code, to, fmt::format("{} is lost", name(to)));
    else
      fail(code, to,
           fmt::format("{} refused a block ({}): its buffer is too small or was deregistered",
                       name(to), code_name(code)));
  }
  return any;
}

GroupImpl::Buffer* GroupImpl::buffer_of(const Message& message, Neighbor& neighbor) {
  const auto buffer = neighbor.buffers.find(message.sequence);
  if (buffer == neighbor.buffers.end()) return nullptr;
  if (buffer->second.bytes >= message.bytes) return &buffer->second;
  fail(Code::truncated, neighbor.rank,
       fmt::format("{} has {} bytes for a message of {} bytes", name(neighbor.rank),
                   buffer->second.bytes, message.bytes));
  return nullptr;
}

void GroupImpl::put(Message& message, const Neighbor& neighbor, const Buffer& buffer,
                    std::uint64_t at, std::size_t bytes, std::optional<std::uint32_t> block,
                    std::size_t last_of) {
  std::unique_ptr<Put> put;
  if (free_puts_.empty()) {
    put = std::make_unique<Put>();
  } else {
    put = std::move(free_puts_.back());
    free_puts_.pop_back();
  }
  put->message = &message;
  put->to = neighbor.rank;
  put->bytes = bytes;
  put->last_of = last_of;
  ++message.num_puts;
  bytes_under_way_ += bytes;
  Operation& operation = put->operation;
  puts_.push_back(std::move(put));
  if (block)
    multicast_.node().put_notify(
        *buffer.memory, at, message.data + at, bytes,
        to_tag({neighbor.handle, static_cast<std::uint32_t>(message.sequence), *block}), operation);
  else
    multicast_.node().put(*buffer.memory, at, message.data + at, bytes, operation);
  if (operation.is_done()) reap();
}

bool GroupImpl::pump() {
  bool any = false;
  for (std::size_t place = 0; place < messages_.size();) {
    Message& message = *messages_[place];
    if (message.all_sent) {
      if (message.log) message.log->enter(spent_now(message));
      ++place;
      continue;
    }
    while (!message.move && message.step < message.num_steps) {
      message.move = algorithm_->turn(message.shape, settings_.self, message.step).send;
      if (!message.move) ++message.step;
    }
    if (!message.move) {
      message.all_sent = true;
      any = true;
      continue;
    }
    if (message.log) message.log->enter(spent_now(message));
    const std::uint32_t block = message.move.block;
    if (bytes_under_way_ >= kWindowBytes || budget_ == 0 || !message.has_buffer ||
        (!is_root() && !message.received[block]))
      return any;
    Neighbor& neighbor = *find(message.move.peer);
    const Buffer* buffer = buffer_of(message, neighbor);
    if (is_over()) return true;
    if (buffer == nullptr || !has_credit(message, neighbor)) return any;
    const std::uint64_t start = block * message.block_bytes;
    const std::uint64_t length = std::min(message.block_bytes, message.bytes - start);
    const std::size_t part = std::min<std::uint64_t>(kPartBytes, length - message.sent);
    if (message.log && message.sent == 0) message.log->begin_sending(message.move);
    const std::uint64_t at = start + message.sent;
    message.sent += part;
    budget_ -= std::min(budget_, part);
    const bool is_last = message.sent == length;
    const std::size_t last_of = is_last && message.log ? message.log->all_posted() : 0;
    const bool is_nearly = message.has_early_credit && !is_last &&
                           message.sent + kLeadBytes >= length &&
                           message.sent + kLeadBytes < length + part;
    std::optional<std::uint32_t> told;
    if (is_last || is_nearly) told = is_nearly ? block | kNearlyHere : block;
    if (is_last) {
      if (message.uses_credit) ++edge(message, neighbor).num_sent;
      message.sent = 0;
      message.move = {};
      ++message.step;
    }
    put(message, neighbor, *buffer, at, part, told, last_of);
    any = true;
    if (is_over()) return true;
  }
  return any;
}

Spent GroupImpl::spent_now(Message& message) {
  const auto waits_for = [&] {
    if (!message.has_buffer) return Spent::setup;
    const std::uint32_t received =
        message.copied != nullptr ? message.copied->num_received() : message.num_received;
    const Spent block = received == 0 ? Spent::first_block : Spent::block;
    if (message.all_sent) return received < message.num_blocks ? block : Spent::other;
    if (!is_root() && !message.received[message.move.block]) return block;
    Neighbor& to = *find(message.move.peer);
    if (!to.buffers.contains(message.sequence)) return Spent::buffer;
    if (!has_credit(message, to)) return Spent::credit;
    return bytes_under_way_ < kWindowBytes ? Spent::posting : Spent::other;
  }();
  return waits_for != Spent::posting && message.num_puts > 0 ? Spent::sending : waits_for;
}

bool GroupImpl::is_done(const Message& message) const {
  if (!message.has_buffer || !message.all_sent || message.num_puts > 0) return false;
  if (message.copied == nullptr) return message.num_received == message.num_blocks;
  // Members below may still ask for packets of it.
  return message.copied->is_whole() &&
         least_with_children(~std::uint64_t{0}, &Neighbor::num_have) > message.sequence;
}

bool GroupImpl::complete_some() {
  bool any = false;
  for (;;) {
    const Message* next = message_of(num_here_);
    if (next == nullptr || !is_done(*next)) break;
    ++num_here_;
    any = true;
  }
  if (any) note_have();
  while (!messages_.empty() && messages_.front()->sequence < num_here_ &&
         (!settings_.delivery_all || messages_.front()->sequence < num_stable_)) {
    const std::unique_ptr<Message> message = std::move(messages_.front());
    messages_.pop_front();
    any = true;
    ++num_completed_;
    if (message->copied != nullptr) native_->drop_first();
    if (message->is_registered_here) deregister(message->data);
    for (Neighbor& neighbor : neighbors_) {
      neighbor.buffers.erase(message->sequence);
      neighbor.credits.erase(message->sequence);
    }
    // Without on_complete the program can only go by num_completed().
    if (!events_.on_complete) let_go(message->sequence);
    call_user([this, data = message->data, bytes = message->bytes, sequence = message->sequence,
               log = message->log] {
      if (log) events_.on_times(log->finish());
      if (events_.on_complete) {
        {
          // Before the call: that may hand the memory to a thread that posts it again.
          std::lock_guard guard(multicast_.lock());
          let_go(sequence);
        }
        events_.on_complete(data, bytes);
      }
      std::lock_guard guard(multicast_.lock());
      ++num_delivered_;
      note_all();
    });
  }
  if (uses_small_ && !is_root() && num_completed_ >= num_reported_taken_ + kTakenStep) {
    num_reported_taken_ = num_completed_;
    send_to(*find(0), CountMessage{{.kind = Kind::taken}, num_completed_});
  }
  note_all();
  return any;
}

}  // namespace weft::mcast
