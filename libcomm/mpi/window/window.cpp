// Making and ending windows. All members agree on the outcome: an error of one of them ends the
// call for all, with its reason.
#include "mpi/window/window.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <utility>

#include "base/shortage.hpp"
#include "lanes/linked/remote_lanes.hpp"
#include "mpi/collective/insist.hpp"
#include "mpi/ft/control.hpp"
#include "mpi/p2p/transfer.hpp"
#include "mpi/tools/tools.hpp"
#include "mpi/window/access.hpp"

namespace weft::mpi {

Immortal<WindowTable> windows;

Status share_window_memory(void* memory, std::size_t bytes, bool with_host, RemoteMemories& names) {
  if (bytes == 0) return {};
  Fabrics& fabrics = engine->fabrics();
  if (with_host)
    if (Status status = fabrics.local().share(memory, bytes, names[0]); !status) return status;
  for (auto* lanes : fabrics.remote())
    if (Status status = lanes->share(memory, bytes, names[lanes->limits().number]); !status)
      return status;
  tools::note_shared(memory, bytes);
  return {};
}

void unshare_window_memory(RemoteMemories& names) {
  Fabrics& fabrics = engine->fabrics();
  const auto end = [&names](Lanes& lanes) {
    if (number_of(names[lanes.limits().number]) != 0)
      (void)lanes.unshare(names[lanes.limits().number]);
  };
  end(fabrics.local());
  for (auto* lanes : fabrics.remote()) end(*lanes);
  names = {};
}

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// The first exchange: every member's offer.
struct Offer {
  std::uint64_t bytes;
  std::int64_t unit;
  std::uint32_t context;
  bool wants_words;    // see Window::by_words
  bool is_contiguous;  // this member's memory may follow that of the one before at once
};
// The second exchange: the memory of a host, from the first member of each host.
struct HostOffer {
  MemoryName memory;
  std::uint64_t code;
};
// The last exchange: every member, once it has all that it needs.
struct Published {
  RemoteMemories memory;
  RemoteMemories control;
  std::uint64_t code;
};

// Returns the first code of the members that is no success.
template <class Contribution>
Code first_failure(const std::vector<Contribution>& all) {
  for (const Contribution& said : all)
    if (said.code != 0) return static_cast<Code>(said.code);
  return Code::ok;
}

class Making {
 public:
  Making(Window& window, const std::vector<Offer>& offers)
      : window_(window), offers_(offers), hosts_(offers.size()), published_(offers.size()) {
    const auto size = offers.size();
    window.extents.reserve(size);
    window.remotes.reserve(size);
    window.host_indices.reserve(size);
    window.host_members.reserve(size);
    offsets_.reserve(size);
  }

  bool allocates() const {
    return window_.flavor == MPI_WIN_FLAVOR_ALLOCATE || window_.flavor == MPI_WIN_FLAVOR_SHARED;
  }

  // Finds the members of this host, and how its memory is divided. False: members are on several
  // hosts.
  bool find_host() {
    Comm& comm = *window_.comm;
    window_.host_indices.assign(offers_.size(), -1);
    for (int member = 0; member < comm.size(); ++member) {
      if (engine->fabrics().to(comm.world(member)) != &engine->fabrics().local()) continue;
      window_.host_indices[static_cast<std::size_t>(member)] =
          static_cast<int>(window_.host_members.size());
      window_.host_members.push_back(member);
    }
    const bool is_one_host = window_.host_members.size() == offers_.size();
    if (is_one_host) window_.host_indices.clear();
    is_one_host_ = is_one_host;
    return is_one_host;
  }

  // contiguous: a member's memory begins where that of the one before ends.
  Status run(void* base, bool contiguous) {
    const std::size_t control_bytes =
        sizeof(WindowControl) +
        (window_.flavor == MPI_WIN_FLAVOR_DYNAMIC ? kMaxAttached * sizeof(Attached) : 0);
    window_.control_stride = round_up(control_bytes, 256);
    std::uint64_t next = round_up(window_.control_stride * window_.host_members.size(), kPage);
    Code code = can_reach_all() ? Code::ok : Code::unsupported;
    for (const int member : window_.host_members) {
      offsets_.push_back(next);
      if (!allocates()) continue;
      const std::uint64_t bytes = offer(member).bytes;
      if (bytes > kMostBytes - next) code = Code::no_memory;
      if (bytes <= kMostBytes - next) next += contiguous ? bytes : round_up(bytes, kPage);
    }
    if (Status status = get_host_memory(next, code); !status) return status;
    // The other members wait for the outcome.
    if (code == Code::ok) code = or_no_memory([&] { return place(base, contiguous); });
    return publish(code);
  }

