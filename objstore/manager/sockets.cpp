// Objects over sockets instead of over the Node (socket_transfer.hpp), which still carries the
// members and, with the embedded directory, the holders.
#include <algorithm>
#include <cstring>
#include <new>

#include "sockets.hpp"

#include "fetch.hpp"
#include "objstore/shared/clock.hpp"

namespace weft::objstore {

Status SocketRoute::open() {
  if (core_.settings.protocol == "node") return Code::ok;
  if (core_.settings.listen.empty())
    return {Code::bad_argument, "--protocol socket needs --listen host:port"};
  SocketUser& user = *this;
  transfer_ = std::make_unique<SocketTransfer>(user, core_.settings.lease_ms);
  return transfer_->listen(core_.settings.listen.front());
}

void SocketRoute::ask(std::uint64_t holder, const ObjectId& id, std::uint64_t number) {
  transfer_->ask(addresses_.at(holder), id, number);
}

void SocketRoute::cancel(std::uint64_t number) {
  if (transfer_ != nullptr) transfer_->cancel(number);
}

// Sends the address where this manager's socket protocol listens.
void SocketRoute::send_address(std::uint64_t to) {
  if (transfer_ == nullptr) return;
  PeerMessage message;
  message.kind = PeerKind::socket;
  message.members = {{core_.self, transfer_->address()}};
  members_.send(to, message);
}

void SocketRoute::received_address(std::uint64_t from, const PeerMessage& message) {
  if (transfer_ == nullptr || message.members.size() != 1) return;
  addresses_[from] = message.members.front().address;
  fetches_.advance_those_of(from);
}

bool SocketRoute::progress(std::uint64_t now_ns) {
  return transfer_ != nullptr && transfer_->progress(now_ns);
}

void SocketRoute::await(std::vector<pollfd>& descriptors) const {
  if (transfer_ != nullptr) transfer_->await(descriptors);
}

bool SocketRoute::hold(const ObjectId& id, HeldObject& object) {
  {
    const auto lock = core_.server.lock();
    Objects& objects = core_.server.objects();
    object.entry = objects.find_sealed(id);
    if (object.entry == kNoEntry) return false;
    objects.hold(object.entry);
    const Entry& entry = objects.index().entry(object.entry);
    object.bytes = objects.place(object.entry);
    object.data_bytes = entry.data_bytes;
    object.metadata_bytes = entry.metadata_bytes;
  }
  const std::lock_guard lock(core_.mutex);
  ++core_.counters.given;
  core_.counters.given_bytes += object.data_bytes + object.metadata_bytes;
  return true;
}

void SocketRoute::drop(const HeldObject& object) {
  const auto lock = core_.server.lock();
  core_.server.objects().drop(object.entry);
}

std::byte* SocketRoute::make_room(std::uint64_t number, std::uint64_t data_bytes,
                                  std::uint32_t metadata_bytes) {
  return fetches_.room_for_socket(number, data_bytes, metadata_bytes);
}
void SocketRoute::arrived(std::uint64_t number) { fetches_.socket_arrived(number); }
void SocketRoute::failed(std::uint64_t number, bool is_absent) {
  fetches_.socket_failed(number, is_absent);
}

// --- The asks of fetches ---

// The fetch of this number, with its one ask.
Ask& Fetches::socket_ask(std::uint64_t number) {
  Fetch& fetch = *asks_.at(number);
  return **std::find_if(fetch.asks.begin(), fetch.asks.end(),
                        [number](const auto& ask) { return ask->number == number; });
}

std::byte* Fetches::room_for_socket(std::uint64_t number, std::uint64_t data_bytes,
                                    std::uint32_t metadata_bytes) {
  Fetch& fetch = *asks_.at(number);
  const ObjectSizes sizes{data_bytes, metadata_bytes, 0, 0};
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

void Fetches::socket_arrived(std::uint64_t number) {
  Fetch& fetch = *asks_.at(number);
  const Ask& ask = socket_ask(number);
  fetch.givers.insert(ask.holder);
  fetch.missing.clear();
  if (fetch.into != nullptr && fetch.bytes != 0)
    std::memcpy(fetch.to, fetch.whole.get() + fetch.begin, fetch.bytes);
  end_ask(fetch, ask, false);
  advance(fetch);
}

void Fetches::socket_failed(std::uint64_t number, bool is_absent) {
  Fetch& fetch = *asks_.at(number);
  const Ask& ask = socket_ask(number);
  if (is_absent) fetch.holders.erase(ask.holder);
  end_ask(fetch, ask, true);
  advance(fetch);
}

}  // namespace weft::objstore
