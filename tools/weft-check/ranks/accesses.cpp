#include "tools/weft-check/ranks/accesses.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tools/weft-check/lock.hpp"
#include "tools/weft-check/ranks/channel.hpp"
#include "tools/weft-check/ranks/names.hpp"
#include "tools/weft-check/report.hpp"

namespace weft::check {
namespace {

constexpr std::size_t kMostKept = 1024;  // accesses to a window; beyond that the oldest go

struct Kept {
  int from = 0;
  std::uint64_t begin = 0, end = 0;
  Note note;
};

struct Target {
  Call call;  // that made the window
  std::int64_t unit = 1;
  std::vector<Kept> kept;
};

struct Accesses {
  std::mutex mutex;
  std::unordered_map<std::uint32_t, Target> windows;
};
Accesses& accesses() {
  static Accesses& all = *new Accesses;
  return all;
}

AccessKind kind_of(const Note& note) { return static_cast<AccessKind>(note.flags); }

bool is_read(const Note& note) {
  return kind_of(note) == AccessKind::read || kind_of(note) == AccessKind::atomic_read;
}
bool is_atomic(const Note& note) {
  return kind_of(note) == AccessKind::atomic || kind_of(note) == AccessKind::atomic_read;
}

// Neither comes before the other.
bool are_concurrent(const Kept& one, const Kept& other) {
  if (one.note.synchronised != other.note.synchronised) return false;
  if (one.from == other.from) return one.note.sequence == other.note.sequence;
  return one.note.synchronised != 0;
}

bool conflict(const Note& one, const Note& other) {
  if (is_read(one) && is_read(other)) return false;
  if (!is_atomic(one) || !is_atomic(other)) return true;
  return one.basic != 0 && other.basic != 0 && bytes_of(one.basic) != bytes_of(other.basic);
}

std::string text_of_call(const Note& note) {
  const std::string place = text_of(note.place);
  return fmt::format("{}{}{}", name_of_call(note.call), place.empty() ? "" : " at ", place);
}
std::string text_of(const Kept& one, const Kept& other) {
  return fmt::format("rank {} in {} and {}in {}", one.from, text_of_call(one.note),
                     one.from == other.from ? "" : fmt::format("by rank {} ", other.from),
                     text_of_call(other.note));
}

}  // namespace

void note_window(std::uint32_t number, std::int64_t unit) {
  if (number == 0) return;
  Accesses& all = accesses();
  const Lock lock(all.mutex);
  all.windows[number] = {current_call, unit, {}};
}

void note_access(const AccessTime& time, std::int64_t displacement, std::uint64_t bytes,
                 Basic basic, AccessKind kind) {
  if (time.peer < 0) return;
  Note note;
  note.number = static_cast<std::uint64_t>(displacement);
  note.hash = bytes;
  note.place = sent_place(current_call.caller);
  note.comm = time.window;
  note.sequence = time.serial;
  note.synchronised = time.fence;
  note.basic = basic;
  note.call = current_call.number;
  note.flags = static_cast<std::uint8_t>(kind);
  send_note(Topic::access, time.peer, note, current_call.caller);
}

void take_access_note(int from, const Note& note) {
  Accesses& all = accesses();
  const Lock lock(all.mutex);
  const auto found = all.windows.find(note.comm);
  if (found == all.windows.end()) return;
  Target& window = found->second;
  const std::uint64_t begin = note.number * static_cast<std::uint64_t>(window.unit);
  const Kept access{from, begin, begin + note.hash, note};
  for (const Kept& other : window.kept) {
    if (other.end <= access.begin || access.end <= other.begin || !are_concurrent(other, access) ||
        !conflict(other.note, note))
      continue;
    report(window.call, fmt::format("conflict {} {}", other.note.place.offset, note.place.offset),
           fmt::format("the bytes {} to {} that this rank has in the window made here are accessed "
                       "by {}, and no synchronisation lets one come first: what is there "
                       "then is undefined: synchronise between them, or let both be "
                       "MPI_Accumulate or MPI_Get_accumulate",
                       std::max(other.begin, access.begin), std::min(other.end, access.end) - 1,
                       text_of(other, access)));
    break;
  }
  if (window.kept.size() == kMostKept)
    window.kept.erase(window.kept.begin(), window.kept.begin() + kMostKept / 2);
  window.kept.push_back(access);
}

}  // namespace weft::check
