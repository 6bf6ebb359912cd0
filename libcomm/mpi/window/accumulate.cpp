// Accumulate, get_accumulate, fetch_and_op and compare_and_swap. An element is changed by the
// processor's atomics or under the target's accumulate lock (window.hpp). The choice depends on the
// window, the element's type and its address alone, so that all processes that change an element
// choose the same.
//
// All operations have ended when they return, which also gives the order that the standard wants.
#include <atomic>
#include <cstring>
#include <memory>
#include <new>

#include "mpi/core/request.hpp"
#include "mpi/op/op.hpp"
#include "mpi/p2p/transfer.hpp"
#include "mpi/window/access.hpp"
#include "weft/copy.hpp"

namespace weft::mpi {
namespace {

// The properties of one element of a type.
struct Element {
  const Datatype* type = nullptr;  // predefined
  std::size_t bytes = 0;           // packed

  bool has_atomics() const noexcept {
    return type->class_ != BasicClass::pair &&
           (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
  }
};

// Finds the one predefined type that all of `type` is made of. False: there are several, or none.
bool find_element(const Datatype& type, Element& element) {
  if (type.predefined_) {
    if (element.type != nullptr && element.type != &type &&
        (element.type->basic_ != type.basic_ || element.bytes != type.size()))
      return false;
    element = {&type, type.size()};
    return true;
  }
  for (std::size_t i = 0; i < type.types_.size(); ++i) {
    if (type.types_[i]->size() == 0) continue;
    if (type.combiner_ == MPI_COMBINER_STRUCT &&
        (type.large_ ? type.counts_[1 + i] : type.integers_[1 + i]) == 0)
      continue;  // a block of no elements
    if (!find_element(*type.types_[i], element)) return false;
  }
  return element.type != nullptr;
}

// The change of each element: target = origin op target, for the operations that have a kernel.
struct Change {
  enum Kind { replace, none, reduce } kind = reduce;
  Kernel kernel = nullptr;
  bool is_integer_sum = false;

