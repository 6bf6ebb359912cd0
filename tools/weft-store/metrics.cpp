#include "tools/weft-store/metrics.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "tools/server/metrics_text.hpp"

namespace weft::objstore {
namespace {

using server::MetricsText;
using server::MetricType;

// A number of the status. Rows of one metric follow each other, with labels that differ.
struct Row {
  const char* path;
  const char* name;
  const char* help;
  const char* label = nullptr;
  const char* label_value = nullptr;
};

constexpr Row kRows[] = {
    {"/uptime_seconds", "uptime_seconds", "Time since the store began."},
    {"/objects", "objects", "Objects that are here."},
    {"/memory/capacity_bytes", "memory_capacity_bytes", "Memory that objects may have."},
    {"/memory/backed_bytes", "memory_backed_bytes", "Memory that the system has given so far."},
    {"/memory/used_bytes", "memory_used_bytes", "Memory that objects have."},
    {"/memory/pinned_bytes", "memory_pinned_bytes", "Memory of objects that are never evicted."},
    {"/memory/largest_hole_bytes", "memory_largest_hole_bytes",
     "The largest object that fits without evicting or growing."},
    {"/memory/holes", "memory_holes", "Free pieces between objects."},
    {"/memory/overhead_bytes", "memory_overhead_bytes", "Memory of the store's own tables."},
    {"/created", "objects_created_total", "Objects whose room was reserved."},
    {"/sealed", "objects_sealed_total", "Objects that became visible."},
    {"/aborted", "objects_aborted_total", "Objects that were given up before they were sealed."},
    {"/deleted", "objects_deleted_total", "Objects that clients deleted."},
    {"/expired", "objects_expired_total", "Objects whose time was over."},
    {"/evicted", "objects_evicted_total", "Objects that made room for others."},
    {"/evicted_bytes", "evicted_bytes_total", "Bytes of objects that made room for others."},
    {"/delete_deferred", "objects_delete_deferred",
     "Objects that are deleted once nobody reads them."},
    {"/objects_used", "object_uses_total", "Uses of objects by clients."},
    {"/asked_and_here", "requested_objects_total", "Objects that calls asked for.", "found", "yes"},
    {"/asked_and_missing", "requested_objects_total", "", "found", "no"},
    {"/waiting_for_objects", "waiting_calls", "Calls that wait.", "for", "objects"},
    {"/waiting_for_room", "waiting_calls", "", "for", "room"},
    {"/calls", "calls_total", "Calls of clients."},
    {"/refused", "clients_refused_total", "Processes that were refused as clients."},
    {"/clients_so_far", "clients_total", "Clients that have connected."},
    {"/clients_connected", "clients_connected", "Clients that are connected."},
    {"/spill/objects", "spill_objects", "Objects that are on disk."},
    {"/spill/file_bytes", "spill_file_bytes", "Bytes of the spill file that are in use."},
    {"/spill/written", "spill_written_total", "Objects that were written to disk."},
    {"/spill/restored", "spill_restored_total", "Objects that were read back from disk."},
    {"/spill/unreadable", "spill_unreadable_total", "Objects that could not be read back."},
    {"/transfers/fetched", "fetched_objects_total", "Objects that came from other hosts."},
    {"/transfers/fetched_bytes", "fetched_bytes_total", "Bytes that came from other hosts."},
    {"/transfers/fetched_one_sided", "fetched_one_sided_objects_total",
     "Fetched objects that were read by one-sided READ."},
    {"/transfers/fetched_of_several", "fetched_of_several_objects_total",
     "Fetched objects that came from several hosts at once."},
    {"/transfers/given", "given_objects_total", "Objects that went to other hosts."},
    {"/transfers/given_bytes", "given_bytes_total", "Bytes that went to other hosts."},
    {"/transfers/retried", "transfers_retried_total", "Fetches that began again."},
    {"/transfers/wrong_checksum", "transfers_wrong_checksum_total",
     "Fetches whose checksum was wrong."},
    {"/transfers/leases_ended", "leases_ended_total",
     "Objects that were kept for a host until its lease was over."},
    {"/transfers/pushed", "pushed_objects_total", "Objects that were pushed to other hosts."},
    {"/transfers/pushed_here", "pushed_here_objects_total", "Objects that others pushed here."},
    {"/transfers/second", "second_objects_total",
     "Objects that were put here and, earlier, on another host."},
    {"/transfers/refused", "peer_messages_refused_total",
     "Messages of stores that were malformed."},
    {"/directory/connected", "directory_connected", "1 while the directory in Redis answers."},
    {"/directory/members", "directory_members", "Stores that the directory knows."},
    {"/directory/answers_for", "directory_answers_for", "Objects whose holders this store knows."},
};

void collect(const nlohmann::json& json, const std::string& path, std::set<std::string>& numbers) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_object()) collect(value, path + "/" + key, numbers);
    if (value.is_number()) numbers.insert(path + "/" + key);
  }
}

void add_unknown(const nlohmann::json& json, const std::set<std::string>& numbers,
                 MetricsText& text) {
  for (const std::string& path : numbers) {
    std::string name = "weft_store" + path;
    std::replace(name.begin(), name.end(), '/', '_');
    text.family(name, MetricType::gauge, "Not described: " + path + " of the status.");
    text.sample(json.at(nlohmann::json::json_pointer(path)).dump());
  }
}

void add_peers(const nlohmann::json& peers, MetricsText& text) {
  std::map<std::string, std::uint64_t> num_by_fabric;
  for (const auto& peer : peers) ++num_by_fabric[peer.at("fabric").get<std::string>()];
  text.family("weft_store_peers", MetricType::gauge, "Stores of other hosts that are connected.");
  for (const auto& [fabric, count] : num_by_fabric) text.sample(count, {{"fabric", fabric}});
  if (num_by_fabric.empty()) text.sample(std::uint64_t{0}, {{"fabric", "none"}});
}

}  // namespace

std::string metrics_of(const std::string& status) {
  const auto json = nlohmann::json::parse(status);
  std::set<std::string> numbers;
  collect(json, "", numbers);
  MetricsText text;
  const char* before = "";
  for (const Row& row : kRows) {
    if (numbers.erase(row.path) == 0) continue;
    const std::string name = std::string("weft_store_") + row.name;
    if (std::string_view(before) != row.name)
      text.family(name, name.ends_with("_total") ? MetricType::counter : MetricType::gauge,
                  row.help);
    before = row.name;
    const std::string number = json.at(nlohmann::json::json_pointer(row.path)).dump();
    if (row.label != nullptr)
      text.sample(number, {{row.label, row.label_value}});
    else
      text.sample(number);
  }
  if (json.contains("spill")) {
    text.family("weft_store_spill_failing", MetricType::gauge,
                "1 while objects cannot be written to disk.");
    text.sample(std::uint64_t{json["spill"].at("trouble") == "" ? 0u : 1u});
  }
  if (json.contains("peers")) add_peers(json["peers"], text);
  add_unknown(json, numbers, text);
  return text.text();
}

}  // namespace weft::objstore
