#include "fabric/verbs/registrations.hpp"

#include <unistd.h>

#include <cerrno>

#include "fabric/verbs/device.hpp"

namespace weft::verbs {
namespace {

std::uintptr_t page_down(std::uintptr_t address) noexcept {
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return address & ~(page - 1);
}
std::uintptr_t page_up(std::uintptr_t address) noexcept {
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return (address + page - 1) & ~(page - 1);
}

ibv_mr* register_memory(ibv_pd* pd, std::uintptr_t begin, std::uintptr_t end, int written,
                        bool& writable) {
  auto* address = reinterpret_cast<void*>(begin);
  writable = true;
  ibv_mr* mr = ibv_reg_mr(pd, address, end - begin, written);
  if (mr == nullptr && (errno == EFAULT || errno == EACCES || errno == EINVAL || errno == EPERM)) {
    writable = false;  // constants, perhaps
    mr = ibv_reg_mr(pd, address, end - begin, 0);
  }
  return mr;
}

constexpr int kNoMoreTries = 64;
constexpr std::uintptr_t kWindow = std::uintptr_t{1} << 20;

// Memory that is kept without use may be the cause of reaching the limit.
bool is_limit(int error) noexcept { return error == ENOMEM || error == EAGAIN; }

}  // namespace

Registrations::Registrations(ibv_pd* pd, std::size_t max_bytes, const TransportFacts& transport)
    : pd_(pd),
      max_bytes_(max_bytes),
      written_by_read_(IBV_ACCESS_LOCAL_WRITE |
                       (transport.reads_write_remotely ? IBV_ACCESS_REMOTE_WRITE : 0)),
      watch_(lock_, changed, this) {
  watch_status_ =
      max_bytes == 0 ? Status(Code::unsupported, "WEFT_VERBS_CACHE_BYTES is 0") : watch_.start();
}

Registrations::~Registrations() {
  for (int i = 0; i < num_slots_; ++i) {
    Registration& entry = entries_[i];
    if (entry.in_use && entry.mr != nullptr) (void)ibv_dereg_mr(entry.mr);
  }
}

// With the lock held, by the watching thread.
void Registrations::changed(void* context, std::uintptr_t begin, std::uintptr_t end) {
  auto& self = *static_cast<Registrations*>(context);
  for (int i = 0; i < self.num_slots_; ++i) {
    Registration& entry = self.entries_[i];
    if (!entry.in_use || !entry.kept || entry.begin >= end || begin >= entry.end) continue;
    entry.kept = false;
    ++self.changes_;
    if (entry.references == 0) self.num_doomed_.fetch_add(1, std::memory_order_relaxed);
  }
}

Registration* Registrations::find(std::uintptr_t begin, std::uintptr_t end, bool write) noexcept {
  for (int i = 0; i < num_slots_; ++i) {
    Registration& entry = entries_[i];
    if (entry.begin <= begin && end <= entry.end && entry.ready && entry.kept &&
        (entry.writable || !write))
      return &entry;
  }
  return nullptr;
}

Registration* Registrations::take_slot() noexcept {
  for (int i = 0; i < num_slots_; ++i)
    if (!entries_[i].in_use) return &entries_[i];
  return num_slots_ < kMaxEntries ? &entries_[num_slots_++] : nullptr;
}

// Takes an entry out of the table; its mr is the caller's to deregister, without the lock.
void Registrations::drop(Registration& entry) noexcept {
  if (entry.watched) {
    bool shared = false;
    for (int i = 0; i < num_slots_ && !shared; ++i) {
      const Registration& other = entries_[i];
      shared = &other != &entry && other.in_use && other.watched &&
               page_down(other.begin) < page_up(entry.end) &&
               page_down(entry.begin) < page_up(other.end);
    }
    // If the memory has changed, the range may be in other use by now; watching it too long does no
    // harm.
    if (!shared && entry.kept) watch_.unwatch(page_down(entry.begin), page_up(entry.end));
  }
  bytes_ -= entry.end - entry.begin;
  entry = {};
}

// Collects unused registrations that must go: those whose memory changed, and the longest unused
// until at most max_bytes are left; `one`: at least one of these.
int Registrations::take_victims(ibv_mr* (&victims)[kVictims], std::size_t max_bytes,
                                bool one) noexcept {
  int count = 0;
  for (int i = 0; i < num_slots_ && count < kVictims; ++i) {
    Registration& entry = entries_[i];
    if (!entry.in_use || !entry.ready || entry.references != 0 || entry.kept) continue;
    victims[count++] = entry.mr;
    drop(entry);
  }
  num_doomed_.fetch_sub(count, std::memory_order_relaxed);
  if (count > 0) one = false;
  while (count < kVictims && (bytes_ > max_bytes || one)) {
    Registration* oldest = nullptr;
    for (int i = 0; i < num_slots_; ++i) {
      Registration& entry = entries_[i];
      if (entry.in_use && entry.ready && entry.references == 0 &&
          (oldest == nullptr || entry.last_use < oldest->last_use))
        oldest = &entry;
    }
    if (oldest == nullptr) break;
    one = false;
    victims[count++] = oldest->mr;
    drop(*oldest);
  }
  return count;
}

void Registrations::deregister(ibv_mr* const* victims, int count) noexcept {
  for (int i = 0; i < count; ++i) (void)ibv_dereg_mr(victims[i]);
}

Status Registrations::acquire(const void* address, std::size_t bytes, bool write,
                              Registration*& registration) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t end = begin + (bytes == 0 ? 1 : bytes);
  if (end <= begin || page_up(end) < end)
    return {Code::bad_argument, "this range of memory wraps around"};
  // All memory nearby is registered at once, unless pages are missing or must not be kept.
  const std::uintptr_t wide_begin = begin & ~(kWindow - 1);
  const std::uintptr_t wide_end = (end + kWindow - 1) & ~(kWindow - 1);
  if (watch_.works() && wide_begin > 0 && wide_end > end && wide_end - wide_begin <= max_bytes_) {
    {
      const std::lock_guard lock(lock_);
      if (Registration* entry = find(begin, end, write)) return use(*entry, registration);
    }
    if (acquire_range(wide_begin, wide_end, write, true, registration)) return {};
  }
  return acquire_range(begin, end, write, false, registration);
}

