// Objects over sockets instead of over the Node (socket_transfer.hpp), which still tells who there
// is and, with the embedded directory, who has what.
#include "clock.hpp"
#include "manager.hpp"

namespace weft::objstore {

Status Manager::open_sockets() {
  if (settings_.protocol == "node") return Code::ok;
  if (settings_.listen.empty())
    return {Code::bad_argument, "--protocol socket needs --listen host:port"};
  SocketUser& user = *this;
  sockets_ = std::make_unique<SocketTransfer>(user, settings_.lease_ms);
  return sockets_->listen(settings_.listen.front());
}

// Where this one can be asked.
void Manager::tell_socket(std::uint64_t to) {
  PeerMessage message;
  message.kind = PeerKind::socket;
  message.members = {{self_, sockets_->address()}};
  send(to, message);
}

void Manager::learn_socket(std::uint64_t from, const PeerMessage& message) {
  if (sockets_ == nullptr || message.members.size() != 1) return;
  socket_addresses_[from] = message.members.front().address;
  for (const auto& [id, fetch] : fetches_)
    if (fetch->number == 0 && fetch->holders.contains(from)) ask_next(*fetch);
}

bool Manager::hold(const ObjectId& id, HeldObject& object) {
  {
    const auto lock = server_.lock();
    Objects& objects = server_.objects();
    object.entry = objects.find_sealed(id);
    if (object.entry == kNoEntry) return false;
    objects.hold(object.entry);
    const Entry& entry = objects.index().entry(object.entry);
    object.bytes = objects.place(object.entry);
    object.data_bytes = entry.data_bytes;
    object.metadata_bytes = entry.metadata_bytes;
  }
  const std::lock_guard lock(inbox_mutex_);
  ++counters_.given;
  counters_.given_bytes += object.data_bytes + object.metadata_bytes;
  return true;
}

void Manager::drop(const HeldObject& object) {
  const auto lock = server_.lock();
  server_.objects().drop(object.entry);
}

std::byte* Manager::make_room(std::uint64_t number, std::uint64_t data_bytes,
                              std::uint32_t metadata_bytes) {
  PeerMessage sizes;
  sizes.number = number;
  sizes.data_bytes = data_bytes;
  sizes.metadata_bytes = metadata_bytes;
  Fetch* fetch = create_for(sizes);
  if (fetch == nullptr) return nullptr;
  const auto lock = server_.lock();
  return server_.objects().place(fetch->entry);
}

void Manager::arrived(std::uint64_t number) { finish(*fetches_.at(asks_.at(number))); }

void Manager::failed(std::uint64_t number, bool is_absent) {
  Fetch& fetch = *fetches_.at(asks_.at(number));
  if (is_absent) fetch.holders.erase(fetch.holder);
  give_up_ask(fetch, true);
  ask_next(fetch);
}

}  // namespace weft::objstore
