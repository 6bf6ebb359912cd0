// Objects over sockets instead of over the Node (socket_transfer.hpp), which still carries the
// members and, with the embedded directory, the holders.
#include <algorithm>
#include <cstring>
#include <new>

#include "manager.hpp"
#include "objstore/shared/clock.hpp"

namespace weft::objstore {

Status Manager::open_sockets() {
  if (settings_.protocol == "node") return Code::ok;
  if (settings_.listen.empty())
    return {Code::bad_argument, "--protocol socket needs --listen host:port"};
  SocketUser& user = *this;
  sockets_ = std::make_unique<SocketTransfer>(user, settings_.lease_ms);
  return sockets_->listen(settings_.listen.front());
}

// Sends the address where this manager's socket protocol listens.
void Manager::send_socket_address(std::uint64_t to) {
  PeerMessage message;
  message.kind = PeerKind::socket;
  message.members = {{self_, sockets_->address()}};
  send(to, message);
}

void Manager::received_socket_address(std::uint64_t from, const PeerMessage& message) {
  if (sockets_ == nullptr || message.members.size() != 1) return;
  socket_addresses_[from] = message.members.front().address;
  advance_those_of(from);
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

// The fetch of this number, with its one ask.
Manager::Ask& Manager::socket_ask(std::uint64_t number) {
  Fetch& fetch = *asks_.at(number);
  return **std::find_if(fetch.asks.begin(), fetch.asks.end(),
                        [number](const auto& ask) { return ask->number == number; });
}

std::byte* Manager::make_room(std::uint64_t number, std::uint64_t data_bytes,
                              std::uint32_t metadata_bytes) {
  Fetch& fetch = *asks_.at(number);
  const Sizes sizes{data_bytes, metadata_bytes, 0, 0};
  if (fetch.has_place && fetch.sizes != sizes) lose_place(fetch);
  if (fetch.has_place || make_place(fetch, sizes)) {
    if (fetch.into == nullptr) return fetch.to;
    // The protocol sends whole objects, for which a client's own memory need not have room.
    fetch.whole.reset(new (std::nothrow) std::byte[data_bytes + metadata_bytes + 1]);
    if (fetch.whole != nullptr) return fetch.whole.get();
    fetch.outcome = {Code::no_memory};
    forget(fetch);
    return nullptr;
  }
  // The fetch has ended, and is gone, or asks anew when there may be room.
  if (asks_.contains(number)) end_ask(fetch, socket_ask(number), false);
  return nullptr;
}

void Manager::arrived(std::uint64_t number) {
  Fetch& fetch = *asks_.at(number);
  const Ask& ask = socket_ask(number);
  fetch.givers.insert(ask.holder);
  fetch.missing.clear();
  if (fetch.into != nullptr && fetch.bytes != 0)
    std::memcpy(fetch.to, fetch.whole.get() + fetch.begin, fetch.bytes);
  end_ask(fetch, ask, false);
  advance(fetch);
}

void Manager::failed(std::uint64_t number, bool is_absent) {
  Fetch& fetch = *asks_.at(number);
  const Ask& ask = socket_ask(number);
  if (is_absent) fetch.holders.erase(ask.holder);
  end_ask(fetch, ask, true);
  advance(fetch);
}

}  // namespace weft::objstore