 private:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 46;

  bool can_reach_all() const {
    const Comm& comm = *window_.comm;
    for (int member = 0; member < comm.size(); ++member)
      if (engine->fabrics().to(comm.world(member)) == nullptr) return false;
    return true;
  }
  const Offer& offer(int member) const { return offers_[static_cast<std::size_t>(member)]; }

  // `code` is the error so far, here.
  Status get_host_memory(std::uint64_t bytes, Code& code) {
    HostLanes& local = engine->fabrics().local();
    const int first = window_.host_members.front();
    HostOffer mine{};
    if (window_.rank() == first && code == Code::ok)
      code = or_no_memory(
          [&] { return local.allocate(bytes, window_.allocated, mine.memory).code(); });
    mine.code = static_cast<std::uint64_t>(code);
    if (Status status = insist([&] {
          return coll::allgather(*window_.comm->team, &mine, hosts_.data(), sizeof mine);
        });
        !status)
      return status;
    if (const Code failed = first_failure(hosts_); failed != Code::ok) return failed;
    if (window_.rank() == first) {
      window_.host_memory = static_cast<std::byte*>(window_.allocated);
      return {};
    }
    code = local.map(window_.world(first), hosts_[static_cast<std::size_t>(first)].memory,
                     window_.mapping);
    if (code == Code::ok && window_.mapping.bytes < bytes) code = Code::corrupt;
    if (code == Code::ok) window_.host_memory = window_.mapping.data;
    return {};
  }

  // Sets the addresses of all memory mapped here, and the names by which others reach this
  // member's.
  Code place(void* base, bool contiguous) {
    const Offer& mine = offer(window_.rank());
    const bool all_equal = std::ranges::all_of(offers_, [&mine](const Offer& other) {
      return other.bytes == mine.bytes && other.unit == mine.unit;
    });
    if (allocates() && is_one_host_ && all_equal) {
      window_.uniform = {window_.host_memory + offsets_.front(), mine.bytes, mine.unit};
      window_.stride = contiguous ? mine.bytes : round_up(mine.bytes, kPage);
    } else {
      for (const Offer& other : offers_)
        window_.extents.push_back({nullptr, other.bytes, other.unit});
      if (allocates())
        for (std::size_t i = 0; i < offsets_.size(); ++i)
          window_.extents[static_cast<std::size_t>(window_.host_members[i])].data =
              window_.host_memory + offsets_[i];
      else
        window_.extents[static_cast<std::size_t>(window_.rank())].data =
            static_cast<std::byte*>(base);
    }
    window_.is_direct = allocates() && is_one_host_;
    window_.by_words =
        allocates() && !is_one_host_ &&
        std::ranges::all_of(offers_, [](const Offer& other) { return other.wants_words; });
    window_.base = allocates() ? window_.extent(window_.rank()).data : base;
    Published& published = published_[static_cast<std::size_t>(window_.rank())];
    if (window_.is_direct) return Code::ok;
    const bool with_host = !allocates() && window_.host_members.size() > 1;
    Status status =
        window_.flavor == MPI_WIN_FLAVOR_DYNAMIC
            ? Status()
            : share_window_memory(window_.base,
                                  // Words are changed whole; there is room up to the page's end.
                                  window_.by_words ? round_up(mine.bytes, 8) : mine.bytes,
                                  with_host, window_.own_memory);
    if (status && !is_one_host_)
      status = share_window_memory(window_.control(window_.rank()), window_.control_stride, false,
                                   window_.own_control);
    published.memory = window_.own_memory;
    published.control = window_.own_control;
    return status.code();
  }

  Status publish(Code code) {
    Published mine = published_[static_cast<std::size_t>(window_.rank())];
    mine.code = static_cast<std::uint64_t>(code);
    if (Status status = insist([&] {
          return coll::allgather(*window_.comm->team, &mine, published_.data(), sizeof mine);
        });
        !status)
      return status;
    if (const Code failed = first_failure(published_); failed != Code::ok) return failed;
    if (window_.is_direct) return {};
    for (int member = 0; member < window_.size(); ++member) {
      const Published& other = published_[static_cast<std::size_t>(member)];
      const std::size_t route = window_.lanes_to(member).limits().number;
      window_.remotes.push_back({other.memory[route], other.control[route]});
      // A member that waits for a lock must be notified of the death of any member, also of one it
      // never met.
      if (route != 0) engine->watch(window_.comm->world(member));
    }
    return {};
  }

