#include "base/stats.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "base/os/mapping.hpp"
#include "base/os/shared_memory.hpp"
#include "base/shortage.hpp"
#include "base/tally.hpp"

namespace weft::stats {
namespace {

constexpr const char* kFileName = "weft-stats";
constexpr std::uint64_t kMagic = 0x3473746174737477;  // changes with the format
constexpr std::uint32_t kNumRows = 1 << 16;
constexpr std::size_t kNamedPast = 1024;  // peers that are gone whose rows stay

struct Page {
  std::uint64_t magic = kMagic;
  char name[56] = {};
  std::atomic<std::uint32_t> num_rows{0};  // so many have ever been open
  blocked::Area blocked;
  alignas(64) Row rows[kNumRows];
  Tally tallies[kNumTallies];
};

using blocked::set_text;
using blocked::text_of;

// The page of this process. Never unmapped: lanes may end after everything else.
class Own {
 public:
  Own() {
    if (!make_shared_file(kFileName, sizeof(Page), file_) ||
        !mapping_.map_file(file_.get(), sizeof(Page)))
      return;
    // A zeroed page equals a constructed one, except for the magic.
    page_ = reinterpret_cast<Page*>(mapping_.data());
    page_->magic = kMagic;
  }

  Row* open(std::string_view fabric, std::string_view peer) {
    const std::lock_guard guard(lock_);
    return take(fabric, peer);
  }

  void close(Row& row) noexcept {
    const std::lock_guard guard(lock_);
    Row* past = nullptr;
    try {
      std::pair key(std::string(text_of(row.fabric)), std::string(text_of(row.peer)));
      // A server whose clients come and go for months keeps the names of some only.
      if (past_.size() >= kNamedPast && !past_.contains(key)) key.second = "(others)";
      auto& place = past_[key];
      if (place == nullptr) {  // this one becomes it
        place = &row;
        set_text(row.peer, key.second);
        return;
      }
      make_room(free_);
      past = place;
    } catch (const std::bad_alloc&) {
      return;  // the row stays as it is
    }
    for (int i = 0; i < kNumCounters; ++i) {
      auto& counter = row.counters[static_cast<std::size_t>(i)];
      past->add(static_cast<Counter>(i), counter.load(std::memory_order_relaxed));
      counter.store(0, std::memory_order_relaxed);
    }
    set_text(row.fabric, "");
    free_.push_back(&row);
  }

  void set_name(std::string_view name) noexcept {
    const std::lock_guard guard(lock_);
    if (page_ != nullptr) set_text(page_->name, name);
  }
  Page* page() const noexcept { return page_; }
  int fd() const noexcept { return page_ == nullptr ? -1 : file_.get(); }

  std::array<std::uint64_t, kNumCounters> sum(std::string_view peer) {
    const std::lock_guard guard(lock_);
    std::array<std::uint64_t, kNumCounters> sums{};
    const std::uint32_t num_rows =
        page_ == nullptr ? 0 : page_->num_rows.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < num_rows; ++i) {
      const Row& row = page_->rows[i];
      const std::string_view name = text_of(row.peer);
      if (row.fabric[0] == 0) continue;
      if (!peer.empty() &&
          !(name.starts_with(peer) && (name.size() == peer.size() || name[peer.size()] == ' ')))
        continue;
      for (std::size_t c = 0; c < kNumCounters; ++c)
        sums[c] += row.counters[c].load(std::memory_order_relaxed);
    }
    return sums;
  }

 private:
  Row* take(std::string_view fabric, std::string_view peer) {
    if (page_ == nullptr) return nullptr;
    Row* row = nullptr;
    const std::uint32_t num_rows = page_->num_rows.load(std::memory_order_relaxed);
    if (!free_.empty()) {
      row = free_.back();
      free_.pop_back();
    } else if (num_rows < kNumRows) {
      row = &page_->rows[num_rows];
    } else {
      return nullptr;
    }
    set_text(row->peer, peer);
    set_text(row->fabric, fabric);
    // release: the row's texts before its number.
    if (row == &page_->rows[num_rows])
      page_->num_rows.store(num_rows + 1, std::memory_order_release);
    return row;
  }

