// The first version of PMI: lines of fields with blanks between them. MPICH's Hydra speaks it.
#include <fmt/core.h>

#include <algorithm>

#include "job/pmi/client.hpp"
#include "job/rendezvous_wire.hpp"

namespace weft::pmi {
namespace {

class Version1 final : public Client {
 public:
  Version1(int fd, const ProcessInfo& info) : connection_(fd) { info_ = info; }

  Status join(Deadline deadline) {
    Answer answer;
    Status status = connection_.ask_line("cmd=init pmi_version=1 pmi_subversion=1",
                                         "response_to_init", deadline, answer);
    if (!status) return status;
    if (answer.field("rc") != "0")
      return {Code::unsupported, "the launcher's PMI server does not speak version 1 of PMI"};
    status = connection_.ask_line("cmd=get_maxes", "maxes", deadline, answer);
    if (!status) return status;
    int max_value_bytes = 0;
    if (!answer.number("vallen_max", 64, 1 << 20, max_value_bytes))
      return {Code::corrupt, "the launcher's PMI server gives no length of values"};
    info_.version = 1;
    // A part of it may be the end of the text there.
    info_.max_value_bytes = static_cast<std::size_t>(max_value_bytes) - 16;
    status = connection_.ask_line("cmd=get_appnum", "appnum", deadline, answer);
    if (!status) return status;
    (void)answer.number("appnum", 0, rendezvous::kMaxRanks, info_.app_number);
    status = connection_.ask_line("cmd=get_my_kvsname", "my_kvsname", deadline, answer);
    if (!status) return status;
    space_ = answer.field("kvsname");
    if (space_.empty()) return {Code::corrupt, "the launcher's PMI server names no space of keys"};
    return {};
  }

  Status put(std::string_view key, std::string_view value, Deadline deadline) override {
    Answer answer;
    Status status =
        connection_.ask_line(fmt::format("cmd=put kvsname={} key={} value={}", space_, key, value),
                             "put_result", deadline, answer);
    if (status && answer.field("rc") != "0")
      return {Code::internal, fmt::format("the launcher's PMI server refuses the key {}: {}", key,
                                          answer.field("msg"))};
    return status;
  }
  Status fence(Deadline deadline) override {
    Answer answer;
    return connection_.ask_line("cmd=barrier_in", "barrier_out", deadline, answer);
  }
  Status get(std::string_view key, std::string& value, Deadline deadline) override {
    Answer answer;
    Status status = connection_.ask_line(fmt::format("cmd=get kvsname={} key={}", space_, key),
                                         "get_result", deadline, answer);
    if (status && answer.field("rc") != "0")
      return {Code::not_found, fmt::format("the launcher's PMI server knows no key {}", key)};
    value = answer.field("value");
    return status;
  }
  void abort(int exit_code, std::string_view) override {
    const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    (void)connection_.send(fmt::format("cmd=abort exitcode={}\n", exit_code), soon);
  }
  void finalize() override {
    Answer answer;
    const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    (void)connection_.ask_line("cmd=finalize", "finalize_ack", soon, answer);
  }

 private:
  Connection connection_;
  std::string space_;
};

}  // namespace

Status join_version_1(int fd, const ProcessInfo& info, Deadline deadline,
                      std::unique_ptr<Client>& client) {
  auto joined = std::make_unique<Version1>(fd, info);
  Status status = joined->join(deadline);
  if (status) client = std::move(joined);
  return status;
}

}  // namespace weft::pmi
