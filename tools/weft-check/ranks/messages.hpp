#pragma once
// Messages: compares what is sent with what is received. The sender sends a note of each message,
// and the receiver pairs notes with receives in the order in which messages match them: those of
// one sender, tag and communicator match receives in the order in which these were posted. A
// receive that is over waits for its note, but nobody waits for the receive.
//
// Threads: any.
#include <cstdint>
#include <memory>

#include "tools/weft-check/call.hpp"
#include "tools/weft-check/ranks/comms.hpp"
#include "tools/weft-check/ranks/types.hpp"

namespace weft::check {

// A receive, from its posting to the note that belongs to it.
struct Receive;

// Called before a message is sent. is_blocking: the call may wait for the receiver. Returns the
// message's number among those to this receiver; 0: no note was sent.
std::uint32_t note_send(Comm& comm, int dest, int tag, const Layout& layout, std::uint64_t count,
                        bool is_blocking);
// Called when the message has been cancelled.
void note_cancelled_send(Comm& comm, int dest, int tag, std::uint32_t number);

// Called before a receive is posted; layout null: only its place in the order counts. kept_layout:
// the same of a derived datatype, which may be freed meanwhile. Null: nothing is compared.
Receive* post_receive(Comm* comm, int source, int tag, const Layout* layout,
                      std::shared_ptr<const Layout> kept_layout, std::uint64_t count,
                      bool is_blocking);
// Called when it is known which message it got; the receive is given back.
void end_receive(Receive* receive, int source, int tag, bool is_truncated = false);
void drop_receive(Receive* receive);

// Keeps a note that has come, and compares it with the receive that waits for it.
void take_message_note(int from, const struct Note& note);
// Called in MPI_Finalize, when all notes have come.
void report_unreceived();

// Called when a receive is given up, so that nobody knows which message it gets: from then on
// messages of the communicator are not looked at.
void note_unclear(Comm& comm);

// Called when a collective that waits for all members has ended.
void note_synchronised(Comm& comm);

}  // namespace weft::check
