#include "fabric/registry.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/log.hpp"
#include "fabric/inspection.hpp"
#include "fabric/shm/endpoint.hpp"
#include "fabric/tcp/endpoint.hpp"
#ifdef WEFT_HAVE_VERBS
#include "fabric/verbs/device.hpp"
#include "fabric/verbs/endpoint.hpp"
#include "fabric/verbs/inspect.hpp"
#endif
#ifdef WEFT_HAVE_OFI
#include "fabric/ofi/endpoint.hpp"
#include "fabric/ofi/inspect.hpp"
#include "fabric/ofi/messages.hpp"
#endif

namespace weft::fabric {
namespace {

#ifdef WEFT_HAVE_VERBS
constexpr auto kMakeVerbs = verbs::make_endpoint;
std::string describe_verbs(const Settings&) { return weft::verbs::ports_text(); }
#else
constexpr decltype(Row::make) kMakeVerbs = nullptr;
std::string describe_verbs(const Settings&) { return "  verbs: not in this build\n"; }
#endif

#ifdef WEFT_HAVE_OFI
constexpr auto kMakeOfi = ofi::make_endpoint;
std::string describe_ofi(const Settings& settings) { return weft::ofi::describe(settings); }
#else
constexpr decltype(Row::make) kMakeOfi = nullptr;
std::string describe_ofi(const Settings&) { return "  ofi: not in this build\n"; }
#endif

template <auto kMake>
Status make(const Settings&, std::unique_ptr<Endpoint>& endpoint) try {
  endpoint = kMake();
  return {};
} catch (const Error& error) {
  return error.status();
}
std::unique_ptr<Endpoint> (*loopback_of_tests)() = nullptr;
Status make_loopback(const Settings&, std::unique_ptr<Endpoint>& endpoint) {
  endpoint = loopback_of_tests();
  return {};
}

constinit Row table[] = {
    {"shm", make<shm::make_endpoint>, nullptr, Row::host},
    {"verbs", kMakeVerbs, describe_verbs, Row::network, 0, true},
    // Each of two that connect to each other at once has its socket.
    {"tcp", tcp::make_endpoint, tcp::describe, Row::network, 2},
    {"ofi", kMakeOfi, describe_ofi, Row::network, 2},
    {"loopback", nullptr, nullptr, Row::process},
};

using Endpoints = std::vector<std::unique_ptr<Endpoint>>;

Status make_one(const Row& row, const Settings& settings, Endpoints& endpoints) {
  std::unique_ptr<Endpoint> endpoint;
  Status status = row.make(settings, endpoint);
  if (status) endpoints.push_back(std::move(endpoint));
  return status;
}

// One for each device that WEFT_DEVICE names. One of them is enough.
Status make_by_device(const Row& row, const Settings& settings, Endpoints& endpoints) {
  Status failed;
  const std::size_t num_before = endpoints.size();
  std::string_view rest = settings.text(Setting::device);
  do {
    const std::string_view device = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), device.size() + 1));
    Settings own = settings;
    if (Status status = own.set("DEVICE", std::string(device)); !status) return status;
    if (Status status = make_one(row, own, endpoints); !status) failed = status;
  } while (!rest.empty());
  if (endpoints.size() == num_before) return failed;
  if (!failed)
    log_line(LogLevel::warn, -1, "{}: a device is left out: {}", row.name, failed.text());
  return {};
}

}  // namespace

std::span<const Row, kNumFabrics> rows() { return table; }

const Row* find_row(std::string_view name) {
  const auto* found = std::ranges::find(table, name, &Row::name);
  return found == std::end(table) ? nullptr : found;
}

bool inspect(const Settings& settings, std::string_view name, Inspection& inspection) {
  if (name == "tcp") return tcp::inspect(settings, inspection), true;
#ifdef WEFT_HAVE_VERBS
  if (name == "verbs") return weft::verbs::inspect(settings, inspection), true;
#endif
#ifdef WEFT_HAVE_OFI
  if (name == "ofi") return weft::ofi::inspect(settings, inspection), true;
#endif
  return false;
}

void set_loopback(std::unique_ptr<Endpoint> (*make)()) {
  loopback_of_tests = make;
  table[kNumFabrics - 1].make = make_loopback;
}

bool is_allowed(const Settings& settings, std::string_view name) {
  return list_has(settings.text(Setting::fabric), name);
}

Status check_setting(const Settings& settings) {
  std::string_view rest = settings.text(Setting::fabric);
  for (;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view name = rest.substr(0, comma);
    const Row* const row = find_row(name);
    if (row == nullptr || (row->reach == Row::process && row->make == nullptr))
      return {Code::bad_setting, fmt::format("WEFT_FABRIC={}: '{}' is no fabric; there are shm, "
                                             "verbs, tcp and ofi, separated by commas",
                                             settings.text(Setting::fabric), name)};
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  const std::string& provider = settings.text(Setting::ofi_provider);
  if (provider == Settings().text(Setting::ofi_provider) || is_allowed(settings, "ofi")) return {};
  return {
      Code::bad_setting,
      fmt::format("WEFT_OFI_PROVIDER={} is for the fabric ofi, which WEFT_FABRIC={} leaves out: "
                  "name it there, as WEFT_FABRIC=shm,ofi",
                  provider, settings.text(Setting::fabric))};
}

bool is_demanded(const Row& row, const Settings& settings) {
  return row.by_device && !settings.text(Setting::device).empty();
}

void tell_unused(const Row& row, int rank, const Status& why) {
  static std::atomic<bool> has_told = false;
  // relaxed: of two threads one tells.
  if (!row.by_device || why.code() == Code::not_found || row.make == nullptr ||
      has_told.exchange(true, std::memory_order_relaxed))
    return;
  log_line(LogLevel::warn, rank,
           "{} is here and not used: {} (WEFT_FABRIC=shm,{} makes that an error, WEFT_FABRIC "
           "without {} silences this line)",
           row.name, why.text(), row.name, row.name);
}

Status make_endpoints(std::string_view fabrics, const Settings& settings, Endpoints& endpoints) {
  std::string why;
  Code code = Code::bad_setting;
  const Row* unused = nullptr;
  Status unused_why;
  for (std::string_view rest = fabrics; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    const Row* const row = find_row(name);
    if (row == nullptr) continue;
    Status status(Code::unsupported, "not in this build");
    if (row->make != nullptr)
      status = (row->by_device ? make_by_device : make_one)(*row, settings, endpoints);
    if (!status && is_demanded(*row, settings))
      return {status == Code::no_memory ? Code::no_memory : Code::bad_setting,
              fmt::format("WEFT_DEVICE={} is not usable: {}: {}", settings.text(Setting::device),
                          name, status.text())};
    if (!status) why += fmt::format(" {}: {}.", name, status.text());
    if (!status && name != fabrics) unused = row, unused_why = status;
    if (status.code() == Code::no_memory) code = Code::no_memory;
  }
  if (unused != nullptr && !endpoints.empty()) tell_unused(*unused, -1, unused_why);
  if (!endpoints.empty()) return {};
  return {code, fmt::format("no fabric of '{}' is there for a Node.{}", fabrics, why)};
}

}  // namespace weft::fabric
