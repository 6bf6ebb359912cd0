// Put and get, with and without requests.
#include <memory>
#include <new>

#include "base/wait.hpp"
#include "mpi/core/request.hpp"
#include "mpi/p2p/transfer.hpp"
#include "mpi/window/access.hpp"
#include "weft/copy.hpp"

namespace weft::mpi {
namespace {

// The most transfers under way of one window, before the oldest half is waited for.
constexpr std::size_t kMostTransfers = 512;
// The most threads that may begin one at the same time without the list getting more memory.
constexpr std::size_t kMostThreads = 512;

// A request for a transfer, which the window shares.
class TransferOperation final : public Operation {
 public:
  TransferOperation(std::shared_ptr<RmaTransfer> transfer, const Comm& comm)
      : transfer_(std::move(transfer)), comm_(comm) {}
  Code start() override { return Code::ok; }
  bool advance(Code& code) override {
    // The fabric uses the memory until it is done, also when the window is revoked.
    if (!transfer_->is_done()) return false;
    code = transfer_->finish();
    if (is_refusal(code) && limit_ns_ == 0) limit_ns_ = now_ns() + kWordNs;
    if (is_refusal(code) && !is_revoked(comm_) && now_ns() < limit_ns_) return false;
    if (is_revoked(comm_)) code = Code::peer_lost;
    return true;
  }

 private:
  std::shared_ptr<RmaTransfer> transfer_;
  const Comm& comm_;            // counted by the request
  std::uint64_t limit_ns_ = 0;  // of waiting for word of a revocation
};

// An operation that is complete when the call returns needs no request of its own.
int conclude_transfer(MPI_Request* request) {
  if (request != nullptr) *request = done_send_handle;
  return MPI_SUCCESS;
}

// Starts a transfer and passes it to the window, and to a request if there is one.
int hand_over(Window& window, std::shared_ptr<RmaTransfer> transfer, MPI_Request* out,
              RequestPtr request) {
  bool has_many = false;
  {
    const OptionalLock lock(window.mutex);
    window.transfers.push_back(transfer);  // capacity was reserved
    has_many = window.transfers.size() >= kMostTransfers;
  }
  if (request != nullptr) {
    request->active = true;
    *out = request->handle;
    add_operation(request.release());
  }
  return has_many ? class_of(window, complete_transfers(window, transfer->target())) : MPI_SUCCESS;
}

// Allocates all memory that a transfer needs, before it begins.
RequestPtr prepare(Window& window, const std::shared_ptr<RmaTransfer>& transfer, MPI_Request* out) {
  {
    const OptionalLock lock(window.mutex);
    window.transfers.reserve(kMostTransfers + kMostThreads);
  }
  if (out == nullptr) return nullptr;
  RequestPtr request(new_request(window.comm, RequestObject::Kind::operation));
  if (request == nullptr) throw std::bad_alloc();
  request->operation = std::make_unique<TransferOperation>(transfer, *window.comm);
  return request;
}

int put(const void* origin, MPI_Count origin_count, MPI_Datatype origin_handle, int target,
        MPI_Aint displacement, MPI_Count count, MPI_Datatype handle, MPI_Win win,
        MPI_Request* request, const char* function) {
  Window* window = find_window(win);
  if (window == nullptr) [[unlikely]]
    return raise_on(nullptr, MPI_ERR_WIN, function);
  Datatype* type = nullptr;
  std::size_t bytes = 0;
  TargetMemory memory;
  int code = find_target(*window, target, displacement, count, handle, memory);
  if (code == kNothingToDo) return conclude_transfer(request);
  if (code == MPI_SUCCESS) code = find_origin(origin, origin_count, origin_handle, type, bytes);
  if (code == MPI_SUCCESS && bytes > memory.bytes) code = MPI_ERR_TRUNCATE;
  if (code != MPI_SUCCESS) [[unlikely]]
    return raise_access(window, code, function);
  if (bytes == 0) return conclude_transfer(request);

  if (memory.place != nullptr) {
    if (type->is_contiguous() && memory.type->is_contiguous()) [[likely]] {
      detail::copy_small(memory.place + memory.type->true_lb(), first_byte(origin, *type), bytes);
      return conclude_transfer(request);
    }
    if (memory.type->is_contiguous()) {
      type->pack(memory.place + memory.type->true_lb(), origin, origin_count);
      return conclude_transfer(request);
    }
  }
  std::unique_ptr<std::byte[]> staging;
  const void* packed = first_byte(origin, *type);
  if (!type->is_contiguous()) {
    staging.reset(new std::byte[bytes]);
    type->pack(staging.get(), origin, origin_count);
    packed = staging.get();
  }
  if (memory.place == nullptr && !window->lanes_to(target).is_mapped()) {
    auto transfer = std::make_shared<RmaTransfer>(target);
    RequestPtr made = prepare(*window, transfer, request);
    if (transfer->put(*window, memory, packed, bytes, staging)) {
      code = hand_over(*window, std::move(transfer), request, std::move(made));
      return code == MPI_SUCCESS ? code : raise_access(window, code, function);
    }
  }
  code = class_of(*window, write_target(*window, memory, packed, bytes));
  if (code != MPI_SUCCESS) return raise_access(window, code, function);
  return conclude_transfer(request);
}

int get(void* origin, MPI_Count origin_count, MPI_Datatype origin_handle, int target,
        MPI_Aint displacement, MPI_Count count, MPI_Datatype handle, MPI_Win win,
        MPI_Request* request, const char* function) {
  Window* window = find_window(win);
  if (window == nullptr) [[unlikely]]
    return raise_on(nullptr, MPI_ERR_WIN, function);
  Datatype* type = nullptr;
  std::size_t room = 0;
  TargetMemory memory;
  int code = find_target(*window, target, displacement, count, handle, memory);
  if (code == kNothingToDo) return conclude_transfer(request);
  if (code == MPI_SUCCESS) code = find_origin(origin, origin_count, origin_handle, type, room);
  if (code == MPI_SUCCESS && memory.bytes > room) code = MPI_ERR_TRUNCATE;
  if (code != MPI_SUCCESS) [[unlikely]]
    return raise_access(window, code, function);
  const std::size_t bytes = memory.bytes;

  if (memory.place != nullptr) {
    if (type->is_contiguous() && memory.type->is_contiguous()) [[likely]] {
      detail::copy_small(first_byte(origin, *type), memory.place + memory.type->true_lb(), bytes);
      return conclude_transfer(request);
    }
    if (memory.type->is_contiguous()) {
      type->unpack(origin, memory.place + memory.type->true_lb(), origin_count, bytes);
      return conclude_transfer(request);
    }
  }
  std::unique_ptr<std::byte[]> staging;
  void* packed = first_byte(origin, *type);
  if (!type->is_contiguous()) {
    staging.reset(new std::byte[bytes]);
    packed = staging.get();
  }
  if (memory.place == nullptr && !window->lanes_to(target).is_mapped()) {
    auto transfer = std::make_shared<RmaTransfer>(target);
    RequestPtr made = prepare(*window, transfer, request);
    if (transfer->get(*window, memory, packed, bytes, staging, origin, type, origin_count)) {
      code = hand_over(*window, std::move(transfer), request, std::move(made));
      return code == MPI_SUCCESS ? code : raise_access(window, code, function);
    }
  }
  code = class_of(*window, read_target(*window, memory, packed, bytes));
  if (code != MPI_SUCCESS) return raise_access(window, code, function);
  if (staging != nullptr) type->unpack(origin, packed, origin_count, bytes);
  return conclude_transfer(request);
}

}  // namespace
}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Put)
(const void* origin, int origin_count, MPI_Datatype origin_type, int target, MPI_Aint displacement,
 int count, MPI_Datatype type, MPI_Win win) {
  return put(origin, origin_count, origin_type, target, displacement, count, type, win, nullptr,
             __func__);
}
MPI_FUNCTION(Put_c)
(const void* origin, MPI_Count origin_count, MPI_Datatype origin_type, int target,
 MPI_Aint displacement, MPI_Count count, MPI_Datatype type, MPI_Win win) {
  return put(origin, origin_count, origin_type, target, displacement, count, type, win, nullptr,
             __func__);
}
MPI_FUNCTION(Get)
(void* origin, int origin_count, MPI_Datatype origin_type, int target, MPI_Aint displacement,
 int count, MPI_Datatype type, MPI_Win win) {
  return get(origin, origin_count, origin_type, target, displacement, count, type, win, nullptr,
             __func__);
}
MPI_FUNCTION(Get_c)
(void* origin, MPI_Count origin_count, MPI_Datatype origin_type, int target, MPI_Aint displacement,
 MPI_Count count, MPI_Datatype type, MPI_Win win) {
  return get(origin, origin_count, origin_type, target, displacement, count, type, win, nullptr,
             __func__);
}

