// Memory of dynamic windows. Every member has a table of the memory it has attached, behind its
// WindowControl: only the owner writes it, the others of its host read it in place, and those of
// other hosts fetch it by a get. Comparing the version before and after a read shows whether the
// owner changed the table meanwhile.
#include <span>
#include <vector>

#include "mpi/core/request.hpp"
#include "mpi/window/window.hpp"

namespace weft::mpi {
namespace {

Attached* table_of(WindowControl* control) { return reinterpret_cast<Attached*>(control + 1); }

// Begins and ends a change of this member's table; the window's mutex is held.
class TableChange {
 public:
  explicit TableChange(WindowControl& control) : version_(control.version) {
    // release fence: the writes that follow are not seen before this one.
    version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  ~TableChange() {
    // release: pairs with the acquire in find_mapped().
    version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  TableChange(const TableChange&) = delete;
  TableChange& operator=(const TableChange&) = delete;

 private:
  std::atomic_ref<std::uint64_t> version_;
};

// Returns the entry that has all these addresses, or null.
const Attached* find_in(std::span<const Attached> entries, std::uint64_t address,
                        std::uint64_t bytes) {
  for (const Attached& entry : entries)
    if (is_within(address, bytes, entry.address, entry.bytes)) return &entry;
  return nullptr;
}

// Searches a table that is mapped here. again: the owner was changing it.
Code find_mapped(WindowControl& control, std::uint64_t address, std::uint64_t bytes,
                 Attached& found) {
  const std::atomic_ref version(control.version);
  const std::uint64_t before = version.load(std::memory_order_acquire);
  if (before % 2 != 0) return Code::again;
  const std::uint64_t num = std::min(kMaxAttached, control.num_attached);
  const Attached* entry = find_in({table_of(&control), num}, address, bytes);
  if (entry != nullptr) found = *entry;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (version.load(std::memory_order_relaxed) != before) return Code::again;
  return entry != nullptr ? Code::ok : Code::not_found;
}

// Searches a table that is not mapped here. again: the owner was changing it.
Code find_remote(Window& window, int target, std::uint64_t address, std::uint64_t bytes,
                 Attached& found) {
  Lanes& lanes = window.lanes_to(target);
  const int peer = window.world(target);
  const MemoryName& control = window.remote(target).control;
  WindowControl head{}, after{};
  if (const Code code = lanes.get(peer, control, 0, &head, sizeof head); code != Code::ok)
    return code;
  if (head.version % 2 != 0) return Code::again;
  std::vector<Attached> entries(
      static_cast<std::size_t>(std::min(kMaxAttached, head.num_attached)));
  if (!entries.empty())
    if (const Code code = lanes.get(peer, control, sizeof head, entries.data(),
                                    entries.size() * sizeof entries.front());
        code != Code::ok)
      return code;
  if (const Code code = lanes.get(peer, control, 0, &after, sizeof after); code != Code::ok)
    return code;
  if (after.version != head.version) return Code::again;
  const Attached* entry = find_in(entries, address, bytes);
  if (entry == nullptr) return Code::not_found;
  found = *entry;
  return Code::ok;
}

// Finds the entry with these addresses. MPI_SUCCESS or the error class.
int find_entry(Window& window, int target, std::uint64_t address, std::uint64_t bytes,
               Attached& found) {
  for (;;) {
    WindowControl* control = window.control(target);
    const Code code = control != nullptr ? find_mapped(*control, address, bytes, found)
                                         : find_remote(window, target, address, bytes, found);
    if (code == Code::ok) return MPI_SUCCESS;
    if (code == Code::not_found) return MPI_ERR_RMA_RANGE;
    if (code != Code::again) return class_of(window, code);
    // The owner is about to end its change, unless it is lost.
    progress_once();
    if (const Code lost = check_member(window, target); lost != Code::ok)
      return class_of(window, lost);
  }
}

int attach_memory(Window& window, void* base, MPI_Aint size) {
  const auto address = reinterpret_cast<std::uint64_t>(base);
  const auto bytes = static_cast<std::uint64_t>(size);
  WindowControl& control = *window.control(window.rank());
  const OptionalLock lock(window.mutex);
  const std::uint64_t num = control.num_attached;
  if (num == kMaxAttached) return MPI_ERR_RMA_ATTACH;
  Attached* table = table_of(&control);
  for (std::uint64_t i = 0; i < num; ++i)
    if (address < table[i].address + table[i].bytes && table[i].address < address + bytes)
      return MPI_ERR_RMA_ATTACH;  // overlaps memory that is attached already
  Attached entry{address, bytes, {}};
  if (Status status = share_window_memory(base, bytes, window.host_members.size() > 1, entry.names);
      !status) {
    unshare_window_memory(entry.names);
    return status == Code::no_memory ? MPI_ERR_NO_MEM : MPI_ERR_RMA_ATTACH;
  }
  const TableChange change(control);
  table[num] = entry;
  control.num_attached = num + 1;
  return MPI_SUCCESS;
}

int detach_memory(Window& window, const void* base) {
  const auto address = reinterpret_cast<std::uint64_t>(base);
  WindowControl& control = *window.control(window.rank());
  RemoteMemories names{};
  {
    const OptionalLock lock(window.mutex);
    Attached* table = table_of(&control);
    const std::uint64_t num = control.num_attached;
    std::uint64_t i = 0;
    while (i < num && table[i].address != address) ++i;
    if (i == num) return MPI_ERR_BASE;
    names = table[i].names;
    const TableChange change(control);
    table[i] = table[num - 1];
    control.num_attached = num - 1;
  }
  unshare_window_memory(names);  // waits for the processes that use it
  return MPI_SUCCESS;
}

}  // namespace

int find_attached(Window& window, int target, std::uint64_t address, std::uint64_t bytes,
                  MemoryName& memory) {
  Attached found{};
  if (const int code = find_entry(window, target, address, bytes, found); code != MPI_SUCCESS)
    return code;
  memory = found.names[window.lanes_to(target).limits().number];
  // Addresses of fabrics are relative to the start of the shared memory.
  memory.address += address - found.address;
  memory.bytes = bytes;
  return MPI_SUCCESS;
}

int find_attached_piece(Window& window, int target, std::uint64_t address, std::uint64_t& start,
                        MemoryName& memory) {
  Attached found{};
  if (const int code = find_entry(window, target, address, 1, found); code != MPI_SUCCESS)
    return code;
  memory = found.names[window.lanes_to(target).limits().number];
  memory.bytes = found.bytes;
  start = found.address;
  return MPI_SUCCESS;
}

void detach_all(Window& window) {
  WindowControl& control = *window.control(window.rank());
  for (std::uint64_t i = 0; i < control.num_attached; ++i)
    unshare_window_memory(table_of(&control)[i].names);
  control.num_attached = 0;
}

}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Win_attach)(MPI_Win win, void* base, MPI_Aint size) {
  Window* window = find_window(win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, __func__);
  if (window->flavor != MPI_WIN_FLAVOR_DYNAMIC)
    return raise_on(window, MPI_ERR_RMA_FLAVOR, __func__, "not a dynamic window");
  if (size < 0) return raise_on(window, MPI_ERR_SIZE, __func__, "the size is negative");
  if (base == nullptr && size != 0)
    return raise_on(window, MPI_ERR_BASE, __func__, "the base is null");
  const int code = attach_memory(*window, base, size);
  return code == MPI_SUCCESS ? code : raise_on(window, code, __func__);
}

MPI_FUNCTION(Win_detach)(MPI_Win win, const void* base) {
  Window* window = find_window(win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, __func__);
  if (window->flavor != MPI_WIN_FLAVOR_DYNAMIC)
    return raise_on(window, MPI_ERR_RMA_FLAVOR, __func__, "not a dynamic window");
  const int code = detach_memory(*window, base);
  return code == MPI_SUCCESS
             ? code
             : raise_on(window, code, __func__, "nothing is attached at this address");
}
