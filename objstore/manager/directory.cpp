// The calls of the directory: holders, deletions, drops, and what is here.
#include "manager.hpp"
#include "objstore/shared/clock.hpp"
#include "objstore/store/log.hpp"

namespace weft::objstore {
namespace {
constexpr std::uint64_t kSecondNs = 1'000'000'000;  // between two lines of the log
}

std::vector<ObjectId> Manager::local_objects() {
  std::vector<ListedObject> listed;
  const auto lock = server_.lock();
  std::uint64_t cursor = 0;
  do cursor = server_.objects().list(cursor, SIZE_MAX, listed);
  while (cursor != 0);
  std::vector<ObjectId> ids;
  for (const ListedObject& object : listed) ids.push_back(object.id);
  return ids;
}

void Manager::has_holders(const ObjectId& id, std::span<const std::uint64_t> holders) {
  for (Fetch* fetch : fetches_of(id)) {
    for (const std::uint64_t holder : holders) {
      fetch->holders.insert(holder);
      fetch->failed.erase(holder);  // it has announced anew
    }
    advance(*fetch);
  }
}

bool Manager::give_to(std::uint64_t member, const PeerMessage& watch) {
  {
    const auto lock = server_.lock();
    if (server_.objects().find_sealed(watch.id) == kNoEntry) return false;
  }
  give(member, watch);
  return true;
}

void Manager::was_deleted(const ObjectId& id) {
  {
    const auto lock = server_.lock();
    server_.fail_waits(id, Code::not_found, Reason::deleted);
  }
  for (Fetch* fetch : fetches_of(id))
    if (fetch->into != nullptr) leave(*fetch, {Code::not_found, Reason::deleted});
}

// Called after the announcement, whose answer may be that another host was first.
void Manager::confirm_sealed(const ObjectId& id) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, confirm] : confirms_)
    if (confirm.id == id) numbers.push_back(number);
  for (const std::uint64_t number : numbers) directory_->confirm(id, number);
}

void Manager::confirmed(std::uint64_t number) {
  const auto found = confirms_.find(number);
  if (found == confirms_.end()) return;
  const bool is_first = !found->second.is_second;
  confirms_.erase(found);
  const auto lock = server_.lock();
  server_.confirmed(number, is_first);
}

void Manager::must_drop(const ObjectId& id, Dropped why) {
  {
    const auto lock = server_.lock();
    if (!server_.objects().erase(id).ok()) return;
  }
  if (why != Dropped::second) return;
  // A put that waits for the answer needs no log.
  bool is_answered = false;
  for (auto& [number, confirm] : confirms_)
    if (confirm.id == id) confirm.is_second = is_answered = true;
  {
    const std::lock_guard lock(inbox_mutex_);
    ++counters_.second;
  }
  if (is_answered) return;
  // A program whose hosts all put the same ids causes thousands.
  ++num_second_;
  const std::uint64_t now_ns = monotonic_ns();
  if (now_ns < next_second_ns_) return;
  next_second_ns_ = now_ns + kSecondNs;
  const std::uint64_t others = std::exchange(num_second_, 0) - 1;
  write_log(
      "object " + id.text() +
      " was put here and on another host, which was first: its bytes are the object's, and those "
      "that were put here are dropped" +
      (others != 0 ? "; as were " + std::to_string(others) + " others before" : ""));
}

}  // namespace weft::objstore
