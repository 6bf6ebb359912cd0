// The C interface: the C++ one with plain pointers, and exceptions kept inside.
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>

#include "weft/job.hpp"
#include "weft/object_store.h"
#include "weft/object_store.hpp"

// The last owner ends the store; members after it go before.
struct weft_object_store {
  std::shared_ptr<weft::ObjectStore> store;
};
struct weft_object {
  std::shared_ptr<weft::ObjectStore> store;
  weft::Object object;
};
struct weft_object_memory {
  std::shared_ptr<weft::ObjectStore> store;
  weft::ObjectMemory memory;
};
struct weft_object_buffer {
  std::shared_ptr<weft::ObjectStore> store;
  weft::ObjectBuffer buffer;
};

namespace {

thread_local std::string last_error;

static_assert(WEFT_EXISTS == static_cast<int>(weft::Code::exists));
static_assert(sizeof(weft_object_id) == sizeof(weft::ObjectId) &&
              offsetof(weft_object_id, bytes) == offsetof(weft::ObjectId, bytes));

int report(const weft::Status& status) {
  if (!status) last_error = status.text();
  return static_cast<int>(status.code());
}

template <class F>
int guarded(F&& body) noexcept {
  try {
    return report(body());
  } catch (const weft::Error& error) {
    return report(error.status());
  } catch (const std::bad_alloc&) {
    last_error.clear();  // the code says it
    return static_cast<int>(weft::Code::no_memory);
  } catch (const std::exception& error) {
    last_error = error.what();
    return static_cast<int>(weft::Code::internal);
  }
}

const weft::ObjectId& id_of(const weft_object_id* id) {
  return *reinterpret_cast<const weft::ObjectId*>(id);
}
void fill(const weft::ObjectId& from, weft_object_id& to) { std::memcpy(&to, &from, sizeof to); }
weft::Status wrong_id(size_t bytes) {
  return {weft::Code::bad_argument,
          "an object's id is 1 to 255 bytes, and this one is of " + std::to_string(bytes)};
}
std::span<const weft::ObjectId> ids_of(const weft_object_id* ids, size_t num) {
  return {reinterpret_cast<const weft::ObjectId*>(ids), num};
}
std::span<const std::byte> bytes_of(const void* data, uint64_t bytes) {
  return {static_cast<const std::byte*>(data), bytes};
}
void fill(const weft::ObjectEntry& from, weft_object_entry& to) {
  fill(from.id, to.id);
  to.metadata_bytes = from.metadata_bytes;
  to.data_bytes = from.data_bytes;
  to.is_pinned = from.is_pinned;
  to.is_referenced = from.is_referenced;
  to.is_spilled = from.is_spilled;
}
weft::ObjectOptions options_of(uint64_t ttl_ms, int is_pinned, int64_t timeout_ms) {
  weft::ObjectOptions options;
  options.ttl_ms = ttl_ms;
  options.is_pinned = is_pinned != 0;
  options.timeout_ms = timeout_ms;
  return options;
}

}  // namespace

const char* weft_object_error_text() { return last_error.c_str(); }

int weft_object_id_parse(const char* text, weft_object_id* id) {
  return guarded([&]() -> weft::Status {
    weft::ObjectId parsed;
    if (!weft::ObjectId::parse(text, parsed)) return wrong_id(std::strlen(text));
    fill(parsed, *id);
    return weft::Code::ok;
  });
}

int weft_object_id_make(const void* bytes, size_t num, weft_object_id* id) {
  return guarded([&]() -> weft::Status {
    weft::ObjectId made;
    if (!weft::ObjectId::make({static_cast<const char*>(bytes), num}, made)) return wrong_id(num);
    fill(made, *id);
    return weft::Code::ok;
  });
}

void weft_object_id_text(const weft_object_id* id, char text[WEFT_OBJECT_ID_TEXT_BYTES]) {
  const std::string made = id_of(id).text();
  std::memcpy(text, made.c_str(), made.size() + 1);
}

int weft_object_store_open(const char* socket, const char* name, weft_object_store** store) {
  return guarded([&]() -> weft::Status {
    weft::ObjectStoreSettings settings;
    if (socket != nullptr) settings.socket = socket;
    if (name != nullptr) settings.name = name;
    *store = new weft_object_store{std::make_shared<weft::ObjectStore>(settings)};
    return weft::Code::ok;
  });
}

