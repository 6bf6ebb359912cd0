#include "mcast/routing/install.hpp"

#include <cstdio>
#include <set>

#include "mcast/routing/fabric_port.hpp"
#include "mcast/routing/files.hpp"
#include "mcast/routing/install_plan.hpp"
#include "mcast/routing/text_cursor.hpp"

namespace weft::mcast {

namespace {

constexpr size_t kLinesShown = 10;  // of differences and of conflicts

Status in_file(const std::string& path, const Status& status) {
  return status.ok() ? status : Status(status.code(), path + ": " + status.text());
}

Status read_rows(const std::string& path, const Topology& topology, uint32_t first_entry,
                 std::map<uint32_t, Rows>* rows) {
  std::ifstream in;
  Tables tables;
  Status status = open_input(path, &in);
  if (status.ok()) status = read_tables(in, path, &tables);
  return status.ok() ? in_file(path, rows_of(topology, tables, first_entry, rows)) : status;
}

std::string entry_text(const Topology& topology, const EntryChange& change) {
  const Node& node = topology.nodes[change.node];
  char text[64];
  std::snprintf(text, sizeof text, "switch 0x%016llx entry 0x%04x",
                static_cast<unsigned long long>(node.guid), kFirstMlid + change.entry);
  return std::string(text) + " (" + node.description + ")";
}

Status check_limits(FabricPort& fabric, const Topology& topology,
                    const std::map<uint32_t, Rows>& wanted) {
  for (const auto& [node, rows] : wanted) {
    TableLimits limits;
    const Status status = fabric.limits(topology.nodes[node].guid, &limits);
    if (!status.ok()) return status;
    const uint32_t last = rows.rbegin()->first;
    const std::string name = "switch " + topology.nodes[node].id;
    if (last >= limits.entries) {
      return {Code::bad_argument, name + " has " + std::to_string(limits.entries) +
                                      " entries; the tables need entry " + std::to_string(last)};
    }
    if (limits.top != 0 && kFirstMlid + last > limits.top) {
      return {Code::not_permitted, name + ": its subnet manager limits it to entries up to MLID " +
                                       std::to_string(limits.top) +
                                       " only (MulticastFDBTop); the tables need " +
                                       std::to_string(kFirstMlid + last)};
    }
  }
  return Code::ok;
}

// Writes a plan's blocks, and can undo that. Other managers may change foreign rows between the
// read and the write of a block, which nothing can prevent; verifying and undoing concern our rows
// only.
class Writer {
 public:
  Writer(FabricPort& fabric, const Topology& topology, const InstallPlan& plan,
         const Blocks& before)
      : fabric_(fabric), topology_(topology), plan_(plan), before_(before) {}

  Status write() {
    for (const Blocks* blocks : {&plan_.cleared, &plan_.final}) {
      for (const auto& [place, block] : *blocks) {
        // Recorded before the write: a packet whose response is lost may have been executed.
        written_.insert(place);
        const Status status = fabric_.write_block(guid(place), place.block, place.position, block);
        if (!status.ok()) return status;
      }
    }
    return Code::ok;
  }

  Status check() const {
    for (const auto& [place, rows] : plan_.changed) {
      Block now;
      const Status status = fabric_.read_block(guid(place), place.block, place.position, &now);
      if (!status.ok()) return status;
      const auto final = plan_.final.find(place);
      const auto cleared = plan_.cleared.find(place);
      const Block& wanted = final != plan_.final.end()       ? final->second
                            : cleared != plan_.cleared.end() ? cleared->second
                                                             : before_.at(place);
      for (uint32_t e = 0; e < kBlockEntries; ++e) {
        if ((rows >> e & 1) == 0 || now[e] == wanted[e]) continue;
        return {Code::corrupt, "switch " + topology_.nodes[place.node].id + " block " +
                                   std::to_string(place.block) + " position " +
                                   std::to_string(place.position) +
                                   " does not read back as written: is a subnet manager at it?"};
      }
    }
    return Code::ok;
  }

  // Restores the old rows; returns the number of blocks for which that failed.
  size_t undo() const {
    size_t failed = 0;
    for (const BlockPlace& place : written_) {
      Block now;
      Status status = fabric_.read_block(guid(place), place.block, place.position, &now);
      for (uint32_t e = 0; e < kBlockEntries; ++e) {
        if (plan_.changed.at(place) >> e & 1) now[e] = before_.at(place)[e];
      }
      if (status.ok()) status = fabric_.write_block(guid(place), place.block, place.position, now);
      failed += !status.ok();
    }
    return failed;
  }

