// Making communicators. Each new one takes its context from the process that is rank 0 in it, and
// the members receive it together with all else they have to agree on.
#include <algorithm>
#include <climits>

#include "base/mix.hpp"
#include "mpi/comm/comm.hpp"
#include "mpi/comm/topology.hpp"
#include "mpi/core/session.hpp"
#include "mpi/p2p/transfer.hpp"

namespace weft::mpi {

AttributeSet::Copying copy_extras(Comm* from, Comm* to, const Info* info, bool keep_info) {
  {
    std::lock_guard lock(from->mutex);
    to->info = keep_info ? from->info : copy_of(info);
    if (from->topology != nullptr) to->topology = std::make_unique<Topology>(*from->topology);
  }
  return from->attributes.prepare_copy(to->attributes);
}

namespace {

// All members learn the first one's context, and which hints all have given.
Status agree(coll::Team& team, std::uint32_t& context, Hints& hints) {
  struct Offer {
    std::uint32_t context;  // of the others: all bits
    std::uint32_t hints;
  };
  const coll::Reduction both{.apply =
                                 [](const void* in, void* inout, std::size_t count, void*) {
                                   for (std::size_t i = 0; i < count; ++i) {
                                     Offer& to = static_cast<Offer*>(inout)[i];
                                     to.context &= static_cast<const Offer*>(in)[i].context;
                                     to.hints &= static_cast<const Offer*>(in)[i].hints;
                                   }
                                 },
                             .element_bytes = sizeof(Offer)};
  const Offer mine{team.rank() == 0 ? context : ~std::uint32_t{0}, hints.bits()};
  Offer all{};
  const Status status = coll::allreduce(team, &mine, &all, 1, both);
  context = all.context;
  hints = Hints::of_bits(all.hints);
  return status;
}

int dup(MPI_Comm handle, const Info* info, bool keep_info, MPI_Comm* out, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  if (out == nullptr) return raise(comm, MPI_ERR_ARG, function, "newcomm is null");
  *out = MPI_COMM_NULL;
  if (is_revoked(*comm)) return raise(comm, MPIX_ERR_REVOKED, function);
  if (comm->is_inter()) return dup_inter(comm, info, keep_info, out, function);
  CommPtr made = prepare_comm(comm->group->members(), *comm);
  const AttributeSet::Copying attributes = copy_extras(comm, made.get(), info, keep_info);
  Hints hints = Hints::of(made->info.get());
  OfferedContext offered(comm->rank == 0, *comm, hints);
  std::uint32_t context = offered.value();
  const Status status = agree(*comm->team, context, hints);
  if (!status) return raise_status(comm, status, function);
  offered.resolve(context);
  Comm* copy = open_comm(std::move(made), comm->group, nullptr, context, context + 1, hints);
  const int code = copy->attributes.take(comm->handle, attributes);
  if (code != MPI_SUCCESS) {
    static_cast<void>(free_comm(copy));
    return raise(comm, code, function);
  }
  *out = copy->handle;
  return MPI_SUCCESS;
}

struct SplitEntry {
  int color;
  int key;
  std::uint32_t context;  // offered by this process if it becomes rank 0
  std::uint32_t hints;
};

}  // namespace

int split(Comm* comm, int color, int key, Comm*& out, const char* function, Hints hints) {
  out = nullptr;
  if (is_revoked(*comm)) return raise(comm, MPIX_ERR_REVOKED, function);
  if (color < 0 && color != MPI_UNDEFINED)
    return raise(comm, MPI_ERR_ARG, function, "the color is negative");
  const auto size = static_cast<std::size_t>(comm->size());
  std::vector<SplitEntry> all;
  std::vector<int> ranks, members;
  CommPtr made;
  std::shared_ptr<Group> group;
  if (color != MPI_UNDEFINED) {
    ranks.reserve(size);
    members.reserve(size);
    made = prepare_comm(comm->group->members(), *comm);
    group = std::make_shared<Group>(size);
  }
  OfferedContext offered(color != MPI_UNDEFINED, *comm, hints);
  const SplitEntry mine{color, key, offered.value(), hints.bits()};
  const Status status = share(*comm->team, mine, all);
  if (!status) return raise_status(comm, status, function);
  if (color == MPI_UNDEFINED) return MPI_SUCCESS;
  for (int rank = 0; rank < comm->size(); ++rank)
    if (all[static_cast<std::size_t>(rank)].color == color) ranks.push_back(rank);
  std::stable_sort(ranks.begin(), ranks.end(), [&all](int a, int b) {
    return all[static_cast<std::size_t>(a)].key < all[static_cast<std::size_t>(b)].key;
  });
  std::uint32_t agreed = ~std::uint32_t{0};
  for (const int rank : ranks) {
    members.push_back(comm->group->world(rank));
    agreed &= all[static_cast<std::size_t>(rank)].hints;
  }
  group->assign(members);
  const std::uint32_t context = all[static_cast<std::size_t>(ranks.front())].context;
  offered.resolve(context);
  out = open_comm(std::move(made), std::move(group), nullptr, context, context + 1,
                  Hints::of_bits(agreed));
  return MPI_SUCCESS;
}

int create_from(Comm* comm, const GroupPtr& group, Comm*& out, const char* function) {
  out = nullptr;
  if (is_revoked(*comm)) return raise(comm, MPIX_ERR_REVOKED, function);
  CommPtr made;
  if (group->rank() != MPI_UNDEFINED) made = prepare_comm(group->members(), *comm);
  OfferedContext offered(group->rank() == 0, *comm);
  std::vector<std::uint32_t> all;
  const Status status = share(*comm->team, offered.value(), all);
  if (!status) return raise_status(comm, status, function);
  if (made == nullptr) return MPI_SUCCESS;
  const int first = comm->group->rank_of(group->world(0));
  const std::uint32_t context = all[static_cast<std::size_t>(first)];
  offered.resolve(context);
  out = open_comm(std::move(made), group, nullptr, context, context + 1);
  return MPI_SUCCESS;
}

}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Comm_dup)(MPI_Comm comm, MPI_Comm* newcomm) {
  return dup(comm, nullptr, true, newcomm, __func__);
}

