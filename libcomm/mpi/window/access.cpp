#include "mpi/window/access.hpp"

#include <algorithm>
#include <iterator>

#include "mpi/p2p/transfer.hpp"
#include "weft/copy.hpp"

namespace weft::mpi {
namespace {

// True if the epoch allows an operation on this target. Notes that a fence's epoch is in use.
bool may_access(Window& window, int target) {
  const OptionalLock lock(window.mutex);
  switch (window.access) {
    case Window::Access::fenced:
      window.access = Window::Access::used_fence;
      return true;
    case Window::Access::used_fence:
    case Window::Access::locked_all:
      return true;
    case Window::Access::started:
      return std::ranges::binary_search(window.started, target);
    case Window::Access::locked:
      return window.locks.contains(target);
    case Window::Access::none:
    case Window::Access::revoked:
      break;
  }
  return false;
}

// Finds the first byte of the elements and the one behind the last, from the address a user would
// pass. False: it overflows.
bool find_span(const Datatype& type, MPI_Count count, std::int64_t& low, std::int64_t& high) {
  std::int64_t reach = 0;
  if (__builtin_mul_overflow(count - 1, type.extent(), &reach)) return false;
  if (__builtin_add_overflow(type.true_lb(), std::min<std::int64_t>(0, reach), &low)) return false;
  return !__builtin_add_overflow(type.true_lb() + type.true_extent(),
                                 std::max<std::int64_t>(0, reach), &high);
}

// Splits a range into parts of at most as much as the fabric takes at a time.
template <class Visit>
void cut(std::size_t bytes, std::size_t most, Visit&& visit) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(bytes - done, most);
    visit(done, part);
    done += part;
  }
}

// Calls visit(memory, offset, done, part) for the parts of one piece of a target's memory: each
// lies in one segment, and is not more than the fabric takes at a time.
template <class Visit>
void for_each_part(const TargetMemory& target, std::ptrdiff_t at, std::size_t bytes,
                   std::size_t most, Visit&& visit) {
  if (target.segments.empty()) {
    cut(bytes, most, [&](std::size_t done, std::size_t part) {
      visit(target.memory, static_cast<std::size_t>(target.offset + at) + done, done, part);
    });
    return;
  }
  std::uint64_t address = target.address + static_cast<std::uint64_t>(at);
  std::size_t done = 0;
  for (const Segment& segment : target.segments) {
    if (done == bytes) return;
    if (!is_within(address, 1, segment.address, segment.memory.bytes)) continue;
    const std::uint64_t offset = address - segment.address;
    const std::size_t length = std::min<std::uint64_t>(bytes - done, segment.memory.bytes - offset);
    cut(length, most, [&](std::size_t before, std::size_t part) {
      visit(segment.memory, offset + before, done + before, part);
    });
    done += length;
    address += length;
  }
}

// Finds the segments that cover elements of a dynamic window. MPI_SUCCESS or the error class.
int find_segments(Window& window, std::uint64_t address, TargetMemory& memory) {
  memory.address = address;
  int code = MPI_SUCCESS;
  for_each_piece(*memory.type, memory.count, [&](std::ptrdiff_t at, std::size_t bytes) {
    std::uint64_t first = address + static_cast<std::uint64_t>(at);
    while (bytes != 0 && code == MPI_SUCCESS) {
      Segment* known = nullptr;
      for (Segment& segment : memory.segments)
        if (is_within(first, 1, segment.address, segment.memory.bytes)) known = &segment;
      Segment found{};
      if (known == nullptr) {
        code = find_attached_piece(window, memory.target, first, found.address, found.memory);
        if (code != MPI_SUCCESS) return;
        memory.segments.push_back(found);
        known = &found;
      }
      const std::uint64_t part =
          std::min<std::uint64_t>(bytes, known->address + known->memory.bytes - first);
      first += part;
      bytes -= part;
    }
  });
  std::ranges::sort(memory.segments, {}, &Segment::address);
  return code;
}

[[gnu::cold]] int class_without_epoch(const Window& window) noexcept {
  return is_revoked(*window.comm) ? MPIX_ERR_REVOKED : MPI_ERR_RMA_SYNC;
}

}  // namespace

int find_origin(const void* buffer, MPI_Count count, MPI_Datatype handle, Datatype*& type,
                std::size_t& bytes) {
  if (const int code = check_elements(count, handle, type); code != MPI_SUCCESS) return code;
  if (!bytes_of(count, *type, bytes)) return MPI_ERR_COUNT;
  if (bytes != 0 && type->is_contiguous() && first_byte(buffer, *type) == nullptr)
    return MPI_ERR_BUFFER;
  return MPI_SUCCESS;
}

