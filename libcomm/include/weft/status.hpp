#pragma once
// Status: the result of an operation of Weft.
//
// Used by every layer and by programs. A Status is one byte of code and, off the hot path, a
// message with the event, the peer or object concerned, and what to do. Values are immutable; any
// thread may use its own copies. "again" is back-pressure and never a failure: the caller makes
// progress and retries.
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "weft/export.hpp"

namespace weft {

enum class Code : unsigned char {
  ok = 0,
  again,            // no room now (ring credit, table slot); progress and retry
  bad_argument,     // the caller passed something the contract forbids
  bad_setting,      // a WEFT_ variable is unknown or has a bad value
  no_memory,        // memory, address space or a kernel resource is exhausted
  not_permitted,    // the kernel or the owner of the memory refused the access
  not_found,        // no such key, file, device or host
  truncated,        // the message is longer than the receiver's buffer
  peer_lost,        // the peer process or its host is gone
  timed_out,        // the bounded wait ended
  corrupt,          // bytes from outside break the format
  unsupported,      // this build or machine cannot do it
  cancelled,        // the operation was cancelled
  internal,         // a bug of Weft
  outcome_unknown,  // an atomic operation whose link broke: it was done, or was not
  exists,           // the name is taken
};

// The code's name in lower case, for logs and tests.
WEFT_API std::string_view code_name(Code code) noexcept;
inline std::string to_string(Code code) { return std::string(code_name(code)); }

class [[nodiscard]] WEFT_API Status {
 public:
  Status() noexcept = default;
  Status(Code code) noexcept : code_(code) {}  // NOLINT(google-explicit-constructor)
  Status(Code code, std::string message)
      : code_(code), message_(std::make_shared<const std::string>(std::move(message))) {}

  bool ok() const noexcept { return code_ == Code::ok; }
  explicit operator bool() const noexcept { return ok(); }
  Code code() const noexcept { return code_; }
  // The message, or the code's name when none was given.
  std::string text() const;

 private:
  Code code_ = Code::ok;
  std::shared_ptr<const std::string> message_;
};

inline bool operator==(const Status& status, Code code) noexcept { return status.code() == code; }

// The exception of constructors.
class WEFT_API Error : public std::runtime_error {
 public:
  explicit Error(Status status) : std::runtime_error(status.text()), status_(std::move(status)) {}
  const Status& status() const noexcept { return status_; }

 private:
  Status status_;
};

}  // namespace weft
