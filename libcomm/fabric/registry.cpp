#include "fabric/registry.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "base/log.hpp"
#include "fabric/shm/shm_fabric.hpp"
#ifdef WEFT_HAVE_VERBS
#include "fabric/verbs/device.hpp"
#endif
#ifdef WEFT_HAVE_OFI
#include "fabric/ofi/endpoint.hpp"
#endif

namespace weft {
namespace {

constexpr std::string_view kListKey = "fabric.list";
constexpr std::string_view kNames[] = {"shm", "verbs", "ofi", "loopback"};
static_assert(std::size(kNames) == 1 + kNumRemoteFabrics);

[[maybe_unused]] Status not_built(Members&, Fabric&, To, std::unique_ptr<Fabric>&) {
  return {Code::unsupported, "not in this build"};
}

}  // namespace

const std::vector<FabricRow>& remote_fabrics() {
  static const std::vector<FabricRow> rows = {
#ifdef WEFT_HAVE_VERBS
      {kNames[1], make_verbs_fabric},
#else
      {kNames[1], not_built},
#endif
#ifdef WEFT_HAVE_OFI
      {kNames[2], make_ofi_fabric},
#else
      {kNames[2], not_built},
#endif
      {kNames[3], make_loopback_fabric},
  };
  return rows;
}

std::string fabrics_text([[maybe_unused]] const Settings& settings) {
  std::string text = shm_text();
#ifdef WEFT_HAVE_VERBS
  text += verbs::ports_text();
#else
  text += "  verbs: not in this build\n";
#endif
#ifdef WEFT_HAVE_OFI
  text += ofi::describe(settings);
#else
  text += "  ofi: not in this build\n";
#endif
  return text;
}

bool fabric_allowed(const Settings& settings, std::string_view name) {
  return list_has(settings.text(Setting::fabric), name);
}

Status check_fabric_setting(const Settings& settings) {
  std::string_view rest = settings.text(Setting::fabric);
  for (;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view name = rest.substr(0, comma);
    bool known = false;
    for (const std::string_view other : kNames) known = known || other == name;
    if (!known)
      return {Code::bad_setting, fmt::format("WEFT_FABRIC={}: '{}' is no fabric; there are shm, "
                                             "verbs and ofi, separated by commas",
                                             settings.text(Setting::fabric), name)};
    if (comma == std::string_view::npos) return {};
    rest.remove_prefix(comma + 1);
  }
}

Fabrics::~Fabrics() {
  for (Fabric* fabric : remote()) fabric->set_watcher(nullptr);
  watcher_.reset();
  to_strangers_.clear();
  others_.clear();
}

Status Fabrics::open(Members& job, std::unique_ptr<Fabrics>& fabrics) {
  std::unique_ptr<Fabrics> made(new Fabrics(job));
  if (Status status = made->start(); !status) return status;
  fabrics = std::move(made);
  return {};
}

Status Fabrics::start() {
  if (Status status = check_fabric_setting(job_.settings()); !status) return status;
  if (Status status = make_shm_fabric(job_, local_); !status) return status;
  to_.assign(static_cast<std::size_t>(job_.size()), nullptr);
  for (const int rank : job_.local_ranks()) to_[static_cast<std::size_t>(rank)] = local_.get();
  // The same on every process: all know who is where.
  if (static_cast<int>(job_.local_ranks().size()) == job_.size()) return {};

  std::string list = "shm (inside a host)";
  for (const FabricRow& row : remote_fabrics()) {
    if (!fabric_allowed(job_.settings(), row.name)) {
      // Who did not ask for the others does not miss them.
      if (row.name == "verbs" || row.name == "ofi")
        list += fmt::format("; not {} (WEFT_FABRIC)", row.name);
      continue;
    }
    std::unique_ptr<Fabric> fabric;
    if (Status status = row.make(job_, *local_, To::members, fabric); !status) {
      list += fmt::format("; not {} ({})", row.name, status.text());
      log_line(LogLevel::info, job_.rank(), "no {} here: {}", row.name, status.text());
      continue;
    }
    list += fmt::format("; {}", row.name);
    others_.push_back(std::move(fabric));
  }
  if (Status status = job_.board().put(kListKey, list); !status) return status;
  if (Status status =
          job_.board().fence(static_cast<int>(job_.settings().number(Setting::start_timeout_ms)));
      !status)
    return status;
  std::string ways = fmt::format("shm to {} of this host", job_.local_ranks().size() - 1);
  for (const auto& fabric : others_) {
    int num_ranks = 0;
    for (int rank = 0; rank < job_.size(); ++rank) {
      Fabric*& way = to_[static_cast<std::size_t>(rank)];
      if (way != nullptr || !fabric->reaches(rank)) continue;
      way = fabric.get();
      ++num_ranks;
    }
    if (num_ranks == 0) continue;
    if (Status status = add_remote(*fabric); !status) return status;
    ways += fmt::format(", {} to {} of others", fabric->name(), num_ranks);
  }
  log_line(LogLevel::info, job_.rank(), "messages go over {}", ways);
  return {};
}

Status Fabrics::add_remote(Fabric& fabric) {
  if (watcher_ == nullptr)
    if (Status status = Watcher::start(watcher_); !status) return status;
  watcher_->add(fabric);
  fabric.set_watcher(watcher_.get());
  const std::size_t count = num_remote_.load(std::memory_order_relaxed);
  remote_[count] = &fabric;
  // release: the watcher and the fabric are there; pairs with the acquire in remote().
  num_remote_.store(count + 1, std::memory_order_release);
  return {};
}

Status Fabrics::open_to_strangers() {
  if (!to_strangers_.empty()) return {};
  std::string why;
  to_strangers_.reserve(kNumRemoteFabrics);
  for (const FabricRow& row : remote_fabrics()) {
    if (row.name == "loopback") continue;
    std::unique_ptr<Fabric> fabric;
    Status status = {Code::unsupported, "left out by WEFT_FABRIC"};
    if (fabric_allowed(job_.settings(), row.name))
      status = row.make(job_, *local_, To::strangers, fabric);
    if (status) status = add_remote(*fabric);
    if (!status)
      why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", row.name, status.text());
    else
      to_strangers_.push_back(std::move(fabric));
  }
  if (!to_strangers_.empty()) return {};
  return {Code::unsupported,
          fmt::format("{} has no fabric over which processes of other jobs could be reached ({})",
                      job_.describe(job_.rank()), why)};
}

std::string Fabrics::cards() const {
  std::string text;
  for (const auto& fabric : to_strangers_)
    text += fmt::format("{} {}\n", fabric->name(), fabric->card());
  return text;
}

Status Fabrics::admit(int number, const ProcessName& name, std::string_view cards,
                      Fabric*& fabric) {
  std::string why;
  for (std::string_view rest = cards; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) return {Code::corrupt, "it has no card of a process"};
    const std::string_view of = line.substr(0, space);
    why += fmt::format("{}{}", why.empty() ? "" : ", ", of);
    for (const auto& one : to_strangers_) {
      if (one->name() != of) continue;
      Status status = one->admit(number, name, line.substr(space + 1));
      if (status) fabric = one.get();
      if (status || status != Code::unsupported) return status;
      why += fmt::format(" ({})", status.text());
    }
  }
  std::string own;
  for (const auto& one : to_strangers_)
    own += fmt::format("{}{}", own.empty() ? "" : ", ", one->name());
  return {Code::unsupported,
          fmt::format("{} has {}, and {} has {}: there is no fabric in common",
                      job_.describe(job_.rank()), own, job_.describe(number), why)};
}

std::string Fabrics::explain(int peer) const {
  const auto list = [this](int rank) {
    std::string text;
    if (Status status = job_.board().get(rank, kListKey, text); !status) text = status.text();
    return text;
  };
  return fmt::format("{} and {} have no fabric in common: the first has {}; the second has {}",
                     job_.describe(job_.rank()), job_.describe(peer), list(job_.rank()),
                     list(peer));
}

}  // namespace weft