int find_target(Window& window, int target, MPI_Aint displacement, MPI_Count count,
                MPI_Datatype handle, TargetMemory& memory) {
  if (target == MPI_PROC_NULL) return is_revoked(*window.comm) ? MPIX_ERR_REVOKED : kNothingToDo;
  if (static_cast<unsigned>(target) >= static_cast<unsigned>(window.size())) return MPI_ERR_RANK;
  Datatype* type = nullptr;
  if (const int code = check_elements(count, handle, type); code != MPI_SUCCESS) return code;
  if (!may_access(window, target)) return class_without_epoch(window);
  const bool is_dynamic = window.flavor == MPI_WIN_FLAVOR_DYNAMIC;
  if (displacement < 0 && !is_dynamic) return MPI_ERR_DISP;
  memory.target = target;
  memory.type = type;
  memory.count = count;
  if (!bytes_of(count, *type, memory.bytes)) return MPI_ERR_COUNT;
  if (memory.bytes == 0) return kNothingToDo;
  std::int64_t low = 0, high = 0;
  if (!find_span(*type, count, low, high)) return MPI_ERR_RMA_RANGE;
  if (is_dynamic) {
    const auto address = static_cast<std::uint64_t>(displacement + low);
    const auto length = static_cast<std::uint64_t>(high - low);
    const int code = find_attached(window, target, address, length, memory.memory);
    if (code == MPI_ERR_RMA_RANGE) {
      const int pieces = find_segments(window, static_cast<std::uint64_t>(displacement), memory);
      if (pieces != MPI_SUCCESS) return pieces;
    } else if (code != MPI_SUCCESS) {
      return code;
    }
    if (target == window.rank()) memory.place = reinterpret_cast<std::byte*>(displacement);
    memory.offset = -low;  // the memory begins with the first byte of the elements
    return MPI_SUCCESS;
  }
  const Window::Extent extent = window.extent(target);
  std::int64_t offset = 0, first = 0, last = 0;
  if (__builtin_mul_overflow(displacement, extent.unit, &offset) ||
      __builtin_add_overflow(offset, low, &first) || __builtin_add_overflow(offset, high, &last) ||
      first < 0 || static_cast<std::uint64_t>(last) > extent.bytes)
    return MPI_ERR_RMA_RANGE;
  memory.offset = offset;
  if (extent.data != nullptr)
    memory.place = extent.data + offset;
  else
    memory.memory = window.remote(target).memory;
  return MPI_SUCCESS;
}

int raise_access(Window* window, int code, const char* function) {
  const char* text = "";
  if (code == MPI_ERR_RMA_SYNC) text = "outside an access epoch for this target";
  if (code == MPI_ERR_OP) text = "no predefined operation that is defined for this type";
  return raise_on(window, code, function, text);
}

int check_request(MPI_Win win, const MPI_Request* request, const char* function) {
  if (request != nullptr) return MPI_SUCCESS;
  return raise_on(find_window(win), MPI_ERR_ARG, function, "request is null");
}

void Batch::get(const TargetMemory& from, std::ptrdiff_t at, void* to, std::size_t bytes) {
  for_each_part(
      from, at, bytes, lanes_.limits().piece_max,
      [&](const MemoryName& memory, std::size_t offset, std::size_t done, std::size_t part) {
        lanes_.start_get(peer_, memory, offset, static_cast<std::byte*>(to) + done, part, next());
      });
}

void Batch::put(const TargetMemory& to, std::ptrdiff_t at, const void* from, std::size_t bytes) {
  for_each_part(
      to, at, bytes, lanes_.limits().piece_max,
      [&](const MemoryName& memory, std::size_t offset, std::size_t done, std::size_t part) {
        lanes_.start_put(peer_, memory, offset, static_cast<const std::byte*>(from) + done, part,
                         next());
      });
}

Completion& Batch::next() {
  if (num_ == kMost) finish();
  completions_[num_].reset();
  return completions_[num_++];
}

Code Batch::finish() {
  for (std::size_t i = 0; i < num_; ++i) {
    Completion& completion = completions_[i];
    if (!completion.is_done()) engine->wait_until([&completion] { return completion.is_done(); });
    if (code_ == Code::ok) code_ = completion.code();
  }
  num_ = 0;
  return code_;
}

Code read_target(Window& window, const TargetMemory& memory, void* packed, std::size_t bytes) {
  if (memory.place != nullptr) {
    const std::size_t size = memory.type->size();
    if (bytes % size == 0) {
      memory.type->pack(packed, memory.place, static_cast<MPI_Count>(bytes / size));
      return Code::ok;
    }
  }
  Batch batch(window.lanes_to(memory.target), window.world(memory.target));
  auto* to = static_cast<std::byte*>(packed);
  for_each_piece(*memory.type, memory.count, [&](std::ptrdiff_t at, std::size_t length) {
    length = std::min(length, bytes);
    if (length == 0) return;
    if (memory.place != nullptr)
      detail::copy(to, memory.place + at, length);
    else
      batch.get(memory, at, to, length);
    to += length;
    bytes -= length;
  });
  return batch.finish();
}

