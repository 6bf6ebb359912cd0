#pragma once
// ObjectStore: a client of this host's weft-store. Immutable objects, shared by the processes of a
// host without copies, and fetched from other hosts.
//
//   weft::ObjectStore store({.socket = "/run/user/1000/weft-store.sock"});
//   weft::ObjectId id;
//   weft::ObjectId::make("matrix", id);
//   weft::ObjectBuffer buffer;
//   if (store.create(id, 1 << 20, 0, buffer)) { fill(buffer.data()); store.seal(buffer); }
//
//   weft::Object object;                       // in another process
//   if (store.get(id, object, 1000)) use(object.data());
//
// Sealed data never change: get maps the store's memory read-only, and a client's buffer was copied
// when it was sealed. get costs the same for any size; a repeated get of an object that is here
// costs no message.
//
// Threads. All calls by any number of threads; an Object, an ObjectBuffer and an ObjectMemory are
// a thread's own (copy the Object for another one). None outlives the ObjectStore.
//
// Fork. A child opens its own ObjectStore. What it has of its parent's it may read, as long as the
// parent keeps it, and destroy, which changes nothing of the parent's; every call fails with
// bad_argument, and contains, next_event, arm and progress give false. References of a process go
// when it ends, whatever children it has.
//
// Errors. The constructor throws weft::Error. The others return a Status that names the object.
// bad_argument: an id of no bytes. timeout_ms: 0 does not wait, below 0 waits for ever. peer_lost:
// the store ended; data of Objects stay readable.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/export.hpp"
#include "weft/object_id.hpp"
#include "weft/status.hpp"

namespace weft {

class ObjectStoreImpl;

// The default socket of a store: weft-store.sock in XDG_RUNTIME_DIR, else /tmp/weft-store-UID.sock.
WEFT_API std::string default_object_store_socket();

struct ObjectStoreSettings {
  std::string socket = {};  // empty: default_object_store_socket()
  std::string name = {};    // for `weft-store status`, at most 31 letters
};

struct ObjectOptions {
  std::uint64_t ttl_ms = 0;         // after which it goes as if erased; 0: never
  bool is_pinned = false;           // never evicted
  std::int64_t timeout_ms = 10000;  // how long room is waited for, and then the copies
  // Hosts that have it, this one included, before put or seal returns; put_async: is done.
  std::uint32_t copies = 1;
  // Fail with exists where another host has an object of that id, too: put and seal then wait for
  // the directory, which takes a message to another host and back. Without it such a put is ok, and
  // its bytes are dropped, which the store logs. Of two hosts that put at the same time one is
  // first.
  bool is_first = false;
};

// A reference to a sealed object: while it lives, the object is not evicted and its data stay.
class WEFT_API Object {
 public:
  Object() = default;
  Object(const Object& other);
  Object(Object&& other) noexcept { swap(other); }
  Object& operator=(Object other) noexcept {
    swap(other);
    return *this;
  }
  ~Object() { release(); }

  explicit operator bool() const noexcept { return store_ != nullptr; }
  // Mapped read-only; until release().
  std::span<const std::byte> data() const noexcept { return data_; }
  std::span<const std::byte> metadata() const noexcept { return metadata_; }
  void release() noexcept;

 private:
  friend class ObjectStoreImpl;
  void swap(Object& other) noexcept {
    std::swap(store_, other.store_);
    std::swap(slot_, other.slot_);
    std::swap(data_, other.data_);
    std::swap(metadata_, other.metadata_);
  }
  ObjectStoreImpl* store_ = nullptr;
  std::uint32_t slot_ = 0;
  std::span<const std::byte> data_, metadata_;
};

// An object that is being written. Aborted unless it is sealed.
class WEFT_API ObjectBuffer {
 public:
  ObjectBuffer() = default;
  ObjectBuffer(ObjectBuffer&& other) noexcept { *this = std::move(other); }
  ObjectBuffer& operator=(ObjectBuffer&& other) noexcept;
  ~ObjectBuffer();

