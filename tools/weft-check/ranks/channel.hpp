#pragma once
// Channel: the messages of this library between the ranks, on a communicator of its own. Sending
// never waits. A message for each message of the program would double what it costs: the first
// notes of each place of the program go at once, as mistakes show there, and later ones together.
//
// Threads: any; one at a time does the work.
#include <cstdint>
#include <vector>

#include "tools/weft-check/program/place.hpp"

namespace weft::check {

// What is said of a message that the program sends, of a collective that it makes, or of an access
// to a window. 48 bytes go with the head of a message in one cache line.
struct Note {
  std::uint64_t number = 0;  // of basic elements; an access: its displacement
  std::uint64_t hash = 0;    // of their sequence; an access: how many bytes of the target
  SentPlace place;
  std::uint32_t comm = 0;          // of an access: its window
  std::int32_t tag = 0;            // of a collective: its root
  std::uint32_t sequence = 0;      // which message of this pair, or collective, on the communicator
  std::uint32_t synchronised = 0;  // collectives before it that wait for all; of a collective: the
                                   // sender's rank in the communicator
  std::uint32_t received = kUnknown;  // a message: how many this rank had got from the receiver; of
                                      // a collective: its op
  std::uint16_t basic = 0;
  std::uint8_t call = 0;  // names.hpp
  std::uint8_t flags = 0;

  static constexpr std::uint32_t kUnknown = UINT32_MAX;
  static constexpr std::uint8_t kHasAny = 1;  // bytes of anything are among the elements
  static constexpr std::uint8_t kHasSignature = 2;
  static constexpr std::uint8_t kIsBlocking = 4;  // the sender waits unless the message is buffered
  static constexpr std::uint8_t kIsCancelled = 8;  // the message of this sequence does not come
};
static_assert(sizeof(Note) == 48);

enum class Topic : int { message = 1, collective = 2, access = 3 };

// Called by all ranks in MPI_Init. take: gets the notes that have come, in the order of sending of
// each rank.
using Take = void (*)(Topic topic, int from, const Note& note);
void open_channel(Take take);
bool is_channel_open();

// Sends a note ahead of the call that it is about; in calls that come often it goes with later
// ones, as `caller` tells.
void send_note(Topic topic, int rank, const Note& note, const void* caller);
// Hands out the notes that have come, if this place of the program is a new one, or nothing has
// been taken for long.
void poll_notes_at(const void* caller);

// Called by all ranks in MPI_Finalize: hands out all notes that were sent to this rank.
// False: it could not, as a rank is lost.
bool drain_channel();

}  // namespace weft::check
