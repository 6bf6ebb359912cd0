#include "coll/offload/offload.hpp"

#include <fmt/core.h>
#include <hwloc.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/log.hpp"
#include "base/wait.hpp"
#include "coll/algorithms/algorithms.hpp"
#include "coll/plan/links.hpp"
#include "coll/plan/loss_deadline.hpp"
#include "coll/plan/plan_run.hpp"

namespace weft::offload {

using namespace innet;

namespace {

// After the switch was lost, the leaders look about so often whether all of theirs are there again:
// each look is a small collective among them, so it is once in kMostBetween operations at most.
constexpr std::uint64_t kLookEveryNs = 20'000'000;
constexpr std::uint64_t kMostBetween = 64;
// The time from the loss to the first negotiation, and the longest between two that fail.
constexpr std::uint64_t kFirstWaitNs = 1'000'000'000, kLongestWaitNs = 60'000'000'000;

// The socket that this process is bound to; 0 if it may run on several.
int own_socket() {
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0) return 0;
  int socket = 0;
  hwloc_bitmap_t bound = hwloc_bitmap_alloc();
  if (bound != nullptr && hwloc_topology_load(topology) == 0 &&
      hwloc_get_cpubind(topology, bound, HWLOC_CPUBIND_PROCESS) == 0) {
    hwloc_obj_t package = nullptr;
    while ((package = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, package)) != nullptr)
      if (hwloc_bitmap_isincluded(bound, package->cpuset))
        socket = static_cast<int>(package->logical_index);
  }
  hwloc_bitmap_free(bound);
  hwloc_topology_destroy(topology);
  return socket;
}

// Finds the location of this process. Returns false, with the reason in `error`, if the settings
// are wrong.
bool find_location(tagged::Engine& engine, Mode mode, Location& location, std::string& error) {
  const Settings& settings = engine.job().settings();
  const std::string& tor = settings.text(Setting::offload_switch);
  if (is_placement(tor)) {
    std::ifstream file(tor);
    std::ostringstream text;
    if (!file || !(text << file.rdbuf())) {
      error = fmt::format("cannot read WEFT_OFFLOAD_SWITCH={}", tor);
      return false;
    }
    std::vector<Location> locations;
    if (!read_placement(text.str(), engine.size(), locations, error)) {
      error = fmt::format("WEFT_OFFLOAD_SWITCH={}: {}", tor, error);
      return false;
    }
    location = locations[coll::index(engine.rank())];
    return true;
  }
  location.node = engine.job().member(engine.rank()).first_on_host;
  location.socket = mode == Mode::socket ? own_socket() : 0;
  const auto address = find_switch(tor, error);
  if (!address) {
    error = tor.empty()
                ? "WEFT_OFFLOAD_SWITCH names no switch (ADDRESS:PORT, [IPV6]:PORT or NAME:PORT)"
                : fmt::format("WEFT_OFFLOAD_SWITCH: {}", error);
    return false;
  }
  location.tor = *address;
  return true;
}

}  // namespace

Offload::Offload(coll::Team& team) : team_(team) {
  const Settings& settings = team.engine().job().settings();
  mode_ = settings.text(Setting::offload) == "socket" ? Mode::socket : Mode::node;
  forced_ = settings.text(Setting::offload_when) == "force";
  lengths_ = lengths_of(settings.text(Setting::offload_when));
  terms_.ordered = settings.text(Setting::offload_float) == "ordered";
  terms_.fixed = settings.text(Setting::offload_float) == "fixed";
  terms_.timeout_ns = settings.ns(Setting::offload_timeout_ms);
  terms_.job = static_cast<std::uint32_t>(team.engine().job().id());
}

Offload::~Offload() {
  if (link_ == nullptr) return;
  link_->stop();
  const LeaderCounters c = link_->counters();
  log_line(LogLevel::info, -1,
           "offload: {} operations by the switch, {} fetched from other leaders, {} by hosts; {} "
           "packets sent, {} of them again, {} results received",
           c.operations, c.fetched, c.by_hosts, c.contributions, c.repeated, c.results);
}

