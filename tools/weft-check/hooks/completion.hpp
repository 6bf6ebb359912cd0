#pragma once
// Calls that start and complete requests.
#include <vector>

#include "tools/weft-check/hooks/arguments.hpp"
#include "tools/weft-check/state/requests.hpp"

namespace weft::check {

constexpr bool is_completion(std::string_view name) {
  return is_one_of(name, "Wait", "Test", "Waitall", "Testall", "Waitany", "Testany", "Waitsome",
                   "Testsome", "Start", "Startall", "Request_free", "Cancel");
}

inline int class_of(int code) {
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) PMPI_Error_class(code, &error_class);
  return error_class;
}

// Of the requests of an array, before the call changes it.
class Handles {
 public:
  Handles(int number, const MPI_Request* requests) : places_(requests) {
    if (number <= 0 || requests == nullptr) return;
    if (number <= kFew)
      handles_ = few_;
    else
      handles_ = (many_.resize(static_cast<std::size_t>(number)), many_.data());
    number_ = number;
    for (int i = 0; i < number; ++i) handles_[i] = requests[i];
  }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  int number() const { return number_; }
  // The operation of the handle is complete.
  void end(int i, const MPI_Status& status, int error_class = MPI_SUCCESS) const {
    if (const MPI_Request handle = (*this)[i]; handle != MPI_REQUEST_NULL)
      end_request(handle, places_ + i, status, error_class);
  }
  // The call has failed; it has ended those whose handles are gone.
  void end_failed(int code, const MPI_Status* statuses) const {
    for (int i = 0; i < number_; ++i) {
      if (places_[i] != MPI_REQUEST_NULL) continue;
      int error_class = class_of(code);
      if (error_class == MPI_ERR_IN_STATUS) error_class = class_of(statuses[i].MPI_ERROR);
      end(i, statuses[number_ == 1 ? 0 : i], error_class);
    }
  }
  // The call has failed and has ended the one whose handle is gone, if any.
  void end_failed_one(int code, const MPI_Status& status) const {
    for (int i = 0; i < number_; ++i)
      if (handles_[i] != MPI_REQUEST_NULL && places_[i] == MPI_REQUEST_NULL)
        end(i, status, class_of(code));
  }
  MPI_Request operator[](int i) const {
    return i >= 0 && i < number_ ? handles_[i] : MPI_REQUEST_NULL;
  }

 private:
  static constexpr int kFew = 16;
  MPI_Request few_[kFew];
  std::vector<MPI_Request> many_;
  const MPI_Request* places_;
  MPI_Request* handles_ = nullptr;
  int number_ = 0;
};

// The program's statuses, or ones of this library where it wants none.
class Statuses {
 public:
  Statuses(int number, MPI_Status*& statuses) {
    if (statuses == MPI_STATUSES_IGNORE && number > 0) {
      if (number <= kFew)
        statuses = few_;
      else
        statuses = (many_.resize(static_cast<std::size_t>(number)), many_.data());
    }
  }
  Statuses(const Statuses&) = delete;
  Statuses& operator=(const Statuses&) = delete;

 private:
  static constexpr int kFew = 16;
  MPI_Status few_[kFew];
  std::vector<MPI_Status> many_;
};

constexpr bool is_status_query(std::string_view name) {
  return name.starts_with("Request_get_status");
}

// MPI_Request_get_status and its like: the program knows which requests are complete.
template <std::size_t function, class... A>
int call_status_query(Own<A...> own, A... a) {
  constexpr std::string_view kName = kPlain<function>;
  const int code = own(a...);
  if (code != MPI_SUCCESS) return code;
  if constexpr (kName == "Request_get_status") {
    if (*argument<1>(a...) != 0) note_known(argument<0>(a...));
  } else if constexpr (kName == "Request_get_status_all") {
    if (*argument<2>(a...) != 0)
      for (int i = 0; i < argument<0>(a...); ++i) note_known(argument<1>(a...)[i]);
  } else if constexpr (kName == "Request_get_status_any") {
    if (*argument<3>(a...) != 0 && *argument<2>(a...) != MPI_UNDEFINED)
      note_known(argument<1>(a...)[*argument<2>(a...)]);
  } else {
    for (int i = 0; i < *argument<2>(a...); ++i)
      note_known(argument<1>(a...)[argument<3>(a...)[i]]);
  }
  return code;
}

