// Events: a peer is lost, too much of a peer waits unmatched, memory is shared, a communicator is
// revoked. They are raised where they happen, in the middle of the library; a callback that was
// registered as safe for that is called at once, any other at the next call of a function of the
// interface. Until then up to kMostWaiting events of a registration are kept; further ones are
// dropped and counted.
#include <time.h>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <limits>

#include "mpi/core/info.hpp"
#include "mpi/tools/tools.hpp"

namespace weft::mpi::tools {
namespace {

constexpr std::size_t kMostWaiting = 64;
constexpr std::size_t kMostElements = 2;
constexpr MPI_T_cb_safety kLevels[] = {MPI_T_CB_REQUIRE_NONE, MPI_T_CB_REQUIRE_MPI_RESTRICTED,
                                       MPI_T_CB_REQUIRE_THREAD_SAFE,
                                       MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE};
constexpr std::size_t kNumLevels = std::size(kLevels);

struct Element {
  const char* name;  // null: none
  bool is_wide;      // MPI_COUNT, else MPI_INT
};

struct EventRow {
  const char* name;
  const char* meaning;
  std::array<Element, kMostElements> elements;

  std::size_t size() const noexcept { return elements[1].name == nullptr ? 1 : 2; }
  // The offset of an element in the buffer of MPI_T_event_copy.
  static std::size_t offset(std::size_t element) noexcept { return element * sizeof(MPI_Count); }
};

enum EventIndex : int { kPeerLost, kUnexpectedBound, kMemoryShared, kRevoked };
constexpr EventRow kEvents[] = {
    {"peer_lost",
     "a process was lost: it died, or was unreachable for too long",
     {{{"rank", false}}}},
    {"unexpected_bound",
     "so many bytes of a process wait unmatched (WEFT_UNEXPECTED_MAX_BYTES) that it is asked to "
     "send its messages by rendezvous (RTS) only",
     {{{"rank", false}, {"bytes", true}}}},
    {"memory_shared",
     "memory was registered for other processes: a window's, or that of a long message to another "
     "host",
     {{{"address", true}, {"bytes", true}}}},
    {"revoked",
     "this process has learned from a process, or decided itself, that a communicator, a window or "
     "a "
     "file is revoked, whose handle has this value by MPI_Comm_toint, MPI_Win_toint or "
     "MPI_File_toint",
     {{{"rank", false}, {"handle", false}}}}};
constexpr int kNumEvents = static_cast<int>(std::size(kEvents));

struct Data {
  int event;
  std::array<MPI_Count, kMostElements> values;
  MPI_Count timestamp;
};

MPI_Count event_time() noexcept {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return MPI_Count{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

struct Callback {
  MPI_T_event_cb_function* function = nullptr;
  void* user_data = nullptr;
  InfoPtr info;
};

// Guarded, all of it, by the interface's mutex.
struct Registration {
  int event = 0;
  MPI_T_event_registration handle = nullptr;
  InfoPtr info;
  std::array<Callback, kNumLevels> callbacks;
  MPI_T_event_dropped_cb_function* on_dropped = nullptr;
  MPI_Count num_dropped = 0;
  std::deque<Data> waiting;
  int num_calling = 0;  // threads that run a callback of it now
  bool is_freed = false;
  MPI_T_event_free_cb_function* on_free = nullptr;
  void* free_data = nullptr;

  // Returns the callback for the lowest level that is at least the required one; null: there is
  // none.
  Callback* callback_for(std::size_t level) noexcept {
    for (; level < kNumLevels; ++level)
      if (callbacks[level].function != nullptr) return &callbacks[level];
    return nullptr;
  }
};
using RegistrationPtr = std::shared_ptr<Registration>;

struct Registered : Object {
  static constexpr Type kType = Type::registration;
  explicit Registered(RegistrationPtr the_registration)
      : Object(kType), registration(std::move(the_registration)) {}
  const RegistrationPtr registration;
};

struct Instance : Object {
  static constexpr Type kType = Type::instance;
  explicit Instance(const Data& the_data) : Object(kType), data(the_data) {}
  const Data data;
};

Immortal<std::vector<RegistrationPtr>> registrations;
std::atomic<int> num_registrations{0};  // relaxed: an event before it is seen came before it
std::atomic<int> num_waiting{0};        // instances; relaxed: the mutex orders what it counts
thread_local bool is_calling_back = false;

// Returns the index in kLevels; kNumLevels: it is none of them.
std::size_t level_of(MPI_T_cb_safety safety) noexcept {
  std::size_t i = 0;
  while (i < kNumLevels && kLevels[i] != safety) ++i;
  return i;
}

// A callback of the program's that is due, and its data.
struct Due {
  RegistrationPtr registration;
  Callback callback;  // without a function: the callback for dropped events is called
  Data data;
  MPI_T_event_dropped_cb_function* on_dropped;
  MPI_Count num_dropped;
};

// Decides, with the mutex held, which callback of this instance is called at once.
void note_instance(const RegistrationPtr& registration, const Data& data, std::size_t level,
                   std::vector<Due>& due) {
  if (const Callback* callback = registration->callback_for(level)) {
    due.push_back({registration, *callback, data, nullptr, 0});
  } else if (registration->callback_for(0) != nullptr &&
             registration->waiting.size() < kMostWaiting) {
    registration->waiting.push_back(data);
    num_waiting.fetch_add(1, std::memory_order_relaxed);
    return;
  } else {
    ++registration->num_dropped;
    if (registration->on_dropped == nullptr) return;
    // The user data are those of the callback that would have been called.
    const Callback* least = registration->callback_for(0);
    void* user_data = least == nullptr ? nullptr : least->user_data;
    due.push_back({registration,
                   {nullptr, user_data, nullptr},
                   data,
                   registration->on_dropped,
                   std::exchange(registration->num_dropped, 0)});
  }
  ++registration->num_calling;
}

// Calls the program's callback; the caller does not hold the mutex.
void call_back(const Due& due, std::size_t level) {
  Registration& registration = *due.registration;
  const bool was_calling_back = std::exchange(is_calling_back, true);
  if (due.callback.function == nullptr) {
    due.on_dropped(due.num_dropped, registration.handle, 0, kLevels[level], due.callback.user_data);
  } else {
    MPI_T_event_instance instance = nullptr;
    try {
      const std::lock_guard lock(shared->mutex);
      instance = add<MPI_T_event_instance>(std::make_unique<Instance>(due.data));
    } catch (const std::bad_alloc&) {
      // Counted as dropped below.
    }
    if (instance != nullptr)
      due.callback.function(instance, registration.handle, kLevels[level], due.callback.user_data);
    const std::lock_guard lock(shared->mutex);
    if (instance == nullptr)
      ++registration.num_dropped;
    else
      drop(instance);
  }
  MPI_T_event_free_cb_function* on_free = nullptr;
  {
    const std::lock_guard lock(shared->mutex);
    if (--registration.num_calling == 0 && registration.is_freed)
      on_free = std::exchange(registration.on_free, nullptr);
  }
  // This callback means that no other callback runs for this registration any more.
  if (on_free != nullptr) on_free(registration.handle, kLevels[level], registration.free_data);
  is_calling_back = was_calling_back;
}

void raise_event(int event, MPI_Count first, MPI_Count second) noexcept {
  if (num_registrations.load(std::memory_order_relaxed) == 0) return;
  const Data data{event, {first, second}, event_time()};
  // The library is in the middle of a call, in one of several threads if these may call.
  const std::size_t level =
      level_of(multi_threaded() ? MPI_T_CB_REQUIRE_THREAD_SAFE : MPI_T_CB_REQUIRE_MPI_RESTRICTED);
  std::vector<Due> due;
  try {
    const std::lock_guard lock(shared->mutex);
    due.reserve(registrations->size());
    for (const RegistrationPtr& registration : *registrations)
      if (registration->event == event) note_instance(registration, data, level, due);
  } catch (const std::bad_alloc&) {
    // The registrations that were not reached drop the event.
  }
  for (const Due& one : due) call_back(one, level);
}

void observe_engine(const tagged::Notice& notice) noexcept {
  switch (notice.kind) {
    case tagged::Notice::Kind::lost:
      return raise_event(kPeerLost, notice.peer, 0);
    case tagged::Notice::Kind::over_bound:
      return raise_event(kUnexpectedBound, notice.peer, static_cast<MPI_Count>(notice.bytes));
    case tagged::Notice::Kind::shared:
      return note_shared(notice.address, notice.bytes);
  }
}

const EventRow* event_at(int index) {
  return index >= 0 && index < kNumEvents ? &kEvents[index] : nullptr;
}

// Stores the value of an element, in the program's format.
std::size_t store_element(const Data& data, std::size_t element, void* to) noexcept {
  if (kEvents[data.event].elements[element].is_wide) {
    std::memcpy(to, &data.values[element], sizeof(MPI_Count));
    return sizeof(MPI_Count);
  }
  const int value = static_cast<int>(data.values[element]);
  std::memcpy(to, &value, sizeof value);
  return sizeof value;
}

// Makes a copy of the hints, or none; false: the handle is no info object.
bool take_info(MPI_Info handle, InfoPtr& info) {
  if (handle == MPI_INFO_NULL) return info = nullptr, true;
  const Info* found = find_info(handle);
  if (found == nullptr) return false;
  info = copy_of(found);
  return true;
}

Registration* find_registration(MPI_T_event_registration handle) {
  const Registered* found = find<Registered>(handle);
  return found == nullptr ? nullptr : found->registration.get();
}

}  // namespace

int num_events() noexcept { return kNumEvents; }

void note_shared(const void* address, std::size_t bytes) noexcept {
  raise_event(kMemoryShared, static_cast<MPI_Count>(reinterpret_cast<std::uintptr_t>(address)),
              static_cast<MPI_Count>(bytes));
}

void note_revoked(int teller, int handle) noexcept { raise_event(kRevoked, teller, handle); }

void call_back_late() noexcept {
  if (num_waiting.load(std::memory_order_relaxed) == 0 || is_calling_back) return;
  for (;;) {
    std::vector<Due> due;
    try {
      const std::lock_guard lock(shared->mutex);
      due.reserve(1);
      for (const RegistrationPtr& registration : *registrations) {
        if (registration->waiting.empty()) continue;
        const Data data = registration->waiting.front();
        registration->waiting.pop_front();
        num_waiting.fetch_sub(1, std::memory_order_relaxed);
        note_instance(registration, data, 0, due);
        break;
      }
    } catch (const std::bad_alloc&) {
      return;  // the next call tries again
    }
    if (due.empty()) return;
    call_back(due.front(), 0);
  }
}

void clear_events() noexcept {
  for (const RegistrationPtr& registration : *registrations)
    num_waiting.fetch_sub(static_cast<int>(registration->waiting.size()),
                          std::memory_order_relaxed);
  registrations->clear();
  num_registrations.store(0, std::memory_order_relaxed);
}

void attach(tagged::Engine& engine) noexcept {
  const std::lock_guard lock(shared->mutex);
  engine.set_observer(observe_engine);
  shared->engine = &engine;
}

void detach() noexcept {
  const std::lock_guard lock(shared->mutex);
  note_end(*shared->engine);
  shared->engine = nullptr;
}

}  // namespace weft::mpi::tools

using namespace weft::mpi;  // NOLINT: the bodies below are the C interface

MPI_FUNCTION(T_event_get_num)(int* num) {
  return tools::run([&] {
    if (num == nullptr) return MPI_T_ERR_INVALID;
    *num = tools::kNumEvents;
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_event_get_info)
(int index, char* name, int* name_len, int* verbosity, MPI_Datatype datatypes[],
 MPI_Aint displacements[], int* num_elements, MPI_T_enum* enumtype, MPI_Info* info, char* desc,
 int* desc_len, int* bind) {
  return tools::run([&] {
    const tools::EventRow* row = tools::event_at(index);
    if (row == nullptr) return MPI_T_ERR_INVALID_INDEX;
    if (enumtype != nullptr) {
      std::vector<std::string> items;
      for (std::size_t i = 0; i < row->size(); ++i) items.emplace_back(row->elements[i].name);
      *enumtype = tools::make_enumeration(row->name, std::move(items));
    }
    tools::give_info(nullptr, info);
    if (num_elements != nullptr) {
      for (std::size_t i = 0; i < row->size() && static_cast<int>(i) < *num_elements; ++i) {
        if (datatypes != nullptr) datatypes[i] = row->elements[i].is_wide ? MPI_COUNT : MPI_INT;
        if (displacements != nullptr) displacements[i] = static_cast<MPI_Aint>(row->offset(i));
      }
      *num_elements = static_cast<int>(row->size());
    }
    tools::give_text(row->name, name, name_len);
    tools::give_text(row->meaning, desc, desc_len);
    tools::give(verbosity, MPI_T_VERBOSITY_USER_DETAIL);
    tools::give(bind, MPI_T_BIND_NO_OBJECT);
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_event_get_index)(const char* name, int* index) {
  return tools::run([&] {
    if (name == nullptr || index == nullptr) return MPI_T_ERR_INVALID;
    for (int i = 0; i < tools::kNumEvents; ++i)
      if (std::strcmp(tools::kEvents[i].name, name) == 0) {
        *index = i;
        return MPI_SUCCESS;
      }
    return MPI_T_ERR_INVALID_NAME;
  });
}

MPI_FUNCTION(T_event_handle_alloc)
(int index, void*, MPI_Info info, MPI_T_event_registration* handle) {
  return tools::run([&] {
    if (tools::event_at(index) == nullptr) return MPI_T_ERR_INVALID_INDEX;
    if (handle == nullptr) return MPI_T_ERR_INVALID;
    auto registration = std::make_shared<tools::Registration>();
    registration->event = index;
    if (!tools::take_info(info, registration->info)) return MPI_T_ERR_INVALID;
    tools::registrations->reserve(tools::registrations->size() + 1);
    registration->handle =
        tools::add<MPI_T_event_registration>(std::make_unique<tools::Registered>(registration));
    if (registration->handle == nullptr) return MPI_T_ERR_OUT_OF_HANDLES;
    *handle = registration->handle;
    tools::registrations->push_back(std::move(registration));
    tools::num_registrations.fetch_add(1, std::memory_order_relaxed);
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_event_handle_free)
(MPI_T_event_registration handle, void* user_data, MPI_T_event_free_cb_function* function) {
  bool is_over = false;
  const int code = tools::run([&] {
    tools::Registration* registration = tools::find_registration(handle);
    if (registration == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    registration->is_freed = true;
    tools::num_waiting.fetch_sub(static_cast<int>(registration->waiting.size()),
                                 std::memory_order_relaxed);
    registration->waiting.clear();
    is_over = registration->num_calling == 0;
    if (!is_over) {
      registration->on_free = function;
      registration->free_data = user_data;
    }
    std::erase_if(*tools::registrations,
                  [&](const auto& other) { return other.get() == registration; });
    tools::num_registrations.fetch_sub(1, std::memory_order_relaxed);
    tools::drop(handle);
    return MPI_SUCCESS;
  });
  if (is_over && function != nullptr) function(handle, MPI_T_CB_REQUIRE_NONE, user_data);
  return code;
}

MPI_FUNCTION(T_event_handle_set_info)(MPI_T_event_registration handle, MPI_Info info) {
  return tools::run([&] {
    tools::Registration* registration = tools::find_registration(handle);
    if (registration == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    return tools::take_info(info, registration->info) ? MPI_SUCCESS : MPI_T_ERR_INVALID;
  });
}

MPI_FUNCTION(T_event_handle_get_info)(MPI_T_event_registration handle, MPI_Info* info) {
  return tools::run([&] {
    const tools::Registration* registration = tools::find_registration(handle);
    if (registration == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    if (info == nullptr) return MPI_T_ERR_INVALID;
    tools::give_info(registration->info.get(), info);
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_event_register_callback)
(MPI_T_event_registration handle, MPI_T_cb_safety safety, MPI_Info info, void* user_data,
 MPI_T_event_cb_function* function) {
  return tools::run([&] {
    tools::Registration* registration = tools::find_registration(handle);
    if (registration == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    const std::size_t level = tools::level_of(safety);
    tools::Callback callback{function, user_data, nullptr};
    if (level == tools::kNumLevels || !tools::take_info(info, callback.info))
      return MPI_T_ERR_INVALID;
    registration->callbacks[level] = std::move(callback);
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_event_callback_set_info)
(MPI_T_event_registration handle, MPI_T_cb_safety safety, MPI_Info info) {
  return tools::run([&] {
    tools::Registration* registration = tools::find_registration(handle);
    if (registration == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    const std::size_t level = tools::level_of(safety);
    if (level == tools::kNumLevels) return MPI_T_ERR_INVALID;
    return tools::take_info(info, registration->callbacks[level].info) ? MPI_SUCCESS
                                                                       : MPI_T_ERR_INVALID;
  });
}

MPI_FUNCTION(T_event_callback_get_info)
(MPI_T_event_registration handle, MPI_T_cb_safety safety, MPI_Info* info) {
  return tools::run([&] {
    const tools::Registration* registration = tools::find_registration(handle);
    if (registration == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    const std::size_t level = tools::level_of(safety);
    if (level == tools::kNumLevels || info == nullptr) return MPI_T_ERR_INVALID;
    tools::give_info(registration->callbacks[level].info.get(), info);
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_event_set_dropped_handler)
(MPI_T_event_registration handle, MPI_T_event_dropped_cb_function* function) {
  return tools::run([&] {
    tools::Registration* registration = tools::find_registration(handle);
    if (registration == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    registration->on_dropped = function;
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_event_read)(MPI_T_event_instance handle, int element, void* buffer) {
  return tools::run([&] {
    const auto* instance = tools::find<tools::Instance>(handle);
    if (instance == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    if (element < 0 ||
        static_cast<std::size_t>(element) >= tools::kEvents[instance->data.event].size())
      return MPI_T_ERR_INVALID_INDEX;
    if (buffer == nullptr) return MPI_T_ERR_INVALID;
    tools::store_element(instance->data, static_cast<std::size_t>(element), buffer);
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_event_copy)(MPI_T_event_instance handle, void* buffer) {
  return tools::run([&] {
    const auto* instance = tools::find<tools::Instance>(handle);
    if (instance == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    if (buffer == nullptr) return MPI_T_ERR_INVALID;
    const tools::EventRow& row = tools::kEvents[instance->data.event];
    for (std::size_t i = 0; i < row.size(); ++i)
      tools::store_element(instance->data, i, static_cast<char*>(buffer) + row.offset(i));
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_event_get_timestamp)(MPI_T_event_instance handle, MPI_Count* timestamp) {
  return tools::run([&] {
    const auto* instance = tools::find<tools::Instance>(handle);
    if (instance == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    if (timestamp == nullptr) return MPI_T_ERR_INVALID;
    *timestamp = instance->data.timestamp;
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_event_get_source)(MPI_T_event_instance handle, int* source) {
  return tools::run([&] {
    if (tools::find<tools::Instance>(handle) == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    if (source == nullptr) return MPI_T_ERR_INVALID;
    *source = 0;
    return MPI_SUCCESS;
  });
}

// All events have one source: this process, by its monotonic clock.
MPI_FUNCTION(T_source_get_num)(int* num) {
  return tools::run([&] {
    if (num == nullptr) return MPI_T_ERR_INVALID;
    *num = 1;
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_source_get_info)
(int index, char* name, int* name_len, char* desc, int* desc_len, MPI_T_source_order* ordering,
 MPI_Count* ticks_per_second, MPI_Count* max_ticks, MPI_Info* info) {
  return tools::run([&] {
    if (index != 0) return MPI_T_ERR_INVALID_INDEX;
    tools::give_info(nullptr, info);
    tools::give_text("process", name, name_len);
    tools::give_text("this process, by its monotonic clock in nanoseconds", desc, desc_len);
    // Events that wait for their callback are overtaken by others.
    if (ordering != nullptr) *ordering = MPI_T_SOURCE_UNORDERED;
    tools::give(ticks_per_second, 1'000'000'000);
    tools::give(max_ticks, std::numeric_limits<MPI_Count>::max());
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_source_get_timestamp)(int index, MPI_Count* timestamp) {
  return tools::run([&] {
    if (index != 0) return MPI_T_ERR_INVALID_INDEX;
    if (timestamp == nullptr) return MPI_T_ERR_INVALID;
    *timestamp = tools::event_time();
    return MPI_SUCCESS;
  });
}
