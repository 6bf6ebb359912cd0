#include "tools/weft-check/state/requests.hpp"

#include <fmt/core.h>

#include <mutex>
#include <unordered_map>
#include <utility>

#include "tools/weft-check/lock.hpp"
#include "tools/weft-check/report.hpp"

namespace weft::check {
namespace {

struct Requests {
  std::mutex mutex;
  std::unordered_multimap<MPI_Request, std::shared_ptr<Operation>> all;
};
Requests& requests() {
  static Requests& all = *new Requests;
  return all;
}

// Of several operations with this handle that which the program keeps here; else any.
auto find(Requests& all, MPI_Request handle, const MPI_Request* place) {
  const auto [begin, end] = all.all.equal_range(handle);
  for (auto at = begin; at != end; ++at)
    if (at->second->place == place) return at;
  return begin == end ? all.all.end() : begin;
}

void begin(Operation& operation) {
  for (const Memory& memory : operation.memory) operation.uses.push_back(begin_use(memory));
}

void end_uses(Operation& operation, bool is_sure = true) {
  for (const Use use : operation.uses) end_use(use, is_sure);
  operation.uses.clear();
}

std::string text_of_message(const Operation& operation) {
  if (operation.comm == nullptr || operation.layout == nullptr) return "";
  const std::string peer = operation.peer == MPI_ANY_SOURCE
                               ? "any rank"
                               : fmt::format("rank {}", operation.comm->world_of(operation.peer));
  return fmt::format(
      " ({} {} {}{} on {})", text_of(operation.count, *operation.layout),
      operation.message == Operation::Message::send ? "to" : "from", peer,
      operation.tag == MPI_ANY_TAG ? ", any tag" : fmt::format(", tag {}", operation.tag),
      text_of(*operation.comm));
}

}  // namespace

Memory lasting_memory(const void* buffer, std::uint64_t count, MPI_Datatype type, Access access) {
  auto layout = keep_layout(type);
  if (layout == nullptr) return {};
  Memory memory = memory_of(buffer, count, *layout, access);
  if (memory.buffer != nullptr) memory.layout = std::move(layout);
  return memory;
}

void add_request(const MPI_Request* place, Operation operation) {
  if (*place == MPI_REQUEST_NULL) {
    drop_receive(operation.receive);
    return;
  }
  operation.call = current_call;
  operation.place = place;
  if (operation.is_active) begin(operation);
  auto shared = std::make_shared<Operation>(std::move(operation));
  Requests& all = requests();
  const Lock lock(all.mutex);
  all.all.emplace(*place, std::move(shared));
}

void start_request(MPI_Request handle) {
  std::shared_ptr<Operation> operation;
  {
    Requests& all = requests();
    const Lock lock(all.mutex);
    const auto at = all.all.find(handle);
    if (at != all.all.end()) operation = at->second;
  }
  if (operation == nullptr || operation->is_active) return;
  operation->is_active = true;
  operation->is_known = false;
  if (operation->is_partitioned) return;
  if (operation->message == Operation::Message::send)
    operation->note = note_send(*operation->comm, operation->peer, operation->tag,
                                *operation->layout, operation->count, false);
  if (operation->message == Operation::Message::receive)
    operation->receive =
        post_receive(operation->comm.get(), operation->peer, operation->tag,
                     operation->layout.get(), operation->layout, operation->count, false);
  begin(*operation);
}

namespace {

void finish(Operation& operation, const MPI_Status& status, int error_class, bool is_sure) {
  if (!operation.is_active) return;
  operation.is_active = false;
  end_uses(operation, is_sure);
  int is_cancelled = 0;
  if ((operation.receive != nullptr || operation.note != 0) && error_class == MPI_SUCCESS)
    PMPI_Test_cancelled(&status, &is_cancelled);
  const bool is_truncated = error_class == MPI_ERR_TRUNCATE;
  if (Receive* receive = std::exchange(operation.receive, nullptr)) {
    if (is_cancelled != 0 || status.MPI_SOURCE < 0 || (error_class != MPI_SUCCESS && !is_truncated))
      drop_receive(receive);
    else
      end_receive(receive, status.MPI_SOURCE, status.MPI_TAG, is_truncated);
  } else if (operation.note != 0 && is_cancelled != 0) {
    note_cancelled_send(*operation.comm, operation.peer, operation.tag, operation.note);
  }
  if (operation.at_end) operation.at_end();
}

}  // namespace

void end_request(MPI_Request handle, const MPI_Request* place, const MPI_Status& status,
                 int error_class) {
  // Sends that were complete at once can have a handle in common. Which one is meant is known by
  // the place of the handle alone, and not at all if the program has moved it.
  std::vector<std::shared_ptr<Operation>> ended;
  {
    Requests& all = requests();
    const Lock lock(all.mutex);
    const auto at = find(all, handle, place);
    if (at == all.all.end()) return;
    const auto [begin, end] = all.all.equal_range(handle);
    if (at->second->place == place || std::next(begin) == end) {
      ended.push_back(at->second);
      if (!at->second->is_persistent) all.all.erase(at);
    } else {
      for (auto each = begin; each != end; ++each) ended.push_back(each->second);
      all.all.erase(begin, end);
    }
  }
  for (const auto& operation : ended) finish(*operation, status, error_class, ended.size() == 1);
}

void cancel_request(const MPI_Request* place) {
  Requests& all = requests();
  const Lock lock(all.mutex);
  const auto at = find(all, *place, place);
  if (at != all.all.end()) at->second->is_cancelled = true;
}

void note_known(MPI_Request handle) {
  std::vector<std::shared_ptr<Operation>> known;
  {
    Requests& all = requests();
    const Lock lock(all.mutex);
    const auto [begin, end] = all.all.equal_range(handle);
    for (auto at = begin; at != end; ++at) known.push_back(at->second);
  }
  for (const auto& operation : known) {
    operation->is_known = true;
    end_uses(*operation, known.size() == 1);
    if (const auto at_end = std::exchange(operation->at_end, nullptr)) at_end();
  }
}

void free_request(const MPI_Request* place) {
  std::shared_ptr<Operation> operation;
  {
    Requests& all = requests();
    const Lock lock(all.mutex);
    const auto at = find(all, *place, place);
    if (at == all.all.end()) return;
    operation = at->second;
    all.all.erase(at);
  }
  if (!operation->is_active) return;
  if (operation->is_known) {
    MPI_Status status;
    int is_complete = 0;
    if (PMPI_Request_get_status(*place, &is_complete, &status) == MPI_SUCCESS && is_complete != 0)
      return finish(*operation, status, MPI_SUCCESS, true);
  }
  end_uses(*operation);
  if (operation->note != 0 && operation->is_cancelled)
    note_cancelled_send(*operation->comm, operation->peer, operation->tag, operation->note);
  Receive* const receive = std::exchange(operation->receive, nullptr);
  if (receive == nullptr) return;
  drop_receive(receive);
  if (operation->is_cancelled) return;
  note_unclear(*operation->comm);
  report("request",
         fmt::format("frees the request of {}{}, which may be under way: nobody can know when the "
                     "message is there: use MPI_Wait, or MPI_Cancel before",
                     text_of(operation->call), text_of_message(*operation)));
}

void report_requests() {
  Requests& all = requests();
  std::unordered_multimap<MPI_Request, std::shared_ptr<Operation>> left;
  {
    const Lock lock(all.mutex);
    left.swap(all.all);
  }
  for (const auto& [handle, operation] : left) {
    if (operation->is_active)
      report(
          operation->call, "request",
          fmt::format("the request{} was never completed: MPI_Wait or MPI_Test is missing before "
                      "MPI_Finalize, or its handle was overwritten",
                      text_of_message(*operation)));
    else
      report(operation->call, "request",
             fmt::format("the persistent request{} was never freed: MPI_Request_free is missing",
                         text_of_message(*operation)));
    drop_receive(operation->receive);
  }
}

}  // namespace weft::check
