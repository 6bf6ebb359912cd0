#include "tools/weft-check/ranks/messages.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/weft-check/lock.hpp"
#include "tools/weft-check/ranks/channel.hpp"
#include "tools/weft-check/ranks/names.hpp"
#include "tools/weft-check/report.hpp"
#include "tools/weft-check/threads.hpp"

namespace weft::check {

struct Receive {
  Comm* comm = nullptr;
  int source = 0, tag = 0;  // as asked for; once it is over, as it was
  const Layout* layout = nullptr;
  std::shared_ptr<const Layout> kept_layout;  // of a derived datatype, which may be freed meanwhile
  std::uint64_t count = 0;
  bool is_blocking = false;
  Call call;
  std::uint64_t clock = 0;                // of this process's blocking sends, when it was posted
  std::uint32_t synchronised = 0;         // of the communicator, then
  bool is_over = false, is_alone = true;  // is_alone: no other receive was open then
  std::list<Receive>::iterator place;
};

namespace {

using Receives = std::list<Receive>;

// The last blocking sends to a rank.
struct BlockingSend {
  std::uint32_t sequence = 0;
  std::uint64_t clock = 0;
  Call call;
};

struct Pair {
  std::deque<Note> notes;    // of messages from the rank that no receive has got yet
  Receives waiting;          // for their notes
  std::vector<int> skipped;  // tags of notes that come, but whose receives have been paired
  std::uint32_t received = 0, highest = 0;
  std::uint32_t sent = 0;
  BlockingSend last[4];  // by sequence
  std::size_t num_blocking = 0;
};

struct Messages {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, Pair> pairs;       // by communicator and rank of the world
  std::unordered_map<std::uint32_t, Receives> posted;  // by communicator
  std::vector<std::uint64_t> unclear;                  // numbers of communicators
  Receives idle;                                       // whose memory can be used again
  std::uint64_t clock = 0;
};
Messages& messages() {
  static Messages& all = *new Messages;
  return all;
}

Pair& pair_of(Messages& all, std::uint32_t comm, int world) {
  struct Last {
    std::uint64_t key = 0;
    Pair* pair = nullptr;
  };
  static thread_local Last last;
  const std::uint64_t key = std::uint64_t{comm} << 32 | static_cast<std::uint32_t>(world);
  if (last.key != key || last.pair == nullptr) last = {key, &all.pairs[key]};
  return *last.pair;
}

Receives& posted_on(Messages& all, Comm& comm) {
  if (comm.posted == nullptr) comm.posted = &all.posted[comm.number];
  return *static_cast<Receives*>(comm.posted);
}

bool fits(const Receive& receive, int source, int tag) {
  if (receive.is_over) return receive.source == source && receive.tag == tag;
  return (receive.source == MPI_ANY_SOURCE || receive.source == source) &&
         (receive.tag == MPI_ANY_TAG || receive.tag == tag);
}

std::string text_of_sent(const Note& note) {
  Signature signature{note.number, note.hash, note.basic, (note.flags & Note::kHasAny) != 0};
  return text_of(signature);
}

std::string text_of_place(const Note& note) {
  const std::string place = text_of(note.place);
  return place.empty() ? std::string(name_of_call(note.call))
                       : fmt::format("{} at {}", name_of_call(note.call), place);
}

void compare_types(const Receive& receive, const Note& note) {
  if (receive.layout == nullptr || receive.comm->is_unclear ||
      (note.flags & (Note::kHasSignature | Note::kHasAny)) != Note::kHasSignature)
    return;
  const Layout& layout = *receive.layout;
  if (layout.signature.has_any) return;
  Signature wanted = signature_of(layout, receive.count);
  if (note.number == 0 || wanted.number == 0) return;
  bool is_wrong;
  if (note.basic != 0 && wanted.basic != 0) {
    is_wrong = note.basic != wanted.basic;
  } else if (note.number <= wanted.number) {
    if (!prefix_of(layout, receive.count, note.number, wanted)) return;
    is_wrong = note.basic != wanted.basic || note.hash != wanted.hash;
  } else {
    is_wrong = true;  // with fewer bytes, as it was not truncated
  }
  if (!is_wrong) return;
  report(
      receive.call, "signature",
      fmt::format("receives {} (tag {} on {}), but rank {} has sent {} by {}: the types of both "
                  "sides must be the same",
                  text_of(receive.count, layout), note.tag, text_of(*receive.comm),
                  receive.comm->world_of(receive.source), text_of_sent(note), text_of_place(note)));
}

// What would stand still, if messages were not buffered.
void check_order(const Receive& receive, const Pair& pair, const Note& note, std::size_t position) {
  if (is_threaded()) return;
  const int from = receive.comm->world_of(receive.source);
  if (receive.is_blocking && receive.is_alone)
    for (std::size_t i = 0; i < position; ++i) {
      const Note& earlier = pair.notes[i];
      if ((earlier.flags & Note::kIsBlocking) == 0) continue;
      report(
          receive.call, "order",
          fmt::format("has got a message of tag {} from rank {}, which it only could because an "
                      "earlier one of tag {} was buffered: rank {} waits in {} until that one is "
                      "received: receive in the order of sending, or use MPI_Isend",
                      note.tag, from, earlier.tag, from, text_of_place(earlier)));
      return;
    }
  if ((note.flags & Note::kIsBlocking) == 0) return;
  if (receive.synchronised > note.synchronised) {
    report(receive.call, "order",
           fmt::format("receives after a collective on {} what rank {} sends before it by {}: it "
                       "waits there until the message is received, unless it is buffered: receive "
                       "before the collective, or use MPI_Isend",
                       text_of(*receive.comm), from, text_of_place(note)));
    return;
  }
  if (note.received == Note::kUnknown) return;
  for (const BlockingSend& send : pair.last)
    if (send.sequence > note.received && send.clock <= receive.clock) {
      report(
          send.call, "order",
          fmt::format("sends to rank {}, which sends to this rank by {} before it receives, and so "
                      "does this rank: both wait for each other, unless the messages are buffered: "
                      "let one receive first, or use MPI_Sendrecv or MPI_Isend",
                      from, text_of_place(note)));
      return;
    }
}

// Compares the receive with its note, if that has come.
bool pair_up(Pair& pair, const Receive& receive) {
  for (std::size_t i = 0; i < pair.notes.size(); ++i) {
    if (pair.notes[i].tag != receive.tag) continue;
    const Note note = pair.notes[i];
    compare_types(receive, note);
    check_order(receive, pair, note, i);
    ++pair.received;
    pair.highest = std::max(pair.highest, note.sequence);
    if (i == 0)
      pair.notes.pop_front();
    else
      pair.notes.erase(pair.notes.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }
  return false;
}

// The message of the note does not come. A receive that was paired with it has got the next one of
// that tag.
void take_back(Pair& pair, const Note& note) {
  auto at = std::ranges::find(pair.notes, note.sequence, &Note::sequence);
  if (at == pair.notes.end()) at = std::ranges::find(pair.notes, note.tag, &Note::tag);
  if (at != pair.notes.end())
    pair.notes.erase(at);
  else
    pair.skipped.push_back(note.tag);
}

void give_back(Messages& all, Receives& from, Receives::iterator at) {
  if (at->kept_layout != nullptr) at->kept_layout.reset();
  all.idle.splice(all.idle.begin(), from, at);
}

void pair_up_waiting(Messages& all, Pair& pair) {
  for (auto at = pair.waiting.begin(); at != pair.waiting.end() && !pair.notes.empty();) {
    const auto next = std::next(at);
    if (pair_up(pair, *at)) give_back(all, pair.waiting, at);
    at = next;
  }
}

bool is_blocked(const Receives& receives, const Receive& receive) {
  for (const Receive& earlier : receives) {
    if (&earlier == &receive) return false;
    if (fits(earlier, receive.source, receive.tag)) return true;
  }
  return false;
}

// The receive's place among those of its sender and tag is known.
void settle(Messages& all, Receives& receives, Receives::iterator at) {
  const int world = at->comm->world_of(at->source);
  if (world < 0) return give_back(all, receives, at);
  Pair& pair = pair_of(all, at->comm->number, world);
  if (pair.waiting.empty() && !pair.notes.empty() && pair_up(pair, *at))
    return give_back(all, receives, at);
  pair.waiting.splice(pair.waiting.end(), receives, at);
}

void settle_first(Messages& all, Receives& posted) {
  while (!posted.empty() && posted.front().is_over) settle(all, posted, posted.begin());
}

}  // namespace

std::uint32_t note_send(Comm& comm, int dest, int tag, const Layout& layout, std::uint64_t count,
                        bool is_blocking) {
  const int world = comm.world_of(dest);
  if (comm.number == 0 || world < 0 || !is_channel_open()) return 0;
  const Signature signature = signature_of(layout, count);
  Note note;
  note.number = signature.number;
  note.hash = signature.hash;
  note.place = sent_place(current_call.caller);
  note.comm = comm.number;
  note.tag = tag;
  note.synchronised = comm.num_synchronised;
  note.basic = signature.basic;
  note.call = current_call.number;
  note.flags =
      static_cast<std::uint8_t>(Note::kHasSignature | (signature.has_any ? Note::kHasAny : 0) |
                                (is_blocking ? Note::kIsBlocking : 0));
  Messages& all = messages();
  {
    const Lock lock(all.mutex);
    Pair& pair = pair_of(all, comm.number, world);
    note.sequence = ++pair.sent;
    if (is_blocking) {
      if (posted_on(all, comm).empty() && pair.waiting.empty() && pair.received == pair.highest)
        note.received = pair.received;
      pair.last[pair.num_blocking++ % std::size(pair.last)] = {note.sequence, ++all.clock,
                                                               current_call};
    }
  }
  send_note(Topic::message, world, note, current_call.caller);
  return note.sequence;
}

void note_cancelled_send(Comm& comm, int dest, int tag, std::uint32_t number) {
  if (number == 0) return;
  Note note;
  note.comm = comm.number;
  note.tag = tag;
  note.sequence = number;
  note.flags = Note::kIsCancelled;
  send_note(Topic::message, comm.world_of(dest), note, current_call.caller);
}

Receive* post_receive(Comm* comm, int source, int tag, const Layout* layout,
                      std::shared_ptr<const Layout> kept_layout, std::uint64_t count,
                      bool is_blocking) {
  if (comm->number == 0 || source == MPI_PROC_NULL || !is_channel_open()) return nullptr;
  Messages& all = messages();
  const Lock lock(all.mutex);
  Receives& posted = posted_on(all, *comm);
  const bool is_alone = posted.empty();
  if (all.idle.empty()) all.idle.emplace_back();
  posted.splice(posted.end(), all.idle, all.idle.begin());
  Receive& receive = posted.back();
  receive.comm = comm;
  receive.source = source;
  receive.tag = tag;
  receive.layout = layout;
  receive.kept_layout = std::move(kept_layout);
  receive.count = count;
  receive.is_blocking = is_blocking;
  receive.call = current_call;
  receive.clock = all.clock;
  receive.synchronised = comm->num_synchronised;
  receive.is_over = false;
  receive.is_alone = is_alone;
  receive.place = std::prev(posted.end());
  return &receive;
}

void end_receive(Receive* receive, int source, int tag, bool is_truncated) {
  if (receive == nullptr) return;
  Messages& all = messages();
  const void* const caller = receive->call.caller;
  poll_notes_at(caller);
  const Lock lock(all.mutex);
  receive->source = source;
  receive->tag = tag;
  receive->is_over = true;
  if (is_truncated) receive->layout = nullptr;  // an error of its own
  Receives& posted = posted_on(all, *receive->comm);
  if (&posted.front() != receive && !is_blocked(posted, *receive))
    settle(all, posted, receive->place);
  settle_first(all, posted);
}

void drop_receive(Receive* receive) {
  if (receive == nullptr) return;
  Messages& all = messages();
  const Lock lock(all.mutex);
  Receives& posted = posted_on(all, *receive->comm);
  give_back(all, posted, receive->place);
  settle_first(all, posted);
}

void take_message_note(int from, const Note& note) {
  Messages& all = messages();
  const Lock lock(all.mutex);
  Pair& pair = pair_of(all, note.comm, from);
  if ((note.flags & Note::kIsCancelled) != 0) return take_back(pair, note);
  if (const auto skipped = std::ranges::find(pair.skipped, note.tag);
      skipped != pair.skipped.end()) {
    pair.skipped.erase(skipped);
    return;
  }
  pair.notes.push_back(note);
  if (!pair.waiting.empty()) pair_up_waiting(all, pair);
}

void report_unreceived() {
  Messages& all = messages();
  for (const auto& [key, pair] : all.pairs) {
    if (std::ranges::find(all.unclear, key >> 32) != all.unclear.end()) continue;
    const auto from = static_cast<std::uint32_t>(key);
    for (const Note& note : pair.notes)
      report(
          fmt::format("unreceived {} {}", from, note.place.offset),
          fmt::format("rank {} has sent {} with tag {} by {} to this rank, which has not received "
                      "it",
                      from, text_of_sent(note), note.tag, text_of_place(note)));
  }
}

void note_unclear(Comm& comm) {
  Messages& all = messages();
  const Lock lock(all.mutex);
  comm.is_unclear = true;
  all.unclear.push_back(comm.number);
}

void note_synchronised(Comm& comm) { ++comm.num_synchronised; }

}  // namespace weft::check
