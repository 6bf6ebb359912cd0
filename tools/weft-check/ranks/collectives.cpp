#include "tools/weft-check/ranks/collectives.hpp"

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

struct First {
  int from;
  Note note;
  int number = 0;  // of members that have told
};

struct Collectives {
  std::mutex mutex;
  std::vector<std::uint32_t> failed;  // communicators where a call has failed at a member
  std::unordered_map<std::uint64_t, First> open;  // by communicator and sequence
  std::unordered_map<std::uint32_t, std::pair<int, std::string>> comms;  // their sizes and names
};
Collectives& collectives() {
  static Collectives& all = *new Collectives;
  return all;
}

std::string text_of_note(int from, const Note& note) {
  std::string text = fmt::format("rank {} in {}", from, name_of_call(note.call));
  if (note.tag >= 0) text += fmt::format(" with root {}", note.tag);
  if (note.received != 0 && note.received != Note::kUnknown)
    text += fmt::format(" by {}", name_of_op(note.received));
  if ((note.flags & Note::kHasSignature) != 0)
    text += fmt::format(" of {}", text_of(Signature{note.number, note.hash, note.basic,
                                                    (note.flags & Note::kHasAny) != 0}));
  if (const std::string place = text_of(note.place); !place.empty()) text += " at " + place;
  return text;
}

const char* difference(const Note& one, const Note& other) {
  if (one.call != other.call) return "make different collectives";
  if (one.tag != other.tag) return "make one collective with different roots";
  if (one.received != other.received) return "make one collective with different operations";
  if ((one.flags & other.flags & Note::kHasSignature) == 0 ||
      ((one.flags | other.flags) & Note::kHasAny) != 0)
    return nullptr;
  if (one.number == 0 && other.number == 0) return nullptr;
  if (one.number != other.number)
    return one.basic == other.basic ? "make one collective with different counts"
                                    : "make one collective with different types";
  return one.basic != other.basic || one.hash != other.hash
             ? "make one collective with different types"
             : nullptr;
}

void take(Collectives& all, int from, const Note& note) {
  if (std::ranges::find(all.failed, note.comm) != all.failed.end()) return;
  if ((note.flags & Note::kIsCancelled) != 0) {
    all.failed.push_back(note.comm);
    std::erase_if(all.open, [&](const auto& entry) { return entry.first >> 32 == note.comm; });
    return;
  }
  const std::uint64_t key = std::uint64_t{note.comm} << 32 | note.sequence;
  const auto [at, is_first] = all.open.try_emplace(key, First{from, note});
  First& first = at->second;
  const auto comm = all.comms.find(note.comm);
  if (!is_first)
    if (const char* what = difference(first.note, note)) {
      // The place is that of the other side: the first member may be elsewhere by now.
      report({name_of_call(note.call).data(), nullptr, note.call},
             fmt::format("collective {} {}", first.note.place.offset, note.place.offset),
             fmt::format(
                 "the ranks of {} {} (collective number {} on it): {}; {}: all members must "
                 "make the same ones in one order",
                 comm == all.comms.end() ? "a communicator" : comm->second.second, what,
                 note.sequence, text_of_note(first.from, first.note), text_of_note(from, note)));
    }
  ++first.number;
  if (comm != all.comms.end() && first.number == comm->second.first) all.open.erase(at);
}

}  // namespace

void note_collective(Comm* comm, const Collective& collective) {
  if (comm == nullptr || comm->number == 0 || comm->is_inter || comm->world.size() < 2) return;
  if (!is_channel_open()) return;
  Note note;
  note.number = collective.signature.number;
  note.hash = collective.signature.hash;
  note.basic = collective.signature.basic;
  note.flags = static_cast<std::uint8_t>((collective.has_signature ? Note::kHasSignature : 0) |
                                         (collective.signature.has_any ? Note::kHasAny : 0));
  note.place = sent_place(current_call.caller);
  note.comm = comm->number;
  note.tag = collective.root;
  note.sequence = ++comm->num_collectives;
  note.received = collective.op;
  note.call = current_call.number;
  if (comm->rank != 0) {
    send_note(Topic::collective, comm->world[0], note, current_call.caller);
    return poll_notes_at(current_call.caller);
  }
  Collectives& all = collectives();
  {
    const Lock lock(all.mutex);
    if (note.sequence == 1)
      all.comms[comm->number] = {static_cast<int>(comm->world.size()), text_of(*comm)};
    take(all, comm->world[0], note);
  }
  poll_notes_at(current_call.caller);
}

void note_failed_collective(Comm* comm) {
  if (comm == nullptr || comm->number == 0 || comm->is_inter || comm->world.size() < 2) return;
  Note note;
  note.comm = comm->number;
  note.flags = Note::kIsCancelled;
  if (comm->rank != 0)
    send_note(Topic::collective, comm->world[0], note, current_call.caller);
  else
    take_collective_note(comm->world[0], note);
}

void take_collective_note(int from, const Note& note) {
  Collectives& all = collectives();
  const Lock lock(all.mutex);
  take(all, from, note);
}

void report_incomplete_collectives() {
  Collectives& all = collectives();
  const Lock lock(all.mutex);
  for (const auto& [key, first] : all.open) {
    const auto comm = all.comms.find(first.note.comm);
    if (comm == all.comms.end() || first.number >= comm->second.first) continue;
    report({name_of_call(first.note.call).data(), nullptr, first.note.call},
           fmt::format("incomplete {}", first.note.place.offset),
           fmt::format("only {} of the {} ranks of {} have made collective number {} on it: {}",
                       first.number, comm->second.first, comm->second.second, first.note.sequence,
                       text_of_note(first.from, first.note)));
  }
}

}  // namespace weft::check