bool Offload::close() {
  const auto is_idle = [this] {
    return turn_.load(std::memory_order_acquire) == next_turn_.load(std::memory_order_relaxed);
  };
  // Calls in the background may go on after their communicator is freed.
  team_.engine().wait_until(
      [&] { return is_idle() || broken_.load(std::memory_order_relaxed) || team_.is_broken(); });
  if (leaders_ != nullptr) (void)coll::barrier(*leaders_);
  return is_idle();
}

// One step of a wait: handles messages, and background operations of this process, for which others
// may wait.
void Offload::step() {
  int polls = 0;
  team_.engine().wait_until([&polls] { return polls++ > 0; });
}

void Offload::pass_turn() noexcept {
  tagged::Engine& engine =
      team_.engine();  // another thread may close this object once the turn has passed
  turn_.fetch_add(1, std::memory_order_release);
  engine.ring(engine.rank());
}

Offload::MemberLocation Offload::own_location() const {
  MemberLocation mine;
  std::string error;
  mine.is_known = find_location(team_.engine(), mode_, mine.location, error);
  if (!mine.is_known)
    log_line(LogLevel::warn, team_.engine().rank(), "allreduce stays with the hosts: {}", error);
  return mine;
}

void Offload::arrange(const std::vector<MemberLocation>& all) {
  std::vector<Location> locations;
  for (const MemberLocation& one : all) {
    if (!one.is_known) return;
    locations.push_back(one.location);
  }
  usable_ = true;
  if (const Mode fits = mode_that_fits(locations, mode_); fits != mode_) {
    if (team_.rank() == 0)
      log_line(LogLevel::info, team_.engine().rank(),
               "offload: one leader for each node, as more than {} sockets are under one switch",
               kMaxChildren);
    mode_ = fits;
  }
  const auto nodes = offload::lead(locations, Mode::node);
  num_nodes_ = static_cast<int>(nodes.size());
  // Nothing is gained by a switch at a single node, and asking costs as much as its calls do.
  if (num_nodes_ == 1 && !forced_ && !lengths_) return void(usable_ = false);
  for (const auto& members : nodes)
    num_members_of_node_ = std::max(num_members_of_node_, static_cast<int>(members.size()));
  std::vector<int> leaders;
  std::vector<Address> tors;
  for (const auto& members : offload::lead(locations, mode_)) {
    const auto self = std::find(members.begin(), members.end(), team_.rank());
    if (self == members.begin()) leader_rank_ = static_cast<int>(leaders.size());
    leader_members_.push_back(members[0]);
    leaders.push_back(team_.world(members[0]));
    terms_.leaders.push_back(locations[coll::index(members[0])]);
    tors.push_back(terms_.leaders.back().tor);
    if (self == members.end()) continue;
    node_members_ = members;
    node_rank_ = static_cast<int>(self - members.begin());
    std::vector<int> world;
    for (const int member : members) world.push_back(team_.world(member));
    // Messages of these teams are in order with the team's own: all are in the same call.
    node_ = coll::Team::part_of(team_, world);
  }
  order_ = order_of_sums(tors);
  if (!is_leader()) return;
  // The engine watches all members: a leader in a switch exchanges no messages with those far away.
  for (int member = 0; member < team_.size(); ++member)
    if (member != team_.rank()) team_.engine().watch(team_.world(member));
  leaders_ = coll::Team::part_of(team_, leaders);
}

