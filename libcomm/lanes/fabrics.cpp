#include "lanes/fabrics.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "base/log.hpp"
#include "lanes/linked/remote_lanes.hpp"
#include "lanes/mapped/host_lanes.hpp"

namespace weft {
namespace {

using fabric::Row;
using transport::RemoteLanes;

constexpr std::string_view kListKey = "fabric.list";
constexpr std::size_t kPieceMax = std::size_t{4} << 20;

LaneLimits limits_of(const Row& row, const fabric::Limits& limits, const Settings& settings) {
  const std::size_t eager_max =
      settings.bytes_or(Setting::remote_eager_max_bytes, limits.lane_eager_max);
  return {.fabric = row.name,
          .number = static_cast<std::size_t>(&row - fabric::rows().data()),
          .eager_max = std::min(eager_max, settings.bytes(Setting::ring_max_bytes)),
          .ring_min = limits.lane_ring_min,
          .piece_max = kPieceMax};
}

}  // namespace

std::string fabrics_text(const Settings& settings) {
  std::string text = host_lanes_text();
  for (const Row& row : fabric::rows())
    if (row.describe != nullptr) text += row.describe(settings);
  return text;
}

Status make_remote_lanes(Members& job, HostLanes& local, const Row& row, To to,
                         std::unique_ptr<RemoteLanes>& lanes) {
  if (row.make == nullptr) return {Code::unsupported, "not in this build"};
  std::unique_ptr<fabric::Endpoint> endpoint;
  if (Status status = row.make(job.settings(), endpoint); !status) return status;
  const LaneLimits limits = limits_of(row, endpoint->limits(), job.settings());
  auto made = std::make_unique<RemoteLanes>(job, local, std::move(endpoint), limits, to);
  if (Status status = made->start(); !status) return status;
  lanes = std::move(made);
  return {};
}

Fabrics::Fabrics(Members& job) : job_(job) {}

Fabrics::~Fabrics() {
  for (RemoteLanes* lanes : remote()) lanes->set_watcher(nullptr);
  watcher_.reset();
  to_foreign_.clear();
  others_.clear();
}

Status Fabrics::open(Members& job, std::unique_ptr<Fabrics>& fabrics) {
  std::unique_ptr<Fabrics> made(new Fabrics(job));
  if (Status status = made->start(); !status) return status;
  fabrics = std::move(made);
  return {};
}

Status Fabrics::start() {
  if (Status status = fabric::check_setting(job_.settings()); !status) return status;
  if (Status status = make_host_lanes(job_, local_); !status) return status;
  to_.assign(static_cast<std::size_t>(job_.size()), nullptr);
  for (const int rank : job_.local_ranks()) to_[static_cast<std::size_t>(rank)] = local_.get();
  std::string ways = fmt::format("shm to {} of this host", job_.local_ranks().size() - 1);
  // The same on every process: all know the host of each.
  if (static_cast<int>(job_.local_ranks().size()) == job_.size()) {
    log_line(LogLevel::info, job_.rank(), "messages go over {}", ways);
    return {};
  }
  std::string list = "shm (inside a host)";
  for (const Row& row : fabric::rows()) {
    if (row.reach == Row::host) continue;
    if (!fabric::is_allowed(job_.settings(), row.name)) {
      // Processes without the loopback in WEFT_FABRIC do not list it as missing.
      if (row.reach == Row::network) list += fmt::format("; not {} (WEFT_FABRIC)", row.name);
      continue;
    }
    std::unique_ptr<RemoteLanes> lanes;
    if (Status status = make_remote_lanes(job_, *local_, row, To::members, lanes); !status) {
      if (fabric::is_demanded(row, job_.settings()))
        return {Code::bad_setting,
                fmt::format("WEFT_DEVICE={} is not usable at {}: {}: {}",
                            job_.settings().text(Setting::device), job_.describe(job_.rank()),
                            row.name, status.text())};
      list += fmt::format("; not {} ({})", row.name, status.text());
      if (job_.rank() == job_.local_ranks().front()) fabric::tell_unused(row, job_.rank(), status);
      log_line(LogLevel::info, job_.rank(), "no {} here: {}", row.name, status.text());
      continue;
    }
    list += fmt::format("; {}", row.name);
    others_.push_back(std::move(lanes));
  }
  if (Status status = job_.board().put(kListKey, list); !status) return status;
  if (Status status = job_.board().fence(job_.settings().ms(Setting::start_timeout_ms)); !status)
    return status;
  for (const auto& lanes : others_) {
    int num_ranks = 0;
    for (int rank = 0; rank < job_.size(); ++rank) {
      Lanes*& way = to_[static_cast<std::size_t>(rank)];
      if (way != nullptr || !lanes->reaches(rank)) continue;
      way = lanes.get();
      ++num_ranks;
    }
    if (num_ranks == 0) continue;
    if (Status status = add_remote(*lanes); !status) return status;
    ways += fmt::format(", {} to {} of others", lanes->limits().fabric, num_ranks);
  }
  log_line(LogLevel::info, job_.rank(), "messages go over {}", ways);
  return {};
}

Status Fabrics::add_remote(RemoteLanes& lanes) {
  if (watcher_ == nullptr)
    if (Status status = Watcher::start(watcher_); !status) return status;
  watcher_->add(lanes);
  lanes.set_watcher(watcher_.get());
  const std::size_t count = num_remote_.load(std::memory_order_relaxed);
  remote_[count] = &lanes;
  // release: the watcher and the lanes are there; pairs with the acquire in remote().
  num_remote_.store(count + 1, std::memory_order_release);
  return {};
}

Status Fabrics::open_to_foreign() {
  if (!to_foreign_.empty()) return {};
  std::string why;
  to_foreign_.reserve(fabric::kNumFabrics);
  for (const Row& row : fabric::rows()) {
    if (row.reach != Row::network) continue;
    std::unique_ptr<RemoteLanes> lanes;
    Status status = {Code::unsupported, "left out by WEFT_FABRIC"};
    if (fabric::is_allowed(job_.settings(), row.name))
      status = make_remote_lanes(job_, *local_, row, To::foreign, lanes);
    if (status) status = add_remote(*lanes);
    if (!status)
      why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", row.name, status.text());
    else
      to_foreign_.push_back(std::move(lanes));
  }
  if (!to_foreign_.empty()) return {};
  return {Code::unsupported,
          fmt::format("{} has no fabric over which processes of other jobs could be reached ({})",
                      job_.describe(job_.rank()), why)};
}

std::string Fabrics::endpoint_addresses() const {
  std::string text;
  for (const auto& lanes : to_foreign_)
    text += fmt::format("{} {}\n", lanes->limits().fabric, lanes->endpoint_address());
  return text;
}

Status Fabrics::admit(int number, const ProcessName& name, std::string_view addresses,
                      Lanes*& lanes) {
  std::string why;
  for (std::string_view rest = addresses; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos)
      return {Code::corrupt, "it has no endpoint address of a process"};
    const std::string_view of = line.substr(0, space);
    why += fmt::format("{}{}", why.empty() ? "" : ", ", of);
    for (const auto& one : to_foreign_) {
      if (one->limits().fabric != of) continue;
      Status status = one->admit(number, name, line.substr(space + 1));
      if (status) lanes = one.get();
      if (status || status != Code::unsupported) return status;
      why += fmt::format(" ({})", status.text());
    }
  }
  std::string own;
  for (const auto& one : to_foreign_)
    own += fmt::format("{}{}", own.empty() ? "" : ", ", one->limits().fabric);
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
