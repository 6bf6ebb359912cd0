#pragma once
// Attributes: values that programs attach to communicators, datatypes and windows under keys they
// made. One implementation for all kinds; Handle is the kind's handle type.
//
// Threads: any thread may call any function. Callbacks of the program run with no lock held.
#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "mpi/core/abi.hpp"
#include "mpi/core/handle_table.hpp"

namespace weft::mpi {

// A key. It lives until it is freed and no attribute uses it.
struct Keyval {
  Kind kind;       // comm, datatype or win
  void (*copy)();  // null: not copied; 1: copied as it is; else the kind's copy function
  void (*drop)();  // null: nothing; else the kind's delete function
  void* extra_state;
  int number;
};

// Keys are known by number; numbers are never used twice and lie above the predefined ones.
int make_keyval(Kind kind, void (*copy)(), void (*drop)(), void* extra_state);
std::shared_ptr<Keyval> find_keyval(int number, Kind kind);  // null: no key of that kind
// Frees a key. False: it is no key of that kind. A key that was freed while attributes used it may
// be freed again, without effect, until the last of them is gone: delete functions of programs do
// that.
bool free_keyval(int number, Kind kind);

// The bodies of MPI_X_create_keyval and MPI_X_free_keyval: MPI_SUCCESS or the code that was raised.
int create_keyval(Kind kind, void (*copy)(), void (*drop)(), int* out, void* extra_state,
                  const char* function);
int free_keyval(Kind kind, int* keyval, const char* function);

class AttributeSet {
  struct Entry {
    std::shared_ptr<Keyval> key;
    void* value;
  };

 public:
  // Each returns MPI_SUCCESS or the error code that a callback of the program returned.
  template <class Handle>
  int set(Handle owner, std::shared_ptr<Keyval> key, void* value) {
    const std::optional<Entry> old = find(key->number);
    if (old) {
      const int code = run_drop(owner, *old);
      if (code != MPI_SUCCESS) return code;
    }
    OptionalLock lock(mutex_);
    // Looked up again: the callback may have changed the set.
    if (const auto entry = place(key->number); entry != entries_.end())
      entry->value = value;
    else
      entries_.push_back({std::move(key), value});
    return MPI_SUCCESS;
  }

  bool get(int number, void** value) const {
    const std::optional<Entry> entry = find(number);
    if (entry) *value = entry->value;
    return entry.has_value();
  }

  // A missing attribute is not an error.
  template <class Handle>
  int remove(Handle owner, int number) {
    const std::optional<Entry> entry = find(number);
    if (!entry) return MPI_SUCCESS;
    const int code = run_drop(owner, *entry);
    if (code != MPI_SUCCESS) return code;
    OptionalLock lock(mutex_);
    if (const auto still = place(number); still != entries_.end()) entries_.erase(still);
    return MPI_SUCCESS;
  }

  // Deletes all attributes, the last set first; stops at the first callback that fails. The owner
  // is being destroyed, so no other thread uses it.
  template <class Handle>
  int clear(Handle owner) {
    while (!entries_.empty()) {
      const int code = remove(owner, entries_.back().key->number);
      if (code != MPI_SUCCESS) return code;
    }
    return MPI_SUCCESS;
  }

  // Copying into a set that is empty and not shared yet, in two steps: prepare_copy() allocates, as
  // the result of a copy function could not be undone; take() then copies the attributes of
  // `owner`.
  struct Copying {
    std::vector<Entry> entries;
  };
  Copying prepare_copy(AttributeSet& target) const {
    Copying copying{all()};
    target.entries_.reserve(copying.entries.size());
    return copying;
  }
  template <class Handle>
  int take(Handle owner, const Copying& copying) {
    for (const Entry& entry : copying.entries) {
      const Keyval& key = *entry.key;
      if (key.copy == nullptr) continue;
      void* copied = entry.value;
      int wanted = 1;
      if (reinterpret_cast<std::uintptr_t>(key.copy) != 1) {
        wanted = 0;
        using Copy = int (*)(Handle, int, void*, void*, void*, int*);
        const int code = reinterpret_cast<Copy>(key.copy)(owner, key.number, key.extra_state,
                                                          entry.value, &copied, &wanted);
        if (code != MPI_SUCCESS) return code;
      }
      if (wanted != 0) entries_.push_back({entry.key, copied});
    }
    return MPI_SUCCESS;
  }

 private:
  // Returns a copy, which is used without the lock.
  std::optional<Entry> find(int number) const {
    OptionalLock lock(mutex_);
    for (const Entry& entry : entries_)
      if (entry.key->number == number) return entry;
    return std::nullopt;
  }
  std::vector<Entry> all() const {
    OptionalLock lock(mutex_);
    return entries_;
  }
  // The caller holds the lock.
  std::vector<Entry>::iterator place(int number) {
    return std::ranges::find(entries_, number,
                             [](const Entry& entry) { return entry.key->number; });
  }

  template <class Handle>
  static int run_drop(Handle owner, const Entry& entry) {
    if (entry.key->drop == nullptr) return MPI_SUCCESS;
    using Drop = int (*)(Handle, int, void*, void*);
    return reinterpret_cast<Drop>(entry.key->drop)(owner, entry.key->number, entry.value,
                                                   entry.key->extra_state);
  }

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // in the order of setting
};

// The bodies of MPI_X_set_attr, get_attr and delete_attr for an object of that kind: MPI_SUCCESS,
// MPI_ERR_KEYVAL or the code that a callback of the program returned. A freed key stays valid for
// the attributes that use it.
template <class Handle>
int set_attribute(AttributeSet& attributes, Kind kind, Handle owner, int keyval, void* value) {
  std::shared_ptr<Keyval> key = find_keyval(keyval, kind);
  return key == nullptr ? MPI_ERR_KEYVAL : attributes.set(owner, std::move(key), value);
}
inline int get_attribute(const AttributeSet& attributes, Kind kind, int keyval, void* value,
                         int* flag) {
  *flag = attributes.get(keyval, static_cast<void**>(value)) ? 1 : 0;
  return *flag == 0 && find_keyval(keyval, kind) == nullptr ? MPI_ERR_KEYVAL : MPI_SUCCESS;
}
template <class Handle>
int delete_attribute(AttributeSet& attributes, Kind kind, Handle owner, int keyval) {
  void* value = nullptr;
  if (find_keyval(keyval, kind) == nullptr && !attributes.get(keyval, &value))
    return MPI_ERR_KEYVAL;
  return attributes.remove(owner, keyval);
}

}  // namespace weft::mpi
