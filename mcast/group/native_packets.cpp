// Messages that the network copies, at receivers: packets that come, and those that do not.
//
// A packet goes straight to its place in the buffer. One that is missing while kReorder later ones
// are here, or that the root has marked as sent while nothing comes any more, is asked for at the
// parent in the tree, once, and comes by a put; a late datagram of it is dropped, so that nothing
// else writes to the buffer. The parent sends it on as soon as it has it. A member keeps a message
// until all members below it have it.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "mcast/group/group_impl.hpp"

namespace weft::mcast {

namespace {

constexpr std::uint64_t kReorder = 64;  // packets by which one may overtake another
// Marks travel by a connection, and may overtake packets: these are waited for as long as they
// come.
constexpr auto kQuiet = std::chrono::milliseconds(3);
constexpr std::uint32_t kReports = 8;        // in a window
constexpr int kMostAtOnce = 512;             // datagrams, before the other groups are served
constexpr std::uint32_t kMostAsked = 32768;  // packets, by one message
constexpr std::uint64_t kMostRunBytes = 64 << 10;

}  // namespace

Bytes GroupImpl::packet_of(const Message& message, std::uint32_t packet) {
  const std::uint64_t start = packet * message.block_bytes;
  return {message.data + start, std::min(message.block_bytes, message.bytes - start)};
}

bool GroupImpl::receive_packets(Clock::time_point now) {
  Native& native = *native_;
  const std::uint64_t before = native.num_sent;
  bool any = false;
  Bytes datagram;
  for (int i = 0; i < kMostAtOnce && native.channel->receive(datagram); ++i) {
    on_packet(datagram, now);
    any = true;
  }
  if (native.state == NativeState::probing && now >= native.probe_until)
    give_up_native({Code::unsupported, native.hears ? "a member below this one hears no datagram"
                                                    : "no datagram of the root comes here"});
  if (native.num_sent > before && native.num_sent > kReorder)
    look_for_lacks(native.num_sent - kReorder);
  if (native.mark > native.num_looked_at && now - native.last_heard > kQuiet) {
    native.num_sent = std::max(native.num_sent, native.mark);
    look_for_lacks(native.mark);
  }
  report_progress();
  return any;
}

// Whatever does not fit is somebody else's, or late, and is left alone.
void GroupImpl::on_packet(Bytes bytes, Clock::time_point now) {
  Native& native = *native_;
  PacketHead head;
  Bytes data;
  if (!read_message(bytes, head, data) || head.token != native.token) return;
  native.last_heard = now;
  if (head.packet == kProbe) {
    native.hears = true;
    return note_hearing();
  }
  Message* message = message_of(whole_sequence(head.sequence));
  if (message == nullptr || message->copied == nullptr || !message->has_buffer ||
      head.packet >= message->num_blocks)
    return;
  const Bytes place = packet_of(*message, head.packet);
  if (data.size() != place.size()) return;
  Copied& copied = *message->copied;
  native.window = head.window;
  native.num_sent = std::max(native.num_sent, copied.first + head.packet + 1);
  if (copied.here.has(head.packet) || copied.asked.has(head.packet)) return;
  std::memcpy(message->data + head.packet * message->block_bytes, data.data(), data.size());
  copied.here.add(head.packet);
  ++message->num_received;
}

void GroupImpl::look_for_lacks(std::uint64_t until) {
  Native& native = *native_;
  for (const auto& item : messages_) {
    if (item->copied == nullptr) continue;
    Copied& copied = *item->copied;
    if (copied.first >= until) return;
    if (copied.first + item->num_blocks <= native.num_looked_at) continue;
    if (!item->has_buffer) return;
    auto from =
        static_cast<std::uint32_t>(std::max(native.num_looked_at, copied.first) - copied.first);
    const auto to =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(until - copied.first, item->num_blocks));
    const auto is_missing = [&](std::uint32_t packet) {
      return !copied.here.has(packet) && !copied.asked.has(packet);
    };
    for (;;) {
      while (from < to && !is_missing(from)) ++from;
      if (from >= to) break;
      const std::uint32_t end = std::min(to, from + kMostAsked);
      std::vector<std::byte> bitmap((end - from + 7) / 8);
      for (std::uint32_t packet = from; packet < end; ++packet) {
        if (!is_missing(packet)) continue;
        copied.asked.add(packet);
        ++native.num_lost;
        bitmap[(packet - from) / 8] |= std::byte{1} << ((packet - from) % 8);
      }
      LackMessage message{{.kind = Kind::lack}, item->sequence, from, 0};
      message.text_bytes = static_cast<std::uint32_t>(bitmap.size());
      send_to(*find(parent_), message, bitmap);
      from = end;
    }
    native.num_looked_at = std::max(native.num_looked_at, copied.first + to);
  }
}

void GroupImpl::report_progress() {
  Native& native = *native_;
  const std::uint64_t least =
      least_with_children(std::min(native.num_sent, native.num_announced), &Neighbor::num_sent);
  std::uint64_t lost = native.num_lost;
  for (const Neighbor& neighbor : neighbors_)
    if (neighbor.is_child) lost = std::max(lost, neighbor.num_lost);
  const std::uint64_t step = std::max<std::uint32_t>(1, native.window / kReports);
  if (least < native.num_reported + step &&
      (least == native.num_reported || (least < native.num_announced && least < native.mark)))
    return;
  native.num_reported = least;
  send_to(*find(parent_), ProgressMessage{{.kind = Kind::progress}, least, lost});
}