void Offload::use(const Negotiation& negotiation) {
  next_look_ = negotiation.next_look();
  if (negotiation.status() == Code::again) return;
  if (const Status& status = negotiation.status(); !status) {
    wait_ns_ = std::clamp(2 * wait_ns_, kFirstWaitNs, kLongestWaitNs);
    not_before_ns_ = now_ns() + wait_ns_;
    if (leader_rank_ == 0 && !is_made())
      log_line(LogLevel::warn, team_.engine().rank(), "allreduce stays with the hosts: {}",
               status.text());
    return;
  }
  wait_ns_ = not_before_ns_ = 0;
  num_levels_ = negotiation.num_levels();
  order_ = negotiation.order();
  elements_ = negotiation.elements();
  operations_ = negotiation.operations();
  link_->number_from(operation_);
  if (leader_rank_ == 0)
    log_line(LogLevel::info, team_.engine().rank(), "{}", negotiation.summary());
}

bool Offload::enter(const Call& call) {
  // The first call finds out what the switches can.
  const bool is_first = !is_made();
  if (!is_first && !choose(call)) return false;
  const std::uint64_t turn = take_turn();
  if (!is_turn(turn)) {
    coll::LossDeadline deadline(team_);
    team_.engine().wait_until([&] {
      return is_turn(turn) || broken_.load(std::memory_order_relaxed) || deadline.has_passed();
    });
    // The others may be in the call: their calls end as this one's will, for the same reason.
    if (!is_turn(turn)) return false;
  }
  // A leader that cannot go on informs its members.
  if (!is_made()) (void)make();
  if (!is_made()) {
    // A member is lost, as the call itself will find.
    pass_turn();
    return false;
  }
  if (!is_first || choose(call)) return true;
  pass_turn();
  return false;
}

// Collective over the team: exchanges the members' locations and makes the group, if a switch
// accepts it.
Status Offload::make() {
  const MemberLocation mine = own_location();
  std::vector<MemberLocation> all(coll::index(team_.size()));
  WEFT_COLL_TRY(coll::allgather_by_hosts(team_, &mine, all.data(), sizeof mine));
  arrange(all);
  Status status;
  if (usable_ && is_leader()) status = negotiate();
  made_.store(true, std::memory_order_release);
  return status;
}

// Collective among the leaders. Fails only if one of them is lost.
Status Offload::negotiate(const Ready* ready) {
  Negotiation negotiation(terms_, leader_rank_, name_, link_, ready);
  for (;;) switch (negotiation.advance()) {
      case Negotiation::Need::gather:
        WEFT_COLL_TRY(coll::allgather(*leaders_, nullptr, negotiation.blocks().data(),
                                      negotiation.block_bytes()));
        break;
      case Negotiation::Need::enrolment:
        while (!link_->enrolment().is_over() && !team_.is_broken()) {
          link_->sleep(1);
          link_->advance_enrolment();
          step();
        }
        break;
      case Negotiation::Need::nothing:
        use(negotiation);
        return {};
    }
}

Status Offload::run(const Call& call) {
  const std::size_t most = kPieceBytes / call.op.element_bytes;
  Status status;
  for (std::size_t first = 0; first < call.count && status; first += most)
    status = piece(call, first, std::min(most, call.count - first));
  pass_turn();
  return status;
}

Status Offload::piece(const Call& call, std::size_t first, std::size_t count) {
  const std::size_t begin = first * call.op.element_bytes, bytes = count * call.op.element_bytes;
  block_.resize(kStatusBytes + bytes);
  const std::span data = std::span(block_).subspan(kStatusBytes);
  Status status;
  if (node_->size() > 1)
    status = coll::reduce(*node_, piece_of(call.given, begin, bytes, given_), data.data(), count,
                          call.op, 0);
  else
    write_piece(call.given, begin, data);
  if (is_leader()) {
    if (status) status = lead(data, call.op);
    block_[0] = static_cast<std::byte>(status.code());
  }
  if (node_->size() > 1) {
    const Status published = coll::bcast(*node_, block_.data(), block_.size(), 0);
    if (status && !published) status = published;
    if (status && block_[0] != std::byte{0}) status = static_cast<Code>(block_[0]);
  }
  if (status) keep_piece(call.kept, begin, data);
  return status;
}

