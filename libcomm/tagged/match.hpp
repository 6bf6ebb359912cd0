#pragma once
// Matching: posted receives and unexpected messages, found by (context, source, tag) in the order
// of MPI 5.0 section 3.5. Both sides are kept in buckets by context and source; receives from any
// source have a list of their own, and a sequence number orders candidates of the two lists.
// Where threads share it the tag selects the bucket, too, and receives of any tag are in the list
// of their own: threads mostly use tags of their own, and a search past the receives of others
// would take them from the caches of other cores. Not thread-safe: the engine's lock protects it.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/containers/list.hpp"
#include "tagged/request.hpp"

namespace weft::tagged {

// A message that arrived before its receive.
struct Unexpected {
  int source = 0;
  std::int32_t tag = 0;
  std::uint32_t context = 0;
  bool is_rts = false;
  std::size_t bytes = 0;              // of the whole message
  std::size_t arrived = 0;            // eager: bytes in `data` so far
  std::unique_ptr<std::byte[]> data;  // eager, longer than kSmall
  MemoryName memory{};                // RTS: of the sender
  std::uint64_t send_id = 0;          // RTS
  Request* receiver = nullptr;        // matched while still arriving
  bool taken = false;                 // a matched probe has removed it from matching

  static constexpr std::size_t kSmall = 192;
  std::byte small[kSmall];
  std::byte* storage() noexcept { return data ? data.get() : small; }

  // In the bucket, and in arrival order over all.
  Unexpected* next = nullptr;
  Unexpected* before = nullptr;
  Unexpected* next_any = nullptr;
  Unexpected* before_any = nullptr;
};

inline bool tag_matches(std::int32_t wanted, std::int32_t tag) noexcept {
  return wanted == tag || (wanted == kAnyTag && tag >= 0);
}

class Matcher {
 public:
  Matcher() = default;
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;
  ~Matcher();

  // For threads that share it. Only while nothing is posted or kept.
  void separate_tags() noexcept { tag_mask_ = ~std::int32_t{0}; }

  // Removes and returns the receive that a message with this envelope goes to, or null.
  Request* take_posted(int source, std::uint32_t context, std::int32_t tag) noexcept {
    auto& list = posted_[bucket(context, source, tag)];
    Request* found = nullptr;
    for (Request* r = list.first(); r != nullptr; r = r->next) {
      if (r->context == context && r->peer == source && tag_matches(r->tag, tag)) {
        found = r;
        break;
      }
    }
    if (!any_.empty()) [[unlikely]]
      return take_first(found, source, context, tag);
    if (found != nullptr) list.remove(*found);
    return found;
  }

  // Returns true if no posted receive could take a message of this source and context. Not with
  // separate tags.
  bool none_posted(int source, std::uint32_t context) const noexcept {
    return posted_[bucket(context, source, 0)].empty() && any_.empty();
  }

  void post(Request& request) noexcept {
    request.progress_bytes = next_number_++;
    list_of(request).push_back(request);
  }
  void remove_posted(Request& request) noexcept { list_of(request).remove(request); }

  // The earliest message that a receive with these arguments would take, or null.
  Unexpected* find_unexpected(int source, std::uint32_t context, std::int32_t tag) noexcept {
    if (num_unexpected_ == 0) return nullptr;
    return find_unexpected_slow(source, context, tag);
  }
  // The unmatched RTS of this number, or null.
  Unexpected* find_rts(int source, std::uint64_t send_id) noexcept;
  void add_unexpected(Unexpected& message) noexcept;
  void remove_unexpected(Unexpected& message) noexcept;
  std::size_t num_unexpected() const noexcept { return num_unexpected_; }
  // The same, callable without the lock, and its maximum since the last call of restart_peak().
  std::size_t level() const noexcept { return level_.load(std::memory_order_relaxed); }
  std::size_t peak() const noexcept {
    return std::max(peak_.load(std::memory_order_relaxed), level());
  }
  void restart_peak() noexcept { peak_.store(level(), std::memory_order_relaxed); }
  // Counts the unexpected messages of this context from now on; any thread may read the count.
  void count(std::uint32_t context) noexcept { counted_context_ = context; }
  std::uint32_t num_counted() const noexcept {
    return num_counted_.load(std::memory_order_relaxed);
  }

  // Drops the unexpected messages of a source that has left.
  void forget(int source) noexcept;
  // Removes those of a context whose data are here, and calls f(message) for each.
  template <class F>
  void take_arrived(std::uint32_t context, F&& f) {
    arrival_.for_each([&](Unexpected& message) {
      if (message.context != context || message.is_rts || message.arrived != message.bytes) return;
      remove_unexpected(message);
      f(message);
    });
  }

  // Calls f(request) for every posted receive; f may remove it.
  template <class F>
  void for_each_posted(F&& f) {
    for (auto& list : posted_) list.for_each(f);
    any_.for_each(f);
  }

  // Calls f(message) for the unexpected ones in the order of arrival, until it returns false.
  template <class F>
  void for_each_unexpected(F&& f) const {
    for (const Unexpected* m = arrival_.first(); m != nullptr && f(*m);) m = m->next_any;
  }

  // Messages come from a free list, so that a steady stream of them does not allocate. Null: no
  // memory.
  Unexpected* allocate() noexcept;
  void release(Unexpected* message) noexcept;

 private:
  static constexpr std::size_t kNumBuckets = 64;
  static constexpr std::size_t kMaxFree = 1024;

  std::size_t bucket(std::uint32_t context, int source, std::int32_t tag) const noexcept {
    return (context * 31u + static_cast<std::uint32_t>(source) +
            static_cast<std::uint32_t>(tag & tag_mask_)) %
           kNumBuckets;
  }
  // Returns true for what is not in one bucket.
  bool is_any(int source, std::int32_t tag) const noexcept {
    static_assert(kAnyTag == -1);  // only with separate tags
    return source == kAnySource || (tag & tag_mask_) == kAnyTag;
  }
  List<Request>& list_of(const Request& request) noexcept {
    return is_any(request.peer, request.tag)
               ? any_
               : posted_[bucket(request.context, request.peer, request.tag)];
  }
  Request* take_first(Request* specific, int source, std::uint32_t context,
                      std::int32_t tag) noexcept;
  Unexpected* find_unexpected_slow(int source, std::uint32_t context, std::int32_t tag) noexcept;

  std::int32_t tag_mask_ = 0;  // all bits: separate tags
  std::array<List<Request>, kNumBuckets> posted_;
  List<Request> any_;
  std::uint64_t next_number_ = 0;
  std::size_t num_unexpected_ = 0;
  std::array<List<Unexpected>, kNumBuckets> unexpected_;
  List<Unexpected, &Unexpected::next_any, &Unexpected::before_any> arrival_;
  std::uint32_t counted_context_ = ~std::uint32_t{0};
  std::atomic<std::uint32_t> num_counted_{0};  // relaxed: the engine's lock orders what it counts
  // num_unexpected_ for readers without the engine's lock.
  std::atomic<std::size_t> level_{0}, peak_{0};
  Unexpected* free_ = nullptr;
  std::size_t num_free_ = 0;
};

}  // namespace weft::tagged
