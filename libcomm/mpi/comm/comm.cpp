#include "mpi/comm/comm.hpp"

#include <array>
#include <cstring>

#include "base/containers/list.hpp"
#include "coll/plan/notices.hpp"
#include "mpi/collective/insist.hpp"
#include "mpi/comm/context_ids.hpp"
#include "mpi/comm/topology.hpp"
#include "mpi/ft/control.hpp"
#include "mpi/p2p/transfer.hpp"

namespace weft::mpi {

Immortal<CommTable> comms;

namespace {

// The first three ids of a range are reserved: MPI_COMM_WORLD's (of rank 0's range, the same in all
// processes), MPI_COMM_SELF's, and (of rank 0's range) that of kControlContext.
constexpr std::uint32_t kReservedIds = 3;
static_assert(kControlContext == 2 * (kReservedIds - 1));
Immortal<ContextIds> context_ids;
Immortal<ContextsAcross> contexts_across;
// The communicators whose contexts are in use, for the engine to find who may send there: by
// context, as a program may have thousands.
constexpr std::size_t kBuckets = 1024;
std::mutex open_mutex;
std::array<List<Comm>, kBuckets> open_comms;

// A communicator has two contexts, or two for each channel, which are in one bucket; givers count
// their own up.
List<Comm>& open_comms_of(std::uint32_t context) {
  return open_comms[context / (2 * kNumChannels) % kBuckets];
}

std::span<const int> senders_in(std::uint32_t context) noexcept {
  {
    const std::lock_guard lock(open_mutex);
    for (const Comm* comm = open_comms_of(context).first(); comm != nullptr; comm = comm->next)
      if (comm->has_channel(context)) return comm->peer_group().members();
  }
  return (context & kAcrossJobs) != 0 ? contexts_across->senders(context) : std::span<const int>();
}

// A communicator has two contexts; the ranges of all processes share the contexts below
// kThreadContext. With that bit set the context is the same number, for threads that use
// communicators at once.
std::uint32_t range_of_ids() {
  return (kThreadContext / 2) / static_cast<std::uint32_t>(engine->size());
}
std::uint32_t context_of(int owner, std::uint32_t id) {
  return (static_cast<std::uint32_t>(owner) * range_of_ids() + id) * 2;
}
bool is_own(std::uint32_t context) {
  return (context & kAcrossJobs) == 0 && (context & ~kThreadContext) / 2 / range_of_ids() ==
                                             static_cast<std::uint32_t>(engine->rank());
}

void set_name(Comm& comm, const char* name) { comm.name = name; }

}  // namespace

Comm::Comm() = default;
Comm::~Comm() {
  if (errhandler != nullptr) release(errhandler);
  if (is_open) {
    {
      const std::lock_guard lock(open_mutex);
      open_comms_of(context).remove(*this);
    }
    ft::note_end(*this);
    if (engine != nullptr) {
      for_each_channel([](std::uint32_t one) { engine->close_context(one); });
      for (const std::uint32_t one : {context + 1, team->context()}) engine->close_context(one);
    }
  }
  if (given_context) drop_context(*given_context);
  if (across_contexts == std::array<std::uint32_t, 2>{}) return;
  contexts_across->give_back(across_contexts[0], peer_group().members());
  contexts_across->give_back(across_contexts[1], group->members());
}

std::uint32_t new_context(bool is_across, bool for_threads, Hints* hints) {
  if (is_across) return contexts_across->draw();
  std::optional<std::uint32_t> id;
  if (hints != nullptr && hints->any() && for_threads && engine->is_threaded()) {
    id = context_ids->take_block();
    if (!id) *hints = {};
  }
  if (!id) id = context_ids->take();
  // The other members wait for a number: no caller could get an error.
  if (!id) end_job(MPI_ERR_OTHER, "there are more communicators than contexts for them");
  return context_of(engine->rank(), *id) |
         (for_threads && engine->is_threaded() ? kThreadContext : 0);
}

void drop_context(std::uint32_t context) {
  if (is_own(context)) context_ids->give_back((context & ~kThreadContext) / 2 % range_of_ids());
}

namespace {

// The other members have the context: no caller could get an error.
void open_contexts(const Comm& comm, std::uint32_t team_context) noexcept {
  const auto open = [](std::uint32_t one) {
    if (Status status = insist([one] { return engine->open_context(one); }); !status)
      end_job(MPI_ERR_NO_MEM, "there is no memory for a communicator's lanes");
  };
  comm.for_each_channel(open);
  open(team_context);
}

void fill_comm(Comm& comm, GroupPtr group, GroupPtr remote, std::uint32_t context,
               std::uint32_t team_context, Hints hints) noexcept {
  comm.context = context;
  comm.channels = Channels(hints, (context & (kAcrossJobs | kThreadContext)) == kThreadContext);
  open_contexts(comm, team_context);
  comm.group = std::move(group);
  comm.remote = std::move(remote);
  const Group& peers = comm.peer_group();
  comm.peers = peers.members().data();
  comm.num_peers.store(peers.size(), std::memory_order_relaxed);
  comm.is_special.store(comm.is_inter(), std::memory_order_relaxed);
  comm.identity = peers.is_identity() && comm.channels.num() == 1;
  for (const std::uint32_t given : {context, team_context - 1})
    if (is_own(given)) comm.given_context = given;
  if (is_across(comm)) {
    comm.across_contexts = {context, team_context};
    contexts_across->take(context, comm.peer_group().members());
    contexts_across->take(team_context, comm.group->members());
  }
  comm.rank = comm.group->rank();
  comm.team->assign(comm.group->members(), team_context);
  if (comm.is_inter())
    comm.remote_notices->open(context, kRemoteNoticeTag, comm.group->members(),
                              comm.remote->members());
  else
    comm.remote_notices.reset();
  // Before messages find it: they may come at once, in another thread.
  ft::note_opening(comm);
  {
    const std::lock_guard lock(open_mutex);
    open_comms_of(context).push_back(comm);
    comm.is_open = true;
  }
  ft::note_open(comm);
}

// Makes a communicator with a team of these members, for fill_comm.
CommPtr new_comm(std::span<const int> members) {
  CommPtr comm(new Comm);
  comm->team = std::make_unique<coll::Team>(*engine, members, 0);
  return comm;
}

}  // namespace

void UnmakeComm::operator()(Comm* comm) const noexcept {
  comms->erase(comm->handle);
  delete comm;
}

CommPtr prepare_comm(std::span<const int> members, Comm& parent) {
  CommPtr comm = new_comm(members);
  comm->remote_notices = std::make_unique<coll::Notices>(*engine);
  {
    const std::lock_guard lock(parent.mutex);
    comm->errhandler = retain(parent.errhandler);
  }
  comm->session = parent.session;
  comm->handle = comms->insert(comm.get());
  if (comm->handle == nullptr) throw std::bad_alloc();
  return comm;
}

Comm* open_comm(CommPtr comm, GroupPtr group, GroupPtr remote, std::uint32_t context,
                std::uint32_t team_context, Hints hints) noexcept {
  fill_comm(*comm, std::move(group), std::move(remote), context, team_context, hints);
  return comm.release();
}

Comm* retain_open(std::uint32_t context) noexcept {
  const std::lock_guard lock(open_mutex);
  for (Comm* comm = open_comms_of(context).first(); comm != nullptr; comm = comm->next) {
    if (!comm->has_channel(context)) continue;
    // Its last user may have just let go of it.
    int uses = comm->uses.load(std::memory_order_relaxed);
    while (comm != job_comm && uses != 0)
      if (comm->uses.compare_exchange_weak(uses, uses + 1, std::memory_order_relaxed)) break;
    return uses != 0 ? comm : nullptr;
  }
  return nullptr;
}

void release_slow(Comm* comm) {
  // acq_rel: the last user sees what the others did before they let go.
  if (comm->uses.fetch_sub(1, std::memory_order_acq_rel) == 1) delete comm;
}

void create_predefined_comms() {
  context_ids->open(range_of_ids(), kReservedIds,
                    static_cast<std::uint32_t>(engine->rank()) * range_of_ids());
  engine->set_senders(senders_in);
  ft::open_control();
  std::vector<int> all(static_cast<std::size_t>(engine->size()));
  for (int rank = 0; rank < engine->size(); ++rank) all[static_cast<std::size_t>(rank)] = rank;
  CommPtr world = new_comm(all);
  fill_comm(*world, std::make_shared<Group>(std::span<const int>(all)), nullptr, context_of(0, 0),
            context_of(0, 0) + 1, {});
  world->handle = MPI_COMM_WORLD;
  world->errhandler = initial_errhandler();
  set_name(*world, "MPI_COMM_WORLD");
  const int own = engine->rank();
  CommPtr self = new_comm({&own, 1});
  fill_comm(*self, std::make_shared<Group>(std::span<const int>(&own, 1)), nullptr,
            context_of(own, 1), context_of(own, 1) + 1, {});
  self->handle = MPI_COMM_SELF;
  self->errhandler = initial_errhandler();
  set_name(*self, "MPI_COMM_SELF");
  job_comm = world.release();
  own_comm = self.release();
}

void destroy_comms() {
  comms->for_each([](MPI_Comm handle, Comm*) { delete comms->erase(handle); });
  delete job_comm;
  delete own_comm;
  job_comm = nullptr;
  own_comm = nullptr;
  ft::close_control();
}

namespace {

constexpr const char* kNoAnyTag = "mpi_assert_no_any_tag";
constexpr const char* kNoAnySource = "mpi_assert_no_any_source";

}  // namespace

Hints Hints::of(const Info* info) {
  const auto is_true = [info](const char* key) {
    const std::string* value = info != nullptr ? info->find(key) : nullptr;
    return value != nullptr && *value == "true";
  };
  return {is_true(kNoAnyTag), is_true(kNoAnySource)};
}

void Hints::echo(Info& info) const {
  if (no_any_tag) info.set(kNoAnyTag, "true");
  if (no_any_source) info.set(kNoAnySource, "true");
}

bool Comm::starts_in_order() {
  const std::lock_guard lock(mutex);
  const std::string* value =
      info != nullptr ? info->find("mpi_assert_strict_persistent_collective_ordering") : nullptr;
  return value != nullptr && *value == "true";
}

int free_comm(Comm* comm) {
  const int code = comm->attributes.clear(comm->handle);
  if (code != MPI_SUCCESS) return code;
  drop_buffer(comm);
  comm->team->close_offload();
  comms->erase(comm->handle);
  release_slow(comm);
  return MPI_SUCCESS;
}

}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_CONVERSIONS(Comm, MPI_Comm, comms)