  explicit operator bool() const noexcept { return store_ != nullptr; }
  const ObjectId& id() const noexcept { return id_; }
  // Contents at first are undefined.
  std::span<std::byte> data() const noexcept { return {memory_, data_bytes_}; }
  std::span<std::byte> metadata() const noexcept {
    return {memory_ + data_bytes_, metadata_bytes_};
  }

 private:
  friend class ObjectStoreImpl;
  ObjectStoreImpl* store_ = nullptr;
  ObjectId id_;
  std::byte* memory_ = nullptr;
  std::size_t data_bytes_ = 0, metadata_bytes_ = 0;
  std::uint32_t extent_ = 0;
  std::uint64_t extent_offset_ = 0;
  ObjectOptions options_;
};

// Memory of the program's own that the store can write to, for get_into.
class WEFT_API ObjectMemory {
 public:
  ObjectMemory() = default;
  ObjectMemory(ObjectMemory&& other) noexcept { swap(other); }
  ObjectMemory& operator=(ObjectMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~ObjectMemory();

  explicit operator bool() const noexcept { return store_ != nullptr; }
  // Undefined at first; the program's, except while a get_into() is under way.
  std::span<std::byte> data() const noexcept { return {memory_, bytes_}; }

 private:
  friend class ObjectStoreImpl;
  void swap(ObjectMemory& other) noexcept {
    std::swap(store_, other.store_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    std::swap(extent_, other.extent_);
    std::swap(extent_offset_, other.extent_offset_);
  }
  ObjectStoreImpl* store_ = nullptr;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint32_t extent_ = 0;
  std::uint64_t extent_offset_ = 0;
};

// A put or get under way; placed by the program, where it stays until it is done.
class ObjectCall {
 public:
  ObjectCall() = default;
  ObjectCall(const ObjectCall&) = delete;
  ObjectCall& operator=(const ObjectCall&) = delete;
  // acquire: the status; pairs with the thread that made progress.
  bool is_done() const noexcept { return is_done_.load(std::memory_order_acquire); }
  const Status& status() const noexcept { return status_; }

 private:
  friend class ObjectStoreImpl;
  std::atomic<bool> is_done_{true};
  Status status_;
  ObjectId id_;
  std::uint32_t extent_ = 0;
  std::uint64_t extent_offset_ = 0, extent_bytes_ = 0;
};

struct ObjectEntry {
  ObjectId id;
  std::uint64_t data_bytes = 0;
  std::uint32_t metadata_bytes = 0;
  bool is_pinned = false, is_referenced = false, is_spilled = false;
};

// The result of a push to one host.
struct ObjectPush {
  std::string host;  // as it was named
  // ok; no_memory: no room there; again: another process there writes it; peer_lost: it was lost;
  // cancelled: it gave up the pieces that it had, as another was lost, or the push was; timed_out:
  // it did not answer; not_found: it is not known, or no store listens there; bad_argument: several
  // hosts have the name; unsupported: its store does not listen; corrupt.
  Code code = Code::ok;
  bool was_there = false;  // before
};

class WEFT_API ObjectStore {
 public:
  // not_found: no store there; not_permitted: another user's; unsupported: another version;
  // peer_lost: it ended meanwhile.
  explicit ObjectStore(const ObjectStoreSettings& settings = {});
  // Releases references, aborts unsealed buffers.
  ~ObjectStore();
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  // Returns true if the object is sealed on this host.
  bool contains(const ObjectId& id);

  // Reserves id and room. exists; no_memory: larger than the store, beyond the client's quota, or
  // no room (timeout 0); timed_out: no room in time, as all is referenced or pinned.
  Status create(const ObjectId& id, std::uint64_t data_bytes, std::uint32_t metadata_bytes,
                ObjectBuffer& buffer, const ObjectOptions& options = {});
  // Makes it visible for good, and copies it out of the client's reach; the buffer is empty then,
  // whatever the outcome.
  Status seal(ObjectBuffer& buffer);
  void abort(ObjectBuffer& buffer);
  // create, copy and seal in one. peer_lost: fewer hosts than `copies` could take it; the text has
  // the number that have it, and it stays there.
  Status put(const ObjectId& id, std::span<const std::byte> data,
             std::span<const std::byte> metadata = {}, const ObjectOptions& options = {});

  // A reference to the object, which is waited for; from another host if it is there. timed_out,
  // also if there was no room for it here, as the text says then; not_found (timeout 0).
  Status get(const ObjectId& id, Object& object, std::int64_t timeout_ms = 0);
  // All of them, in one call; objects that were there by the timeout are set even if it fails.
  Status get(std::span<const ObjectId> ids, std::span<Object> objects, std::int64_t timeout_ms);

  // A range of an object's data, from `offset` on, into the program's own memory; no copy is kept
  // on this host. data_bytes: of the whole object, so that `into` holds the lesser of into.size()
  // and data_bytes - offset. From another host by READ straight into memory of allocate(), and by
  // one copy more into any other; from this host by a copy. timed_out; not_found (timeout 0: what
  // other hosts have is not looked for), or deleted meanwhile; no_memory; bad_argument: `offset`
  // lies behind the data's end, or offset or size are more than INT64_MAX.
  Status get_into(const ObjectId& id, std::uint64_t offset, std::span<std::byte> into,
                  std::uint64_t& data_bytes, std::int64_t timeout_ms = 0);
  // no_memory: more than the store's own capacity, or than the client's quota.
  Status allocate(std::uint64_t bytes, ObjectMemory& memory);

  // Sends an object to other hosts at once, each of which passes on the pieces that it gets: for a
  // large object and many hosts faster than a fetch by each. Hosts are named as `weft-store status`
  // does, or by an address where their store listens; none: all that are known. The object is
  // waited for first, as get() does. ok: all have it. Else the code of the first that has not, and
  // `pushes` has the result of each: a host that has it already or has no room is left out; if one
  // is lost, the others give up what is incomplete by then. timed_out: they do, too.
  Status push(const ObjectId& id, std::span<const std::string> hosts,
              std::vector<ObjectPush>& pushes, std::int64_t timeout_ms = 60'000);

  // Erases it as soon as there is no reference; no get finds it from now on. not_found.
  Status erase(const ObjectId& id);
  Status pin(const ObjectId& id);
  Status unpin(const ObjectId& id);

  // Waits until `least` of the objects are sealed here; returns which, also with timed_out.
  // fetches: objects of other hosts are brought here, too.
  Status wait(std::span<const ObjectId> ids, std::size_t least, std::int64_t timeout_ms,
              std::vector<bool>& is_here, bool fetches = false);
  // Brings all of them to this host. timed_out.
  Status fetch(std::span<const ObjectId> ids, std::int64_t timeout_ms);

  Status list(std::vector<ObjectEntry>& objects);
  // The output of `weft-store status --json`.
  Status status(std::string& json);

  // Objects that are sealed from now on are reported by next_event().
  Status subscribe();
  // The oldest event; false if there is none within the timeout. num_lost: events there was no room
  // for since the start; list() has their objects.
  bool next_event(ObjectEntry& event, std::int64_t timeout_ms, std::uint64_t* num_lost = nullptr);

  // Without waiting. `data` are copied before put_async returns; again: 64 calls are under way, or
  // data are larger than what is free of the first extent; use put. get_async is done when the
  // object is here (get with timeout 0 takes it) or cannot be had.
  Status put_async(const ObjectId& id, std::span<const std::byte> data, ObjectCall& call,
                   const ObjectOptions& options = {});
  Status get_async(const ObjectId& id, ObjectCall& call, std::int64_t timeout_ms);
  // For epoll: readable when progress() has something to do, after arm() gave true.
  int event_fd() const noexcept;
  bool arm();
  // Ends calls that are done, without waiting. True if there were any.
  bool progress();
  // Until the call is done; its status.
  Status wait(ObjectCall& call);

  // A thread that waits for the store asks this function about every 50 ms, and when a signal has
  // woken it; not 0: its call is given up and ends with cancelled, unless it is done by then; an
  // ObjectCall stays under way, and next_event gives false. Null: nothing is asked.
  void set_interrupt(int (*is_interrupted)()) noexcept;
  // The number of times it was not 0; valid as long as the ObjectStore.
  const int* interrupts() const noexcept;

 private:
  std::unique_ptr<ObjectStoreImpl> impl_;
};

}  // namespace weft