Code write_target(Window& window, const TargetMemory& memory, const void* packed,
                  std::size_t bytes) {
  if (memory.place != nullptr) {
    memory.type->unpack(memory.place, packed, memory.count, bytes);
    return Code::ok;
  }
  Batch batch(window.lanes_to(memory.target), window.world(memory.target));
  const auto* from = static_cast<const std::byte*>(packed);
  for_each_piece(*memory.type, memory.count, [&](std::ptrdiff_t at, std::size_t length) {
    length = std::min(length, bytes);
    if (length == 0) return;
    batch.put(memory, at, from, length);
    from += length;
    bytes -= length;
  });
  return batch.finish();
}

RmaTransfer::~RmaTransfer() {
  if (type_ != nullptr) weft::mpi::release(type_);
}

template <class Start>
bool RmaTransfer::start(Window& window, const TargetMemory& memory, std::size_t bytes,
                        Start&& start) {
  if (!memory.segments.empty()) return false;
  const std::size_t most = window.lanes_to(memory.target).limits().piece_max;
  std::size_t num = 0;
  std::size_t left = bytes;
  for_each_piece(*memory.type, memory.count, [&](std::ptrdiff_t, std::size_t length) {
    length = std::min(length, left);
    left -= length;
    num += (length + most - 1) / most;
  });
  if (num > kMostPieces) return false;
  std::size_t done = 0;
  for_each_piece(*memory.type, memory.count, [&](std::ptrdiff_t at, std::size_t length) {
    length = std::min(length, bytes - done);
    cut(length, most, [&](std::size_t before, std::size_t part) {
      start(static_cast<std::size_t>(memory.offset + at) + before, done + before, part,
            pieces_[num_pieces_++]);
    });
    done += length;
  });
  return true;
}

bool RmaTransfer::put(Window& window, const TargetMemory& memory, const void* packed,
                      std::size_t bytes, std::unique_ptr<std::byte[]>& staging) {
  const auto* data = static_cast<const std::byte*>(packed);
  Lanes& lanes = window.lanes_to(memory.target);
  const int peer = window.world(memory.target);
  if (!start(window, memory, bytes,
             [&](std::size_t there, std::size_t here, std::size_t part, Completion& completion) {
               lanes.start_put(peer, memory.memory, there, data + here, part, completion);
             }))
    return false;
  staging_ = std::move(staging);
  return true;
}

bool RmaTransfer::get(Window& window, const TargetMemory& memory, void* packed, std::size_t bytes,
                      std::unique_ptr<std::byte[]>& staging, void* buffer, Datatype* type,
                      MPI_Count count) {
  auto* data = static_cast<std::byte*>(packed);
  Lanes& lanes = window.lanes_to(memory.target);
  const int peer = window.world(memory.target);
  if (!start(window, memory, bytes,
             [&](std::size_t there, std::size_t here, std::size_t part, Completion& completion) {
               lanes.start_get(peer, memory.memory, there, data + here, part, completion);
             }))
    return false;
  if (staging == nullptr) return true;
  staging_ = std::move(staging);
  retain(type);
  type_ = type;
  buffer_ = buffer;
  count_ = count;
  bytes_ = bytes;
  return true;
}

bool RmaTransfer::is_done() const noexcept {
  for (std::size_t i = 0; i < num_pieces_; ++i)
    if (!pieces_[i].is_done()) return false;
  return true;
}

Code RmaTransfer::finish() {
  Code code = Code::ok;
  for (std::size_t i = 0; i < num_pieces_; ++i)
    if (code == Code::ok) code = pieces_[i].code();
  const std::lock_guard lock(mutex_);
  if (!is_finished() && code == Code::ok && type_ != nullptr)
    type_->unpack(buffer_, staging_.get(), count_, bytes_);
  finished_.store(true, std::memory_order_release);  // pairs with is_finished()
  return code;
}

// Allocates nothing: the caller has begun to end an epoch.
Code complete_transfers(Window& window, int target) {
  if (window.remotes.empty()) return Code::ok;
  Code code = Code::ok;
  for (;;) {
    std::shared_ptr<RmaTransfer> transfer;
    {
      const OptionalLock lock(window.mutex);
      for (std::size_t i = window.transfers.size(); i-- > 0 && transfer == nullptr;)
        if (target < 0 || window.transfers[i]->target() == target) transfer = window.transfers[i];
    }
    if (transfer == nullptr) return code;
    if (!transfer->is_done()) engine->wait_until([&transfer] { return transfer->is_done(); });
    const Code ended = transfer->finish();
    if (code == Code::ok) code = ended;
    const OptionalLock lock(window.mutex);
    // Searched from the end: mostly it is the last.
    const auto found = std::find(window.transfers.rbegin(), window.transfers.rend(), transfer);
    if (found != window.transfers.rend()) window.transfers.erase(std::next(found).base());
  }
}

}  // namespace weft::mpi
