// weft/node.h over weft/node.hpp.
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "base/os/process_id.hpp"
#include "weft/node.h"
#include "weft/node.hpp"

struct weft_peer {
  weft::Peer peer;
};
struct weft_memory {
  weft::PeerMemory memory;
};
struct weft_op {
  weft::Operation operation;
};
struct weft_node {
  struct Event {
    int kind;
    int code;
    weft::Peer peer;
    std::vector<char> data;
  };
  void push(int kind, weft::Code code, const weft::Peer& peer, const void* data,
            std::size_t bytes) {
    const auto* first = static_cast<const char*>(data);
    std::lock_guard lock(mutex);
    events.push_back({kind, static_cast<int>(code), peer, {first, first + bytes}});
  }
  explicit weft_node(const weft::NodeSettings& settings) : node(settings) {}

  const pid_t process = weft::keep_process_id();
  std::mutex mutex;
  std::deque<Event> events;  // under mutex
  weft::Node node;
};

struct weft_connecting {
  struct Outcome {
    std::atomic<bool> is_done{false};  // stored with release, loaded with acquire: what follows
    weft::Status status;
    weft::Peer peer;
  };
  std::shared_ptr<Outcome> outcome = std::make_shared<Outcome>();
};

namespace {

thread_local std::string last_error;

int record(const weft::Status& status) {
  if (!status) last_error = status.text();
  return static_cast<int>(status.code());
}

// Does not allocate.
int record_code(weft::Code code) noexcept {
  last_error.clear();
  return static_cast<int>(code);
}

template <class F>
int guarded(F&& body) noexcept {
  try {
    return body();
  } catch (const weft::Error& error) {
    return record(error.status());
  } catch (const std::bad_alloc&) {
    return record_code(weft::Code::no_memory);
  } catch (const std::exception& error) {
    last_error = error.what();
    return static_cast<int>(weft::Code::internal);
  }
}

static_assert(WEFT_EXISTS == static_cast<int>(weft::Code::exists));
static_assert(WEFT_OUTCOME_UNKNOWN == static_cast<int>(weft::Code::outcome_unknown));
static_assert(WEFT_PEER_LOST == static_cast<int>(weft::Code::peer_lost));
static_assert(sizeof(weft_key) == sizeof(weft::MemoryKey));

}  // namespace