  std::mutex lock_;
  Descriptor file_;
  Mapping mapping_;
  Page* page_ = nullptr;  // null: there is no memory for it
  std::vector<Row*> free_;
  std::map<std::pair<std::string, std::string>, Row*> past_;
};

Own& own() {
  static Own* const page = new Own;
  return *page;
}

// Opens the file of a process that is called so.
Status open_file(pid_t process, Descriptor& file) {
  const std::string folder = fmt::format("/proc/{}/fd", process);
  DIR* opened = opendir(folder.c_str());
  if (opened == nullptr) {
    if (errno == EACCES)
      return {Code::not_permitted, fmt::format("process {} is another user's", process)};
    return {Code::not_found, fmt::format("there is no process {}", process)};
  }
  bool refused = false;
  while (const dirent* entry = readdir(opened)) {
    const std::string path = folder + "/" + entry->d_name;
    std::error_code error;
    const auto target = std::filesystem::read_symlink(path, error);
    refused = refused || error == std::errc::permission_denied;
    if (error || !target.native().starts_with(std::string("/memfd:") + kFileName)) continue;
    file = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    break;
  }
  closedir(opened);
  if (file) return {};
  if (refused) return {Code::not_permitted, fmt::format("process {} is another user's", process)};
  return {Code::not_found, fmt::format("process {} does not run Weft, or has no peers", process)};
}

struct Sum {
  std::array<std::uint64_t, kNumCounters> counters{};
};

std::string amount(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"", "K", "M", "G", "T"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{}", bytes) : fmt::format("{:.1f}{}", value, kUnits[unit]);
}

// Read, not mapped: in a process of another user the file of this name may be any file.
Status read_file(int fd, pid_t process, std::string& text) {
  const auto get = [fd](void* to, std::size_t bytes, std::size_t offset) {
    return pread(fd, to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  };
  std::uint64_t magic = 0;
  char name[sizeof(Page::name)];
  std::uint32_t num_rows = 0;
  if (!get(&magic, sizeof magic, offsetof(Page, magic)) || magic != kMagic ||
      !get(name, sizeof name, offsetof(Page, name)) ||
      !get(&num_rows, sizeof num_rows, offsetof(Page, num_rows)) || num_rows > kNumRows)
    return {Code::not_found, fmt::format("process {} runs another version of Weft", process)};
  std::map<std::pair<std::string, std::string>, Sum> sums;  // by peer and fabric
  for (std::uint32_t i = 0; i < num_rows; ++i) {
    alignas(Row) std::byte bytes[sizeof(Row)];
    if (!get(bytes, sizeof bytes, offsetof(Page, rows) + i * sizeof(Row))) break;
    const Row& row = *reinterpret_cast<const Row*>(bytes);
    if (row.fabric[0] == 0) continue;
    Sum& sum = sums[{std::string(text_of(row.peer)), std::string(text_of(row.fabric))}];
    for (std::size_t c = 0; c < kNumCounters; ++c)
      sum.counters[c] += row.counters[c].load(std::memory_order_relaxed);
  }
  text = fmt::format("weft: {}{}process {}\n", text_of(name), name[0] != 0 ? ", " : "", process);
  text += fmt::format("  {:28} {:8} {:>12} {:>9} {:>12} {:>9} {:>9} {:>8} {:>7}\n", "peer",
                      "fabric", "sent", "bytes", "received", "bytes", "copied", "stalls", "resent");
  for (const auto& [key, sum] : sums) {
    const auto of = [&sum = sum](Counter counter) {
      return sum.counters[static_cast<std::size_t>(counter)];
    };
    text +=
        fmt::format("  {:28} {:8} {:>12} {:>9} {:>12} {:>9} {:>9} {:>8} {:>7}\n", key.first,
                    key.second, of(Counter::sent), amount(of(Counter::sent_bytes)),
                    of(Counter::received), amount(of(Counter::received_bytes)),
                    amount(of(Counter::copied_bytes)), of(Counter::stalls), of(Counter::resent));
    if (of(Counter::offloaded) + of(Counter::fallbacks) != 0)
      text += fmt::format("  {:28} collectives computed by it: {}, by the hosts instead: {}\n",
                          key.first, of(Counter::offloaded), of(Counter::fallbacks));
  }
  for (std::size_t i = 0; i < kNumTallies; ++i) {
    alignas(Tally) std::byte bytes[sizeof(Tally)];
    if (!get(bytes, sizeof bytes, offsetof(Page, tallies) + i * sizeof(Tally))) break;
    const Tally& tally = *reinterpret_cast<const Tally*>(bytes);
    if (const auto calls = tally.calls.load(std::memory_order_relaxed); calls != 0)
      text += fmt::format("  {:14} {:22} {:>12} calls {:>9} bytes\n", text_of(tally.what),
                          text_of(tally.way), calls,
                          amount(tally.bytes.load(std::memory_order_relaxed)));
  }
  return {};
}

}  // namespace

void Slot::open(std::string_view fabric, std::string_view peer) noexcept {
  close();
  try {
    if (Row* row = own().open(fabric, peer)) row_ = row;
  } catch (const std::bad_alloc&) {
    // Not counted then.
  }
}

void Slot::close() noexcept {
  if (row_ != &unseen) own().close(*std::exchange(row_, &unseen));
}

std::array<std::uint64_t, kNumCounters> sum(std::string_view peer) noexcept {
  try {
    return own().sum(peer);
  } catch (const std::bad_alloc&) {
    return {};  // nothing has been counted either
  }
}

std::span<Tally, kNumTallies> tallies() noexcept {
  static Tally unseen_tallies[kNumTallies];
  try {
    if (Page* page = own().page(); page != nullptr) return page->tallies;
  } catch (const std::bad_alloc&) {
    // Not shown then.
  }
  return unseen_tallies;
}

void set_name(std::string_view name) noexcept {
  try {
    own().set_name(name);
  } catch (const std::bad_alloc&) {
    // It has none then.
  }
}

void print_at_exit() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    (void)atexit([] {
      std::string text;
      if (read_file(own().fd(), getpid(), text).ok()) fputs(text.c_str(), stderr);
    });
  });
}

Status read(pid_t process, std::string& text) {
  Descriptor file;
  if (Status status = open_file(process, file); !status) return status;
  return read_file(file.get(), process, text);
}

blocked::Area* blocked_area() noexcept {
  try {
    Page* page = own().page();
    return page == nullptr ? nullptr : &page->blocked;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

std::size_t blocked_offset() noexcept { return offsetof(Page, blocked); }

Status open(pid_t process, Descriptor& file) {
  Descriptor opened;
  if (Status status = open_file(process, opened); !status) return status;
  std::uint64_t magic = 0;
  if (pread(opened.get(), &magic, sizeof magic, offsetof(Page, magic)) != sizeof magic ||
      magic != kMagic)
    return {Code::not_found, fmt::format("process {} runs another version of Weft", process)};
  file = std::move(opened);
  return {};
}

}  // namespace weft::stats
