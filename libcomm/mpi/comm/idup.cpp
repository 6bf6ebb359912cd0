// MPI_Comm_idup: a duplicate whose context is agreed on in the background. Attributes, info and
// error handler are those at the call; the handle is written when the operation ends, and must not
// be used before.
#include "mpi/collective/schedule.hpp"
#include "mpi/comm/comm.hpp"
#include "mpi/comm/topology.hpp"
#include "mpi/core/call.hpp"
#include "mpi/core/request.hpp"

namespace weft::mpi {
namespace {

class Duplication final : public Operation {
 public:
  Duplication(Comm& from, CommPtr made, MPI_Comm* out, Hints hints)
      : from_(from),
        made_(std::move(made)),
        out_(out),
        hints_(hints),
        offered_(from.rank == 0, from, hints_),
        contexts_{offered_.value(), 0, hints_.bits()},
        schedule_(from) {}
  Code start() override {
    if (from_.is_inter() && from_.rank == 0) {
      schedule_.receive_remote(0, &contexts_[1], sizeof contexts_[1]);
      schedule_.send_remote(0, &contexts_[0], sizeof contexts_[0]);
      schedule_.wait();
    }
    schedule_bcast(schedule_, contexts_, sizeof contexts_, 0);
    return schedule_.start();
  }
  void open() noexcept { schedule_.open(); }
  bool advance(Code& code) override {
    if (!schedule_.advance(code)) return false;
    if (code != Code::ok) return true;
    std::uint32_t context = contexts_[0];
    if (from_.is_inter() && !leads(from_)) context = contexts_[1];
    offered_.resolve(contexts_[0]);
    hints_ = Hints::of_bits(contexts_[2]);
    *out_ =
        open_comm(std::move(made_), from_.group, from_.remote, context, contexts_[0] + 1, hints_)
            ->handle;
    return true;
  }

 private:
  Comm& from_;  // counted by the request
  CommPtr made_;
  MPI_Comm* out_;
  Hints hints_;
  OfferedContext offered_;
  std::uint32_t contexts_[3];  // of the local group, of the remote one, and bits of hints
  Schedule schedule_;
};

int idup(MPI_Comm handle, const Info* info, bool keep_info, MPI_Comm* out, MPI_Request* out_request,
         const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  if (out == nullptr || out_request == nullptr)
    return raise(comm, MPI_ERR_ARG, function, "newcomm or request is null");
  *out = MPI_COMM_NULL;
  if (is_revoked(*comm)) return raise(comm, MPIX_ERR_REVOKED, function);
  RequestPtr request(new_request(comm, RequestObject::Kind::operation));
  if (request == nullptr) return raise(comm, MPI_ERR_NO_MEM, function);
  CommPtr made = prepare_comm(comm->group->members(), *comm);
  Comm& copy = *made;
  const AttributeSet::Copying attributes = copy_extras(comm, &copy, info, keep_info);
  // All members have given the hints of the original; those of `info` are not agreed on.
  const Hints hints = keep_info ? comm->channels.hints() : Hints();
  auto operation = std::make_unique<Duplication>(*comm, std::move(made), out, hints);
  Duplication& duplication = *operation;
  request->operation = std::move(operation);
  request->active = true;
  int code = error_class(duplication.start());
  if (code == MPI_SUCCESS) code = copy.attributes.take(comm->handle, attributes);
  if (code != MPI_SUCCESS) {
    *out_request = MPI_REQUEST_NULL;
    request.reset();
    return raise(comm, code, function);
  }
  duplication.open();
  *out_request = request->handle;
  add_operation(request.release());
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Comm_idup)(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request) {
  return idup(comm, nullptr, true, newcomm, request, __func__);
}

MPI_FUNCTION(Comm_idup_with_info)
(MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm, MPI_Request* request) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  Info* hints = find_info(info);
  if (hints == nullptr && info != MPI_INFO_NULL) return raise(object, MPI_ERR_INFO, __func__);
  return idup(comm, hints, false, newcomm, request, __func__);
}
