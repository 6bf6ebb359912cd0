#include "coll/offload/offload.hpp"

#include <fmt/core.h>
#include <hwloc.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "base/log.hpp"
#include "base/wait.hpp"
#include "coll/links.hpp"
#include "coll/offload/model.hpp"
#include "coll/patience.hpp"

namespace weft::offload {

using namespace innet;

namespace {

// Longer vectors go piece by piece, so that what leaders keep has a bound.
constexpr std::size_t kPieceBytes = 1 << 20;
// Before the data that a leader publishes: a Code, so that its members hear of its failure.
constexpr std::size_t kStatusBytes = 16;
constexpr std::uint16_t kLeaseS = 60;
constexpr std::uint16_t kWindow = 64;  // packets of a group that may be under way at a time
// After the switch was lost, operations with these numbers and more, by powers of two, ask again.
constexpr std::uint32_t kFirstRetry = 64;

// What a member tells the others before anything else.
struct Whereabouts {
  Place place;
  std::int32_t is_known = 0;
};

// What a leader tells the other leaders after its query.
struct Reported {
  Address control, tor;
  std::uint64_t key = 0;
  std::uint32_t group = 0;
  std::int32_t is_open = 0;  // it has sockets
  std::int32_t answers = 0;
  std::uint32_t can_bytes = 0;
  std::array<std::byte, kQueryBytes> can;
};

// And after its notify.
struct Granted {
  std::int32_t answer = 0;
  std::uint32_t window = 0;
};

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

// Where this process is. False, and why in `error`: the settings do not say it right.
bool own_place(tagged::Engine& engine, Mode mode, Place& place, std::string& error) {
  const Settings& settings = engine.job().settings();
  const std::string& tor = settings.text(Setting::offload_switch);
  if (is_placement(tor)) {
    std::ifstream file(tor);
    std::ostringstream text;
    if (!file || !(text << file.rdbuf())) {
      error = fmt::format("cannot read WEFT_OFFLOAD_SWITCH={}", tor);
      return false;
    }
    std::vector<Place> places;
    if (!read_placement(text.str(), engine.size(), places, error)) {
      error = fmt::format("WEFT_OFFLOAD_SWITCH={}: {}", tor, error);
      return false;
    }
    place = places[coll::index(engine.rank())];
    return true;
  }
  place.node = engine.job().member(engine.rank()).first_on_host;
  place.socket = mode == Mode::socket ? own_socket() : 0;
  const auto address = parse_address(tor);
  if (!address) {
    error = tor.empty() ? "WEFT_OFFLOAD_SWITCH names no switch (ADDRESS:PORT)"
                        : fmt::format("WEFT_OFFLOAD_SWITCH={} is no ADDRESS:PORT", tor);
    return false;
  }
  place.tor = *address;
  return true;
}

}  // namespace

std::unique_ptr<Offload> Offload::make(coll::Team& team) {
  tagged::Engine& engine = team.engine();
  const Settings& settings = engine.job().settings();
  const std::string& wanted = settings.text(Setting::offload);
  const Mode mode = wanted == "node" ? Mode::node : wanted == "socket" ? Mode::socket : Mode::off;
  Whereabouts mine;
  std::string error = "WEFT_OFFLOAD is off";
  mine.is_known = mode != Mode::off && own_place(engine, mode, mine.place, error);
  if (!mine.is_known)
    log_line(LogLevel::warn, engine.rank(), "allreduce stays with the hosts: {}", error);
  std::vector<Whereabouts> all(coll::index(team.size()));
  if (!coll::allgather(team, &mine, all.data(), sizeof mine)) return nullptr;
  std::vector<Place> places;
  for (const Whereabouts& one : all) {
    if (!one.is_known) return nullptr;
    places.push_back(one.place);
  }
  std::unique_ptr<Offload> offload(new Offload(team, mode));
  offload->forced_ = settings.text(Setting::offload_when) == "force";
  offload->ordered_ = settings.text(Setting::offload_float) == "ordered";
  offload->arrange(std::move(places));
  if (offload->is_leader()) {
    if (const Status status = offload->negotiate(); !status && offload->leaders_->rank() == 0)
      log_line(LogLevel::warn, engine.rank(), "allreduce stays with the hosts: {}", status.text());
  }
  return offload;
}

void Offload::arrange(std::vector<Place> places) {
  const auto nodes = offload::lead(places, Mode::node);
  num_nodes_ = static_cast<int>(nodes.size());
  for (const auto& members : nodes)
    num_members_of_node_ = std::max(num_members_of_node_, static_cast<int>(members.size()));
  std::vector<int> leaders;
  for (const auto& members : offload::lead(places, mode_)) {
    leaders.push_back(team_.world(members[0]));
    leader_places_.push_back(places[coll::index(members[0])]);
    if (std::find(members.begin(), members.end(), team_.rank()) == members.end()) continue;
    std::vector<int> world;
    for (const int member : members) world.push_back(team_.world(member));
    // Messages of these teams are in order with the team's own: all are in the same call.
    node_ = std::make_unique<coll::Team>(team_.engine(), world, team_.context());
    node_->keep_to_hosts();
  }
  if (!is_leader()) return;
  // A member that dies far away is waited for in a switch, not in its messages.
  for (int member = 0; member < team_.size(); ++member)
    if (member != team_.rank()) team_.engine().watch(team_.world(member));
  leaders_ = std::make_unique<coll::Team>(team_.engine(), leaders, team_.context());
  leaders_->keep_to_hosts();
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

void Offload::close() {
  if (leaders_ != nullptr) (void)coll::barrier(*leaders_);
}

// Collective among the leaders. Whatever it ends with, all of them end with it.
Status Offload::negotiate() {
  const Settings& settings = team_.engine().job().settings();
  const auto timeout_ns =
      static_cast<std::uint64_t>(settings.number(Setting::offload_timeout_ms)) * 1'000'000;
  const int me = leaders_->rank();
  const auto advance = [&] {
    while (!link_->enrolment().is_over() && !team_.is_broken()) {
      link_->sleep(1);
      link_->advance_enrolment();
      team_.engine().progress();
    }
  };
  Reported mine;
  std::string why;
  if (link_ == nullptr) {
    link_ = std::make_unique<Link>();
    if (const Status status = link_->open(leader_places_[coll::index(me)].tor); !status) {
      log_line(LogLevel::warn, team_.engine().rank(), "offload: {}", status.text());
      link_.reset();
    }
  }
  mine.tor = leader_places_[coll::index(me)].tor;
  if (link_ != nullptr) {
    HostPort host;
    host.job = team_.context();
    link_->enrolment().query(host, now_ns(), now_ns() + timeout_ns);
    advance();
    const auto can = encode(link_->enrolment().can());
    mine.is_open = 1;
    mine.control = link_->address();
    mine.answers = link_->enrolment().answers();
    mine.can_bytes = static_cast<std::uint32_t>(can.size());
    std::copy(can.begin(), can.end(), mine.can.begin());
    std::random_device random;
    mine.group = random();
    mine.key = std::uint64_t{random()} << 32 | random();
  }
  std::vector<Reported> all(coll::index(leaders_->size()));
  WEFT_COLL_TRY(coll::allgather(*leaders_, &mine, all.data(), sizeof mine));
  std::vector<Report> reports;
  std::vector<Address> controls;
  bool all_open = true;
  for (const Reported& one : all) {
    Report& report = reports.emplace_back();
    report.tor = one.tor;
    const auto can = decode_capabilities(
        std::span(one.can).first(std::min<std::size_t>(one.can_bytes, one.can.size())));
    report.answers = one.answers != 0 && can;
    if (can) report.can = *can;
    controls.push_back(one.control);
    all_open = all_open && one.is_open != 0;
  }
  if (!all_open) return {Code::no_memory, "a leader has no sockets"};
  Tree tree = grow(reports, ordered_);
  if (!tree.refusal.empty()) return {Code::unsupported, tree.refusal};
  ++epoch_;
  // The first time: later the group stays what it was.
  if (key_ == 0) {
    key_ = all[0].key;
    group_ = all[0].group;
  }
  Branch& branch = tree.branches[coll::index(me)];
  branch.job = all[0].group;
  branch.window = kWindow;
  branch.lease_s = kLeaseS;
  LeaderOptions options;
  options.group = group_;
  options.key = key_;
  options.epoch = epoch_;
  options.child = tree.children[coll::index(me)];
  Header header;
  header.group = group_;
  header.key = key_;
  header.epoch = epoch_;
  header.child = options.child;
  link_->enrolment().notify(header, branch, now_ns(), now_ns() + timeout_ns);
  advance();
  Granted granted{static_cast<std::int32_t>(link_->enrolment().answer()),
                  link_->enrolment().window()};
  std::vector<Granted> grants(coll::index(leaders_->size()));
  WEFT_COLL_TRY(coll::allgather(*leaders_, &granted, grants.data(), sizeof granted));
  std::uint32_t window = branch.window;
  for (std::size_t i = 0; i < grants.size(); ++i) {
    if (grants[i].answer != 0)
      return {Code::unsupported, fmt::format("the switch {}: {}", text(reports[i].tor),
                                             text(static_cast<Answer>(grants[i].answer)))};
    window = std::min(window, grants[i].window);
  }
  options.ticket = link_->enrolment().ticket();
  options.self = me;
  options.num_leaders = leaders_->size();
  options.window = static_cast<std::uint16_t>(window);
  options.payload_bytes = tree.payload_bytes;
  options.silence_ns = timeout_ns;
  elements_ = tree.elements;
  operations_ = tree.operations;
  link_->set_leaders(std::move(controls));
  link_->start(options, kLeaseS * std::uint64_t{1'000'000'000});
  if (me == 0)
    log_line(LogLevel::info, team_.engine().rank(),
             "offload: {} leaders under {} switches{}, window {} packets of {} bytes",
             leaders_->size(), tree.num_tors,
             tree.spine.port == 0 ? std::string() : " and the spine " + text(tree.spine), window,
             tree.payload_bytes);
  return {};
}

bool Offload::takes(std::size_t bytes, const coll::Reduction& op) const noexcept {
  if (find_combine(op.element, op.operation) == nullptr ||
      element_bytes(op.element) != op.element_bytes)
    return false;
  return forced_ || offload_wins(mode_ == Mode::socket, {num_nodes_, num_members_of_node_, bytes});
}

Status Offload::allreduce(const void* send, void* receive, std::size_t count,
                          const coll::Reduction& op) {
  const void* input = send != nullptr ? send : receive;
  const std::size_t most = kPieceBytes / op.element_bytes;
  for (std::size_t first = 0; first < count; first += most) {
    const std::size_t offset = first * op.element_bytes;
    WEFT_COLL_TRY(piece(coll::at(input, offset), coll::at(receive, offset),
                        std::min(most, count - first), op));
  }
  return {};
}

Status Offload::piece(const void* input, void* receive, std::size_t count,
                      const coll::Reduction& op) {
  const std::size_t bytes = count * op.element_bytes;
  block_.resize(kStatusBytes + bytes);
  std::byte* data = block_.data() + kStatusBytes;
  Status status;
  if (node_->size() > 1)
    status = coll::reduce(*node_, input, data, count, op, 0);
  else
    std::memcpy(data, input, bytes);
  if (is_leader()) {
    if (status) status = lead({data, bytes}, op);
    block_[0] = static_cast<std::byte>(status.code());
  }
  if (node_->size() > 1) {
    const Status told = coll::bcast(*node_, block_.data(), block_.size(), 0);
    if (status && !told) status = told;
    if (status && block_[0] != std::byte{0}) status = static_cast<Code>(block_[0]);
  }
  if (status) std::memcpy(receive, data, bytes);
  return status;
}

// The leader's part. `data`: its node's sum, then the result.
Status Offload::lead(std::span<std::byte> data, const coll::Reduction& op) {
  std::vector<Address> tors;
  for (const Place& place : leader_places_) tors.push_back(place.tor);
  const auto by_messages = [&] {
    return sum_by_messages(*leaders_, data, op.element, op.operation, order_of_sums(tors));
  };
  if (!(elements_ >> static_cast<unsigned>(op.element) & 1) ||
      !(operations_ >> static_cast<unsigned>(op.operation) & 1))
    return by_messages();
  ++operation_;
  // Without sockets here there is no group, on no leader.
  bool by_hosts = link_ == nullptr;
  if (!by_hosts) {
    link_->begin(op.element, op.operation, data);
    WEFT_COLL_TRY(wait_for_leaders());
    by_hosts = link_->advance() == Leader::State::host;
  }
  if (by_hosts) {
    WEFT_COLL_TRY(by_messages());
    if (link_ != nullptr) link_->finish(data);
    // All leaders are here, as none can have this operation from the switch.
    if (operation_ < kFirstRetry || !std::has_single_bit(operation_)) return {};
    const Status status = negotiate();
    return status == Code::peer_lost ? status : Status();
  }
  std::memcpy(data.data(), link_->result().data(), data.size());
  return {};
}

// Until the operation is done, or the hosts' to do.
Status Offload::wait_for_leaders() {
  const Settings& settings = team_.engine().job().settings();
  const std::uint64_t begin = now_ns();
  const auto spin_ns = team_.engine().job().is_crowded()
                           ? std::uint64_t{0}
                           : static_cast<std::uint64_t>(settings.number(Setting::spin_us)) * 1000;
  const auto patience_ns =
      static_cast<std::uint64_t>(settings.number(Setting::peer_timeout_ms)) * 1'000'000;
  coll::Patience patience(team_);
  std::uint64_t asked_ns = 0;
  for (;;) {
    const Leader::State state = link_->advance();
    if (state == Leader::State::done || state == Leader::State::host) return {};
    // Others of this host may need this process for their messages.
    team_.engine().progress();
    const std::uint64_t now = now_ns();
    if (now - begin < spin_ns) continue;
    team_.engine().look_for_lost();
    if (patience.is_over()) return Code::peer_lost;
    if (state == Leader::State::recovering) {
      if (asked_ns == 0) asked_ns = now;
      const auto silent = link_->silent_leaders();
      if (!silent.empty() && now - asked_ns > patience_ns)
        return {Code::timed_out,
                fmt::format("{} does not answer, though it lives: do UDP packets get through?",
                            team_.engine().job().describe(leaders_->world(silent[0])))};
    }
    link_->sleep(1);
  }
}

}  // namespace weft::offload
