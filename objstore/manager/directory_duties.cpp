// The calls of the directory: holders, deletions, drops, and what is here.
#include "directory_duties.hpp"

#include <nlohmann/json.hpp>

#include "objstore/directory/embedded.hpp"
#include "objstore/directory/redis.hpp"
#include "objstore/shared/clock.hpp"
#include "objstore/store/log.hpp"
#include "weft/job.hpp"

namespace weft::objstore {
namespace {
constexpr std::uint64_t kSecondNs = 1'000'000'000;  // between two lines of the log
}

Status DirectoryDuties::open() {
  DirectoryUser& user = *this;
  const std::string& kind = core_.settings.directory;
  if (kind == "embedded") {
    directory_ = std::make_unique<EmbeddedDirectory>(user, core_.self);
    return Code::ok;
  }
#ifdef WEFT_HAVE_HIREDIS
  std::string mine;
  if (Status status = core_.node->address(mine); !status) return status;
  try {
    directory_ = std::make_unique<RedisDirectory>(user, core_.self, mine, kind);
  } catch (const Error& error) {
    return error.status();
  }
  return Code::ok;
#else
  return {Code::unsupported, "directory '" + kind + "': this weft-store was built without hiredis"};
#endif
}

std::vector<ObjectId> DirectoryDuties::local_objects() {
  std::vector<ListedObject> listed;
  const auto lock = core_.server.lock();
  std::uint64_t cursor = 0;
  do cursor = core_.server.objects().list(cursor, SIZE_MAX, listed);
  while (cursor != 0);
  std::vector<ObjectId> ids;
  for (const ListedObject& object : listed) ids.push_back(object.id);
  return ids;
}

bool DirectoryDuties::give_to(std::uint64_t member, const PeerMessage& watch) {
  {
    const auto lock = core_.server.lock();
    if (core_.server.objects().find_sealed(watch.id) == kNoEntry) return false;
  }
  serving_.give(member, watch);
  return true;
}

void DirectoryDuties::sealed(const ObjectId& id) {
  directory_->announce(id, copies_.erase(id) != 0 ? Announced::copy : Announced::sealed);
  // After the announcement, whose answer may be that another host was first.
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, confirm] : confirms_)
    if (confirm.id == id) numbers.push_back(number);
  for (const std::uint64_t number : numbers) directory_->confirm(id, number);
}

void DirectoryDuties::lost(std::uint64_t generation) {
  directory_->lost(generation);
  // The member that was to answer may be gone.
  const std::map<std::uint64_t, Confirm> confirms = confirms_;
  for (const auto& [number, confirm] : confirms) directory_->confirm(confirm.id, number);
}

// Status is read on the store's thread, which does not call the directory.
void DirectoryDuties::refresh_status(std::uint64_t now_ns) {
  if (now_ns < next_status_ns_) return;
  next_status_ns_ = now_ns + 500'000'000;
  nlohmann::json json;
  directory_->status(json);
  const std::lock_guard lock(core_.mutex);
  core_.directory_status = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void DirectoryDuties::confirmed(std::uint64_t number) {
  const auto found = confirms_.find(number);
  if (found == confirms_.end()) return;
  const bool is_first = !found->second.is_second;
  confirms_.erase(found);
  const auto lock = core_.server.lock();
  core_.server.confirmed(number, is_first);
}

void DirectoryDuties::must_drop(const ObjectId& id, Dropped why) {
  {
    const auto lock = core_.server.lock();
    if (!core_.server.objects().erase(id).ok()) return;
  }
  if (why != Dropped::second) return;
  // A put that waits for the answer needs no log.
  bool is_answered = false;
  for (auto& [number, confirm] : confirms_)
    if (confirm.id == id) confirm.is_second = is_answered = true;
  {
    const std::lock_guard lock(core_.mutex);
    ++core_.counters.second;
  }
  if (is_answered) return;
  // A program whose hosts all put the same ids causes thousands.
  ++num_second_;
  const std::uint64_t now_ns = monotonic_ns();
  if (now_ns < next_second_ns_) return;
  next_second_ns_ = now_ns + kSecondNs;
  const std::uint64_t others = std::exchange(num_second_, 0) - 1;
  write_log(LogSeverity::warning,
            "object " + id.text() +
                " was put here and on another host, which was first: its bytes are the object's, "
                "and those "
                "that were put here are dropped" +
                (others != 0 ? "; as were " + std::to_string(others) + " others before" : ""),
            {{"event", "second_object"}, {"object", id.text()}});
}

}  // namespace weft::objstore
