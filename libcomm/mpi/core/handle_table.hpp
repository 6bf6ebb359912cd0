#pragma once
// HandleTable: maps the handles that a program has to the library's objects of one kind.
//
// A handle is never dereferenced. It is an integer stored as a pointer,
//   bits 32..62 generation of the slot, bits 27..30 kind, bits 0..23 index of the slot,
// so it lies above the 4095 values that the standard reserves for predefined handles, its lower
// half is the positive int of MPI_*_toint, and a null, freed, foreign or garbage handle finds
// nothing. Looking up costs two loads and a compare and takes no lock. Predefined handles (below
// 4096) are not in the table.
//
// Threads: any thread may call any function. insert() and erase() take a mutex if multi_threaded()
// is set, and always for kinds that any thread makes and ends at any time, before MPI_Init as well.
// Erasing a handle while another thread uses it is the program's error; then the object may be
// gone, so objects that outlive their handle (pending operations) are counted by their owner.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace weft::mpi {

enum class Kind : unsigned {
  comm = 1,
  datatype,
  errhandler,
  file,
  group,
  info,
  message,
  op,
  request,
  session,
  win,
  tool  // all kinds of the tool interface
};

// True if MPI_THREAD_MULTIPLE was granted or there is a progress thread; written before another
// thread may call. relaxed: no other memory depends on it.
inline std::atomic<bool> threads_may_call{false};
inline bool multi_threaded() noexcept { return threads_may_call.load(std::memory_order_relaxed); }

// A lock of a mutex, which costs one branch while one thread at a time calls.
class OptionalLock {
 public:
  explicit OptionalLock(std::mutex& mutex, bool always = false) noexcept
      : mutex_(always || multi_threaded() ? &mutex : nullptr) {
    if (mutex_ != nullptr) mutex_->lock();
  }
  ~OptionalLock() {
    if (mutex_ != nullptr) mutex_->unlock();
  }
  OptionalLock(const OptionalLock&) = delete;
  OptionalLock& operator=(const OptionalLock&) = delete;

 private:
  std::mutex* mutex_;
};

inline bool is_predefined(const void* handle) noexcept {
  return reinterpret_cast<std::uintptr_t>(handle) < 4096;
}

// Handle: the pointer type of mpi.h, such as MPI_Comm. T: the object; the table does not own it.
template <class Handle, class T, Kind kind>
class HandleTable {
  struct Slot;
  static constexpr bool kAnyTime =
      kind == Kind::session || kind == Kind::info || kind == Kind::errhandler || kind == Kind::tool;

 public:
  HandleTable() = default;
  ~HandleTable() {
    for (auto& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
  }
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  // Returns the object, or null.
  T* find(Handle handle) const noexcept {
    const auto value = reinterpret_cast<std::uintptr_t>(handle);
    const Slot* slot = find_slot(value & kIndexMask);
    // Pairs with the release in insert: the object's pointer is visible once the handle is.
    if (slot == nullptr || slot->handle.load(std::memory_order_acquire) != value) return nullptr;
    return slot->object;
  }

  // Returns a new handle for the object; null if 16 million are in use.
  Handle insert(T* object) {
    OptionalLock lock(mutex_, kAnyTime);
    const std::uint32_t index = take_index();
    if (index == kNoIndex) return nullptr;
    slot_at(index).object = object;
    return name(slot_at(index), index);
  }

  // Makes the handle invalid. Returns its object, or null if it was not valid.
  T* erase(Handle handle) noexcept {
    OptionalLock lock(mutex_, kAnyTime);
    T* object = find(handle);
    if (object == nullptr) return nullptr;
    const auto index =
        static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(handle) & kIndexMask);
    Slot& slot = slot_at(index);
    slot.handle.store(kFreeSlot, std::memory_order_release);
    slot.next_free = free_;
    free_ = index;
    return object;
  }

  // A reserved slot of the table, for an object that gets and loses its handle often. It lasts as
  // long as the table; open() and close() take no lock. One thread at a time opens and closes a
  // slot.
  class SlotRef {
   public:
    bool is_valid() const noexcept { return slot_ != nullptr; }