void weft_object_store_close(weft_object_store* store) { delete store; }

void weft_object_store_set_interrupt(weft_object_store* store, int (*is_interrupted)(void)) {
  store->store->set_interrupt(is_interrupted);
}

const int* weft_object_store_interrupts(weft_object_store* store) {
  return store->store->interrupts();
}

int weft_object_contains(weft_object_store* store, const weft_object_id* id) {
  return store->store->contains(id_of(id)) ? 1 : 0;
}

int weft_object_create(weft_object_store* store, const weft_object_id* id, uint64_t data_bytes,
                       uint32_t metadata_bytes, uint64_t ttl_ms, int is_pinned, int64_t timeout_ms,
                       weft_object_buffer** buffer) {
  return guarded([&]() -> weft::Status {
    auto made = std::make_unique<weft_object_buffer>();
    made->store = store->store;
    weft::Status status = store->store->create(id_of(id), data_bytes, metadata_bytes, made->buffer,
                                               options_of(ttl_ms, is_pinned, timeout_ms));
    if (status) *buffer = made.release();
    return status;
  });
}

void* weft_object_buffer_data(const weft_object_buffer* buffer) {
  return buffer->buffer.data().data();
}
void* weft_object_buffer_metadata(const weft_object_buffer* buffer) {
  return buffer->buffer.metadata().data();
}

int weft_object_seal(weft_object_store* store, weft_object_buffer* buffer) {
  const std::unique_ptr<weft_object_buffer> owned(buffer);
  return guarded([&] { return store->store->seal(owned->buffer); });
}

void weft_object_abort(weft_object_buffer* buffer) { delete buffer; }

int weft_object_put(weft_object_store* store, const weft_object_id* id, const void* data,
                    uint64_t data_bytes, const void* metadata, uint32_t metadata_bytes,
                    uint64_t ttl_ms, int is_pinned, int64_t timeout_ms) {
  return weft_object_put_copies(store, id, data, data_bytes, metadata, metadata_bytes, 1, ttl_ms,
                                is_pinned, timeout_ms);
}

int weft_object_put_copies(weft_object_store* store, const weft_object_id* id, const void* data,
                           uint64_t data_bytes, const void* metadata, uint32_t metadata_bytes,
                           uint32_t copies, uint64_t ttl_ms, int is_pinned, int64_t timeout_ms) {
  return weft_object_put_first(store, id, data, data_bytes, metadata, metadata_bytes, copies, 0,
                               ttl_ms, is_pinned, timeout_ms);
}

int weft_object_put_first(weft_object_store* store, const weft_object_id* id, const void* data,
                          uint64_t data_bytes, const void* metadata, uint32_t metadata_bytes,
                          uint32_t copies, int is_first, uint64_t ttl_ms, int is_pinned,
                          int64_t timeout_ms) {
  return guarded([&] {
    weft::ObjectOptions options = options_of(ttl_ms, is_pinned, timeout_ms);
    options.copies = copies;
    options.is_first = is_first != 0;
    return store->store->put(id_of(id), bytes_of(data, data_bytes),
                             bytes_of(metadata, metadata_bytes), options);
  });
}

int weft_object_get(weft_object_store* store, const weft_object_id* ids, size_t num,
                    int64_t timeout_ms, weft_object** objects) {
  for (size_t i = 0; i < num; ++i) objects[i] = nullptr;
  return guarded([&] {
    std::vector<weft::Object> got(num);
    weft::Status status = store->store->get(ids_of(ids, num), got, timeout_ms);
    for (size_t i = 0; i < num; ++i)
      if (got[i]) objects[i] = new weft_object{store->store, std::move(got[i])};
    return status;
  });
}

const void* weft_object_data(const weft_object* object, uint64_t* bytes) {
  *bytes = object->object.data().size();
  return object->object.data().data();
}
const void* weft_object_metadata(const weft_object* object, uint64_t* bytes) {
  *bytes = object->object.metadata().size();
  return object->object.metadata().data();
}
void weft_object_release(weft_object* object) { delete object; }

