// The control plane: the switch's capabilities, and the making, renewal and end of groups.
#include <fmt/core.h>

#include <algorithm>

#include "coll/switch/aggregator_group.hpp"

namespace weft::innet {

namespace {
// A spine counts as present for this time after its answer.
constexpr std::uint64_t kAnswerHoldsNs = 1'000'000'000;
// Queries are passed on no more often: hosts repeat theirs half as often.
constexpr std::uint64_t kPassOnEveryNs = 5'000'000;
}  // namespace

Aggregator::Aggregator(AggregatorOptions options, Wire& wire)
    : options_(std::move(options)),
      wire_(wire),
      random_(options_.seed != 0 ? options_.seed : std::random_device{}()) {
  if (options_.spines.size() > kMaxSpines) options_.spines.resize(kMaxSpines);
  for (const Address& spine : options_.spines) spines_.emplace_back().address = spine;
  spines_answered_ns_.resize(spines_.size());
  above_spines_.resize(spines_.size());
}
Aggregator::~Aggregator() = default;

std::size_t Aggregator::group_bytes(const Branch& branch, int num_children) noexcept {
  Group group;
  group.branch = branch;
  group.branch.num_children = static_cast<std::uint8_t>(num_children);
  return branch.window * (group.rows_per_slot() * group.row() + sizeof(Slot));
}

void Aggregator::on_query(const Address& from, const Packet& packet, std::uint64_t now_ns) {
  ++counters_.queries;
  if (packet.payload.size() != kQueryBytes) return void(++counters_.malformed);
  // A spine's answer is for this switch, and no packet waits for it: the host repeats its query. A
  // query counts the switches that it has passed, so that it ends where they lead in a circle. One
  // would be 72 to eight spines that have eight switches above each: many hosts' are passed on
  // once.
  const std::size_t passed = packet.header.slot;
  if (passed < kMaxAbove &&
      (passed_on_ns_[passed] == 0 || now_ns - passed_on_ns_[passed] >= kPassOnEveryNs)) {
    passed_on_ns_[passed] = now_ns;
    Header header;
    header.kind = Kind::query;
    header.slot = static_cast<std::uint16_t>(passed + 1);
    for (const Address& spine : options_.spines) put(spine, header, packet.payload);
  }
  Capabilities body;
  body.role = options_.is_spine ? 1 : 0;
  body.features = options_.features;
  body.elements = options_.elements;
  body.operations = options_.operations;
  body.payload_bytes = options_.payload_bytes;
  body.max_children = options_.max_children;
  body.groups = options_.max_groups;
  body.slots = options_.max_slots;
  body.free_groups = options_.max_groups - static_cast<std::uint32_t>(groups_.size());
  body.free_slots = options_.max_slots - used_slots_;
  body.spines = spines_;
  for (std::size_t i = 0; i < spines_.size(); ++i) {
    const bool answers = spines_[i].answers && now_ns <= spines_answered_ns_[i] + kAnswerHoldsNs;
    body.spines[i].answers = answers;
    if (!answers) continue;
    for (const Capabilities::Spine& one : above_spines_[i]) {
      if (body.spines.size() == kMaxKnown) break;
      body.spines.push_back(one);
      body.spines.back().below = static_cast<std::uint8_t>(i + 1);
    }
  }
  answer(from, packet.header, Kind::query_reply, Answer::ok, encode(body));
}

void Aggregator::on_query_reply(const Address& from, const Packet& packet, std::uint64_t now_ns) {
  for (std::size_t i = 0; i < spines_.size(); ++i) {
    auto& spine = spines_[i];
    if (!(spine.address == from)) continue;
    const auto body = decode_capabilities(packet.payload);
    if (!body) return void(++counters_.malformed);
    spine.answers = true;
    spines_answered_ns_[i] = now_ns;
    spine.elements = body->elements;
    spine.operations = body->operations;
    spine.payload_bytes = body->payload_bytes;
    spine.max_children = body->max_children;
    spine.free_groups = body->free_groups;
    spine.features = body->features;
    above_spines_[i] = body->spines;
    std::erase_if(above_spines_[i], [](const auto& one) { return one.below != 0; });
    return;
  }
  ++counters_.refused;
}

Answer Aggregator::make_group(const Header& header, const Branch& branch) {
  if (branch.ordered && !(options_.features & kFeatureOrdered)) return Answer::unsupported;
  if (branch.payload_bytes > options_.payload_bytes || branch.num_children > options_.max_children)
    return Answer::unsupported;
  if (branch.has_parent() && std::find(options_.spines.begin(), options_.spines.end(),
                                       branch.parent().address) == options_.spines.end())
    return Answer::unsupported;
  if (groups_.size() >= options_.max_groups) return Answer::table_full;
  const auto quota = slots_of_job_.find(branch.job);
  const std::uint32_t used = quota == slots_of_job_.end() ? 0 : quota->second;
  const std::uint32_t window =
      std::min({std::uint32_t{branch.window}, std::uint32_t{options_.max_window},
                options_.slots_per_job - std::min(used, options_.slots_per_job),
                options_.max_slots - used_slots_});
  if (window == 0) return Answer::table_full;
  auto group = std::make_unique<Group>();
  group->number = header.group;
  group->key = header.key;
  group->epoch = header.epoch;
  group->branch = branch;
  group->window = static_cast<std::uint16_t>(window);
  do group->ticket = static_cast<std::uint32_t>(random_());
  while (group->ticket == 0);
  group->slots.resize(window);
  for (std::uint32_t i = 0; i < window; ++i) group->slots[i].number = static_cast<std::uint16_t>(i);
  group->memory = std::make_unique<std::byte[]>(window * group->rows_per_slot() * group->row());
  slots_of_job_[branch.job] += window;
  used_slots_ += window;
  groups_[header.group] = std::move(group);
  return Answer::ok;
}

void Aggregator::drop_group(std::uint32_t number) {
  const auto found = groups_.find(number);
  if (found == groups_.end()) return;
  const Group& group = *found->second;
  used_slots_ -= group.window;
  const auto quota = slots_of_job_.find(group.branch.job);
  quota->second -= group.window;
  if (quota->second == 0) slots_of_job_.erase(quota);
  groups_.erase(found);
}

void Aggregator::on_notify(const Address& from, const Packet& packet, std::uint64_t now_ns) {
  const Header& header = packet.header;
  const auto refuse = [&](Answer why) {
    ++counters_.refused;
    answer(from, header, Kind::notify_reply, why);
  };
  const auto branch = decode_branch(packet.payload);
  if (!branch || header.child >= branch->num_children) return refuse(Answer::bad_format);
  auto found = groups_.find(header.group);
  if (found != groups_.end() && found->second->key == header.key &&
      static_cast<std::int16_t>(header.epoch - found->second->epoch) > 0) {
    // The hosts agreed to make the group anew. The new group notifies the parent.
    drop_group(header.group);
    found = groups_.end();
  }
  if (found == groups_.end()) {
    const Answer made = make_group(header, *branch);
    if (made != Answer::ok) return refuse(made);
    found = groups_.find(header.group);
  }
  Group& group = *found->second;
  if (group.key != header.key) return refuse(Answer::conflict);
  if (group.epoch != header.epoch) return void(++counters_.stale);
  if (!(group.branch == *branch)) return refuse(Answer::conflict);
  const auto child = static_cast<std::size_t>(header.child);
  if (group.bound >> child & 1) {
    if (!(group.children[child] == from)) return refuse(Answer::conflict);
  } else {
    group.children[child] = from;
    group.bound |= std::uint64_t{1} << child;
  }
  group.last_received_ns = now_ns;
  if (group.bound == group.all_children() && group.branch.has_parent() &&
      group.parent_ticket == 0) {
    Branch above = group.branch;
    above.num_children = branch->parent().num_children;
    above.window = branch->window;
    std::shift_left(above.above.begin(), above.above.end(), 1);
    above.above.back() = {};
    --above.num_above;
    send_to_parent(group, Kind::notify, encode(above));
  }
  Header reply = header;
  reply.kind = Kind::notify_reply;
  reply.ticket = group.ticket;
  reply.answer = group.is_ready() ? Answer::ok : Answer::pending;
  const Grant grant{group.branch.has_parent() ? std::min(group.window, group.parent_window)
                                              : group.window};
  put(from, reply, encode(grant));
}

void Aggregator::on_notify_reply(const Address&, Group& group, const Packet& packet) {
  const Header& header = packet.header;
  if (header.answer == Answer::pending)
    return;  // the children repeat their requests, and so does this switch
  if (header.answer != Answer::ok) {
    // Inform the hosts at once, so that none waits.
    for (std::size_t child = 0; child < group.branch.num_children; ++child) {
      if (!(group.bound >> child & 1)) continue;
      Header down = group.header(Kind::notify_reply);
      down.child = static_cast<std::uint8_t>(child);
      down.answer = header.answer;
      put(group.children[child], down, {});
    }
    return;
  }
  const auto grant = decode_grant(packet.payload);
  if (!grant || grant->window == 0 || header.ticket == 0) return void(++counters_.malformed);
  if (group.parent_ticket != 0) return;
  group.parent_ticket = header.ticket;
  group.parent_window = grant->window;
}

void Aggregator::send_to_parent(Group& group, Kind kind, std::span<const std::byte> body) {
  Header header = group.header(kind);
  header.ticket = group.parent_ticket;
  header.child = group.branch.parent().child;
  put(group.branch.parent().address, header, body);
}

void Aggregator::on_renew(Group& group, int child) {
  if (group.branch.has_parent()) send_to_parent(group, Kind::renew, {});
  Header header = group.header(Kind::wait);
  header.child = static_cast<std::uint8_t>(child);
  put(group.children[static_cast<std::size_t>(child)], header, {});
}

void Aggregator::on_kill(const Address& from, const Packet& packet) {
  const Header& header = packet.header;
  const auto found = groups_.find(header.group);
  if (found != groups_.end()) {
    Group& group = *found->second;
    if (group.key != header.key) return void(++counters_.forged);
    if (header.child >= group.branch.num_children || !(group.children[header.child] == from))
      return void(++counters_.forged);
    if (header.epoch != group.epoch) return void(++counters_.stale);
    group.killed |= std::uint64_t{1} << header.child;
    // Until all children have sent a kill, one of them may still ask for the last result.
    if (group.killed == group.all_children()) {
      if (group.branch.has_parent()) send_to_parent(group, Kind::kill, {});
      drop_group(header.group);
    }
  }
  answer(from, header, Kind::kill_reply, Answer::ok);
}

void Aggregator::expire(std::uint64_t now_ns) {
  std::vector<std::uint32_t> over;
  for (const auto& [number, group] : groups_)
    if (now_ns > group->last_received_ns + group->branch.lease_s * std::uint64_t{1'000'000'000})
      over.push_back(number);
  for (const std::uint32_t number : over) {
    ++counters_.expired_groups;
    drop_group(number);
  }
}

std::string Aggregator::status_text() const {
  const Counters& c = counters_;
  return fmt::format(
      "role {}\ngroups {} of {}\nslots {} of {}\nchildren {} a group\npayload_bytes {}\npackets "
      "{}\nqueries {}\n"
      "contributions {}\nduplicates {}\ncompleted {}\nresults_sent {}\nstale {}\nrefused {}\n"
      "forged {}\nmalformed {}\nexpired_groups {}\n",
      options_.is_spine ? "spine" : "tor", groups_.size(), options_.max_groups, used_slots_,
      options_.max_slots, options_.max_children, options_.payload_bytes, c.packets, c.queries,
      c.contributions, c.duplicates, c.completed, c.results_sent, c.stale, c.refused, c.forged,
      c.malformed, c.expired_groups);
}

}  // namespace weft::innet
