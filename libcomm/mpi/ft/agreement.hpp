#pragma once
// AgreementOperation: the operation of a call that agrees, which ends with the decision. What
// differs between the calls is what they make of it.
#include <memory>

#include "mpi/core/request.hpp"
#include "mpi/ft/control.hpp"

namespace weft::mpi::ft {

class AgreementOperation : public Operation {
 public:
  // Takes its turn among the agreements of the communicator: nothing may fail any more before it is
  // added to the operations under way.
  Code start() override;
  bool advance(Code& code) override;
  int failure(Code code, const Comm*) const noexcept override {
    return error_ != MPI_SUCCESS || code == Code::ok ? error_ : error_class(code);
  }

 protected:
  AgreementOperation(Comm& comm, std::uint32_t kind, std::uint32_t flags)
      : comm_(comm), agreements_(agreements_of(comm)), kind_(kind), flags_(flags) {}
  // Called once, with the decision. Returns MPI_SUCCESS or the error class.
  virtual int conclude(const Decision& decision) = 0;

  Comm& comm_;  // counted by the request
  const std::shared_ptr<Agreements> agreements_;
  std::uint32_t context_ = 0;  // offered

 private:
  void begin();

  const std::uint32_t kind_, flags_;
  std::uint32_t turn_ = 0;
  bool has_begun_ = false;
  int error_ = MPI_SUCCESS;
};

// Starts the operation: its handle goes to `out`, or without `out` the call waits for it.
int run(Comm& comm, std::unique_ptr<AgreementOperation> operation, MPI_Request* out,
        const char* function);

}  // namespace weft::mpi::ft
