// Calls that read part of an object on another host into their client's own memory. Only Remote
// writes there; a call is answered, and its memory the client's again, only when Remote has
// reported the end.
#include <algorithm>

#include "objstore/shared/clock.hpp"
#include "server.hpp"

namespace weft::objstore {

void Server::read_into(Client& client, const Request& request) {
  std::byte* to = extent_bytes(client, request, request.bytes);
  if (to == nullptr)
    return complete(client, request.tag, {Code::bad_argument, Reason::bad_request});
  if (objects_.find_sealed(request.id) != kNoEntry)
    return complete(client, request.tag, {Code::exists, Reason::exists});
  const bool is_spilled = objects_.is_spilled(request.id);
  if (request.timeout_ms == 0 && !is_spilled)
    return complete(client, request.tag, {Code::timed_out});
  const std::uint64_t deadline_ns = deadline_after(
      is_spilled && request.timeout_ms >= 0 ? std::max<std::int64_t>(request.timeout_ms, 20'000)
                                            : request.timeout_ms);
  const std::uint64_t number = next_wait_++;
  intos_.emplace(number, Into{client.serial, request.tag, request.id, deadline_ns,
                              remote_ != nullptr && !is_spilled, Outcome{}});
  if (is_spilled)
    restore(request.id);
  else if (remote_ != nullptr)
    remote_->read_into(number, {request.id, client.extents[request.extent].memory, to,
                                request.object_offset, request.bytes});
}

// At once if nobody writes to the client's memory, else when Remote has ended.
void Server::end_into(std::uint64_t number, Outcome outcome) {
  Into& into = intos_.at(number);
  if (!into.outcome.ok()) return;  // ends already
  into.outcome = outcome;
  if (!into.is_remote)
    into_ended(number, outcome, 0);
  else if (remote_ != nullptr)
    remote_->no_more_into(number);
}

void Server::into_ended(std::uint64_t number, Outcome outcome, std::uint64_t data_bytes) {
  const auto found = intos_.find(number);
  if (found == intos_.end()) return;
  const Into into = found->second;
  intos_.erase(found);
  // Bytes that have arrived are good, for whatever reason Remote was asked to end.
  if (!outcome.ok() && !into.outcome.ok()) outcome = into.outcome;
  if (const auto client = clients_.find(into.client); client != clients_.end())
    complete(*client->second, into.tag, outcome, data_bytes);
}

void Server::end_intos_here(const ObjectId& id) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, into] : intos_)
    if (into.id == id) numbers.push_back(number);
  for (const std::uint64_t number : numbers) end_into(number, {Code::exists, Reason::exists});
}

void Server::end_intos_of(std::uint32_t client) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, into] : intos_)
    if (into.client == client) numbers.push_back(number);
  for (const std::uint64_t number : numbers) end_into(number, {Code::cancelled});
}

void Server::end_remote_intos() {
  const std::map<std::uint64_t, Into> intos = intos_;
  for (const auto& [number, into] : intos)
    if (into.is_remote) into_ended(number, {Code::cancelled, Reason::shutting_down}, 0);
}

// Ends calls that are due; returns the next deadline.
std::uint64_t Server::end_due_intos(std::uint64_t now_ns) {
  std::uint64_t next = UINT64_MAX;
  std::vector<std::uint64_t> due;
  for (const auto& [number, into] : intos_) {
    if (!into.outcome.ok()) continue;
    if (into.deadline_ns <= now_ns)
      due.push_back(number);
    else
      next = std::min(next, into.deadline_ns);
  }
  for (const std::uint64_t number : due) end_into(number, {Code::timed_out});
  return next;
}

}  // namespace weft::objstore