extern "C" {

const char* weft_error_text(void) { return last_error.c_str(); }
const char* weft_code_name(int code) {
  return weft::code_name(static_cast<weft::Code>(code)).data();
}

int weft_node_open_with(const weft_node_settings* given, weft_node** out) {
  return guarded([&] {
    weft::NodeSettings settings;
    settings.name = given->name != nullptr ? given->name : "";
    if (given->secret != nullptr)
      settings.secret.assign(static_cast<const char*>(given->secret), given->secret_bytes);
    settings.fabrics = given->fabrics != nullptr ? given->fabrics : "";
    settings.timeout_ms = given->timeout_ms;
    settings.progress_thread = given->progress_thread != 0;
    auto* made = new weft_node(settings);
    made->node.on_peer([made](const weft::Peer& peer) {
      made->push(WEFT_EVENT_PEER, weft::Code::ok, peer, nullptr, 0);
    });
    made->node.on_lost([made](const weft::Peer& peer, const weft::Status& why) {
      const std::string text = why.text();
      made->push(WEFT_EVENT_LOST, why.code(), peer, text.data(), text.size());
    });
    made->node.on_message([made](const weft::Peer& peer, std::span<const std::byte> bytes) {
      made->push(WEFT_EVENT_MESSAGE, weft::Code::ok, peer, bytes.data(), bytes.size());
    });
    made->node.on_notify([made](const weft::Peer& peer, const weft::NotifyTag& tag) {
      made->push(WEFT_EVENT_NOTIFY, weft::Code::ok, peer, tag.data(), tag.size());
    });
    *out = made;
    return 0;
  });
}
int weft_node_open(const char* name, const char* secret, const char* fabrics, int timeout_ms,
                   int progress_thread, weft_node** out) {
  const weft_node_settings settings{
      name,    secret,     secret != nullptr ? std::strlen(secret) : 0,
      fabrics, timeout_ms, progress_thread};
  return weft_node_open_with(&settings, out);
}
void weft_node_close(weft_node* node) { delete node; }

int weft_listen(weft_node* node, const char* address) {
  return guarded([&] { return record(node->node.listen(address)); });
}
int weft_address(weft_node* node, char* to, size_t bytes) {
  return guarded([&] {
    std::string text;
    if (weft::Status status = node->node.address(text); !status) return record(status);
    if (text.size() >= bytes) return record(weft::Code::truncated);
    std::memcpy(to, text.c_str(), text.size() + 1);
    return 0;
  });
}
int weft_connect(weft_node* node, const char* address, int timeout_ms, weft_peer** peer) {
  return guarded([&] {
    weft::Peer made;
    if (weft::Status status = node->node.connect(address, made, timeout_ms); !status)
      return record(status);
    *peer = new weft_peer{made};
    return 0;
  });
}
int weft_connect_begin(weft_node* node, const char* address, int timeout_ms,
                       weft_connecting** out) {
  return guarded([&] {
    auto made = std::make_unique<weft_connecting>();
    node->node.connect_async(
        address,
        [outcome = made->outcome](weft::Status status, weft::Peer peer) {
          outcome->status = std::move(status);
          outcome->peer = std::move(peer);
          outcome->is_done.store(true, std::memory_order_release);
        },
        timeout_ms);
    *out = made.release();
    return 0;
  });
}
int weft_connect_wait(weft_node* node, weft_connecting* connecting, int wait_ms, weft_peer** peer) {
  return guarded([&] {
    const auto& outcome = *connecting->outcome;
    if (!outcome.is_done.load(std::memory_order_acquire)) node->node.wait_some(wait_ms);
    if (!outcome.is_done.load(std::memory_order_acquire)) return static_cast<int>(WEFT_AGAIN);
    if (outcome.status) *peer = new weft_peer{outcome.peer};
    return record(outcome.status);
  });
}
void weft_connect_free(weft_connecting* connecting) { delete connecting; }
void weft_disconnect(weft_node* node, const weft_peer* peer) { node->node.close(peer->peer); }
void weft_peer_free(weft_peer* peer) { delete peer; }
const char* weft_peer_name(const weft_peer* peer) { return peer->peer.name().c_str(); }
uint64_t weft_peer_generation(const weft_peer* peer) { return peer->peer.generation(); }
const char* weft_peer_fabric(const weft_peer* peer) { return peer->peer.fabric().data(); }
int weft_peer_is_lost(const weft_peer* peer) { return peer->peer.is_lost() ? 1 : 0; }
size_t weft_peer_message_max(const weft_peer* peer) { return peer->peer.message_max(); }

int weft_allocate(weft_node* node, size_t bytes, void** address) {
  return guarded([&] { return record(node->node.allocate(bytes, *address)); });
}
int weft_release(weft_node* node, void* address) {
  return guarded([&] { return record(node->node.release(address)); });
}
int weft_register(weft_node* node, void* address, size_t bytes) {
  return guarded([&] { return record(node->node.register_memory(address, bytes)); });
}
int weft_deregister(weft_node* node, void* address) {
  return guarded([&] { return record(node->node.deregister_memory(address)); });
}
int weft_make_key(weft_node* node, const void* address, uint32_t rights, const weft_peer* only,
                  weft_key* key) {
  return guarded([&] {
    weft::MemoryKey made;
    const weft::Status status =
        node->node.key(address, rights, made, only != nullptr ? only->peer : weft::Peer());
    if (status) std::memcpy(key->bytes, made.bytes.data(), sizeof made);
    return record(status);
  });
}
weft_memory* weft_memory_open(weft_node* node, const weft_peer* peer, const weft_key* key) {
  weft_memory* made = nullptr;
  guarded([&] {
    weft::MemoryKey named;
    std::memcpy(named.bytes.data(), key->bytes, sizeof named);
    made = new weft_memory{node->node.memory(peer->peer, named)};
    return 0;
  });
  return made;
}
void weft_memory_free(weft_memory* memory) { delete memory; }

weft_op* weft_op_new(void) { return new (std::nothrow) weft_op; }
void weft_op_free(weft_op* op) { delete op; }
int weft_op_is_done(const weft_op* op) { return op->operation.is_done() ? 1 : 0; }
int weft_op_code(const weft_op* op) { return static_cast<int>(op->operation.code()); }
uint64_t weft_op_previous(const weft_op* op) { return op->operation.previous(); }
int weft_wait(weft_node* node, const weft_op* op) {
  return guarded([&] { return record_code(node->node.wait(op->operation)); });
}
int weft_wait_for(weft_node* node, const weft_op* op, int timeout_ms) {
  return guarded([&] { return record_code(node->node.wait(op->operation, timeout_ms)); });
}
void weft_put(weft_node* node, const weft_memory* to, uint64_t offset, const void* from,
              size_t bytes, weft_op* op) {
  node->node.put(to->memory, offset, from, bytes, op->operation);
}
void weft_put_notify(weft_node* node, const weft_memory* to, uint64_t offset, const void* from,
                     size_t bytes, const uint8_t tag[16], weft_op* op) {
  weft::NotifyTag copy;
  std::memcpy(copy.data(), tag, copy.size());
  node->node.put_notify(to->memory, offset, from, bytes, copy, op->operation);
}
void weft_get(weft_node* node, const weft_memory* from, uint64_t offset, void* to, size_t bytes,
              weft_op* op) {
  node->node.get(from->memory, offset, to, bytes, op->operation);
}
void weft_cas(weft_node* node, const weft_memory* word, uint64_t offset, uint64_t compare,
              uint64_t swap, weft_op* op) {
  node->node.cas(word->memory, offset, compare, swap, op->operation);
}
void weft_fetch_add(weft_node* node, const weft_memory* word, uint64_t offset, uint64_t value,
                    weft_op* op) {
  node->node.fetch_add(word->memory, offset, value, op->operation);
}
int weft_send(weft_node* node, const weft_peer* peer, const void* message, size_t bytes) {
  return static_cast<int>(node->node.send(peer->peer, message, bytes));
}
void weft_send_long(weft_node* node, const weft_peer* peer, const void* message, size_t bytes,
                    weft_op* op) {
  node->node.send(peer->peer, message, bytes, op->operation);
}

int weft_next_event(weft_node* node, weft_event* event) {
  if (node->process != weft::process_id()) return 0;  // the mutex may be taken for ever
  int found = 0;
  guarded([&] {
    std::lock_guard lock(node->mutex);
    if (node->events.empty()) return 0;
    std::unique_ptr<weft_peer> peer(new weft_peer{node->events.front().peer});
    auto made = std::make_unique<weft_node::Event>(std::move(node->events.front()));
    node->events.pop_front();
    *event = {made->kind,        made->code,        peer.release(),
              made->data.data(), made->data.size(), nullptr};
    event->hidden = made.release();
    found = 1;
    return 0;
  });
  return found;
}
void weft_event_clear(weft_event* event) {
  delete event->peer;
  delete static_cast<weft_node::Event*>(event->hidden);
  *event = {};
}

int weft_progress(weft_node* node) {
  int any = 1;  // also if a message comes that there is no memory for
  guarded([&] {
    any = node->node.progress() ? 1 : 0;
    return 0;
  });
  return any;
}
void weft_wait_some(weft_node* node, int timeout_ms) {
  guarded([&] {
    node->node.wait_some(timeout_ms);
    return 0;
  });
}
int weft_event_fd(const weft_node* node) { return node->node.event_fd(); }
int weft_arm(weft_node* node) { return node->node.arm() ? 1 : 0; }

}  // extern "C"
