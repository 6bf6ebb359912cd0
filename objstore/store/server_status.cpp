// The JSON of `weft-store status`.
#include <nlohmann/json.hpp>

#include "objstore/shared/clock.hpp"
#include "server.hpp"

namespace weft::objstore {

std::string Server::status_text() {
  objects_.refresh();
  const ObjectCounters& counters = objects_.counters();
  const Allocator& allocator = objects_.allocator();
  const std::uint64_t backed = objects_.segment().bytes();
  nlohmann::json json = {
      {"socket", settings_.socket_path},
      {"uptime_seconds", static_cast<double>(monotonic_ns() - started_ns_) / 1e9},
      {"objects", objects_.index().size()},
      {"memory",
       {{"capacity_bytes", objects_.segment().capacity()},
        {"backed_bytes", backed},
        {"used_bytes", backed - allocator.free_bytes()},
        {"pinned_bytes", objects_.pinned_bytes()},
        {"largest_hole_bytes", allocator.largest_hole()},
        {"holes", allocator.num_holes()},
        {"overhead_bytes", objects_.overhead_bytes()}}},
      {"created", counters.created},
      {"sealed", counters.sealed},
      {"aborted", counters.aborted},
      {"deleted", counters.erased},
      {"delete_deferred", objects_.num_dying()},
      {"expired", counters.expired},
      {"evicted", counters.evicted},
      {"evicted_bytes", counters.evicted_bytes},
      {"objects_used", counters.uses},
      {"asked_and_here", waits_here_},
      {"asked_and_missing", waits_missed_},
      {"waiting_for_objects", waits_.size()},
      {"waiting_for_room", room_waits_.size()},
      {"calls", num_calls_},
      {"refused", num_refused_},
      {"clients_so_far", num_clients_met_},
      {"clients_connected", clients_.size()},
  };
  if (objects_.spill().is_open())
    json["spill"] = {{"folder", settings_.objects.spill.folder},
                     {"objects", objects_.num_spilled()},
                     {"file_bytes", objects_.spill().used_bytes()},
                     {"written", counters.spilled},
                     {"restored", counters.restored},
                     {"unreadable", counters.unreadable},
                     {"trouble", objects_.spill().trouble()}};
  nlohmann::json clients = nlohmann::json::array();
  for (const auto& [serial, client] : clients_) {
    if (!client->has_met || clients.size() == 100) continue;
    clients.push_back({{"name", client->name},
                       {"pid", client->pid},
                       {"bytes", client->charged_bytes},
                       {"creating", client->creating.size()}});
  }
  json["clients"] = std::move(clients);
  if (remote_ != nullptr) remote_->status(json);
  // A path or a peer's name may be no UTF-8, which JSON has to be: dump() alone would throw.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace weft::objstore
