#include "coll/offload/negotiation.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "base/log.hpp"
#include "base/wait.hpp"

namespace weft::offload {

using namespace innet;

namespace {

constexpr std::uint16_t kLeaseS = 60;
constexpr std::uint16_t kWindow = 64;  // the most packets of a group under way

// A leader's report to the other leaders after its query.
struct Reported {
  Address control, tor;
  std::uint64_t key = 0;
  std::uint32_t group = 0;
  std::int32_t is_open = 0;  // the leader has sockets
  std::int32_t answers = 0;
  std::uint32_t can_bytes = 0;
  std::array<std::byte, kQueryBytes> can{};
};

// A leader's report after its notify.
struct Granted {
  std::int32_t answer = 0;
  std::uint32_t window = 0;
};

}  // namespace

Negotiation::Negotiation(const Terms& terms, int self, GroupName& name, std::unique_ptr<Link>& link,
                         const Ready* ready)
    : terms_(terms),
      self_(self),
      name_(name),
      link_(link),
      ready_(ready != nullptr ? *ready : Ready()),
      step_(ready != nullptr ? 0 : 1) {}

Negotiation::Need Negotiation::advance() {
  switch (step_++) {
    case 0:
      return gather(ready_);
    case 1:
      return query();
    case 2:
      return report();
    case 3:
      return notify();
    case 4:
      return share_grant();
    case 5:
      return open_group();
    default:
      return Need::nothing;
  }
}

Negotiation::Need Negotiation::end(Status status) {
  status_ = std::move(status);
  step_ = 6;
  return Need::nothing;
}

template <class T>
Negotiation::Need Negotiation::gather(const T& mine) {
  blocks_.assign(terms_.leaders.size() * sizeof mine, std::byte{0});
  std::memcpy(blocks_.data() + static_cast<std::size_t>(self_) * sizeof mine, &mine, sizeof mine);
  return Need::gather;
}
template <class T>
std::vector<T> Negotiation::gathered() const {
  std::vector<T> all(terms_.leaders.size());
  std::memcpy(all.data(), blocks_.data(), blocks_.size());
  return all;
}

Negotiation::Need Negotiation::query() {
  if (!blocks_.empty()) {
    const auto all = gathered<Ready>();
    next_look_ = all[0].next_look;
    if (std::ranges::find(all, 0, &Ready::is_ready) != all.end()) return end(Code::again);
  }
  if (link_ != nullptr) link_->end_seeking();
  const Address& tor = terms_.leaders[static_cast<std::size_t>(self_)].tor;
  if (link_ == nullptr) {
    link_ = std::make_unique<Link>();
    if (const Status status = link_->open(tor); !status) {
      log_line(LogLevel::warn, -1, "offload: {}", status.text());
      link_.reset();
      return advance();
    }
  }
  HostPort host = link_->host_port();
  host.job = terms_.job;
  link_->enrolment().query(host, now_ns(), now_ns() + terms_.timeout_ns);
  return Need::enrolment;
}

Negotiation::Need Negotiation::report() {
  Reported mine;
  mine.tor = terms_.leaders[static_cast<std::size_t>(self_)].tor;
  if (link_ != nullptr) {
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
  return gather(mine);
}

Negotiation::Need Negotiation::notify() {
  const auto all = gathered<Reported>();
  std::vector<Report> reports;
  bool all_open = true;
  for (const Reported& one : all) {
    Report& report = reports.emplace_back();
    report.tor = one.tor;
    const auto can = decode_capabilities(
        std::span(one.can).first(std::min<std::size_t>(one.can_bytes, one.can.size())));
    report.answers = one.answers != 0 && can;
    if (can) report.can = *can;
    controls_.push_back(one.control);
    all_open = all_open && one.is_open != 0;
  }
  if (!all_open) return end({Code::no_memory, "a leader has no sockets"});
  tree_ = grow(reports, terms_.ordered);
  if (!tree_.refusal.empty()) return end({Code::unsupported, tree_.refusal});
  ++name_.epoch;
  // Only the first time: later the group keeps its name.
  if (name_.key == 0) {
    name_.key = all[0].key;
    name_.group = all[0].group;
  }
  const auto me = static_cast<std::size_t>(self_);
  Branch& branch = tree_.branches[me];
  branch.job = terms_.job;
  branch.window = kWindow;
  branch.lease_s = kLeaseS;
  Header header;
  header.group = name_.group;
  header.key = name_.key;
  header.epoch = name_.epoch;
  header.child = tree_.children[me];
  link_->enrolment().notify(header, branch, now_ns(), now_ns() + terms_.timeout_ns);
  return Need::enrolment;
}

Negotiation::Need Negotiation::share_grant() {
  return gather(
      Granted{static_cast<std::int32_t>(link_->enrolment().answer()), link_->enrolment().window()});
}

Negotiation::Need Negotiation::open_group() {
  const auto grants = gathered<Granted>();
  std::uint32_t window = kWindow;
  for (std::size_t i = 0; i < grants.size(); ++i) {
    if (grants[i].answer != 0)
      return end({Code::unsupported, fmt::format("the switch {}: {}", text(terms_.leaders[i].tor),
                                                 text(static_cast<Answer>(grants[i].answer)))});
    window = std::min(window, grants[i].window);
  }
  LeaderOptions options;
  options.group = name_.group;
  options.key = name_.key;
  options.epoch = name_.epoch;
  options.child = tree_.children[static_cast<std::size_t>(self_)];
  options.ticket = link_->enrolment().ticket();
  options.self = self_;
  options.num_leaders = static_cast<int>(terms_.leaders.size());
  options.window = static_cast<std::uint16_t>(window);
  options.payload_bytes = tree_.payload_bytes;
  options.silence_ns = terms_.timeout_ns;
  options.fixed = terms_.fixed;
  link_->set_leaders(std::move(controls_));
  link_->start(options, kLeaseS * std::uint64_t{1'000'000'000});
  summary_ =
      fmt::format("offload: {} leaders under {} switches", terms_.leaders.size(), tree_.levels[0]);
  if (tree_.levels.size() > 2) summary_ += fmt::format(", {} spines", tree_.levels[1]);
  if (tree_.levels.size() > 1) summary_ += " and the spine " + text(tree_.top);
  summary_ += fmt::format(", window {} packets of {} bytes", window, tree_.payload_bytes);
  return end({});
}

}  // namespace weft::offload