Status Registrations::use(Registration& entry, Registration*& registration) noexcept {
  ++hits_;
  ++entry.references;
  entry.last_use = ++clock_;
  registration = &entry;
  return {};
}

// `must_keep`: registers only if the registration can be kept.
Status Registrations::acquire_range(std::uintptr_t begin, std::uintptr_t end, bool write,
                                    bool must_keep, Registration*& registration) {
  const std::size_t bytes = end - begin;
  for (int tries = 0;; ++tries) {
    ibv_mr* victims[kVictims];
    int num_victims = 0;
    Registration* made = nullptr;
    {
      const std::lock_guard lock(lock_);
      if (Registration* entry = find(begin, end, write)) return use(*entry, registration);
      made = take_slot();
      num_victims = take_victims(victims, max_bytes_ > bytes ? max_bytes_ - bytes : 0,
                                 made == nullptr || tries > 0);
      if (made == nullptr) made = take_slot();
      if (made != nullptr) {
        ++misses_;
        // In the table and watched before it is registered: a change of the memory in between is
        // seen, and the registration is not kept then.
        *made = {};
        made->in_use = true;
        made->begin = begin;
        made->end = end;
        made->references = 1;
        made->last_use = ++clock_;
        made->watched = made->kept =
            bytes <= max_bytes_ && watch_.watch(page_down(begin), page_up(end));
        bytes_ += bytes;
        if (must_keep && !made->kept) {
          drop(*made);
          made = nullptr;
          tries = kNoMoreTries;
        }
      }
    }
    deregister(victims, num_victims);
    if (made == nullptr) {
      if (num_victims > 0 && tries < kNoMoreTries) continue;
      return {Code::no_memory, "too many registrations are in use at once"};
    }
    bool writable = false;
    ibv_mr* mr = register_memory(pd_, begin, end, written_by_read_, writable);
    const int error = errno;
    {
      const std::lock_guard lock(lock_);
      if (mr != nullptr && (writable || !write)) {
        made->mr = mr;
        made->writable = writable;
        made->ready = true;
        registration = made;
        return {};
      }
      drop(*made);
    }
    if (mr != nullptr) {
      (void)ibv_dereg_mr(mr);
      return {Code::bad_argument, "this memory is read-only"};
    }
    if (!is_limit(error) || must_keep || tries >= kNoMoreTries || !make_room())
      return registration_error(pd_->context, error, bytes);
  }
}

void Registrations::release(Registration* registration) noexcept {
  ibv_mr* mr = nullptr;
  {
    const std::lock_guard lock(lock_);
    if (--registration->references != 0 || registration->kept) return;
    mr = registration->mr;
    drop(*registration);
  }
  (void)ibv_dereg_mr(mr);
}

Status Registrations::make(void* address, std::size_t bytes, int access, ibv_mr*& mr) {
  for (;;) {
    mr = ibv_reg_mr(pd_, address, bytes, access);
    if (mr != nullptr) return {};
    const int error = errno;
    if (!is_limit(error) || !make_room()) return registration_error(pd_->context, error, bytes);
  }
}

void Registrations::collect() noexcept {
  if (num_doomed_.load(std::memory_order_relaxed) > 0) (void)give_back(false);
}

bool Registrations::make_room() noexcept { return give_back(true) > 0; }

// half: of what is kept without use, too. Returns how many there were.
int Registrations::give_back(bool half) noexcept {
  ibv_mr* victims[kVictims];
  int count = 0;
  {
    const std::lock_guard lock(lock_);
    count = take_victims(victims, half ? bytes_ / 2 : max_bytes_, half);
  }
  deregister(victims, count);
  return count;
}

Registrations::Counts Registrations::counts() noexcept {
  const std::lock_guard lock(lock_);
  std::size_t entries = 0;
  for (int i = 0; i < num_slots_; ++i) entries += entries_[i].in_use ? 1 : 0;
  return {hits_, misses_, changes_, bytes_, entries};
}

}  // namespace weft::verbs
