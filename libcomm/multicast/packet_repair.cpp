// What receivers do: packets that come, and those that do not.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "multicast/packet_stream.hpp"

namespace weft::mcast {

namespace {

constexpr std::uint64_t kReorder = 64;  // packets by which one may overtake another
// Marks travel by a connection, and may overtake packets: these are waited for as long as they
// come.
constexpr auto kQuiet = std::chrono::milliseconds(3);
constexpr std::uint32_t kReports = 8;  // in a window
constexpr int kMostAtOnce = 512;       // datagrams, before the owner's other work
constexpr std::uint32_t kMostAsked = kMostLackBytes * 8;
constexpr std::uint64_t kMostRunBytes = 64 << 10;

}  // namespace

// Packets.

bool PacketStream::receive_packets(Clock::time_point now) {
  const std::uint64_t before = num_sent_;
  bool any = false;
  Bytes datagram;
  for (int i = 0; i < kMostAtOnce && channel_->receive(datagram); ++i) {
    on_packet(datagram, now);
    any = true;
  }
  if (state_ == State::probing && now >= probe_until_)
    turn_off({Code::unsupported, hears_ ? "a member below this one hears no datagram"
                                        : "no datagram of the root comes here"});
  if (num_sent_ > before && num_sent_ > kReorder) look_for_lacks(num_sent_ - kReorder);
  if (mark_ > num_looked_at_ && now - last_heard_ > kQuiet) {
    num_sent_ = std::max(num_sent_, mark_);
    look_for_lacks(mark_);
  }
  report_progress();
  return any;
}

PacketStream::Message* PacketStream::find_by_part(std::uint16_t sequence) {
  for (const auto& item : messages_)
    if (static_cast<std::uint16_t>(item->sequence_) == sequence) return item.get();
  return nullptr;
}

// Whatever does not fit is somebody else's, or late, and is left alone.
void PacketStream::on_packet(Bytes bytes, Clock::time_point now) {
  PacketHead head;
  if (bytes.size() < sizeof head) return;
  std::memcpy(&head, bytes.data(), sizeof head);
  const Bytes data = bytes.subspan(sizeof head);
  if (head.token != token_) return;
  last_heard_ = now;
  if (head.packet == kProbe) {
    hears_ = true;
    return note_hearing();
  }
  Message* message = find_by_part(head.sequence);
  if (message == nullptr || !message->has_buffer() || head.packet >= message->num_packets_) return;
  const Bytes place = message->packets(head.packet, 1);
  if (data.size() != place.size()) return;
  window_ = head.window;
  num_sent_ = std::max(num_sent_, message->first_ + head.packet + 1);
  if (message->here_.has(head.packet) || message->asked_.has(head.packet)) return;
  std::memcpy(message->data_ + (place.data() - message->data_), data.data(), data.size());
  message->here_.add(head.packet);
  ++message->num_received_;
}

void PacketStream::look_for_lacks(std::uint64_t until) {
  for (const auto& item : messages_) {
    Message& message = *item;
    if (message.first_ >= until) return;
    if (message.first_ + message.num_packets_ <= num_looked_at_) continue;
    if (!message.has_buffer()) return;
    auto from =
        static_cast<std::uint32_t>(std::max(num_looked_at_, message.first_) - message.first_);
    const auto to = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(until - message.first_, message.num_packets_));
    const auto is_missing = [&](std::uint32_t packet) {
      return !message.here_.has(packet) && !message.asked_.has(packet);
    };
    for (;;) {
      while (from < to && !is_missing(from)) ++from;
      if (from >= to) break;
      const std::uint32_t end = std::min(to, from + kMostAsked);
      std::vector<std::byte> bitmap((end - from + 7) / 8);
      for (std::uint32_t packet = from; packet < end; ++packet) {
        if (!is_missing(packet)) continue;
        message.asked_.add(packet);
        ++num_lost_;
        bitmap[(packet - from) / 8] |= std::byte{1} << ((packet - from) % 8);
      }
      tree_.send_lack(message.sequence_, from, bitmap);
      from = end;
    }
    num_looked_at_ = std::max(num_looked_at_, message.first_ + to);
  }
}

void PacketStream::report_progress() {
  const std::uint64_t least =
      least_with_children(std::min(num_sent_, num_announced_), &Child::num_sent);
  const std::uint64_t step = std::max<std::uint32_t>(1, window_ / kReports);
  if (least < num_reported_ + step &&
      (least == num_reported_ || (least < num_announced_ && least < mark_)))
    return;
  num_reported_ = least;
  tree_.send_progress(least, most_lost(num_lost_));
}