void GroupImpl::note_hearing() {
  Native& native = *native_;
  if (is_root()) return multicast_.make_active(*this);
  if (native.has_reported_hearing || !native.hears) return;
  for (const Neighbor& neighbor : neighbors_)
    if (neighbor.is_child && !neighbor.has_heard) return;
  native.has_reported_hearing = true;
  native.state = NativeState::on;
  send_to(*find(parent_), Head{.kind = Kind::heard});
}

void GroupImpl::note_able() {
  if (native_ == nullptr || is_over()) return;
  Native& native = *native_;
  native.num_able = std::max(native.num_able, num_completed_);
  for (const Message* next; (next = message_of(native.num_able)) != nullptr && next->has_buffer;)
    ++native.num_able;
  const std::uint64_t least = least_with_children(native.num_able, &Neighbor::num_able);
  if (!has_copied(native.num_all_able, least)) return;
  native.num_all_able = least;
  if (is_root())
    multicast_.make_active(*this);
  else if (native.state != NativeState::off)
    send_to(*find(parent_), CountMessage{{.kind = Kind::able}, least});
}

// Of messages that the network does not copy nobody waits for these counts.
bool GroupImpl::has_copied(std::uint64_t from, std::uint64_t to) const {
  return std::ranges::any_of(messages_, [&](const auto& item) {
    return item->copied != nullptr && item->sequence >= from && item->sequence < to;
  });
}

// Repair.

void GroupImpl::on_lack(Neighbor& neighbor, const LackMessage& lack, Bytes bitmap) {
  Message* message = message_of(lack.sequence);
  const bool makes_sense = message != nullptr && message->copied != nullptr &&
                           neighbor.buffers.contains(lack.sequence) &&
                           bitmap.size() == lack.text_bytes && bitmap.size() <= kMostAsked / 8 &&
                           lack.first < message->num_blocks &&
                           (bitmap.size() + 7) / 8 <= (message->num_blocks + 63) / 64;
  if (!makes_sense)
    return fail(Code::corrupt, neighbor.rank,
                fmt::format("{} asks for packets of message {}, which is not expected",
                            name(neighbor.rank), lack.sequence));
  std::vector<PacketSet>& all = message->copied->wanted;
  if (all.empty()) all.resize(neighbors_.size());
  PacketSet& wanted = all[static_cast<std::size_t>(&neighbor - neighbors_.data())];
  if (wanted.bound() == 0) wanted = PacketSet(message->num_blocks);
  for (std::size_t bit = 0; bit < 8 * bitmap.size(); ++bit) {
    if ((bitmap[bit / 8] >> (bit % 8) & std::byte{1}) == std::byte{0}) continue;
    if (bit >= message->num_blocks - lack.first)
      return fail(
          Code::corrupt, neighbor.rank,
          fmt::format("{} asks for packet {} of message {}, which has {}", name(neighbor.rank),
                      lack.first + bit, lack.sequence, message->num_blocks));
    wanted.add(lack.first + static_cast<std::uint32_t>(bit));
  }
  multicast_.make_active(*this);
}

bool GroupImpl::repair(std::size_t& budget) {
  bool any = false;
  for (std::size_t place = 0; place < messages_.size(); ++place) {
    Message& message = *messages_[place];
    if (message.copied == nullptr || !message.has_buffer) continue;
    Copied& copied = *message.copied;
    const PacketSet* here = is_root() ? nullptr : &copied.here;
    for (std::size_t i = 0; i < copied.wanted.size(); ++i) {
      PacketSet& wanted = copied.wanted[i];
      while (wanted.count() > 0 && bytes_under_way_ < kWindowBytes && budget > 0) {
        const std::uint32_t first = wanted.next(0, here);
        if (first == wanted.bound()) break;
        const Buffer* buffer = buffer_of(message, neighbors_[i]);
        if (buffer == nullptr) return true;  // too small: the group has failed
        std::uint32_t run = 0;
        while (first + run < wanted.bound() && wanted.has(first + run) &&
               (here == nullptr || here->has(first + run)) && run < kMostRun &&
               (run == 0 || (run + 1) * message.block_bytes <= kMostRunBytes))
          wanted.remove(first + run++);
        const std::uint64_t at = first * message.block_bytes;
        const std::uint64_t bytes = std::min(run * message.block_bytes, message.bytes - at);
        budget -= std::min<std::uint64_t>(budget, bytes);
        put(message, neighbors_[i], *buffer, at, bytes, first | (run - 1) << (32 - kRunBits));
        any = true;
        if (is_over()) return true;
      }
    }
  }
  return any;
}

void GroupImpl::on_repair(const Neighbor& neighbor, Message& message, std::uint32_t block) {
  const std::uint32_t first = block & (kMostPackets - 1), run = (block >> (32 - kRunBits)) + 1;
  bool makes_sense = neighbor.rank == parent_ && message.has_buffer &&
                     std::uint64_t{first} + run <= message.num_blocks;
  Copied& copied = *message.copied;
  for (std::uint32_t packet = first; makes_sense && packet < first + run; ++packet)
    makes_sense = copied.asked.has(packet) && !copied.here.has(packet);
  if (!makes_sense)
    return fail(Code::corrupt, neighbor.rank,
                fmt::format("{} sends {} packets from {} on of message {}, which are not expected",
                            name(neighbor.rank), run, first, message.sequence));
  for (std::uint32_t packet = first; packet < first + run; ++packet) copied.here.add(packet);
  message.num_received += run;
  multicast_.make_active(*this);
}

}  // namespace weft::mcast
