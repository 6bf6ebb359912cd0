// What the directory tells, and what it asks.
#include "manager.hpp"

namespace weft::objstore {

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
      fetch->failed.erase(holder);  // it has told anew
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

void Manager::must_drop(const ObjectId& id) {
  const auto lock = server_.lock();
  [[maybe_unused]] const Outcome outcome = server_.objects().erase(id);
}

}  // namespace weft::objstore
