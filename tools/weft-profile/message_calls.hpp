#pragma once
// Logs the messages of calls (messages.hpp): which functions send, receive and complete requests,
// and where their arguments tell of it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "arguments.hpp"
#include "counts.hpp"
#include "messages.hpp"
#include "report.hpp"

namespace weft::profile {

constexpr std::string_view kBlockingSends[] = {"Send", "Bsend", "Ssend", "Rsend"};
constexpr std::string_view kRequestedSends[] = {"Isend", "Ibsend", "Issend", "Irsend"};
constexpr std::string_view kPersistentSends[] = {"Send_init", "Bsend_init", "Ssend_init",
                                                 "Rsend_init"};
// Both: two ends.
constexpr std::string_view kExchanges[] = {"Sendrecv", "Sendrecv_replace"};
constexpr std::string_view kRequestedExchanges[] = {"Isendrecv", "Isendrecv_replace"};
// Functions that complete requests, and those of them that wait.
constexpr std::string_view kCompletions[] = {"Wait", "Waitany", "Waitsome", "Waitall",
                                             "Test", "Testany", "Testsome", "Testall"};
constexpr std::string_view kWaits[] = {"Wait", "Waitany", "Waitsome", "Waitall"};
// Functions whose status says what a receive has got.
constexpr std::string_view kWithStatus[] = {"Recv",  "Sendrecv", "Sendrecv_replace",
                                            "Probe", "Mprobe",   "Improbe"};

// Logs the messages of a call that has moved them.
template <std::size_t function, class... Arguments>
void log_messages(std::uint64_t start, std::uint64_t end, Arguments... arguments) {
  constexpr std::string_view kName = plain(kFunctionNames[function]);
  using Kind = End::Kind;
  const Ints<Arguments...> ints(arguments...);
  const MPI_Comm comm = first_of<MPI_Comm>(MPI_COMM_NULL, arguments...);
  [[maybe_unused]] const MPI_Status* status = first_of<MPI_Status*>(nullptr, arguments...);
  [[maybe_unused]] const MPI_Request* request = first_of<MPI_Request*>(nullptr, arguments...);
  const auto waited = [&](std::uint32_t one, std::uint32_t other = kNone) {
    const std::uint32_t both[] = {one, other};
    log_call(both, start, end, is_counting());
  };
  const auto got = [&](Kind kind) {
    return log_end(kind, comm, status->MPI_SOURCE, status->MPI_TAG, start);
  };
  // The send of an exchange: behind its datatype.
  [[maybe_unused]] const auto given = [&] {
    constexpr bool kIsReplace = kName.ends_with("_replace");
    const std::size_t counts = std::string_view(kFunctionNames[function]).ends_with("_c") ? 0 : 1;
    const std::size_t first = kIsReplace ? 3 : 3 + counts;
    return log_end(Kind::send, comm, ints.last(first), ints.last(first - 1), start);
  };
  if constexpr (is_one_of(kName, kBlockingSends)) {
    waited(log_end(Kind::send, comm, ints.last(1), ints.last(0), start));
  } else if constexpr (is_one_of(kName, kRequestedSends)) {
    log_request(*request, log_end(Kind::send, comm, ints.last(1), ints.last(0), start), comm);
  } else if constexpr (is_one_of(kName, kExchanges)) {
    const std::uint32_t sent = given();
    waited(sent, got(Kind::receive));
  } else if constexpr (is_one_of(kName, kRequestedExchanges)) {
    given();
    log_request(*request, log_end(Kind::receive, comm, ints.last(1), ints.last(0), start), comm);
  } else if constexpr (kName == "Recv" || kName == "Mprobe") {
    waited(got(Kind::receive));
  } else if constexpr (kName == "Probe") {
    waited(got(Kind::probe));
  } else if constexpr (kName == "Improbe") {
    if (*first_of<int*>(nullptr, arguments...) != 0) got(Kind::receive);
  } else if constexpr (kName == "Irecv") {
    log_request(*request, log_end(Kind::receive, comm, ints.last(1), ints.last(0), start), comm);
  } else if constexpr (kName == "Recv_init") {
    log_persistent(*request, Kind::receive, comm, ints.last(1), ints.last(0));
  } else if constexpr (is_one_of(kName, kPersistentSends)) {
    log_persistent(*request, Kind::send, comm, ints.last(1), ints.last(0));
  }
}

// Returns true if the call has moved its messages: also if one was longer than its buffer.
inline bool has_moved(int code) {
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) PMPI_Error_class(code, &error_class);
  return error_class == MPI_SUCCESS || error_class == MPI_ERR_TRUNCATE;
}

