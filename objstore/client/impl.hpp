#pragma once
// The inside of ObjectStore. Files: connect.cpp (meeting the store, extents),
// calls.cpp (requests, completions, sleep), objects.cpp (taking and releasing
// objects), puts.cpp (creating them), into.cpp (ranges into the program's memory),
// push.cpp (to other hosts), client.cpp (the public facade and all else).
//
// A child by fork has the parent's shared memory and descriptors. It must neither write there nor
// take the mutex, which another thread of the parent may have held: every call checks first.
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "objstore/shared/allocator.hpp"
#include "objstore/shared/index.hpp"
#include "objstore/shared/layout.hpp"
#include "objstore/shared/memory.hpp"
#include "weft/object_store.hpp"

namespace weft {

class ObjectStoreImpl {
 public:
  explicit ObjectStoreImpl(const ObjectStoreSettings& settings);
  ~ObjectStoreImpl();

  bool contains(const ObjectId& id);
  Status create(const ObjectId& id, std::uint64_t data_bytes, std::uint32_t metadata_bytes,
                ObjectBuffer& buffer, const ObjectOptions& options);
  Status seal(ObjectBuffer& buffer);
  void abort(ObjectBuffer& buffer) noexcept;
  Status put(const ObjectId& id, std::span<const std::byte> data,
             std::span<const std::byte> metadata, const ObjectOptions& options);
  Status get(std::span<const ObjectId> ids, std::span<Object> objects, std::int64_t timeout_ms);
  Status get_into(const ObjectId& id, std::uint64_t offset, std::span<std::byte> into,
                  std::uint64_t& data_bytes, std::int64_t timeout_ms);
  Status allocate(std::uint64_t bytes, ObjectMemory& memory);
  void free(ObjectMemory& memory) noexcept;
  Status push(const ObjectId& id, std::span<const std::string> hosts,
              std::vector<ObjectPush>& pushes, std::int64_t timeout_ms);
  // The call of one id that is only that.
  Status simple(objstore::Op op, const ObjectId& id);
  Status wait(std::span<const ObjectId> ids, std::size_t least, std::int64_t timeout_ms,
              bool fetches, std::vector<bool>& is_here);
  Status list(std::vector<ObjectEntry>& objects);
  Status status(std::string& json);
  Status subscribe();
  bool next_event(ObjectEntry& event, std::int64_t timeout_ms, std::uint64_t* num_lost);
  Status put_async(const ObjectId& id, std::span<const std::byte> data, ObjectCall& call,
                   const ObjectOptions& options);
  Status get_async(const ObjectId& id, ObjectCall& call, std::int64_t timeout_ms);
  void set_interrupt(int (*is_interrupted)()) noexcept {
    // release: what the function reads; pairs with sleep_until.
    is_interrupted_.store(is_interrupted, std::memory_order_release);
  }
  const int* interrupts() const noexcept { return &num_interrupts_; }
  int event_fd() const noexcept { return bell_.get(); }
  bool arm();
  bool progress();
  Status wait(ObjectCall& call);

  // For Object.
  bool take(const ObjectId& id, Object& object);
  void add_reference(std::uint32_t slot) noexcept;
  void release(std::uint32_t slot) noexcept;

 private:
  using Request = objstore::Request;
  using Completion = objstore::Completion;
  struct Pending {
    bool is_used = false, is_done = false;
    bool is_left = false;  // nobody waits for it any longer
    ObjectCall* call = nullptr;
    Completion completion{};
  };
  struct Extent {
    objstore::Mapping memory;
    objstore::Allocator space;
    bool is_there = false;
  };
  // Room in an extent; given back at the end of its life unless kept.
  struct Room {
    std::uint32_t extent = 0;
    std::uint64_t offset = 0, bytes = 0;
    std::byte* memory = nullptr;
  };

  // connect.cpp
  void meet();
  // With growth_mutex_ held: room in an extent that the store makes for it.
  Status more_extent(std::uint64_t bytes, Room& room);
  // calls.cpp; `locked` ones are called with mutex_ held.
  bool submit_locked(Request& request, ObjectCall* call);
  bool take_completions_locked();
  bool store_is_gone();
  // Carries a call out; a store that does not answer within limit_ms beyond the call's own timeout
  // makes timed_out. The error has a text.
  Status call(Request& request, Completion& completion);
  Status start(Request& request, std::uint32_t& tag, ObjectCall* call, std::uint64_t deadline_ns);
  Status finish(std::uint32_t tag, std::uint64_t deadline_ns, Completion& completion);
  enum class Slept { done, late, lost, interrupted };
  template <class Done>
  Slept sleep_until(Done&& done, std::uint64_t deadline_ns, bool for_events = false,
                    bool may_be_interrupted = true);
  Status not_answered(Slept slept) const;
  // Of a child by fork; ok in the process that has connected.
  Status check_process() const;
  Status has_ended() const;
  Status error_of(objstore::Op op, const ObjectId& id, std::uint32_t code,
                  objstore::Reason reason) const;
  // puts.cpp
  Status take_room(std::uint64_t bytes, Room& room);
  bool find_room(std::uint64_t bytes, Room& room);
  void give_room(const Room& room) noexcept;
  // After a call: the store may still read for one that it has not answered.
  void give_room(const Room& room, const Completion& completion) noexcept {
    if (completion.tag != kUnanswered) give_room(room);
  }
  Status put_in_pieces(Request& request, std::span<const std::byte> data,
                       std::span<const std::byte> metadata);
  // into.cpp
  bool room_of(std::span<std::byte> memory, Room& room);
  bool copy_from_here(const ObjectId& id, std::uint64_t offset, std::span<std::byte> into,
                      std::uint64_t& data_bytes);
  static Status check_range(const ObjectId& id, std::uint64_t offset, std::uint64_t data_bytes);
  // objects.cpp
  bool take_locked(const ObjectId& id, Object& object);
  std::uint32_t free_slot_locked();
  Status wait_for(std::span<const ObjectId> ids, std::size_t least, std::int64_t timeout_ms,
                  bool fetches, std::uint32_t& num_here, bool* lacks_room = nullptr);

  objstore::Control& control() const {
    return *reinterpret_cast<objstore::Control*>(control_.data());
  }

  static constexpr std::uint32_t kUnanswered = UINT32_MAX;  // a Completion's tag before it is one

  const std::string socket_path_, name_;
  objstore::ForkMark fork_mark_;
  std::atomic<int (*)()> is_interrupted_{nullptr};
  int num_interrupts_ = 0;  // changed through atomic_ref
  Descriptor socket_, doorbell_, bell_;
  objstore::IndexView index_;
  objstore::Mapping segment_, control_;
  // The slot, and 1, of each entry that has one; sparse.
  objstore::Mapping slot_of_;

  std::mutex growth_mutex_;  // one ExtentWish at a time; taken before mutex_
  std::mutex mutex_;         // all below
  std::array<Extent, objstore::kMaxExtents> extents_;
  std::array<Pending, objstore::kCalls> pending_;
  std::uint32_t num_under_way_ = 0, submitted_ = 0, completed_ = 0;
  std::uint32_t slots_used_ = 0, slot_hand_ = 0;
  std::uint64_t events_read_ = 0;
  std::atomic<bool> is_lost_{false};  // the store ended; set under mutex_
};

}  // namespace weft
