// MPI_Comm_agree and MPI_Comm_iagree, and what they share with shrinking.
#include <algorithm>

#include "mpi/core/call.hpp"
#include "mpi/ft/agreement.hpp"
#include "mpi/ft/failures.hpp"

namespace weft::mpi::ft {

Code AgreementOperation::start() {
  turn_ = agreements_->take_turn();
  return Code::ok;
}

void AgreementOperation::begin() {
  Contribution mine{kind_, flags_, context_, MemberSet(agreements_->size())};
  const std::vector<int> acknowledged = acknowledged_members(comm_);
  if (!acknowledged.empty())
    for (int rank = 0; rank < agreements_->size(); ++rank)
      if (std::ranges::find(acknowledged, agreements_->world(rank)) != acknowledged.end())
        mine.acknowledged.add(rank);
  agreements_->begin(mine);
  has_begun_ = true;
}

bool AgreementOperation::advance(Code& code) {
  if (!has_begun_ && agreements_->has_turn(turn_)) begin();
  Decision decision;
  if (!agreements_->has_ended(turn_, decision)) return false;
  // Whom the members know to have failed, this process knows from now on.
  for (int rank = 0; rank < agreements_->size(); ++rank)
    if (decision.failed.contains(rank) && rank != agreements_->rank())
      engine->lose(agreements_->world(rank));
  error_ = decision.outcome == Decision::Outcome::mismatched ? MPI_ERR_OTHER : conclude(decision);
  code = error_ == MPI_SUCCESS ? Code::ok : Code::internal;
  return true;
}

namespace {

// Without a request, as nobody else advances it.
int run_here(Comm& comm, AgreementOperation& operation, const char* function) {
  (void)operation.start();
  Code code = Code::ok;
  wait_progressing([&] {
    bool is_over = true;
    if (or_no_memory([&] { is_over = operation.advance(code); }) != Code::ok)
      code = Code::no_memory;
    return is_over;
  });
  const int error = operation.failure(code, &comm);
  return error == MPI_SUCCESS ? MPI_SUCCESS : raise(&comm, error, function);
}

}  // namespace

int run(Comm& comm, std::unique_ptr<AgreementOperation> operation, MPI_Request* out,
        const char* function) {
  if (out == nullptr && !engine->is_threaded()) return run_here(comm, *operation, function);
  RequestPtr made(new_request(&comm, RequestObject::Kind::operation));
  if (made == nullptr) return raise(&comm, MPI_ERR_NO_MEM, function);
  (void)operation->start();
  made->operation = std::move(operation);
  RequestObject* request = made.release();
  MPI_Request handle = request->handle;
  add_operation(request);
  if (out != nullptr) {
    *out = handle;
    return MPI_SUCCESS;
  }
  wait_progressing([request] { return request->is_complete(); });
  retain(&comm);
  int code = finish_request(request, &handle, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) code = raise(&comm, code, function);
  release(&comm);
  return code;
}

void meet(const Comm& comm) {
  const std::shared_ptr<Agreements> agreements = agreements_of(comm);
  const Contribution mine{kMeet, 0, 0, MemberSet(agreements->size())};
  const std::uint32_t turn = agreements->take_turn();
  Decision decision;
  bool has_begun = false;
  wait_progressing([&] {
    if (!has_begun && (has_begun = agreements->has_turn(turn))) agreements->begin(mine);
    return agreements->has_ended(turn, decision);
  });
}

namespace {

class Agree final : public AgreementOperation {
 public:
  Agree(Comm& comm, int* flag)
      : AgreementOperation(comm, kAgree, static_cast<std::uint32_t>(*flag)), flag_(flag) {}

 private:
  int conclude(const Decision& decision) override {
    *flag_ = static_cast<int>(decision.flags);
    return decision.outcome == Decision::Outcome::unacknowledged ? MPIX_ERR_PROC_FAILED
                                                                 : MPI_SUCCESS;
  }
  int* flag_;
};

}  // namespace
}  // namespace weft::mpi::ft

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Comm_agree)(MPI_Comm comm, int* flag) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (flag == nullptr) return raise(object, MPI_ERR_ARG, __func__, "flag is null");
  return ft::run(*object, std::make_unique<ft::Agree>(*object, flag), nullptr, __func__);
}
MPIX_ALIAS(Comm_agree)

MPI_FUNCTION(Comm_iagree)(MPI_Comm comm, int* flag, MPI_Request* request) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (flag == nullptr || request == nullptr)
    return raise(object, MPI_ERR_ARG, __func__, "flag or request is null");
  return ft::run(*object, std::make_unique<ft::Agree>(*object, flag), request, __func__);
}
MPIX_ALIAS(Comm_iagree)
