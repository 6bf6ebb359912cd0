#pragma once
// Lock: of a mutex, where several threads may call; others save the time.
#include <mutex>

#include "tools/weft-check/threads.hpp"

namespace weft::check {

template <class Mutex>
class Lock {
 public:
  explicit Lock(Mutex& mutex) : mutex_(is_threaded() ? &mutex : nullptr) { lock(); }
  ~Lock() {
    if (is_locked_) unlock();
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  void lock() {
    is_locked_ = true;
    if (mutex_ != nullptr) mutex_->lock();
  }
  void unlock() {
    is_locked_ = false;
    if (mutex_ != nullptr) mutex_->unlock();
  }

 private:
  Mutex* mutex_;
  bool is_locked_ = false;
};

}  // namespace weft::check