inline void end_all(const Handles& handles, const MPI_Status* statuses, int code) {
  if (code != MPI_SUCCESS) return handles.end_failed(code, statuses);
  for (int i = 0; i < handles.number(); ++i) handles.end(i, statuses[i]);
}

template <std::size_t function, class... A>
int call_completion(Own<A...> own, A... a) {
  constexpr std::string_view kName = kPlain<function>;
  if constexpr (kName == "Start" || kName == "Request_free" || kName == "Cancel") {
    MPI_Request* request = argument<0>(a...);
    if (request != nullptr && *request != MPI_REQUEST_NULL) {
      if constexpr (kName == "Start")
        start_request(*request);
      else if constexpr (kName == "Cancel")
        cancel_request(request);
      else
        free_request(request);
    }
    return own(a...);
  } else if constexpr (kName == "Startall") {
    const Handles handles(argument<0>(a...), argument<1>(a...));
    for (int i = 0; i < handles.number(); ++i) start_request(handles[i]);
    return own(a...);
  } else if constexpr (kName == "Wait") {
    const Handles handles(1, argument<0>(a...));
    const Statuses statuses(1, argument<1>(a...));
    const int code = own(a...);
    end_all(handles, argument<1>(a...), code);
    return code;
  } else if constexpr (kName == "Test") {
    const Handles handles(1, argument<0>(a...));
    const Statuses statuses(1, argument<2>(a...));
    const int code = own(a...);
    if (code != MPI_SUCCESS || *argument<1>(a...) != 0) end_all(handles, argument<2>(a...), code);
    return code;
  } else if constexpr (kName == "Waitall") {
    const Handles handles(argument<0>(a...), argument<1>(a...));
    const Statuses statuses(handles.number(), argument<2>(a...));
    const int code = own(a...);
    end_all(handles, argument<2>(a...), code);
    return code;
  } else if constexpr (kName == "Testall") {
    const Handles handles(argument<0>(a...), argument<1>(a...));
    const Statuses statuses(handles.number(), argument<3>(a...));
    const int code = own(a...);
    if (code != MPI_SUCCESS || *argument<2>(a...) != 0) end_all(handles, argument<3>(a...), code);
    return code;
  } else if constexpr (kName == "Waitany") {
    const Handles handles(argument<0>(a...), argument<1>(a...));
    const Statuses statuses(1, argument<3>(a...));
    const int code = own(a...);
    if (code != MPI_SUCCESS)
      handles.end_failed_one(code, *argument<3>(a...));
    else if (*argument<2>(a...) != MPI_UNDEFINED)
      handles.end(*argument<2>(a...), *argument<3>(a...));
    return code;
  } else if constexpr (kName == "Testany") {
    const Handles handles(argument<0>(a...), argument<1>(a...));
    const Statuses statuses(1, argument<4>(a...));
    const int code = own(a...);
    if (code != MPI_SUCCESS)
      handles.end_failed_one(code, *argument<4>(a...));
    else if (*argument<3>(a...) != 0 && *argument<2>(a...) != MPI_UNDEFINED)
      handles.end(*argument<2>(a...), *argument<4>(a...));
    return code;
  } else {  // Waitsome, Testsome
    const Handles handles(argument<0>(a...), argument<1>(a...));
    const Statuses statuses(handles.number(), argument<4>(a...));
    const int code = own(a...);
    const bool has_failed = class_of(code) == MPI_ERR_IN_STATUS;
    if ((code == MPI_SUCCESS || has_failed) && *argument<2>(a...) != MPI_UNDEFINED)
      for (int i = 0; i < *argument<2>(a...); ++i) {
        const MPI_Status& status = argument<4>(a...)[i];
        handles.end(argument<3>(a...)[i], status,
                    has_failed ? class_of(status.MPI_ERROR) : MPI_SUCCESS);
      }
    return code;
  }
}

}  // namespace weft::check
