// Intercommunicators: two groups; ranks in messages name the remote one. Built from an
// intracommunicator of each side whose leaders can communicate over a third.
#include <algorithm>

#include "mpi/comm/comm.hpp"
#include "mpi/dynamic/introduction.hpp"
#include "mpi/p2p/transfer.hpp"

namespace weft::mpi {
namespace {

// Exchanged by the two leaders; the members' world ranks follow.
struct Introduction {
  int size;
  std::uint32_t context;
  bool needs_addresses;  // world ranks would not do: members or leaders are of several jobs
};

// Exchanges bytes between two processes. `tag` separates this exchange from others on the context.
Code exchange(int peer, std::uint32_t context, std::int32_t tag, const void* send,
              std::size_t send_bytes, void* receive, std::size_t room) {
  return MessagePipe(peer, context, tag).swap(send, send_bytes, receive, room).code();
}

// On the local leader: swaps introductions and member lists with the remote leader. The side whose
// leader comes first gives the context. `theirs` has room for the remote list. needs_addresses is
// in and out; if it is set nothing else is agreed on.
Code meet(const std::vector<int>& mine, std::uint32_t offered, int remote_leader,
          std::uint32_t context, std::int32_t tag, std::vector<int>& theirs, Contexts& contexts,
          bool& needs_addresses) {
  Introduction own{static_cast<int>(mine.size()), offered, needs_addresses};
  Introduction other{};
  Code code = exchange(remote_leader, context, tag, &own, sizeof own, &other, sizeof other);
  if (code != Code::ok) return code;
  needs_addresses = needs_addresses || other.needs_addresses;
  if (needs_addresses) return Code::ok;
  theirs.resize(static_cast<std::size_t>(other.size));
  code = exchange(remote_leader, context, tag, mine.data(), mine.size() * sizeof(int),
                  theirs.data(), theirs.size() * sizeof(int));
  contexts = {comes_before(engine->rank(), remote_leader) ? own.context : other.context,
              own.context};
  return code;
}

// Broadcasts what the local leader got of the remote side to all of `team`. `leader` is its rank.
Status spread(coll::Team& team, int leader, Code& code, std::vector<int>& theirs,
              Contexts& contexts, bool& needs_addresses) {
  struct Header {
    int code;
    int size;
    Contexts contexts;
    bool needs_addresses;
  } header{static_cast<int>(code), static_cast<int>(theirs.size()), contexts, needs_addresses};
  if (Status status = coll::bcast(team, &header, sizeof header, leader); !status) return status;
  code = static_cast<Code>(header.code);
  if (code != Code::ok) return {};
  contexts = header.contexts;
  needs_addresses = header.needs_addresses;
  if (needs_addresses) return {};
  theirs.resize(static_cast<std::size_t>(header.size));
  return coll::bcast(team, theirs.data(), theirs.size() * sizeof(int), leader);
}

// Agrees within an intercommunicator: rank 0 of each side meets the other's, and both sides learn
// the result. Used by every function that makes a communicator from an intercommunicator. `offered`
// is rank 0's. `theirs` has room for the remote list.
Status agree(Comm* comm, const std::vector<int>& mine, std::uint32_t offered,
             std::vector<int>& theirs, Contexts& contexts) {
  Code code = Code::ok;
  bool needs_addresses = false;
  if (comm->rank == 0)
    code = meet(mine, offered, comm->remote->world(0), comm->context, kIntercommTag, theirs,
                contexts, needs_addresses);
  Status status = spread(*comm->team, 0, code, theirs, contexts, needs_addresses);
  return status.ok() && code != Code::ok ? Status(code) : status;
}

}  // namespace

Status MessagePipe::swap(const void* send, std::size_t send_bytes, void* receive,
                         std::size_t room) {
  tagged::Request in;
  tagged::Request out;
  engine->irecv(in, peer_, context_, tag_, receive, room);
  engine->isend(out, peer_, context_, tag_, send, send_bytes);
  const Code sent = wait_progressing(out);
  const Code received = wait_progressing(in);
  return sent != Code::ok ? sent : received;
}

// Returns once all members, of both sides, have called it.
Status meet_both_sides(Comm* comm) {
  Status status = coll::barrier(*comm->team);
  if (!status || !comm->is_inter()) return status;
  std::vector<int> theirs;
  Contexts contexts;
  return agree(comm, {}, 0, theirs, contexts);
}

int dup_inter(Comm* comm, const Info* info, bool keep_info, MPI_Comm* out, const char* function) {
  CommPtr made = prepare_comm(comm->group->members(), *comm);
  const AttributeSet::Copying attributes = copy_extras(comm, made.get(), info, keep_info);
  std::vector<int> theirs;
  Contexts contexts;
  OfferedContext offered(comm->rank == 0, *comm);
  const Status status = agree(comm, {}, offered.value(), theirs, contexts);
  if (!status) return raise_status(comm, status, function);
  offered.resolve(contexts.local);
  Comm* copy =
      open_comm(std::move(made), comm->group, comm->remote, contexts.shared, contexts.local + 1);
  const int code = copy->attributes.take(comm->handle, attributes);
  if (code != MPI_SUCCESS) {
    static_cast<void>(free_comm(copy));
    return raise(comm, code, function);
  }
  *out = copy->handle;
  return MPI_SUCCESS;
}

namespace {

struct InterSplitEntry {
  int color;
  int key;
  std::uint32_t context;
};

// One side of an intercommunicator that is being made, with the memory for all of its parent.
struct Side {
  explicit Side(const Group& parent)
      : group(std::make_shared<Group>(static_cast<std::size_t>(parent.size()))) {
    ranks.reserve(static_cast<std::size_t>(parent.size()));
    worlds.reserve(static_cast<std::size_t>(parent.size()));
  }
  std::vector<int> ranks;  // in the parent
  std::vector<int> worlds;
  std::shared_ptr<Group> group;
};

// Finds the members of one side that chose `color`, in the order of their keys.
void find_members(const std::vector<InterSplitEntry>& entries, int color, const Group& group,
                  Side& side) {
  std::vector<int>& ranks = side.ranks;
  for (int rank = 0; rank < group.size(); ++rank)
    if (entries[static_cast<std::size_t>(rank)].color == color) ranks.push_back(rank);
  std::stable_sort(ranks.begin(), ranks.end(), [&entries](int a, int b) {
    return entries[static_cast<std::size_t>(a)].key < entries[static_cast<std::size_t>(b)].key;
  });
  for (const int rank : ranks) side.worlds.push_back(group.world(rank));
  side.group->assign(side.worlds);
}

// Gives every process the values of every process of the other side; `theirs` has its size.
template <class T>
Status share_across(Comm* comm, const std::vector<T>& mine, std::vector<T>& theirs) {
  Code code = Code::ok;
  if (comm->rank == 0)
    code = exchange(comm->remote->world(0), comm->context, kIntercommTag, mine.data(),
                    mine.size() * sizeof(T), theirs.data(), theirs.size() * sizeof(T));
  int shared = static_cast<int>(code);
  if (Status status = coll::bcast(*comm->team, &shared, sizeof shared, 0); !status) return status;
  if (shared != static_cast<int>(Code::ok)) return static_cast<Code>(shared);
  return coll::bcast(*comm->team, theirs.data(), theirs.size() * sizeof(T), 0);
}

}  // namespace

int split_inter(Comm* comm, int color, int key, MPI_Comm* out, const char* function) {
  if (color < 0 && color != MPI_UNDEFINED)
    return raise(comm, MPI_ERR_ARG, function, "the color is negative");
  if (is_revoked(*comm)) return raise(comm, MPIX_ERR_REVOKED, function);
  std::vector<InterSplitEntry> mine;
  std::vector<InterSplitEntry> theirs(static_cast<std::size_t>(comm->remote->size()));
  Side local(*comm->group), remote(*comm->remote);
  CommPtr made;
  if (color != MPI_UNDEFINED) made = prepare_comm(comm->group->members(), *comm);
  OfferedContext offered(color != MPI_UNDEFINED, *comm);
  Status status = share(*comm->team, InterSplitEntry{color, key, offered.value()}, mine);
  if (status.ok()) status = share_across(comm, mine, theirs);
  if (!status) return raise_status(comm, status, function);
  if (color == MPI_UNDEFINED) return MPI_SUCCESS;
  find_members(mine, color, *comm->group, local);
  find_members(theirs, color, *comm->remote, remote);
  if (remote.ranks.empty()) return MPI_SUCCESS;  // a side without members: no communicator
  const std::uint32_t own = mine[static_cast<std::size_t>(local.ranks.front())].context;
  const std::uint32_t other = theirs[static_cast<std::size_t>(remote.ranks.front())].context;
  offered.resolve(own);
  *out = open_comm(std::move(made), std::move(local.group), std::move(remote.group),
                   comes_before(local.worlds.front(), remote.worlds.front()) ? own : other, own + 1)
             ->handle;
  return MPI_SUCCESS;
}

int join_sides(Comm& local, int local_leader, int remote_leader, std::uint32_t context,
               std::int32_t tag, MPI_Comm* out, const char* function) {
  // The other side may have any processes of the job.
  const auto most = static_cast<std::size_t>(engine->size());
  CommPtr made = prepare_comm(local.group->members(), local);
  const auto remote = std::make_shared<Group>(most);
  std::vector<int> theirs;
  theirs.reserve(most);
  OfferedContext offered(local.rank == local_leader, local);
  Code code = Code::ok;
  Contexts contexts;
  bool needs_addresses = local.group->has_foreign_members() || remote_leader >= engine->size();
  if (local.rank == local_leader)
    code = meet(local.group->members(), offered.value(), remote_leader, context, tag, theirs,
                contexts, needs_addresses);
  const Status status = spread(*local.team, local_leader, code, theirs, contexts, needs_addresses);
  if (!status) return raise_status(&local, status, function);
  if (code != Code::ok) return raise_status(&local, code, function);
  if (needs_addresses) {
    made.reset();
    MessagePipe pipe(remote_leader, context, tag);
    Comm* inter = nullptr;
    const Status introduced = introduce(local, local_leader, &pipe, inter);
    if (!introduced) return raise_status(&local, introduced, function);
    *out = inter->handle;
    return MPI_SUCCESS;
  }
  for (const int world : theirs)
    if (local.group->rank_of(world) != MPI_UNDEFINED)
      return raise(&local, MPI_ERR_COMM, function, "the two groups overlap");
  remote->assign(theirs);
  offered.resolve(contexts.local);
  *out =
      open_comm(std::move(made), local.group, remote, contexts.shared, contexts.local + 1)->handle;
  return MPI_SUCCESS;
}

int create_inter(Comm* comm, const GroupPtr& group, MPI_Comm* out, const char* function) {
  // A split where the members choose one color and their rank in the group as the key.
  const int place = group->rank();
  const int color = place == MPI_UNDEFINED ? MPI_UNDEFINED : 0;
  return split_inter(comm, color, place == MPI_UNDEFINED ? 0 : place, out, function);
}

}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Intercomm_create)
(MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader, int tag,
 MPI_Comm* newintercomm) {
  Comm* local = find_comm(local_comm);
  if (local == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (local->is_inter()) return raise(local, MPI_ERR_COMM, __func__, "an intercommunicator");
  if (newintercomm == nullptr) return raise(local, MPI_ERR_ARG, __func__, "the result is null");
  *newintercomm = MPI_COMM_NULL;
  if (is_revoked(*local)) return raise(local, MPIX_ERR_REVOKED, __func__);
  if (local_leader < 0 || local_leader >= local->size())
    return raise(local, MPI_ERR_RANK, __func__, "no such local leader");
  if (!is_send_tag(tag)) return raise(local, MPI_ERR_TAG, __func__);
  int remote = -1;
  std::uint32_t context = 0;
  if (local->rank == local_leader) {
    const Comm* peer = find_comm(peer_comm);
    if (peer == nullptr) return raise(local, MPI_ERR_COMM, __func__, "no such peer communicator");
    if (!is_peer(*peer, remote_leader))
      return raise(local, MPI_ERR_RANK, __func__, "no such remote leader");
    remote = peer->world(remote_leader);
    context = peer->context;
  }
  return join_sides(*local, local_leader, remote, context, kIntercommCreateTag - tag, newintercomm,
                    __func__);
}

MPI_FUNCTION(Intercomm_merge)(MPI_Comm intercomm, int high, MPI_Comm* newintracomm) {
  Comm* comm = find_comm(intercomm);
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (!comm->is_inter()) return raise(comm, MPI_ERR_COMM, __func__, "not an intercommunicator");
  if (newintracomm == nullptr) return raise(comm, MPI_ERR_ARG, __func__, "the result is null");
  *newintracomm = MPI_COMM_NULL;
  if (is_revoked(*comm)) return raise(comm, MPIX_ERR_REVOKED, __func__);
  std::vector<int> members = comm->group->members();
  members.insert(members.end(), comm->remote->members().begin(), comm->remote->members().end());
  CommPtr made = prepare_comm(members, *comm);
  const auto group = std::make_shared<Group>(members.size());
  std::vector<int> theirs;
  theirs.reserve(1);
  OfferedContext offered(comm->rank == 0, *comm);
  Contexts contexts;
  const std::vector<int> mine{high != 0};
  const Status status = agree(comm, mine, offered.value(), theirs, contexts);
  if (!status) return raise_status(comm, status, __func__);
  const bool own_high = high != 0;
  const bool other_high = theirs.at(0) != 0;
  // If both sides pass the same value, the one whose first process comes first in the job leads.
  const bool own_first = own_high != other_high ? !own_high : leads(*comm);
  const Group& first = own_first ? *comm->group : *comm->remote;
  const Group& second = own_first ? *comm->remote : *comm->group;
  std::ranges::copy(second.members(), std::ranges::copy(first.members(), members.begin()).out);
  group->assign(members);
  offered.resolve(contexts.shared);
  *newintracomm =
      open_comm(std::move(made), group, nullptr, contexts.shared, contexts.shared + 1)->handle;
  return MPI_SUCCESS;
}