MPI_FUNCTION(Comm_rank)(MPI_Comm comm, int* rank) {
  Comm* object = find_comm(comm);
  if (object == nullptr) [[unlikely]]
    return raise(nullptr, MPI_ERR_COMM, __func__);
  if (rank == nullptr) return raise(object, MPI_ERR_ARG, __func__, "rank is null");
  *rank = object->rank;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Comm_size)(MPI_Comm comm, int* size) {
  Comm* object = find_comm(comm);
  if (object == nullptr) [[unlikely]]
    return raise(nullptr, MPI_ERR_COMM, __func__);
  if (size == nullptr) return raise(object, MPI_ERR_ARG, __func__, "size is null");
  *size = object->size();
  return MPI_SUCCESS;
}

MPI_FUNCTION(Comm_test_inter)(MPI_Comm comm, int* flag) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (flag == nullptr) return raise(object, MPI_ERR_ARG, __func__, "flag is null");
  *flag = object->is_inter();
  return MPI_SUCCESS;
}

MPI_FUNCTION(Comm_remote_size)(MPI_Comm comm, int* size) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (!object->is_inter()) return raise(object, MPI_ERR_COMM, __func__, "not an intercommunicator");
  if (size == nullptr) return raise(object, MPI_ERR_ARG, __func__, "size is null");
  *size = object->remote->size();
  return MPI_SUCCESS;
}