MPI_FUNCTION(Comm_dup_with_info)(MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  Info* hints = find_info(info);
  if (hints == nullptr && info != MPI_INFO_NULL) return raise(object, MPI_ERR_INFO, __func__);
  return dup(comm, hints, false, newcomm, __func__);
}

MPI_FUNCTION(Comm_split)(MPI_Comm comm, int color, int key, MPI_Comm* newcomm) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (newcomm == nullptr) return raise(object, MPI_ERR_ARG, __func__, "newcomm is null");
  *newcomm = MPI_COMM_NULL;
  if (object->is_inter()) return split_inter(object, color, key, newcomm, __func__);
  Comm* made;
  const int code = split(object, color, key, made, __func__);
  if (made != nullptr) *newcomm = made->handle;
  return code;
}

namespace {

// The first rank of this process's host stands for the host; among several jobs, together with its
// job.
int color_of_host(const Comm& comm) {
  const int first = process->job->local_ranks().front();
  if (!is_across(comm)) return first;
  return static_cast<int>(mix(process->job->id() + static_cast<std::uint64_t>(first)) & INT_MAX);
}

// All processes of a job, or each for itself.
int color_of_set(const Comm& comm, int set) {
  const auto number = set == 0 ? std::uint64_t{0} : 1 + static_cast<std::uint64_t>(engine->rank());
  if (!is_across(comm)) return static_cast<int>(number);
  return static_cast<int>(mix(process->job->id() + number) & INT_MAX);
}

}  // namespace

