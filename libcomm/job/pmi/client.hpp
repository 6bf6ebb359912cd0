#pragma once
// A process of a job as a PMI server knows it: its rank, and a space of keys that all write to and
// read after a fence. Two implementations, for the two versions of the protocol. Every call ends by
// its deadline. One thread at a time, but for abort.
#include <memory>
#include <string>
#include <string_view>

#include "job/pmi/wire.hpp"

namespace weft::pmi {

// The process's place in the job, known once it has joined.
struct ProcessInfo {
  int version = 1;
  int rank = 0;
  int size = 1;
  int app_number = 0;
  std::size_t max_value_bytes = 0;  // of a value as text
};

class Client {
 public:
  virtual ~Client() = default;
  const ProcessInfo& info() const { return info_; }
  // Once for every key, of 64 letters at most.
  virtual Status put(std::string_view key, std::string_view value, Deadline deadline) = 0;
  virtual Status fence(Deadline deadline) = 0;
  // not_found if no rank has put it.
  virtual Status get(std::string_view key, std::string& value, Deadline deadline) = 0;
  // The launcher ends the job with this code.
  virtual void abort(int exit_code, std::string_view message) = 0;
  // After it the process may exit without being taken for dead.
  virtual void finalize() = 0;

 protected:
  ProcessInfo info_;
};

// Joins over a connected socket; `info` has rank and size if the environment had them.
Status join_version_1(int fd, const ProcessInfo& info, Deadline deadline,
                      std::unique_ptr<Client>& client);
Status join_version_2(int fd, Deadline deadline, std::unique_ptr<Client>& client);

}  // namespace weft::pmi
