// MPI_Comm_shrink and MPI_Comm_ishrink.
#include <memory>
#include <vector>

#include "mpi/core/call.hpp"
#include "mpi/ft/agreement.hpp"

namespace weft::mpi::ft {
namespace {

class Shrink final : public AgreementOperation {
 public:
  Shrink(Comm& comm, MPI_Comm* out)
      : AgreementOperation(comm, kShrink, 0),
        made_(prepare_comm(comm.group->members(), comm)),
        group_(std::make_shared<Group>(static_cast<std::size_t>(comm.size()))),
        offered_(true, comm),
        out_(out) {
    members_.reserve(static_cast<std::size_t>(comm.size()));
    if (comm.is_inter()) {
      remote_ = std::make_shared<Group>(static_cast<std::size_t>(comm.remote->size()));
      others_.reserve(static_cast<std::size_t>(comm.remote->size()));
    }
    context_ = offered_.value();
  }

 private:
  // The context is the coordinator's, which is the first member that has not failed. The second of
  // two groups has that of a member of its own for its collectives.
  int conclude(const Decision& decision) override {
    // The others count this process as dead: the network has separated it from them.
    if (decision.failed.contains(agreements_->rank())) return MPIX_ERR_PROC_FAILED;
    for (int rank = 0; rank < agreements_->size(); ++rank) {
      if (decision.failed.contains(rank)) continue;
      const int world = agreements_->world(rank);
      (comm_.group->rank_of(world) != MPI_UNDEFINED ? members_ : others_).push_back(world);
    }
    std::uint32_t own_context = decision.context;
    if (comm_.is_inter()) {
      // As MPI_Comm_split has it, when all of one group are left out.
      if (others_.empty()) return MPI_SUCCESS;
      remote_->assign(others_);
      if (!leads(comm_)) own_context = decision.second_context;
    }
    group_->assign(members_);
    offered_.resolve(own_context);
    *out_ = open_comm(std::move(made_), std::move(group_), std::move(remote_), decision.context,
                      own_context + 1)
                ->handle;
    return MPI_SUCCESS;
  }

  CommPtr made_;
  std::shared_ptr<Group> group_, remote_;
  std::vector<int> members_, others_;
  OfferedContext offered_;
  MPI_Comm* out_;
};

int shrink(MPI_Comm handle, MPI_Comm* out, MPI_Request* request, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  *out = MPI_COMM_NULL;
  return run(*comm, std::make_unique<Shrink>(*comm, out), request, function);
}

}  // namespace
}  // namespace weft::mpi::ft

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Comm_shrink)(MPI_Comm comm, MPI_Comm* newcomm) {
  if (newcomm == nullptr) return raise(find_comm(comm), MPI_ERR_ARG, __func__, "newcomm is null");
  return ft::shrink(comm, newcomm, nullptr, __func__);
}
MPIX_ALIAS(Comm_shrink)

MPI_FUNCTION(Comm_ishrink)(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request) {
  if (newcomm == nullptr || request == nullptr)
    return raise(find_comm(comm), MPI_ERR_ARG, __func__, "newcomm or request is null");
  return ft::shrink(comm, newcomm, request, __func__);
}
MPIX_ALIAS(Comm_ishrink)
