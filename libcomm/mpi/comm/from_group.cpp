// Communicators that have no parent: made from groups, with a string that distinguishes calls made
// at the same time (MPI 5.0 sections 7.4.2 and 7.6.2).
#include <cstring>
#include <string>

#include "mpi/comm/comm.hpp"
#include "mpi/p2p/transfer.hpp"

namespace weft::mpi {
namespace {

// FNV-1a: the same in every process of a job.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return hash;
}
std::int32_t tag_of(std::uint64_t hash) {
  return kFromGroupTag - static_cast<std::int32_t>((hash ^ hash >> 28) & 0xfffffff);
}

// Sent by the first process of a group to the others.
struct ContextMessage {
  std::uint64_t hash;
  std::uint32_t context;
};

// The checked arguments that both functions have.
struct Call {
  const char* function;
  ErrorHandler* handler = nullptr;
  const Info* hints = nullptr;
  std::string tag;

  int fail(int code, std::string_view text = {}) const {
    return call_errhandler(nullptr, handler != nullptr ? handler : default_errhandler(), code,
                           function, text);
  }
  // Checks the arguments: MPI_SUCCESS or the code that was raised.
  int check(const char* stringtag, MPI_Info info, MPI_Errhandler errhandler, const MPI_Comm* out) {
    handler = find_errhandler(errhandler);
    if (handler == nullptr ||
        (handler->action == ErrorHandler::Action::call && handler->object != Kind::comm)) {
      handler = nullptr;
      return fail(MPI_ERR_ERRHANDLER);
    }
    if (out == nullptr) return fail(MPI_ERR_ARG, "the result is null");
    if (stringtag == nullptr) return fail(MPI_ERR_ARG, "stringtag is null");
    if (strnlen(stringtag, MPI_MAX_STRINGTAG_LEN) == MPI_MAX_STRINGTAG_LEN)
      return fail(MPI_ERR_ARG, "stringtag is longer than MPI_MAX_STRINGTAG_LEN allows");
    hints = find_info(info);
    if (hints == nullptr && info != MPI_INFO_NULL) return fail(MPI_ERR_INFO);
    tag = stringtag;
    return MPI_SUCCESS;
  }
};

// Makes a communicator of a group that this process belongs to. `out` is null after an error.
int make(const Call& call, const GroupPtr& group, std::string_view tag, Comm*& out) {
  out = nullptr;
  CommPtr made = prepare_comm(group->members(), *own_comm);
  release(std::exchange(made->errhandler, retain(call.handler)));
  made->info = copy_of(call.hints);
  made->session = group->session();
  const bool is_first = group->rank() == 0;
  OfferedContext offered(is_first, group->has_foreign_members());
  const std::uint64_t hash = hash_of(tag);
  ContextMessage said{hash, offered.value()};
  Code result = Code::ok;
  if (is_first) {
    std::vector<tagged::Request> sends(static_cast<std::size_t>(group->size()));
    for (int rank = 1; rank < group->size(); ++rank)
      engine->isend(sends[static_cast<std::size_t>(rank)], group->world(rank), kFromGroupContext,
                    tag_of(hash), &said, sizeof said);
    for (int rank = 1; rank < group->size(); ++rank) {
      const Code code = wait_progressing(sends[static_cast<std::size_t>(rank)]);
      if (code != Code::ok) result = code;
    }
  } else {
    tagged::Request receive;
    engine->irecv(receive, group->world(0), kFromGroupContext, tag_of(hash), &said, sizeof said);
    result = wait_progressing(receive);
  }
  if (result != Code::ok) return call.fail(error_class(result));
  if (said.hash != hash)
    return call.fail(MPI_ERR_INTERN, "another stringtag in use has the same hash");
  offered.resolve(said.context);
  out = open_comm(std::move(made), group, nullptr, said.context, said.context + 1);
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Comm_create_from_group)
(MPI_Group group, const char* stringtag, MPI_Info info, MPI_Errhandler errhandler,
 MPI_Comm* newcomm) {
  MPI_MUST_RUN();
  Call call{__func__, nullptr, nullptr, {}};
  if (const int code = call.check(stringtag, info, errhandler, newcomm); code != MPI_SUCCESS)
    return code;
  *newcomm = MPI_COMM_NULL;
  const GroupPtr members = find_group(group);
  if (members == nullptr) return call.fail(MPI_ERR_GROUP);
  if (members->size() == 0) return MPI_SUCCESS;
  if (members->rank() == MPI_UNDEFINED)
    return call.fail(MPI_ERR_GROUP, "this process is not in the group");
  Comm* made = nullptr;
  if (const int code = make(call, members, call.tag, made); code != MPI_SUCCESS) return code;
  *newcomm = made->handle;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Intercomm_create_from_groups)
(MPI_Group local_group, int local_leader, MPI_Group remote_group, int remote_leader,
 const char* stringtag, MPI_Info info, MPI_Errhandler errhandler, MPI_Comm* newintercomm) {
  MPI_MUST_RUN();
  Call call{__func__, nullptr, nullptr, {}};
  if (const int code = call.check(stringtag, info, errhandler, newintercomm); code != MPI_SUCCESS)
    return code;
  *newintercomm = MPI_COMM_NULL;
  const GroupPtr local = find_group(local_group), remote = find_group(remote_group);
  if (local == nullptr || remote == nullptr) return call.fail(MPI_ERR_GROUP);
  if (local->size() == 0 || remote->size() == 0) return MPI_SUCCESS;
  if (local->rank() == MPI_UNDEFINED)
    return call.fail(MPI_ERR_GROUP, "this process is not in the local group");
  if (local_leader < 0 || local_leader >= local->size())
    return call.fail(MPI_ERR_RANK, "no such local leader");
  int remote_world = -1;
  if (local->rank() == local_leader) {
    if (remote_leader < 0 || remote_leader >= remote->size())
      return call.fail(MPI_ERR_RANK, "no such remote leader");
    remote_world = remote->world(remote_leader);
  }
  Comm* side = nullptr;
  if (const int code = make(call, local, "side of " + call.tag, side); code != MPI_SUCCESS)
    return code;
  const int code = join_sides(*side, local_leader, remote_world, kFromGroupContext,
                              tag_of(hash_of(call.tag)), newintercomm, __func__);
  static_cast<void>(free_comm(side));
  if (code == MPI_SUCCESS) find_comm(*newintercomm)->info = copy_of(call.hints);
  return code;
}