MPI_FUNCTION(Comm_group)(MPI_Comm comm, MPI_Group* group) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (group == nullptr) return raise(object, MPI_ERR_ARG, __func__, "group is null");
  *group = make_group_handle(object->group);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Comm_remote_group)(MPI_Comm comm, MPI_Group* group) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (!object->is_inter()) return raise(object, MPI_ERR_COMM, __func__, "not an intercommunicator");
  if (group == nullptr) return raise(object, MPI_ERR_ARG, __func__, "group is null");
  *group = make_group_handle(object->remote);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Comm_compare)(MPI_Comm comm1, MPI_Comm comm2, int* result) {
  Comm* a = find_comm(comm1);
  const Comm* b = find_comm(comm2);
  if (a == nullptr || b == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (result == nullptr) return raise(a, MPI_ERR_ARG, __func__, "result is null");
  if (a == b) {
    *result = MPI_IDENT;
    return MPI_SUCCESS;
  }
  if (a->is_inter() != b->is_inter()) {
    *result = MPI_UNEQUAL;
    return MPI_SUCCESS;
  }
  int compared = compare_groups(*a->group, *b->group);
  if (a->is_inter()) {
    const int remote = compare_groups(*a->remote, *b->remote);
    if (compared == MPI_UNEQUAL || remote == MPI_UNEQUAL)
      compared = MPI_UNEQUAL;
    else if (remote == MPI_SIMILAR)
      compared = MPI_SIMILAR;
  }
  *result = compared == MPI_IDENT ? MPI_CONGRUENT : compared;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Comm_free)(MPI_Comm* comm) {
  if (comm == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "comm is null");
  Comm* object = find_comm(*comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (is_predefined(*comm))
    return raise(object, MPI_ERR_COMM, __func__, "a predefined communicator cannot be freed");
  const int code = free_comm(object);
  if (code != MPI_SUCCESS) return raise(object, code, __func__);
  *comm = MPI_COMM_NULL;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Comm_disconnect)(MPI_Comm* comm) {
  if (comm == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "comm is null");
  Comm* object = find_comm(*comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (is_predefined(*comm))
    return raise(object, MPI_ERR_COMM, __func__, "a predefined communicator cannot be freed");
  // All pending communication must end first; the program has completed its own requests.
  drop_buffer(object);
  // On a revoked one nothing is pending, and nobody can be met.
  const Status status = is_revoked(*object) ? Status() : meet_both_sides(object);
  if (!status) return raise_status(object, status, __func__);
  const int code = free_comm(object);
  if (code != MPI_SUCCESS) return raise(object, code, __func__);
  *comm = MPI_COMM_NULL;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Comm_set_name)(MPI_Comm comm, const char* comm_name) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (comm_name == nullptr) return raise(object, MPI_ERR_ARG, __func__, "the name is null");
  std::lock_guard lock(object->mutex);
  object->name.assign(comm_name, strnlen(comm_name, MPI_MAX_OBJECT_NAME - 1));
  return MPI_SUCCESS;
}

MPI_FUNCTION(Comm_get_name)(MPI_Comm comm, char* comm_name, int* resultlen) {
  const char* fixed = comm == MPI_COMM_NULL ? "MPI_COMM_NULL" : nullptr;
  Comm* object = find_comm(comm);
  if (object == nullptr && fixed == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (comm_name == nullptr || resultlen == nullptr)
    return raise(object, MPI_ERR_ARG, __func__, "the name or resultlen is null");
  std::string name;
  if (fixed != nullptr) {
    name = fixed;
  } else {
    std::lock_guard lock(object->mutex);
    name = object->name;
  }
  std::memcpy(comm_name, name.c_str(), name.size() + 1);
  *resultlen = static_cast<int>(name.size());
  return MPI_SUCCESS;
}

MPI_FUNCTION(Comm_set_info)(MPI_Comm comm, MPI_Info info) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  Info* hints = find_info(info);
  if (hints == nullptr && info != MPI_INFO_NULL) return raise(object, MPI_ERR_INFO, __func__);
  auto kept = std::make_shared<Info>();
  if (hints != nullptr) kept->pairs = hints->pairs;
  // Messages may be under way in the channels: what they were made for cannot be taken back, which
  // MPI_Comm_get_info is to tell (MPI 5.0, MPI_Comm_set_info).
  object->channels.hints().echo(*kept);
  std::lock_guard lock(object->mutex);
  object->info = std::move(kept);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Comm_get_info)(MPI_Comm comm, MPI_Info* info_used) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (info_used == nullptr) return raise(object, MPI_ERR_ARG, __func__, "info is null");
  std::lock_guard lock(object->mutex);
  *info_used = make_info(object->info.get());
  return MPI_SUCCESS;
}

MPI_FUNCTION(Comm_set_errhandler)(MPI_Comm comm, MPI_Errhandler errhandler) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  ErrorHandler* handler = find_errhandler(errhandler);
  if (handler == nullptr ||
      (handler->action == ErrorHandler::Action::call && handler->object != Kind::comm))
    return raise(object, MPI_ERR_ERRHANDLER, __func__);
  ErrorHandler* old;
  {
    std::lock_guard lock(object->mutex);
    old = object->errhandler;
    object->errhandler = retain(handler);
  }
  release(old);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Comm_get_errhandler)(MPI_Comm comm, MPI_Errhandler* errhandler) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (errhandler == nullptr) return raise(object, MPI_ERR_ARG, __func__, "errhandler is null");
  std::lock_guard lock(object->mutex);
  *errhandler = give(object->errhandler);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Comm_create_errhandler)
(MPI_Comm_errhandler_function* comm_errhandler_fn, MPI_Errhandler* errhandler) {
  if (comm_errhandler_fn == nullptr || errhandler == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "the function or errhandler is null");
  *errhandler = make_errhandler(Kind::comm, reinterpret_cast<void (*)()>(comm_errhandler_fn));
  return MPI_SUCCESS;
}

MPI_FUNCTION(Comm_call_errhandler)(MPI_Comm comm, int errorcode) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  // The handler is called whatever it returns; the call itself succeeded.
  static_cast<void>(raise(object, errorcode, __func__));
  return MPI_SUCCESS;
}