  Window& window_;
  const std::vector<Offer>& offers_;
  std::vector<HostOffer> hosts_;
  std::vector<Published> published_;
  std::vector<std::uint64_t> offsets_;  // of the members of this host, in its memory
  bool is_one_host_ = false;
};

// Ends the window's registrations with fabrics; no process uses them any more, or it is refused. A
// registration that cannot be ended for lack of memory stays until the process ends.
void release_memory(Window& window) noexcept {
  HostLanes& local = engine->fabrics().local();
  const auto try_to = [](auto&& step) { static_cast<void>(or_no_memory(step)); };
  if (window.flavor == MPI_WIN_FLAVOR_DYNAMIC && window.host_memory != nullptr)
    try_to([&window] { detach_all(window); });
  try_to([&window] { unshare_window_memory(window.own_memory); });
  try_to([&window] { unshare_window_memory(window.own_control); });
  if (window.mapping.data != nullptr) local.unmap(window.mapping, window.has_users);
  if (window.allocated != nullptr)
    try_to([&] {
      static_cast<void>(window.has_users ? local.leave_to_others(window.allocated)
                                         : local.release(window.allocated));
    });
  window.allocated = nullptr;
  window.host_memory = nullptr;
}

// Revocations find the window no more.
void forget(Window& window) noexcept {
  const std::lock_guard lock(window.comm->mutex);
  window.comm->window = nullptr;
}

struct UnmakeWindow {
  void operator()(Window* window) const noexcept {
    if (window->handle != MPI_WIN_NULL) windows->erase(window->handle);
    if (window->comm != nullptr) forget(*window);
    release_memory(*window);
    if (window->comm != nullptr) static_cast<void>(free_comm(window->comm));
    delete window;
  }
};
using WindowPtr = std::unique_ptr<Window, UnmakeWindow>;

bool is_true(const Info* info, const char* key) {
  const std::string* value = info == nullptr ? nullptr : info->find(key);
  return value != nullptr && *value == "true";
}

// True if the hint allows accumulates that are atomic by 8 bytes at most.
bool wants_words(const Info* info) {
  const std::string* value = info == nullptr ? nullptr : info->find("mpi_accumulate_granularity");
  return value != nullptr && value->size() == 1 && value->front() >= '1' && value->front() <= '8';
}

struct Wanted {
  int flavor;
  void* base = nullptr;  // MPI_Win_create
  MPI_Aint bytes = 0;
  MPI_Aint unit = 1;
  MPI_Info info;
  MPI_Comm comm;
  void* out = nullptr;  // receives the address, for functions that allocate
  MPI_Win* win;
  bool is_agreed = false;  // the members have agreed on the call: none fails for lack of memory
};

int check_wanted(const Wanted& wanted, Comm& comm, const char* function) {
  if (comm.is_inter()) return raise(&comm, MPI_ERR_COMM, function, "an intercommunicator");
  if (is_revoked(comm)) return raise(&comm, MPIX_ERR_REVOKED, function);
  if (comm.group->has_foreign_members())
    return raise(&comm, MPI_ERR_UNSUPPORTED_OPERATION, function,
                 "a window's members must be of one job");
  if (wanted.win == nullptr) return raise(&comm, MPI_ERR_ARG, function, "win is null");
  if (wanted.bytes < 0) return raise(&comm, MPI_ERR_SIZE, function, "the size is negative");
  if (wanted.unit <= 0 || wanted.unit > std::numeric_limits<int>::max())
    return raise(&comm, MPI_ERR_DISP, function, "the displacement unit is not positive");
  const bool allocates =
      wanted.flavor == MPI_WIN_FLAVOR_ALLOCATE || wanted.flavor == MPI_WIN_FLAVOR_SHARED;
  if (allocates && wanted.out == nullptr)
    return raise(&comm, MPI_ERR_ARG, function, "baseptr is null");
  if (wanted.flavor == MPI_WIN_FLAVOR_CREATE && wanted.base == nullptr && wanted.bytes != 0)
    return raise(&comm, MPI_ERR_BASE, function, "the base is null and the size is not 0");
  if (wanted.info != MPI_INFO_NULL && find_info(wanted.info) == nullptr)
    return raise(&comm, MPI_ERR_INFO, function);
  return MPI_SUCCESS;
}

// All memory that this process needs for a window, allocated before the members agree on it.
struct Prepared {
  std::vector<Offer> offers;
  std::optional<Making> making;
  CommPtr comm;
  std::optional<OfferedContext> context;
};

void prepare_window(const Wanted& wanted, Comm& parent, const Info* hints, WindowPtr& window,
                    Prepared& prepared) {
  window.reset(new Window);
  window->flavor = wanted.flavor;
  window->handle = windows->insert(window.get());
  if (window->handle == nullptr) throw std::bad_alloc();
  window->errhandler = retain(default_errhandler());
  window->info = copy_of(hints);
  window->bytes = wanted.bytes;
  window->unit = static_cast<int>(wanted.unit);
  prepared.offers.resize(static_cast<std::size_t>(parent.size()));
  prepared.making.emplace(*window, prepared.offers);
  prepared.comm = prepare_comm(parent.group->members(), parent);
  prepared.context.emplace(parent.rank == 0, parent);
}

// Collective. Errors are for the handler of `parent`.
Status make_window(const Wanted& wanted, Comm& parent, const Info* hints, WindowPtr& window) {
  Prepared prepared;
  std::vector<Offer>& offers = prepared.offers;
  Offer mine{};
  const auto begin = [&] {
    prepare_window(wanted, parent, hints, window, prepared);
    mine = {static_cast<std::uint64_t>(wanted.bytes), wanted.unit, prepared.context->value(),
            wants_words(hints),
            wanted.flavor == MPI_WIN_FLAVOR_SHARED && !is_true(hints, "alloc_shared_noncontig")};
    return coll::allgather(*parent.team, &mine, offers.data(), sizeof mine);
  };
  if (Status status = wanted.is_agreed ? insist(begin) : begin(); !status) return status;
  const std::uint32_t context = offers.front().context;
  prepared.context->resolve(context);
  prepared.comm->window = window.get();
  prepared.comm->is_being_made.store(true, std::memory_order_relaxed);
  window->comm = open_comm(std::move(prepared.comm), parent.group, nullptr, context, context + 1);
  release(std::exchange(window->comm->errhandler, retain(default_errhandler())));
  const bool is_one_host = prepared.making->find_host();
  if (wanted.flavor == MPI_WIN_FLAVOR_SHARED && !is_one_host)
    return {Code::unsupported, "the processes are on several hosts"};
  // The first member's value decides, should they differ.
  if (Status status = prepared.making->run(wanted.base, offers.front().is_contiguous); !status) {
    // No member may free its memory while others use it.
    static_cast<void>(insist([&] { return coll::barrier(*window->comm->team); }));
    return status;
  }
  return {};
}

int create_window(const Wanted& wanted, const char* function) {
  Comm* parent = find_comm(wanted.comm);
  if (parent == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  if (const int code = check_wanted(wanted, *parent, function); code != MPI_SUCCESS) return code;
  *wanted.win = MPI_WIN_NULL;
  WindowPtr window;
  if (const Status status = make_window(wanted, *parent, find_info(wanted.info), window); !status)
    return wanted.flavor == MPI_WIN_FLAVOR_SHARED && status == Code::unsupported
               ? raise(parent, MPI_ERR_RMA_SHARED, function, status.text())
               : raise_status(parent, status, function);
  if (wanted.out != nullptr) *static_cast<void**>(wanted.out) = window->base;
  *wanted.win = window->handle;
  note_made(*window.release());
  return MPI_SUCCESS;
}

// A fence's epochs need no end.
bool is_in_epoch(Window& window) {
  const OptionalLock lock(window.mutex);
  if (window.access == Window::Access::revoked) return false;
  return window.is_posted || window.access == Window::Access::started ||
         window.access == Window::Access::locked || window.access == Window::Access::locked_all;
}

// No member may free its memory before all are done with it. But nobody can be met on a revoked
// window, and not everybody after a loss: what others still do there ends with an error at them, or
// in memory that stays theirs.
Status leave_window(Window& window) {
  const Code code = complete_transfers(window, -1);
  window.has_users = true;
  if (is_revoked(*window.comm)) return {};
  Status status = insist([&] { return coll::barrier(*window.comm->team); });
  window.has_users = !status;
  if (!status) hear_of_revocations();
  if (is_revoked(*window.comm)) return {};
  return status ? Status(code) : status;
}

}  // namespace

Window::~Window() {
  if (errhandler != nullptr) release(errhandler);
}

Status allocate_window(Comm& parent, std::size_t bytes, Window*& out) {
  Info hints;
  if (Status status = insist([&hints]() -> Status {
        hints.set("mpi_accumulate_granularity", "8");
        return {};
      });
      !status)
    return status;
  const Wanted wanted{.flavor = MPI_WIN_FLAVOR_ALLOCATE,
                      .bytes = static_cast<MPI_Aint>(bytes),
                      .info = MPI_INFO_NULL,
                      .comm = parent.handle,
                      .win = nullptr,
                      .is_agreed = true};
  WindowPtr window;
  if (Status status = make_window(wanted, parent, &hints, window); !status) return status;
  out = window.release();
  return {};
}

void note_made(Window& window) noexcept {
  window.comm->is_being_made.store(false, std::memory_order_relaxed);
  ft::note_open(*window.comm);
}

void end_epochs(Window& window) noexcept {
  const OptionalLock lock(window.mutex);
  window.access = Window::Access::revoked;
}

Status free_window(Window* window) {
  Status status = leave_window(*window);
  WindowPtr{window}.reset();
  return status;
}

void destroy_windows() {
  windows->for_each([](MPI_Win, Window* window) {
    forget(*window);
    window->comm = nullptr;  // destroyed with all communicators
    WindowPtr{window}.reset();
  });
}

}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_CONVERSIONS(Win, MPI_Win, windows)