  void apply(const std::byte* in, std::byte* at, std::size_t num, std::size_t bytes) const {
    if (kind == reduce)
      kernel(in, at, num, nullptr);
    else if (kind == replace)
      std::memcpy(at, in, num * bytes);
  }
};

// Finds the change of an operation: MPI_SUCCESS or MPI_ERR_OP.
int find_change(MPI_Op handle, const Element& element, Change& change) {
  const Op* op = find_op(handle);
  if (op == nullptr || !op->predefined) return MPI_ERR_OP;
  if (handle == MPI_REPLACE) {
    change.kind = Change::replace;
  } else if (handle == MPI_NO_OP) {
    change.kind = Change::none;
  } else {
    change.kernel = find_kernel(op->code, element.type->basic_, element.type->class_);
    change.is_integer_sum = handle == MPI_SUM && (element.type->class_ == BasicClass::integer ||
                                                  element.type->class_ == BasicClass::multi);
    if (change.kernel == nullptr) return MPI_ERR_OP;
  }
  return MPI_SUCCESS;
}

// Changes one element by the processor's atomics; returns its old value. acq_rel: an accumulate may
// signal that other data are there.
template <class T>
T change_one(T* at, const T& operand, const Change& change) {
  const std::atomic_ref<T> word(*at);
  if (change.kind == Change::replace) return word.exchange(operand, std::memory_order_acq_rel);
  T before = word.load(std::memory_order_acquire);
  if (change.kind == Change::none) return before;
  if (change.is_integer_sum) return word.fetch_add(operand, std::memory_order_acq_rel);
  for (;;) {
    T after = before;
    change.kernel(&operand, &after, 1, nullptr);
    if (word.compare_exchange_weak(before, after, std::memory_order_acq_rel,
                                   std::memory_order_acquire))
      return before;
  }
}

template <class T>
void change_each(std::byte* at, const std::byte* in, std::byte* result, std::size_t num,
                 const Change& change) {
  for (std::size_t i = 0; i < num; ++i) {
    T operand{};
    if (in != nullptr) std::memcpy(&operand, in + i * sizeof(T), sizeof(T));
    const T before = change_one(reinterpret_cast<T*>(at) + i, operand, change);
    if (result != nullptr) std::memcpy(result + i * sizeof(T), &before, sizeof(T));
  }
}

// Calls visit(T{}) with the unsigned integer of so many bytes. False: there is no such integer.
template <class Visit>
bool with_integer(std::size_t bytes, Visit&& visit) {
  switch (bytes) {
    case 1:
      return visit(std::uint8_t{}), true;
    case 2:
      return visit(std::uint16_t{}), true;
    case 4:
      return visit(std::uint32_t{}), true;
    case 8:
      return visit(std::uint64_t{}), true;
    default:
      return false;
  }
}

bool is_aligned(const std::byte* at, std::size_t bytes) noexcept {
  return reinterpret_cast<std::uintptr_t>(at) % bytes == 0;
}

// Calls `change`, which changes elements by atomics and does not wait.
template <class Call>
Code by_atomics(Window& window, int target, Call&& change) {
  if (!window.is_direct) {
    change();
    return Code::ok;
  }
  {
    const AtomicChange atomic_change(window, target);
    if (atomic_change.is_allowed()) [[likely]] {
      change();
      return Code::ok;
    }
  }
  AccumulateLock lock(window, target);
  if (lock.code() != Code::ok) return lock.code();
  change();
  return lock.release();
}

// From so many elements at a member of this host on, the lock is cheaper than an atomic instruction
// an element, although the words of all these members are read for it.
constexpr std::size_t kManyElements = 16;

// Changes many elements under the lock. `in` and `result` are packed, of `bytes` bytes; `in` is
// null for MPI_NO_OP, `result` if the caller does not want it.
Code change_many(Window& window, const TargetMemory& memory, const Element& element,
                 const Change& change, const std::byte* in, std::byte* result, std::size_t bytes) {
  AccumulateLock lock(window, memory.target);
  Code code = lock.code();
  if (code == Code::ok) code = lock.wait_for_atomics();
  if (code != Code::ok) return code;
  for_each_piece(*memory.type, memory.count, [&](std::ptrdiff_t offset, std::size_t length) {
    length = std::min(length, bytes);
    std::byte* at = memory.place + offset;
    if (result != nullptr) detail::copy(result, at, length);
    change.apply(in, at, length / element.bytes, element.bytes);
    bytes -= length;
    if (in != nullptr) in += length;
    if (result != nullptr) result += length;
  });
  return lock.release();
}

Code change_directly(Window& window, const TargetMemory& memory, const Element& element,
                     const Change& change, const std::byte* in, std::byte* result,
                     std::size_t bytes) {
  if (window.is_direct && bytes / element.bytes >= kManyElements * window.host_members.size())
    return change_many(window, memory, element, change, in, result, bytes);
  Code code = Code::ok;
  for_each_piece(*memory.type, memory.count, [&](std::ptrdiff_t offset, std::size_t length) {
    length = std::min(length, bytes);
    if (length == 0 || code != Code::ok) return;
    std::byte* at = memory.place + offset;
    if (is_aligned(at, element.bytes)) {
      code = by_atomics(window, memory.target, [&] {
        with_integer(element.bytes, [&]<class T>(T) {
          change_each<T>(at, in, result, length / element.bytes, change);
        });
      });
    } else {
      AccumulateLock lock(window, memory.target);
      code = lock.code();
      if (code != Code::ok) return;
      if (result != nullptr) std::memcpy(result, at, length);
      change.apply(in, at, length / element.bytes, element.bytes);
    }
    bytes -= length;
    if (in != nullptr) in += length;
    if (result != nullptr) result += length;
  });
  return code;
}

// Changes elements in a copy, with the target's lock held: `read` fetches them into `values`,
// `write` puts them back.
template <class Read, class Write>
Code change_copy(AccumulateLock& lock, const Element& element, const Change& change,
                 const std::byte* in, std::byte* result, std::byte* values, std::size_t bytes,
                 Read&& read, Write&& write) {
  if (result != nullptr || change.kind == Change::reduce)
    if (const Code code = read(); code != Code::ok) return code;
  if (result != nullptr) std::memcpy(result, values, bytes);
  if (change.kind != Change::none) {
    change.apply(in, values, bytes / element.bytes, element.bytes);
    if (const Code code = write(); code != Code::ok) return code;
  }
  return lock.release();
}

Code change_locked(Window& window, const TargetMemory& memory, const Element& element,
                   const Change& change, const std::byte* in, std::byte* result,
                   std::size_t bytes) {
  const bool in_place = memory.place != nullptr && memory.type->is_contiguous();
  const std::unique_ptr<std::byte[]> values(in_place ? nullptr : new std::byte[bytes]);
  AccumulateLock lock(window, memory.target);
  if (lock.code() != Code::ok) return lock.code();
  if (in_place) {
    std::byte* at = memory.place + memory.type->true_lb();
    if (result != nullptr) detail::copy(result, at, bytes);
    change.apply(in, at, bytes / element.bytes, element.bytes);
    return lock.release();
  }
  return change_copy(
      lock, element, change, in, result, values.get(), bytes,
      [&] { return read_target(window, memory, values.get(), bytes); },
      [&] { return write_target(window, memory, values.get(), bytes); });
}

// Changes one element by the fabric's atomics on the 8 bytes around it. `change(word)` gives their
// new value; `before` is their old value.
template <class NewValue>
Code change_word(Window& window, const TargetMemory& memory, std::size_t offset,
                 NewValue&& new_value, std::uint64_t& before) {
  Lanes& lanes = window.lanes_to(memory.target);
  const int peer = window.world(memory.target);
  Code code = lanes.fetch_add(peer, memory.memory, offset, 0, before);
  for (std::uint64_t expected = ~before; code == Code::ok && before != expected;) {
    expected = before;
    code = lanes.cas(peer, memory.memory, offset, expected, new_value(expected), before);
    if (code == Code::ok && before != expected) code = check_member(window, memory.target);
  }
  return code;
}

Code change_piece_locked(Window& window, const TargetMemory& memory, std::size_t offset,
                         std::size_t bytes, const Element& element, const Change& change,
                         const std::byte* in, std::byte* result) {
  const std::unique_ptr<std::byte[]> values(new std::byte[bytes]);
  Lanes& lanes = window.lanes_to(memory.target);
  const int peer = window.world(memory.target);
  AccumulateLock lock(window, memory.target);
  if (lock.code() != Code::ok) return lock.code();
  return change_copy(
      lock, element, change, in, result, values.get(), bytes,
      [&] { return lanes.get(peer, memory.memory, offset, values.get(), bytes); },
      [&] { return lanes.put(peer, memory.memory, offset, values.get(), bytes); });
}

// Changes elements of a window by words at a target on another host. Elements that are not aligned
// are changed under the lock, as in all windows.
Code change_by_words(Window& window, const TargetMemory& memory, const Element& element,
                     const Change& change, const std::byte* in, std::byte* result,
                     std::size_t bytes) {
  Lanes& lanes = window.lanes_to(memory.target);
  const int peer = window.world(memory.target);
  Code code = Code::ok;
  const auto change_element = [&](std::size_t offset) {
    const std::size_t inside = offset % 8;
    std::uint64_t before = 0, operand = 0;
    if (in != nullptr) std::memcpy(&operand, in, element.bytes);
    if (change.is_integer_sum && element.bytes == 8)
      code = lanes.fetch_add(peer, memory.memory, offset, operand, before);
    else if (change.kind == Change::none)
      code = lanes.fetch_add(peer, memory.memory, offset - inside, 0, before);
    else
      code = change_word(
          window, memory, offset - inside,
          [&](std::uint64_t word) {
            change.apply(in, reinterpret_cast<std::byte*>(&word) + inside, 1, element.bytes);
            return word;
          },
          before);
    if (result != nullptr)
      std::memcpy(result, reinterpret_cast<const std::byte*>(&before) + inside, element.bytes);
  };
  for_each_piece(*memory.type, memory.count, [&](std::ptrdiff_t at, std::size_t length) {
    length = std::min(length, bytes);
    bytes -= length;
    auto offset = static_cast<std::size_t>(memory.offset + at);
    if (offset % element.bytes != 0 && length != 0 && code == Code::ok) {
      code = change_piece_locked(window, memory, offset, length, element, change, in, result);
      if (in != nullptr) in += length;
      if (result != nullptr) result += length;
      return;
    }
    for (; length != 0 && code == Code::ok; length -= element.bytes, offset += element.bytes) {
      change_element(offset);
      if (in != nullptr) in += element.bytes;
      if (result != nullptr) result += element.bytes;
    }
  });
  return code;
}

Code change_target(Window& window, const TargetMemory& memory, const Element& element,
                   const Change& change, const std::byte* in, std::byte* result,
                   std::size_t bytes) {
  if (!element.has_atomics() || (!window.is_direct && !window.by_words))
    return change_locked(window, memory, element, change, in, result, bytes);
  return memory.place != nullptr
             ? change_directly(window, memory, element, change, in, result, bytes)
             : change_by_words(window, memory, element, change, in, result, bytes);
}

struct AccumulateArguments {
  const void* origin;
  MPI_Count origin_count;
  MPI_Datatype origin_type;
  void* result;  // used if has_result
  MPI_Count result_count;
  MPI_Datatype result_type;
  bool has_result;
  int target;
  MPI_Aint displacement;
  MPI_Count count;
  MPI_Datatype type;
  MPI_Op op;
  MPI_Win win;
};

int accumulate(const AccumulateArguments& arguments, const char* function) {
  Window* window = find_window(arguments.win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, function);
  TargetMemory memory;
  int code = find_target(*window, arguments.target, arguments.displacement, arguments.count,
                         arguments.type, memory);
  if (code == kNothingToDo) return MPI_SUCCESS;
  Element element;
  Change change;
  if (code == MPI_SUCCESS && !find_element(*memory.type, element)) code = MPI_ERR_TYPE;
  if (code == MPI_SUCCESS) code = find_change(arguments.op, element, change);
  if (code == MPI_SUCCESS && change.kind == Change::none && !arguments.has_result)
    code = MPI_ERR_OP;
  std::size_t bytes = memory.bytes;
  Datatype* origin_type = nullptr;
  // MPI_NO_OP does not read the origin.
  if (code == MPI_SUCCESS && change.kind != Change::none) {
    code = find_origin(arguments.origin, arguments.origin_count, arguments.origin_type, origin_type,
                       bytes);
    if (code == MPI_SUCCESS && bytes > memory.bytes) code = MPI_ERR_TRUNCATE;
    Element of_origin;
    if (code == MPI_SUCCESS && bytes != 0 &&
        (!find_element(*origin_type, of_origin) || of_origin.bytes != element.bytes))
      code = MPI_ERR_TYPE;
  }
  Datatype* result_type = nullptr;
  std::size_t room = 0;
  if (code == MPI_SUCCESS && arguments.has_result) {
    code = find_origin(arguments.result, arguments.result_count, arguments.result_type, result_type,
                       room);
    if (code == MPI_SUCCESS && room < bytes) code = MPI_ERR_TRUNCATE;
  }
  if (code != MPI_SUCCESS) return raise_access(window, code, function);
  if (bytes == 0) return MPI_SUCCESS;

  std::unique_ptr<std::byte[]> packed, unpacked;
  const std::byte* in = nullptr;
  if (origin_type != nullptr) {
    in = reinterpret_cast<const std::byte*>(first_byte(arguments.origin, *origin_type));
    if (!origin_type->is_contiguous()) {
      packed.reset(new std::byte[bytes]);
      origin_type->pack(packed.get(), arguments.origin, arguments.origin_count);
      in = packed.get();
    }
  }
  std::byte* result = nullptr;
  if (result_type != nullptr) {
    result = reinterpret_cast<std::byte*>(first_byte(arguments.result, *result_type));
    if (!result_type->is_contiguous()) {
      unpacked.reset(new std::byte[bytes]);
      result = unpacked.get();
    }
  }
  const Code done = change_target(*window, memory, element, change, in, result, bytes);
  if (done != Code::ok) return raise_access(window, class_of(*window, done), function);
  if (unpacked != nullptr)
    result_type->unpack(arguments.result, unpacked.get(), arguments.result_count, bytes);
  return MPI_SUCCESS;
}

int accumulate_with_request(const AccumulateArguments& arguments, MPI_Request* request,
                            const char* function) {
  if (const int code = check_request(arguments.win, request, function); code != MPI_SUCCESS)
    return code;
  const int code = accumulate(arguments, function);
  if (code == MPI_SUCCESS) *request = done_send_handle;
  return code;
}

// Returns the address of one element that the processor's atomics may change, or null.
std::byte* atomic_place(const Window& window, const TargetMemory& memory) noexcept {
  std::byte* at = memory.place;
  return (window.is_direct || window.by_words) && at != nullptr && is_aligned(at, memory.bytes)
             ? at
             : nullptr;
}

bool is_swappable(const Datatype& type) noexcept {
  switch (type.class_) {
    case BasicClass::integer:
    case BasicClass::logical:
    case BasicClass::byte:
    case BasicClass::multi:
      return true;
    default:
      return false;
  }
}

template <class T>
void swap_one(std::byte* at, const void* compare, const void* origin, void* result) {
  T expected, desired;
  std::memcpy(&expected, compare, sizeof(T));
  std::memcpy(&desired, origin, sizeof(T));
  std::atomic_ref(*reinterpret_cast<T*>(at))
      .compare_exchange_strong(expected, desired, std::memory_order_acq_rel);
  std::memcpy(result, &expected, sizeof(T));
}

int compare_and_swap(const void* origin, const void* compare, void* result, MPI_Datatype handle,
                     int target, MPI_Aint displacement, MPI_Win win, const char* function) {
  Window* window = find_window(win);
  if (window == nullptr) [[unlikely]]
    return raise_on(nullptr, MPI_ERR_WIN, function);
  TargetMemory memory;
  int code = find_target(*window, target, displacement, 1, handle, memory);
  if (code == kNothingToDo) return MPI_SUCCESS;
  if (code == MPI_SUCCESS && (!memory.type->predefined_ || !is_swappable(*memory.type)))
    return raise_on(window, MPI_ERR_TYPE, function,
                    "only integers, logicals and bytes are compared");
  if (code == MPI_SUCCESS && (origin == nullptr || compare == nullptr || result == nullptr))
    code = MPI_ERR_BUFFER;
  if (code != MPI_SUCCESS) [[unlikely]]
    return raise_access(window, code, function);
  if (std::byte* at = atomic_place(*window, memory); at != nullptr && memory.bytes <= 8) {
    const Code done = by_atomics(*window, target, [&] {
      with_integer(memory.bytes, [&]<class T>(T) { swap_one<T>(at, compare, origin, result); });
    });
    return done == Code::ok ? MPI_SUCCESS : raise_access(window, class_of(*window, done), function);
  }
  const auto offset = static_cast<std::size_t>(memory.offset);
  if (window->by_words && memory.place == nullptr && memory.bytes <= 8 &&
      offset % memory.bytes == 0) {
    std::uint64_t word = 0;
    const std::size_t inside = offset % 8;
    const Code done = change_word(
        *window, memory, offset - inside,
        [&](std::uint64_t value) {
          auto* at = reinterpret_cast<std::byte*>(&value) + inside;
          if (std::memcmp(at, compare, memory.bytes) == 0) std::memcpy(at, origin, memory.bytes);
          return value;
        },
        word);
    if (done != Code::ok) return raise_access(window, class_of(*window, done), function);
    std::memcpy(result, reinterpret_cast<const std::byte*>(&word) + inside, memory.bytes);
    return MPI_SUCCESS;
  }
  std::byte before[16];  // the longest of these types
  AccumulateLock lock(*window, target);
  Code done = lock.code();
  if (done == Code::ok) done = read_target(*window, memory, before, memory.bytes);
  if (done == Code::ok && std::memcmp(before, compare, memory.bytes) == 0)
    done = write_target(*window, memory, origin, memory.bytes);
  if (done == Code::ok) done = lock.release();
  if (done != Code::ok) return raise_access(window, class_of(*window, done), function);
  std::memcpy(result, before, memory.bytes);
  return MPI_SUCCESS;
}

int fetch_and_op(const void* origin, void* result, MPI_Datatype handle, int target,
                 MPI_Aint displacement, MPI_Op op, MPI_Win win, const char* function) {
  Window* window = find_window(win);
  if (window == nullptr) [[unlikely]]
    return raise_on(nullptr, MPI_ERR_WIN, function);
  const Datatype* type = find_datatype(handle);
  if (type != nullptr && !type->predefined_)
    return raise_on(window, MPI_ERR_TYPE, function, "not a predefined datatype");
  TargetMemory memory;
  int code = find_target(*window, target, displacement, 1, handle, memory);
  if (code == kNothingToDo) return MPI_SUCCESS;
  Element element;
  Change change;
  if (code == MPI_SUCCESS) {
    element = {memory.type, memory.bytes};
    code = find_change(op, element, change);
  }
  if (code == MPI_SUCCESS &&
      (result == nullptr || (origin == nullptr && change.kind != Change::none)))
    code = MPI_ERR_BUFFER;
  if (code != MPI_SUCCESS) [[unlikely]]
    return raise_access(window, code, function);
  // MPI_NO_OP does not read the origin.
  const auto* in = change.kind == Change::none ? nullptr : static_cast<const std::byte*>(origin);
  std::byte* at = atomic_place(*window, memory);
  if (at != nullptr && element.has_atomics()) [[likely]] {
    const Code done = by_atomics(*window, target, [&] {
      with_integer(element.bytes, [&]<class T>(T) {
        change_each<T>(at, in, static_cast<std::byte*>(result), 1, change);
      });
    });
    return done == Code::ok ? MPI_SUCCESS : raise_access(window, class_of(*window, done), function);
  }
  if (type->is_contiguous()) {
    const Code done = change_target(*window, memory, element, change, in,
                                    static_cast<std::byte*>(result), element.bytes);
    return done == Code::ok ? MPI_SUCCESS : raise_access(window, class_of(*window, done), function);
  }
  // A pair with a gap.
  return accumulate(
      {origin, 1, handle, result, 1, handle, true, target, displacement, 1, handle, op, win},
      function);
}

}  // namespace
}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Compare_and_swap)
(const void* origin, const void* compare, void* result, MPI_Datatype type, int target,
 MPI_Aint displacement, MPI_Win win) {
  return compare_and_swap(origin, compare, result, type, target, displacement, win, __func__);
}
MPI_FUNCTION(Fetch_and_op)
(const void* origin, void* result, MPI_Datatype type, int target, MPI_Aint displacement, MPI_Op op,
 MPI_Win win) {
  return fetch_and_op(origin, result, type, target, displacement, op, win, __func__);
}
MPI_FUNCTION(Accumulate)
(const void* origin, int origin_count, MPI_Datatype origin_type, int target, MPI_Aint displacement,
 int count, MPI_Datatype type, MPI_Op op, MPI_Win win) {
  return accumulate({origin, origin_count, origin_type, nullptr, 0, MPI_DATATYPE_NULL, false,
                     target, displacement, count, type, op, win},
                    __func__);
}
MPI_FUNCTION(Raccumulate)
(const void* origin, int origin_count, MPI_Datatype origin_type, int target, MPI_Aint displacement,
 int count, MPI_Datatype type, MPI_Op op, MPI_Win win, MPI_Request* request) {
  return accumulate_with_request({origin, origin_count, origin_type, nullptr, 0, MPI_DATATYPE_NULL,
                                  false, target, displacement, count, type, op, win},
                                 request, __func__);
}
MPI_FUNCTION(Accumulate_c)
(const void* origin, MPI_Count origin_count, MPI_Datatype origin_type, int target,
 MPI_Aint displacement, MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Win win) {
  return accumulate({origin, origin_count, origin_type, nullptr, 0, MPI_DATATYPE_NULL, false,
                     target, displacement, count, type, op, win},
                    __func__);
}
MPI_FUNCTION(Raccumulate_c)
(const void* origin, MPI_Count origin_count, MPI_Datatype origin_type, int target,
 MPI_Aint displacement, MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Win win,
 MPI_Request* request) {
  return accumulate_with_request({origin, origin_count, origin_type, nullptr, 0, MPI_DATATYPE_NULL,
                                  false, target, displacement, count, type, op, win},
                                 request, __func__);
}
MPI_FUNCTION(Get_accumulate)
(const void* origin, int origin_count, MPI_Datatype origin_type, void* result, int result_count,
 MPI_Datatype result_type, int target, MPI_Aint displacement, int count, MPI_Datatype type,
 MPI_Op op, MPI_Win win) {
  return accumulate({origin, origin_count, origin_type, result, result_count, result_type, true,
                     target, displacement, count, type, op, win},
                    __func__);
}
MPI_FUNCTION(Rget_accumulate)
(const void* origin, int origin_count, MPI_Datatype origin_type, void* result, int result_count,
 MPI_Datatype result_type, int target, MPI_Aint displacement, int count, MPI_Datatype type,
 MPI_Op op, MPI_Win win, MPI_Request* request) {
  return accumulate_with_request({origin, origin_count, origin_type, result, result_count,
                                  result_type, true, target, displacement, count, type, op, win},
                                 request, __func__);
}
MPI_FUNCTION(Get_accumulate_c)
(const void* origin, MPI_Count origin_count, MPI_Datatype origin_type, void* result,
 MPI_Count result_count, MPI_Datatype result_type, int target, MPI_Aint displacement,
 MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Win win) {
  return accumulate({origin, origin_count, origin_type, result, result_count, result_type, true,
                     target, displacement, count, type, op, win},
                    __func__);
}
MPI_FUNCTION(Rget_accumulate_c)
(const void* origin, MPI_Count origin_count, MPI_Datatype origin_type, void* result,
 MPI_Count result_count, MPI_Datatype result_type, int target, MPI_Aint displacement,
 MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Win win, MPI_Request* request) {
  return accumulate_with_request({origin, origin_count, origin_type, result, result_count,
                                  result_type, true, target, displacement, count, type, op, win},
                                 request, __func__);
}