 private:
  uint64_t guid(const BlockPlace& place) const { return topology_.nodes[place.node].guid; }
  FabricPort& fabric_;
  const Topology& topology_;
  const InstallPlan& plan_;
  const Blocks& before_;
  std::set<BlockPlace> written_;
};

void list(const Topology& topology, const InstallPlan& plan) {
  for (const EntryChange& change : plan.changes) {
    std::printf("%s: %s (was: %s%s)\n", entry_text(topology, change).c_str(),
                text_of(change.to).c_str(), text_of(change.from).c_str(),
                change.foreign ? ", not ours" : "");
  }
}

Status check_conflicts(const Topology& topology, const InstallPlan& plan) {
  std::string text = "entries that others have written (--replace-foreign writes over them):";
  size_t shown = 0;
  for (const EntryChange& change : plan.changes) {
    if (!change.foreign || ++shown > kLinesShown) continue;
    text += "\n  " + entry_text(topology, change) + ": ports " + text_of(change.from);
  }
  if (shown > kLinesShown) text += "\n  and " + std::to_string(shown - kLinesShown) + " more";
  return shown == 0 ? Status() : Status(Code::not_permitted, text);
}

}  // namespace

Status install(const InstallOptions& options) {
  uint64_t first_mlid = 0, key = 0;
  TextCursor mlid_text(options.first_mlid), key_text(options.key);
  if (!mlid_text.take_number(16, &first_mlid) || !mlid_text.at_end() || first_mlid < kFirstMlid ||
      first_mlid > kLastMlid) {
    return {Code::bad_argument, "--first-mlid: 0xc000 to 0xfffe"};
  }
  if (!key_text.take_number(16, &key) || !key_text.at_end()) {
    return {Code::bad_argument, "--m-key: a number in hexadecimal"};
  }
  Topology topology;
  std::ifstream in;
  Status status = open_input(options.topology, &in);
  if (status.ok()) status = read_topology(in, options.topology, &topology);
  const uint32_t first_entry = static_cast<uint32_t>(first_mlid) - kFirstMlid;
  std::map<uint32_t, Rows> wanted, previous;
  if (status.ok()) status = read_rows(options.tables, topology, first_entry, &wanted);
  if (status.ok() && !options.previous.empty()) {
    status = read_rows(options.previous, topology, first_entry, &previous);
  }
  if (!status.ok()) return status;

  FabricPort fabric;
  Topology found;
  status = fabric.open({options.device, options.port, options.timeout_ms, key});
  if (status.ok()) status = fabric.discover(&found);
  if (!status.ok()) return status;
  const std::vector<std::string> differences = fabric_differences(topology, found, kLinesShown);
  if (!differences.empty()) {
    std::string text = "the fabric is not that of " + options.topology + " any more:";
    for (const std::string& line : differences) text += "\n  " + line;
    return {Code::bad_argument, text + "\nnothing was written"};
  }
  status = check_limits(fabric, topology, wanted);
  if (!status.ok()) return status;

  Blocks now;
  for (const BlockPlace& place : places_of(topology, wanted, previous)) {
    status = fabric.read_block(topology.nodes[place.node].guid, place.block, place.position,
                               &now[place]);
    if (!status.ok()) return status;
  }
  const InstallPlan plan = plan_install(wanted, previous, now);
  for (const EntryChange& kept : plan.kept) {
    std::printf("%s: left as it is: others have changed it\n", entry_text(topology, kept).c_str());
  }
  if (options.dry_run) list(topology, plan);
  if (!options.replace_foreign) {
    status = check_conflicts(topology, plan);
    if (!status.ok()) return {status.code(), status.text() + "\nnothing was written"};
  }
  const size_t blocks = plan.cleared.size() + plan.final.size();
  if (options.dry_run) {
    std::printf("%zu entries to change, %zu blocks to write: nothing was written\n",
                plan.changes.size(), blocks);
    return Code::ok;
  }
  Writer writer(fabric, topology, plan, now);
  status = writer.write();
  if (status.ok()) status = writer.check();
  if (!status.ok()) {
    const size_t failed = writer.undo();
    return {status.code(), status.text() + "\n" +
                               (failed == 0 ? "what was written has been undone"
                                            : std::to_string(failed) +
                                                  " blocks could not be put back as they were")};
  }
  std::printf("%zu entries changed, %zu blocks written and read back\n", plan.changes.size(),
              blocks);
  return Code::ok;
}

}  // namespace weft::mcast