MPI_FUNCTION(Comm_split_type)
(MPI_Comm comm, int split_type, int key, MPI_Info info, MPI_Comm* newcomm) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (newcomm == nullptr) return raise(object, MPI_ERR_ARG, __func__, "newcomm is null");
  *newcomm = MPI_COMM_NULL;
  Info* hints = find_info(info);
  if (hints == nullptr && info != MPI_INFO_NULL) return raise(object, MPI_ERR_INFO, __func__);
  int color = MPI_UNDEFINED;
  switch (split_type) {
    case MPI_COMM_TYPE_SHARED: {
      color = color_of_host(*object);
      break;
    }
    case MPI_UNDEFINED:
    case MPI_COMM_TYPE_HW_GUIDED:
    case MPI_COMM_TYPE_HW_UNGUIDED:
    case MPI_COMM_TYPE_RESOURCE_GUIDED:
      // No finer level than the host is offered: everyone is left out, as the standard allows. The
      // exceptions are guides that name the host, or a process set (MPI 5.0 section 7.4.2).
      if (split_type == MPI_COMM_TYPE_HW_GUIDED || split_type == MPI_COMM_TYPE_RESOURCE_GUIDED) {
        const std::string* type = hints == nullptr ? nullptr : hints->find("mpi_hw_resource_type");
        if (type != nullptr && *type == "mpi_shared_memory") color = color_of_host(*object);
      }
      if (split_type == MPI_COMM_TYPE_RESOURCE_GUIDED && hints != nullptr)
        if (const std::string* name = hints->find("mpi_pset_name"); name != nullptr) {
          const int set = find_process_set(*name);
          if (set >= 0) color = color_of_set(*object, set);
        }
      break;
    default:
      return raise(object, MPI_ERR_ARG, __func__, "unknown split type");
  }
  if (object->is_inter()) return split_inter(object, color, key, newcomm, __func__);
  InfoPtr kept = copy_of(hints);
  Comm* made;
  const int code = split(object, color, key, made, __func__, Hints::of(kept.get()));
  if (made != nullptr) {
    made->info = std::move(kept);
    *newcomm = made->handle;
  }
  return code;
}

MPI_FUNCTION(Comm_create)(MPI_Comm comm, MPI_Group group, MPI_Comm* newcomm) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (newcomm == nullptr) return raise(object, MPI_ERR_ARG, __func__, "newcomm is null");
  *newcomm = MPI_COMM_NULL;
  const GroupPtr members = find_group(group);
  if (members == nullptr) return raise(object, MPI_ERR_GROUP, __func__);
  for (const int world : members->members())
    if (object->group->rank_of(world) == MPI_UNDEFINED)
      return raise(object, MPI_ERR_GROUP, __func__, "not a subset of the communicator's group");
  if (object->is_inter()) return create_inter(object, members, newcomm, __func__);
  Comm* made;
  const int code = create_from(object, members, made, __func__);
  if (made != nullptr) *newcomm = made->handle;
  return code;
}

MPI_FUNCTION(Comm_create_group)(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* newcomm) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (newcomm == nullptr) return raise(object, MPI_ERR_ARG, __func__, "newcomm is null");
  *newcomm = MPI_COMM_NULL;
  const GroupPtr members = find_group(group);
  if (members == nullptr) return raise(object, MPI_ERR_GROUP, __func__);
  if (!is_send_tag(tag)) return raise(object, MPI_ERR_TAG, __func__);
  for (const int world : members->members())
    if (object->group->rank_of(world) == MPI_UNDEFINED)
      return raise(object, MPI_ERR_GROUP, __func__, "not a subset of the communicator's group");
  if (is_revoked(*object)) return raise(object, MPIX_ERR_REVOKED, __func__);
  if (members->rank() == MPI_UNDEFINED) return MPI_SUCCESS;
  // Only the members call: rank 0 sends to the others, on tags that user messages cannot have.
  const std::int32_t internal_tag = kCreateGroupTag - tag;
  Code result = Code::ok;
  CommPtr made = prepare_comm(members->members(), *object);
  OfferedContext offered(members->rank() == 0, *object);
  std::uint32_t context = offered.value();
  if (members->rank() == 0) {
    std::vector<tagged::Request> sends(static_cast<std::size_t>(members->size()));
    for (int rank = 1; rank < members->size(); ++rank)
      engine->isend(sends[static_cast<std::size_t>(rank)], members->world(rank), object->context,
                    internal_tag, &context, sizeof context);
    for (int rank = 1; rank < members->size(); ++rank) {
      const Code code = wait_progressing(sends[static_cast<std::size_t>(rank)]);
      if (code != Code::ok) result = code;
    }
  } else {
    tagged::Request receive;
    engine->irecv(receive, members->world(0), object->context, internal_tag, &context,
                  sizeof context);
    result = wait_progressing(receive);
  }
  if (result != Code::ok) return raise_status(object, result, __func__);
  offered.resolve(context);
  *newcomm = open_comm(std::move(made), members, nullptr, context, context + 1)->handle;
  return MPI_SUCCESS;
}
