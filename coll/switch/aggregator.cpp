// The data plane: contributions and results. The control plane is in aggregator_groups.cpp.
#include "coll/switch/aggregator_group.hpp"

namespace weft::innet {

void Aggregator::on_packet(const Address& from, std::span<const std::byte> bytes,
                           std::uint64_t now_ns) {
  ++counters_.packets;
  const auto packet = read_packet(bytes);
  if (!packet) {
    ++counters_.malformed;
    return;
  }
  const Header& header = packet->header;
  switch (header.kind) {
    case Kind::query:
      return on_query(from, *packet, now_ns);
    case Kind::query_reply:
      return on_query_reply(from, *packet, now_ns);
    case Kind::notify:
      return on_notify(from, *packet, now_ns);
    case Kind::kill:
      return on_kill(from, *packet);
    case Kind::status: {
      // The answer must not be longer than the request: a longer status text is cut.
      const std::string text = status_text();
      const auto room = std::min(text.size(), packet->payload.size());
      return answer(from, header, Kind::status_reply, Answer::ok,
                    std::as_bytes(std::span(text.data(), room)));
    }
    default:
      break;
  }
  const auto found = groups_.find(header.group);
  if (found == groups_.end()) {
    ++counters_.refused;
    if (header.kind == Kind::data || header.kind == Kind::renew)
      answer(from, header, Kind::refuse, Answer::no_group);
    return;
  }
  Group& group = *found->second;
  if (group.key != header.key) {
    ++counters_.forged;
    return;
  }
  if (group.branch.has_parent() && from == group.branch.parent().address) {
    if (header.epoch != group.epoch) return void(++counters_.stale);
    if (header.kind == Kind::notify_reply) return on_notify_reply(from, group, *packet);
    if (header.ticket != group.parent_ticket || group.parent_ticket == 0)
      return void(++counters_.stale);
    group.last_received_ns = now_ns;
    switch (header.kind) {
      case Kind::result:
        return on_result(group, *packet);
      case Kind::refuse:
        return on_parent_refuses(group, *packet);
      case Kind::wait:
        return on_parent_waits(group, *packet);
      default:
        return void(++counters_.refused);
    }
  }
  if (header.kind != Kind::data && header.kind != Kind::renew) return void(++counters_.refused);
  if (header.epoch != group.epoch || header.ticket != group.ticket) {
    ++counters_.stale;
    return answer(from, header, Kind::refuse, Answer::no_group);
  }
  const int child = header.child;
  if (child >= group.branch.num_children || !(group.bound >> child & 1) ||
      !(group.children[static_cast<std::size_t>(child)] == from)) {
    ++counters_.forged;
    return;
  }
  group.last_received_ns = now_ns;
  if (header.kind == Kind::renew) return on_renew(group, child);
  on_data(from, group, *packet);
}

void Aggregator::on_data(const Address& from, Group& group, const Packet& packet) {
  const Header& header = packet.header;
  const std::size_t bytes = packet.payload.size(), unit = element_bytes(header.element);
  if (group.is_broken) return answer(from, header, Kind::refuse, Answer::no_group);
  if (header.slot >= group.window || bytes == 0 || bytes > group.branch.payload_bytes ||
      header.operation == 0) {
    ++counters_.refused;
    return answer(from, header, Kind::refuse, Answer::bad_format);
  }
  const ReduceFunction reduce = find_reduce(header.element, header.arithmetic);
  if (reduce == nullptr || bytes % unit != 0 ||
      !(options_.elements >> static_cast<unsigned>(header.element) & 1) ||
      !(options_.operations >> static_cast<unsigned>(header.arithmetic) & 1)) {
    ++counters_.refused;
    return answer(from, header, Kind::refuse, Answer::unsupported);
  }
  Slot& slot = group.slots[header.slot];
  const std::uint64_t place = place_of(header);
  const std::uint64_t bit = std::uint64_t{1} << header.child;
  if (place != slot.place) {
    if (place == slot.kept_place) {
      ++counters_.duplicates;
      return send_result(group, header.child, slot, true);
    }
    if (place < slot.place) {
      ++counters_.stale;
      return;
    }
    if (slot.place != 0 && !slot.is_complete) {
      ++counters_.refused;
      return answer(from, header, Kind::refuse, Answer::out_of_step);
    }
    slot.begin(header, bytes);
  } else if (slot.is_complete) {
    ++counters_.duplicates;
    return send_result(group, header.child, slot, false);
  }
  if (slot.element != header.element || slot.arithmetic != header.arithmetic ||
      slot.bytes != bytes) {
    ++counters_.refused;
    return answer(from, header, Kind::refuse, Answer::mismatch);
  }
  if (slot.have & bit) {
    ++counters_.duplicates;
    if (slot.have != group.all_children()) return answer(from, header, Kind::wait, Answer::pending);
    return send_up(group, slot);
  }
  ++counters_.contributions;
  slot.have |= bit;
  const bool is_last = slot.have == group.all_children();
  if (group.branch.ordered && depends_on_order(slot.element, slot.arithmetic)) {
    std::memcpy(group.held(header.slot, header.child), packet.payload.data(), bytes);
    if (is_last) {
      std::memcpy(group.sum(header.slot), group.held(header.slot, 0), bytes);
      for (int child = 1; child < group.branch.num_children; ++child)
        reduce(group.held(header.slot, child), group.sum(header.slot), bytes / unit);
    }
  } else if (slot.have == bit) {
    std::memcpy(group.sum(header.slot), packet.payload.data(), bytes);
  } else {
    reduce(packet.payload.data(), group.sum(header.slot), bytes / unit);
  }
  if (!is_last) return;
  if (group.branch.has_parent()) return send_up(group, slot);
  complete(group, slot, {group.sum(header.slot), bytes});
}

void Aggregator::Slot::begin(const Header& header, std::size_t length) noexcept {
  // The last result becomes the kept one: the two buffers change roles.
  kept_place = place;
  kept_bytes = bytes;
  kept_element = element;
  kept_arithmetic = arithmetic;
  which ^= 1;
  place = place_of(header);
  number = header.slot;
  bytes = static_cast<std::uint16_t>(length);
  element = header.element;
  arithmetic = header.arithmetic;
  have = 0;
  is_complete = false;
}

void Aggregator::complete(Group& group, Slot& slot, std::span<const std::byte> result) {
  ++counters_.completed;
  if (result.data() != group.sum(slot.number))
    std::memcpy(group.sum(slot.number), result.data(), result.size());
  slot.is_complete = true;
  for (int child = 0; child < group.branch.num_children; ++child)
    send_result(group, child, slot, false);
}

void Aggregator::send_up(Group& group, Slot& slot) {
  Header header = group.header(Kind::data);
  header.ticket = group.parent_ticket;
  header.child = group.branch.parent().child;
  header.operation = static_cast<std::uint32_t>(slot.place >> 32);
  header.offset = static_cast<std::uint32_t>(slot.place);
  header.slot = slot.number;
  header.element = slot.element;
  header.arithmetic = slot.arithmetic;
  put(group.branch.parent().address, header, {group.sum(slot.number), slot.bytes});
}

void Aggregator::on_result(Group& group, const Packet& packet) {
  const Header& header = packet.header;
  if (header.slot >= group.window) return void(++counters_.refused);
  Slot& slot = group.slots[header.slot];
  // A result that this switch did not ask its parent for cannot be right.
  if (place_of(header) != slot.place || slot.is_complete || slot.have != group.all_children() ||
      header.element != slot.element || header.arithmetic != slot.arithmetic ||
      packet.payload.size() != slot.bytes)
    return void(++counters_.stale);
  complete(group, slot, packet.payload);
}

void Aggregator::on_parent_waits(Group& group, const Packet& packet) {
  const Header& header = packet.header;
  if (header.slot >= group.window) return void(++counters_.refused);
  const Slot& slot = group.slots[header.slot];
  if (place_of(header) != slot.place || slot.is_complete) return void(++counters_.stale);
  // Passed on to the hosts, so that they know that every switch up to the parent is alive.
  for (int child = 0; child < group.branch.num_children; ++child) {
    Header down = header;
    down.ticket = group.ticket;
    down.child = static_cast<std::uint8_t>(child);
    put(group.children[static_cast<std::size_t>(child)], down, {});
  }
}

void Aggregator::on_parent_refuses(Group& group, const Packet& packet) {
  const Header& header = packet.header;
  if (header.answer == Answer::no_group) group.is_broken = true;
  for (int child = 0; child < group.branch.num_children; ++child) {
    Header down = header;
    down.ticket = group.ticket;
    down.child = static_cast<std::uint8_t>(child);
    put(group.children[static_cast<std::size_t>(child)], down, {});
  }
}

void Aggregator::send_result(const Group& group, int child, const Slot& slot, bool previous) {
  const std::uint64_t place = previous ? slot.kept_place : slot.place;
  Header header = group.header(Kind::result);
  header.child = static_cast<std::uint8_t>(child);
  header.operation = static_cast<std::uint32_t>(place >> 32);
  header.offset = static_cast<std::uint32_t>(place);
  header.slot = slot.number;
  header.element = previous ? slot.kept_element : slot.element;
  header.arithmetic = previous ? slot.kept_arithmetic : slot.arithmetic;
  ++counters_.results_sent;
  put(group.children[static_cast<std::size_t>(child)], header,
      {previous ? group.kept(slot.number) : group.sum(slot.number),
       previous ? slot.kept_bytes : slot.bytes});
}

void Aggregator::answer(const Address& to, const Header& request, Kind kind, Answer answer) {
  this->answer(to, request, kind, answer, {});
}
void Aggregator::answer(const Address& to, const Header& request, Kind kind, Answer answer,
                        std::span<const std::byte> body) {
  Header header = request;
  header.kind = kind;
  header.answer = answer;
  put(to, header, body);
}

void Aggregator::put(const Address& to, const Header& header, std::span<const std::byte> payload) {
  const std::size_t bytes = write_packet(out_, header, payload);
  wire_.send(to, {out_.data(), bytes});
}

}  // namespace weft::innet