   private:
    friend HandleTable;
    Slot* slot_ = nullptr;
    std::uint32_t index_ = 0;
  };
  // Reserves a slot; the result is not valid if 16 million are in use.
  SlotRef reserve(T* object) {
    OptionalLock lock(mutex_, kAnyTime);
    SlotRef slot_ref;
    slot_ref.index_ = take_index();
    if (slot_ref.index_ == kNoIndex) return slot_ref;
    slot_ref.slot_ = &slot_at(slot_ref.index_);
    slot_ref.slot_->object = object;
    return slot_ref;
  }
  Handle open(const SlotRef& slot_ref) noexcept { return name(*slot_ref.slot_, slot_ref.index_); }
  void close(const SlotRef& slot_ref) noexcept {
    slot_ref.slot_->handle.store(kFreeSlot, std::memory_order_release);
  }

  // The two directions of MPI_*_toint and MPI_*_fromint. An int that names nothing gives a handle
  // that finds nothing.
  static int to_int(Handle handle) noexcept {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(handle) & 0x7fffffffu);
  }
  Handle from_int(int number) const noexcept {
    const auto value = static_cast<std::uintptr_t>(static_cast<unsigned>(number));
    if (value >= 4096) {
      if (const Slot* slot = find_slot(value & kIndexMask)) {
        const std::uintptr_t whole = slot->handle.load(std::memory_order_acquire);
        if (whole != kFreeSlot && (whole & 0xffffffffu) == value)
          return reinterpret_cast<Handle>(whole);
      }
    }
    return reinterpret_cast<Handle>(value);
  }

  // Calls visit(handle, object) for every valid handle. No other thread may insert or erase
  // meanwhile; visit may erase the handle it got.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::uint32_t index = 0; index < used_; ++index) {
      const std::uintptr_t value = slot_at(index).handle.load(std::memory_order_acquire);
      if (value != kFreeSlot) visit(reinterpret_cast<Handle>(value), slot_at(index).object);
    }
  }

 private:
  static constexpr unsigned kIndexBits = 24;
  static constexpr std::uintptr_t kIndexMask = (std::uintptr_t{1} << kIndexBits) - 1;
  static constexpr unsigned kChunkBits = 10;
  static constexpr std::size_t kChunkSlots = std::size_t{1} << kChunkBits;
  static constexpr std::uint32_t kNoIndex = ~std::uint32_t{0};
  // The value of a free slot. No handle has it: its index is never given out.
  static constexpr std::uintptr_t kFreeSlot = ~std::uintptr_t{0};

  struct Slot {
    std::atomic<std::uintptr_t> handle{kFreeSlot};
    union {
      T* object = nullptr;      // while in use
      std::uint32_t next_free;  // while free
    };
    std::uint32_t generation = 0;
  };

  Slot* find_slot(std::uintptr_t index) const noexcept {
    Slot* chunk = chunks_[index >> kChunkBits].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : &chunk[index & (kChunkSlots - 1)];
  }
  Slot& slot_at(std::uint32_t index) noexcept { return *find_slot(index); }

  // Takes a free index, with the mutex held; kNoIndex if none is left.
  std::uint32_t take_index() {
    const std::uint32_t free = free_;
    if (free != kNoIndex) {
      free_ = slot_at(free).next_free;
      return free;
    }
    if (used_ == kIndexMask) return kNoIndex;
    auto& chunk = chunks_[used_ >> kChunkBits];
    if (chunk.load(std::memory_order_relaxed) == nullptr)
      chunk.store(new Slot[kChunkSlots], std::memory_order_release);  // pairs with find_slot
    return used_++;
  }
  // Gives the slot a new handle.
  static Handle name(Slot& slot, std::uint32_t index) noexcept {
    slot.generation = (slot.generation + 1) & 0x7fffffffu;
    const std::uintptr_t value = (static_cast<std::uintptr_t>(slot.generation) << 32) |
                                 (static_cast<std::uintptr_t>(kind) << 27) | index;
    slot.handle.store(value, std::memory_order_release);  // pairs with find
    return reinterpret_cast<Handle>(value);
  }

  std::atomic<Slot*> chunks_[std::size_t{1} << (kIndexBits - kChunkBits)]{};
  std::mutex mutex_;
  std::uint32_t free_ = kNoIndex;  // head of the free list, under mutex_
  std::uint32_t used_ = 0;         // slots ever given out, under mutex_
};

}  // namespace weft::mpi