MPI_FUNCTION(Win_create)
(void* base, MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win* win) {
  return create_window({MPI_WIN_FLAVOR_CREATE, base, size, disp_unit, info, comm, nullptr, win},
                       __func__);
}
MPI_FUNCTION(Win_create_c)
(void* base, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win* win) {
  return create_window({MPI_WIN_FLAVOR_CREATE, base, size, disp_unit, info, comm, nullptr, win},
                       __func__);
}
MPI_FUNCTION(Win_allocate)
(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void* baseptr, MPI_Win* win) {
  return create_window(
      {MPI_WIN_FLAVOR_ALLOCATE, nullptr, size, disp_unit, info, comm, baseptr, win}, __func__);
}
MPI_FUNCTION(Win_allocate_c)
(MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, void* baseptr, MPI_Win* win) {
  return create_window(
      {MPI_WIN_FLAVOR_ALLOCATE, nullptr, size, disp_unit, info, comm, baseptr, win}, __func__);
}
MPI_FUNCTION(Win_allocate_shared)
(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void* baseptr, MPI_Win* win) {
  return create_window({MPI_WIN_FLAVOR_SHARED, nullptr, size, disp_unit, info, comm, baseptr, win},
                       __func__);
}
MPI_FUNCTION(Win_allocate_shared_c)
(MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, void* baseptr, MPI_Win* win) {
  return create_window({MPI_WIN_FLAVOR_SHARED, nullptr, size, disp_unit, info, comm, baseptr, win},
                       __func__);
}
MPI_FUNCTION(Win_create_dynamic)(MPI_Info info, MPI_Comm comm, MPI_Win* win) {
  return create_window({MPI_WIN_FLAVOR_DYNAMIC, nullptr, 0, 1, info, comm, nullptr, win}, __func__);
}

MPI_FUNCTION(Win_free)(MPI_Win* win) {
  if (win == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "win is null");
  Window* window = find_window(*win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, __func__);
  // This process may not have heard of a revocation, after which no epoch has to end.
  if (is_in_epoch(*window)) hear_of_revocations();
  if (is_in_epoch(*window))
    return raise_on(window, MPI_ERR_RMA_SYNC, __func__, "an epoch has not ended");
  if (const int code = window->attributes.clear(window->handle); code != MPI_SUCCESS)
    return raise_on(window, code, __func__);
  const int failed = error_class(leave_window(*window).code());
  const int result = failed == MPI_SUCCESS ? failed : raise_on(window, failed, __func__);
  WindowPtr{window}.reset();
  *win = MPI_WIN_NULL;
  return result;
}