bool Offload::count_operation(const coll::Reduction& op) noexcept {
  const bool is_fixed =
      terms_.fixed && op.element == Element::f32 && op.operation == Operation::sum;
  const Element element = is_fixed ? Element::fixed : op.element;
  if (!(elements_ >> static_cast<unsigned>(element) & 1) ||
      !(operations_ >> static_cast<unsigned>(op.operation) & 1)) {
    say(Refusal::switches, op);
    return false;
  }
  ++operation_;
  return true;
}

Ready Offload::ready() {
  const std::uint64_t now = now_ns();
  Ready ready;
  if (link_ != nullptr && !link_->is_frozen()) {
    not_before_ns_ = 0;
  } else {
    if (not_before_ns_ == 0) not_before_ns_ = now + kFirstWaitNs;
    if (link_ != nullptr) link_->seek(num_levels_);
    ready.is_ready = now >= not_before_ns_ && (link_ == nullptr || link_->is_found());
  }
  const std::uint64_t passed = std::max<std::uint64_t>(1, now - last_look_ns_);
  const std::uint64_t rate = (operation_ - last_look_) * kLookEveryNs / passed;
  ready.next_look =
      operation_ + static_cast<std::uint32_t>(std::clamp<std::uint64_t>(rate, 1, kMostBetween));
  last_look_ = operation_;
  last_look_ns_ = now;
  return ready;
}

// The leader's part. `data`: its node's sum, then the result.
Status Offload::lead(std::span<std::byte> data, const coll::Reduction& op) {
  const bool counts = count_operation(op);
  // If one leader has no sockets, there is no group on any leader.
  const bool by_switch = counts && link_ != nullptr;
  if (by_switch) {
    link_->begin(op.element, op.operation, data);
    WEFT_COLL_TRY(wait_for_leaders());
    if (link_->advance() != Leader::State::host) {
      std::memcpy(data.data(), link_->result().data(), data.size());
      return {};
    }
  }
  const SumOp sum(op.element, op.operation);
  WEFT_COLL_TRY(coll::run_steps(*leaders_, coll::Collective::allreduce, {nullptr, data.data()},
                                &sum.reduction(), [&](coll::Plan& plan, const coll::Group& group) {
                                  const std::size_t unit = element_bytes(op.element);
                                  write_sum_steps(plan, group, data.size() / unit, unit, order_);
                                }));
  if (by_switch) link_->finish(data);
  // All leaders are here, as none can have this operation from the switch.
  if (!counts || !is_time_to_look()) return {};
  const Ready ready = this->ready();
  return negotiate(&ready);
}

Status Offload::overdue(std::uint64_t& asked_ns) {
  const Settings& settings = team_.engine().job().settings();
  const auto deadline_ns = settings.ns(Setting::peer_timeout_ms);
  const std::uint64_t now = now_ns();
  if (asked_ns == 0) asked_ns = now;
  if (now - asked_ns <= deadline_ns) return {};
  const auto silent = link_->silent_leaders();
  if (silent.empty()) return {};
  return {Code::timed_out,
          fmt::format("{} does not answer, though it lives: do UDP packets get through?",
                      team_.engine().job().describe(leaders_->world(silent[0])))};
}

// Waits until the operation is complete, or left to the hosts.
Status Offload::wait_for_leaders() {
  const Settings& settings = team_.engine().job().settings();
  const std::uint64_t begin = now_ns();
  const auto spin_ns =
      team_.engine().job().is_crowded() ? std::uint64_t{0} : settings.ns(Setting::spin_us);
  coll::LossDeadline deadline(team_);
  std::uint64_t asked_ns = 0;
  for (;;) {
    const Leader::State state = link_->advance();
    if (state == Leader::State::done || state == Leader::State::host) return {};
    step();
    if (now_ns() - begin < spin_ns) continue;
    team_.engine().check_for_lost();
    if (deadline.has_passed()) return Code::peer_lost;
    if (state == Leader::State::recovering) WEFT_COLL_TRY(overdue(asked_ns));
    link_->sleep(1);
  }
}

}  // namespace weft::offload