int weft_object_get_into(weft_object_store* store, const weft_object_id* id, uint64_t offset,
                         void* into, uint64_t bytes, int64_t timeout_ms, uint64_t* data_bytes) {
  return guarded([&] {
    return store->store->get_into(id_of(id), offset, {static_cast<std::byte*>(into), bytes},
                                  *data_bytes, timeout_ms);
  });
}

int weft_object_memory_allocate(weft_object_store* store, uint64_t bytes,
                                weft_object_memory** memory) {
  return guarded([&]() -> weft::Status {
    auto made = std::make_unique<weft_object_memory>();
    made->store = store->store;
    weft::Status status = store->store->allocate(bytes, made->memory);
    if (status) *memory = made.release();
    return status;
  });
}

void* weft_object_memory_data(const weft_object_memory* memory) {
  return memory->memory.data().data();
}
void weft_object_memory_free(weft_object_memory* memory) { delete memory; }

int weft_object_push(weft_object_store* store, const weft_object_id* id, const char* const* hosts,
                     size_t num_hosts, int64_t timeout_ms, weft_object_pushed* pushed, size_t most,
                     size_t* num) {
  *num = 0;
  return guarded([&] {
    const std::vector<std::string> names(hosts, hosts + num_hosts);
    std::vector<weft::ObjectPush> pushes;
    weft::Status status = store->store->push(id_of(id), names, pushes, timeout_ms);
    *num = pushes.size();
    for (size_t i = 0; i < pushes.size() && i < most; ++i) {
      pushed[i] = weft_object_pushed{};
      pushes[i].host.copy(pushed[i].host, sizeof pushed[i].host - 1);
      pushed[i].code = static_cast<int>(pushes[i].code);
      pushed[i].was_there = pushes[i].was_there ? 1 : 0;
    }
    return status;
  });
}

int weft_object_delete(weft_object_store* store, const weft_object_id* id) {
  return guarded([&] { return store->store->erase(id_of(id)); });
}

int weft_object_pin(weft_object_store* store, const weft_object_id* id, int is_pinned) {
  return guarded([&] {
    return is_pinned != 0 ? store->store->pin(id_of(id)) : store->store->unpin(id_of(id));
  });
}

int weft_object_wait(weft_object_store* store, const weft_object_id* ids, size_t num, size_t least,
                     int64_t timeout_ms, uint8_t* is_here) {
  return guarded([&] {
    std::vector<bool> here;
    weft::Status status = store->store->wait(ids_of(ids, num), least, timeout_ms, here);
    for (size_t i = 0; i < num; ++i) is_here[i] = here[i] ? 1 : 0;
    return status;
  });
}

int weft_object_fetch(weft_object_store* store, const weft_object_id* ids, size_t num,
                      int64_t timeout_ms) {
  return guarded([&] { return store->store->fetch(ids_of(ids, num), timeout_ms); });
}

int weft_object_list(weft_object_store* store, weft_object_entry* entries, size_t most,
                     size_t* num) {
  return guarded([&] {
    std::vector<weft::ObjectEntry> objects;
    weft::Status status = store->store->list(objects);
    *num = objects.size();
    for (size_t i = 0; i < objects.size() && i < most; ++i) fill(objects[i], entries[i]);
    return status;
  });
}

int weft_object_subscribe(weft_object_store* store) {
  return guarded([&] { return store->store->subscribe(); });
}

int weft_object_next_event(weft_object_store* store, int64_t timeout_ms, weft_object_entry* event) {
  return guarded([&]() -> weft::Status {
    weft::ObjectEntry entry;
    if (!store->store->next_event(entry, timeout_ms))
      return {weft::Code::timed_out, "no object was sealed in time"};
    fill(entry, *event);
    return weft::Code::ok;
  });
}

int weft_object_status(weft_object_store* store, char* json, size_t bytes) {
  return guarded([&]() -> weft::Status {
    std::string text;
    if (weft::Status status = store->store->status(text); !status) return status;
    if (text.size() + 1 > bytes) return {weft::Code::truncated, "the status is longer than that"};
    std::memcpy(json, text.c_str(), text.size() + 1);
    return weft::Code::ok;
  });
}