namespace weft::mpi {
namespace {

int rput(const void* origin, MPI_Count origin_count, MPI_Datatype origin_type, int target,
         MPI_Aint displacement, MPI_Count count, MPI_Datatype type, MPI_Win win,
         MPI_Request* request, const char* function) {
  if (const int code = check_request(win, request, function); code != MPI_SUCCESS) return code;
  return put(origin, origin_count, origin_type, target, displacement, count, type, win, request,
             function);
}
int rget(void* origin, MPI_Count origin_count, MPI_Datatype origin_type, int target,
         MPI_Aint displacement, MPI_Count count, MPI_Datatype type, MPI_Win win,
         MPI_Request* request, const char* function) {
  if (const int code = check_request(win, request, function); code != MPI_SUCCESS) return code;
  return get(origin, origin_count, origin_type, target, displacement, count, type, win, request,
             function);
}

}  // namespace
}  // namespace weft::mpi

MPI_FUNCTION(Rput)
(const void* origin, int origin_count, MPI_Datatype origin_type, int target, MPI_Aint displacement,
 int count, MPI_Datatype type, MPI_Win win, MPI_Request* request) {
  return rput(origin, origin_count, origin_type, target, displacement, count, type, win, request,
              __func__);
}
MPI_FUNCTION(Rput_c)
(const void* origin, MPI_Count origin_count, MPI_Datatype origin_type, int target,
 MPI_Aint displacement, MPI_Count count, MPI_Datatype type, MPI_Win win, MPI_Request* request) {
  return rput(origin, origin_count, origin_type, target, displacement, count, type, win, request,
              __func__);
}
MPI_FUNCTION(Rget)
(void* origin, int origin_count, MPI_Datatype origin_type, int target, MPI_Aint displacement,
 int count, MPI_Datatype type, MPI_Win win, MPI_Request* request) {
  return rget(origin, origin_count, origin_type, target, displacement, count, type, win, request,
              __func__);
}
MPI_FUNCTION(Rget_c)
(void* origin, MPI_Count origin_count, MPI_Datatype origin_type, int target, MPI_Aint displacement,
 MPI_Count count, MPI_Datatype type, MPI_Win win, MPI_Request* request) {
  return rget(origin, origin_count, origin_type, target, displacement, count, type, win, request,
              __func__);
}