// Calls a function with a status of the tool's own where the program wants none.
template <class... Arguments>
int call_with_status(int (*own)(Arguments...), std::uint64_t& end, auto&& log_it,
                     std::type_identity_t<Arguments>... arguments) {
  MPI_Status status;
  std::tuple<Arguments...> given(arguments...);
  MPI_Status*& place = std::get<MPI_Status*>(given);
  if (place == MPI_STATUS_IGNORE) place = &status;
  const int code = std::apply(own, given);
  end = now_ns();
  if (has_moved(code)) std::apply(log_it, given);
  return code;
}

// Calls a function that completes requests, and logs those that it has completed.
template <std::size_t function, class... Arguments>
int call_completing(int (*own)(Arguments...), std::uint64_t start, std::uint64_t& end,
                    Arguments... arguments) {
  constexpr std::string_view kName = plain(kFunctionNames[function]);
  constexpr bool kIsOne = kName == "Wait" || kName == "Test";
  constexpr bool kIsAny = kName == "Waitany" || kName == "Testany";
  constexpr bool kIsSome = kName == "Waitsome" || kName == "Testsome";
  const MPI_Request* requests = first_of<MPI_Request*>(nullptr, arguments...);
  const int count = kIsOne ? 1 : first_of<int>(0, arguments...);
  std::size_t num = requests != nullptr && count > 0 ? static_cast<std::size_t>(count) : 0;
  Elements<Pending> pending(num);
  num = pending.size();
  const bool is_logged = num != 0 && find_pending({requests, num}, pending.data());
  std::tuple<Arguments...> given(arguments...);
  MPI_Status*& statuses = std::get<MPI_Status*>(given);
  Elements<MPI_Status> own_statuses(is_logged ? (kIsOne || kIsAny ? 1 : num) : 0);
  if (own_statuses.size() != 0 && statuses == MPI_STATUSES_IGNORE) statuses = own_statuses.data();
  const int code = std::apply(own, given);
  end = now_ns();
  if (!is_logged) return code;
  if (code != MPI_SUCCESS || own_statuses.size() == 0) {
    for (std::size_t i = 0; i < num; ++i)
      if (requests[i] == MPI_REQUEST_NULL) drop(pending[i]);
    return code;
  }
  // Testany has an index and a flag, Testall and Test a flag, Waitsome and Testsome a number.
  const auto numbers = [&] {
    std::array<const int*, 3> all{};
    std::size_t i = 0;
    const auto add = [&](auto argument) {
      if constexpr (std::is_same_v<decltype(argument), int*>) all[i++] = argument;
    };
    (add(arguments), ...);
    return all;
  }();
  Elements<std::uint32_t> ends(num);
  std::size_t num_ends = 0;
  const auto note = [&](std::size_t i, const MPI_Status& status) {
    if (num_ends < ends.size()) ends[num_ends++] = complete(pending[i], status);
  };
  if constexpr (kIsOne) {
    if (kName == "Wait" || *numbers[0] != 0) note(0, statuses[0]);
  } else if constexpr (kIsAny) {
    const bool is_done = kName == "Waitany" || *numbers[1] != 0;
    if (is_done && *numbers[0] != MPI_UNDEFINED)
      note(static_cast<std::size_t>(*numbers[0]), statuses[0]);
  } else if constexpr (kIsSome) {
    for (int i = 0; *numbers[0] != MPI_UNDEFINED && i < *numbers[0]; ++i)
      note(static_cast<std::size_t>(numbers[1][i]), statuses[i]);
  } else {
    if (kName == "Waitall" || *numbers[0] != 0)
      for (std::size_t i = 0; i < num; ++i) note(i, statuses[i]);
  }
  if constexpr (is_one_of(kName, kWaits))
    log_call({ends.data(), num_ends}, start, end, is_counting());
  return code;
}

}  // namespace weft::profile
