// The second version of PMI: frames of fields with semicolons. Slurm's srun --mpi=pmi2 speaks it,
// and Hydra to clients that ask for it.
#include <fmt/core.h>
#include <stdlib.h>

#include "job/pmi/client.hpp"
#include "job/rendezvous_wire.hpp"

namespace weft::pmi {
namespace {

// The most bytes that the protocol allows in a value.
constexpr std::size_t kMaxValueBytes = 1024;

class Version2 final : public Client {
 public:
  explicit Version2(int fd) : connection_(fd) {}

  Status join(Deadline deadline) {
    Answer answer;
    Status status = connection_.ask_line("cmd=init pmi_version=2 pmi_subversion=0",
                                         "response_to_init", deadline, answer);
    if (!status) return status;
    if (answer.field("rc") != "0" || answer.field("pmi_version") != "2")
      return {Code::unsupported, "the launcher's PMI server does not speak version 2 of PMI"};
    const char* id = getenv("PMI_JOBID");
    const char* rank = getenv("PMI_RANK");
    status =
        connection_.ask_frame(fmt::format("cmd=fullinit;pmijobid={};pmirank={};threaded=FALSE;",
                                          id != nullptr ? id : "", rank != nullptr ? rank : ""),
                              "fullinit-response", deadline, answer);
    if (!status) return status;
    if (Status good = check(answer, "fullinit"); !good) return good;
    info_.version = 2;
    info_.max_value_bytes = kMaxValueBytes - 16;
    if (!answer.number("size", 1, rendezvous::kMaxRanks, info_.size) ||
        !answer.number("rank", 0, info_.size - 1, info_.rank))
      return {Code::corrupt, "the launcher's PMI server gives no valid rank and size"};
    (void)answer.number("appnum", 0, rendezvous::kMaxRanks, info_.app_number);
    status = connection_.ask_frame("cmd=job-getid;", "job-getid-response", deadline, answer);
    if (!status) return status;
    job_ = answer.field("jobid");
    return check(answer, "job-getid");
  }

  Status put(std::string_view key, std::string_view value, Deadline deadline) override {
    Answer answer;
    Status status = connection_.ask_frame(fmt::format("cmd=kvs-put;key={};value={};", key, value),
                                          "kvs-put-response", deadline, answer);
    return status ? check(answer, "kvs-put") : status;
  }
  Status fence(Deadline deadline) override {
    Answer answer;
    Status status = connection_.ask_frame("cmd=kvs-fence;", "kvs-fence-response", deadline, answer);
    return status ? check(answer, "kvs-fence") : status;
  }
  Status get(std::string_view key, std::string& value, Deadline deadline) override {
    Answer answer;
    Status status =
        connection_.ask_frame(fmt::format("cmd=kvs-get;jobid={};srcid=-1;key={};", job_, key),
                              "kvs-get-response", deadline, answer);
    if (status && answer.field("found") != "TRUE")
      return {Code::not_found, fmt::format("the launcher's PMI server knows no key {}", key)};
    value = answer.field("value");
    return status;
  }
  void abort(int exit_code, std::string_view message) override {
    const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    // A semicolon would end the message.
    std::string text(message);
    for (char& letter : text)
      if (letter == ';' || letter == '\n') letter = ',';
    const std::string frame =
        fmt::format("cmd=abort;isworld=TRUE;msg={};exitcode={};", text, exit_code);
    (void)connection_.send(fmt::format("{:>6}{}", frame.size(), frame), soon);
  }
  void finalize() override {
    Answer answer;
    const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    (void)connection_.ask_frame("cmd=finalize;", "finalize-response", soon, answer);
  }

 private:
  static Status check(const Answer& answer, std::string_view request) {
    if (answer.field("rc") == "0") return {};
    return {Code::internal, fmt::format("the launcher's PMI server refuses {}: {}", request,
                                        answer.field("errmsg"))};
  }

  Connection connection_;
  std::string job_;
};

}  // namespace

Status join_version_2(int fd, Deadline deadline, std::unique_ptr<Client>& client) {
  auto joined = std::make_unique<Version2>(fd);
  Status status = joined->join(deadline);
  if (status) client = std::move(joined);
  return status;
}

}  // namespace weft::pmi