Status PacketStream::on_mark(std::uint64_t packets) {
  if (packets > num_announced_)
    return {Code::corrupt,
            fmt::format("says that {} packets are sent, of {}", packets, num_announced_)};
  tree_.send_mark(packets);
  mark_ = std::max(mark_, packets);
  last_heard_ = Clock::now();
  tree_.wake();
  return {};
}

void PacketStream::on_heard(std::size_t child) {
  children_[child].has_heard = true;
  note_hearing();
}

void PacketStream::note_hearing() {
  if (is_root_) return tree_.wake();
  if (has_reported_hearing_ || !hears_) return;
  if (std::ranges::find(children_, false, &Child::has_heard) != children_.end()) return;
  has_reported_hearing_ = true;
  state_ = State::on;
  tree_.send_heard();
}

// Repair.

Status PacketStream::on_lack(std::size_t child, std::uint64_t sequence, std::uint32_t first,
                             Bytes bitmap) {
  Message* message = find(sequence);
  if (message == nullptr || bitmap.size() > kMostLackBytes || first >= message->num_packets_ ||
      (bitmap.size() + 7) / 8 > (message->num_packets_ + 63) / 64)
    return {Code::corrupt,
            fmt::format("asks for packets of message {}, which is not expected", sequence)};
  if (message->wanted_.empty()) message->wanted_.resize(children_.size());
  PacketSet& wanted = message->wanted_[child];
  if (wanted.bound() == 0) wanted = PacketSet(message->num_packets_);
  for (std::size_t bit = 0; bit < 8 * bitmap.size(); ++bit) {
    if ((bitmap[bit / 8] >> (bit % 8) & std::byte{1}) == std::byte{0}) continue;
    if (bit >= message->num_packets_ - first)
      return {Code::corrupt, fmt::format("asks for packet {} of message {}, which has {}",
                                         first + bit, sequence, message->num_packets_)};
    wanted.add(first + static_cast<std::uint32_t>(bit));
  }
  tree_.wake();
  return {};
}

bool PacketStream::repair() {
  bool any = false;
  for (std::size_t place = 0; place < messages_.size(); ++place) {
    Message& message = *messages_[place];
    if (!message.has_buffer()) continue;
    const PacketSet* here = is_root_ ? nullptr : &message.here_;
    for (std::size_t child = 0; child < message.wanted_.size(); ++child) {
      PacketSet& wanted = message.wanted_[child];
      while (wanted.count() > 0) {
        const std::uint32_t first = wanted.next(0, here);
        if (first == wanted.bound()) break;
        std::uint32_t run = 1;
        while (first + run < wanted.bound() && wanted.has(first + run) &&
               (here == nullptr || here->has(first + run)) && run < kMostRun &&
               (std::uint64_t{run} + 1) * message.packet_bytes_ <= kMostRunBytes)
          ++run;
        if (!tree_.send_repair(child, message, first, run)) break;
        for (std::uint32_t packet = first; packet < first + run; ++packet) wanted.remove(packet);
        any = true;
      }
    }
  }
  return any;
}

std::span<std::byte> PacketStream::place_of_repair(std::uint64_t sequence, std::uint32_t first,
                                                   std::uint32_t count) {
  Message* message = find(sequence);
  if (message == nullptr || is_root_ || !message->has_buffer() || count == 0 ||
      std::uint64_t{first} + count > message->num_packets_)
    return {};
  for (std::uint32_t packet = first; packet < first + count; ++packet)
    if (!message->asked_.has(packet) || message->here_.has(packet)) return {};
  const Bytes place = message->packets(first, count);
  return {message->data_ + (place.data() - message->data_), place.size()};
}

Status PacketStream::on_repair(std::uint64_t sequence, std::uint32_t first, std::uint32_t count) {
  if (place_of_repair(sequence, first, count).empty())
    return {Code::corrupt, fmt::format("sends {} packets from {} on of message {}, which are not "
                                       "expected",
                                       count, first, sequence)};
  Message& message = *find(sequence);
  for (std::uint32_t packet = first; packet < first + count; ++packet) message.here_.add(packet);
  message.num_received_ += count;
  tree_.wake();
  return {};
}

}  // namespace weft::mcast
