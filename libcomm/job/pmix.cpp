// The board of a process that a PMIx launcher started: Open MPI's mpirun, prterun, srun --mpi=pmix.
#include "job/boards.hpp"

#include <stdlib.h>
#include <unistd.h>

#ifndef WEFT_HAVE_PMIX

namespace weft {

bool pmix_is_there() noexcept { return getenv("PMIX_RANK") && getenv("PMIX_NAMESPACE"); }

Status make_pmix_board(Party, std::unique_ptr<Board>&) {
  return {Code::unsupported,
          "this process was started by a PMIx launcher, but Weft was built without PMIx"};
}

}  // namespace weft

#else

#include <fmt/core.h>
#include <pmix.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "base/log.hpp"
#include "base/os/thread.hpp"

namespace weft {
namespace {

constexpr const char* kArrivedKey = "weft.arrived";

// PMIx cannot begin again once it has ended, and an MPI in this process may still want to begin. So
// it ends with the process, for every board that was closed.
std::atomic<int> num_closed{0};

void finalize_at_exit() {
  for (int i = num_closed.load(); i > 0; --i) (void)PMIx_Finalize(nullptr, 0);
}

// The outcome of a fence. Shared with PMIx's thread, which may report after the waiter gave up.
struct FenceResult {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  pmix_status_t status = PMIX_SUCCESS;
};

void on_fence_done(pmix_status_t status, void* argument) {
  const std::unique_ptr<std::shared_ptr<FenceResult> > owner(
      static_cast<std::shared_ptr<FenceResult>*>(argument));
  FenceResult& result = **owner;
  const std::lock_guard lock(result.mutex);
  result.done = true;
  result.status = status;
  result.changed.notify_all();
}

Status pmix_error(Code code, std::string_view call, pmix_status_t status) {
  return {code, fmt::format("{}: {}", call, PMIx_Error_string(status))};
}

class PmixBoard final : public Board {
 public:
  ~PmixBoard() override = default;  // without close() the launcher must take the process for dead

  explicit PmixBoard(Party party) : party_(party) {}
  Status join();

  int rank() const noexcept override { return static_cast<int>(self_.rank); }
  int size() const noexcept override { return size_; }
  std::string_view launcher() const noexcept override { return "pmix"; }

  Status put(std::string_view key, std::string_view value) override;
  Status fence(int timeout_ms) override;
  Status get(int rank, std::string_view key, std::string& value) override;
  Status publish(std::string_view service, std::string_view port) override;
  Status look_up(std::string_view service, std::string& port) override;
  Status unpublish(std::string_view service) override;
  void abort(int exit_code, std::string_view message) override;
  Status close() override;

 private:
  pmix_proc_t proc_of(int rank) const {
    pmix_proc_t proc = self_;
    proc.rank = static_cast<pmix_rank_t>(rank);
    return proc;
  }
  // PMIX_ERR_TIMEOUT: not all have come by then.
  pmix_status_t fence_once(std::chrono::steady_clock::time_point deadline);
  std::string name_missing(unsigned fence);
  pmix_status_t read(int rank, const std::string& key, const char* how, pmix_value_t*& value) const;
  // All boards of a process write to the same place.
  std::string own(std::string_view key) const {
    return fmt::format("{}{}", party_ == Party::mpi ? "m." : "t.", key);
  }

  const Party party_;

  pmix_proc_t self_{};
  int size_ = 0;
  unsigned num_fences_ = 0;
};

Status PmixBoard::join() {
  pmix_status_t result = PMIX_SUCCESS;
  {
    const SignalsBlocked blocked;  // it starts a thread
    result = PMIx_Init(&self_, nullptr, 0);
  }
  if (result != PMIX_SUCCESS) return pmix_error(Code::peer_lost, "PMIx_Init", result);
  pmix_proc_t job = self_;
  job.rank = PMIX_RANK_WILDCARD;
  pmix_value_t* value = nullptr;
  result = PMIx_Get(&job, PMIX_JOB_SIZE, nullptr, 0, &value);
  if (result != PMIX_SUCCESS) return pmix_error(Code::not_found, "PMIx job size", result);
  const bool good = value->type == PMIX_UINT32 && value->data.uint32 > self_.rank;
  if (good) size_ = static_cast<int>(value->data.uint32);
  PMIX_VALUE_RELEASE(value);
  if (!good) return {Code::corrupt, "the PMIx launcher gave no valid job size"};
  return {};
}

Status PmixBoard::put(std::string_view key, std::string_view value) {
  const std::string name = own(key);
  if (name.size() > PMIX_MAX_KEYLEN)
    return {Code::bad_argument, fmt::format("key \"{}\" is too long", key)};
  pmix_value_t entry{};
  entry.type = PMIX_BYTE_OBJECT;
  entry.data.bo.bytes = const_cast<char*>(value.data());  // copied by PMIx_Put
  entry.data.bo.size = value.size();
  const pmix_status_t result = PMIx_Put(PMIX_GLOBAL, name.c_str(), &entry);
  if (result != PMIX_SUCCESS) return pmix_error(Code::internal, "PMIx_Put", result);
  return {};
}

Status PmixBoard::fence(int timeout_ms) {
  // Which fence this process has reached, for the others to read if they wait in vain.
  const unsigned number = ++num_fences_;
  Status status = put(fmt::format("{}.{}", kArrivedKey, number), "1");
  if (!status) return status;
  pmix_status_t result = PMIx_Commit();
  if (result != PMIX_SUCCESS) return pmix_error(Code::internal, "PMIx_Commit", result);

  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  // The first fence of a process that has ended PMIx before, as MPI_Finalize does: the launcher may
  // see another rank's end while this one's fence waits, takes that rank for lost, and ends the
  // fence of the ranks at it (PMIx 4.2: "partial success"). They try again, and meet the late one.
  // The attempts are limited, as they do not help if a rank is really lost.
  constexpr int kAttempts = 20;
  for (int attempt = 1;; ++attempt) {
    result = fence_once(deadline);
    if (result != PMIX_ERR_PARTIAL_SUCCESS || number != 1 || attempt == kAttempts) break;
    log_line(LogLevel::debug, rank(), "PMIx's fence was for some only; again");
  }
  if (result == PMIX_ERR_TIMEOUT)
    return {Code::timed_out, fmt::format("after {} ms {}", timeout_ms, name_missing(number))};
  if (result != PMIX_SUCCESS) return pmix_error(Code::peer_lost, "PMIx_Fence", result);
  return {};
}

pmix_status_t PmixBoard::fence_once(std::chrono::steady_clock::time_point deadline) {
  auto shared = std::make_shared<FenceResult>();
  pmix_info_t info;
  PMIX_INFO_CONSTRUCT(&info);
  bool collect = true;
  PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
  auto* argument = new std::shared_ptr<FenceResult>(shared);
  const pmix_status_t result = PMIx_Fence_nb(nullptr, 0, &info, 1, on_fence_done, argument);
  if (result != PMIX_SUCCESS) {
    delete argument;
    // "operation succeeded" means: done at once, and the callback will not be called.
    return result == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : result;
  }
  std::unique_lock lock(shared->mutex);
  if (!shared->changed.wait_until(lock, deadline, [&] { return shared->done; }))
    return PMIX_ERR_TIMEOUT;
  return shared->status;
}

std::string PmixBoard::name_missing(unsigned fence) {
  const std::string key = own(fmt::format("{}.{}", kArrivedKey, fence));
  std::vector<int> missing;
  for (int i = 0; i < size_; ++i) {
    pmix_value_t* value = nullptr;
    if (i != rank() && read(i, key, PMIX_IMMEDIATE, value) != PMIX_SUCCESS) missing.push_back(i);
    if (value != nullptr) PMIX_VALUE_RELEASE(value);
  }
  if (missing.empty()) return "the launcher has not ended a fence that all have reached";
  return fmt::format("{} {} not come to the fence", name_ranks(missing),
                     missing.size() == 1 ? "has" : "have");
}

// how: PMIX_OPTIONAL searches this process alone, PMIX_IMMEDIATE the launcher too; neither waits.
pmix_status_t PmixBoard::read(int rank, const std::string& key, const char* how,
                              pmix_value_t*& value) const {
  const pmix_proc_t proc = proc_of(rank);
  pmix_info_t info;
  PMIX_INFO_CONSTRUCT(&info);
  bool yes = true;
  PMIX_INFO_LOAD(&info, how, &yes, PMIX_BOOL);
  return PMIx_Get(&proc, key.c_str(), &info, 1, &value);
}

Status PmixBoard::get(int rank, std::string_view key, std::string& value) {
  pmix_value_t* entry = nullptr;
  // After a fence that collects, all values lie in this process. After one that began as a fence of
  // some only, the values of the late ones may have stayed with the launcher.
  pmix_status_t result = read(rank, own(key), PMIX_OPTIONAL, entry);
  if (result != PMIX_SUCCESS) result = read(rank, own(key), PMIX_IMMEDIATE, entry);
  if (result != PMIX_SUCCESS || entry->type != PMIX_BYTE_OBJECT) {
    if (result == PMIX_SUCCESS) PMIX_VALUE_RELEASE(entry);
    return {Code::not_found, fmt::format("rank {} has published no \"{}\"", rank, key)};
  }
  value.assign(entry->data.bo.bytes, entry->data.bo.size);
  PMIX_VALUE_RELEASE(entry);
  return {};
}

// The launcher's data store is for all programs.
Status service_key(std::string_view service, std::string& key) {
  key = fmt::format("weft.name.{}", service);
  if (key.size() <= PMIX_MAX_KEYLEN) return {};
  return {Code::bad_argument, fmt::format("the name '{}' is too long for PMIx", service)};
}

Status PmixBoard::publish(std::string_view service, std::string_view port) {
  std::string key, known;
  if (Status status = service_key(service, key); !status) return status;
  // Not all launchers refuse a second one.
  if (look_up(service, known))
    return {Code::exists, fmt::format("'{}' is published already", service)};
  pmix_info_t info;
  PMIX_INFO_CONSTRUCT(&info);
  PMIX_INFO_LOAD(&info, key.c_str(), std::string(port).c_str(), PMIX_STRING);
  const pmix_status_t result = PMIx_Publish(&info, 1);
  PMIX_INFO_DESTRUCT(&info);
  return result == PMIX_SUCCESS ? Status() : pmix_error(Code::unsupported, "PMIx_Publish", result);
}

Status PmixBoard::look_up(std::string_view service, std::string& port) {
  std::string key;
  if (Status status = service_key(service, key); !status) return status;
  pmix_pdata_t data;
  PMIX_PDATA_CONSTRUCT(&data);
  key.copy(data.key, PMIX_MAX_KEYLEN);
  const pmix_status_t result = PMIx_Lookup(&data, 1, nullptr, 0);
  const bool is_there = result == PMIX_SUCCESS && data.value.type == PMIX_STRING;
  if (is_there) port = data.value.data.string;
  PMIX_PDATA_DESTRUCT(&data);
  if (is_there) return {};
  if (result == PMIX_SUCCESS || result == PMIX_ERR_NOT_FOUND)
    return {Code::not_found, fmt::format("'{}' is not published", service)};
  return pmix_error(Code::unsupported, "PMIx_Lookup", result);
}

Status PmixBoard::unpublish(std::string_view service) {
  std::string key, port;
  if (Status status = service_key(service, key); !status) return status;
  if (Status status = look_up(service, port); !status) return status;
  char* keys[] = {key.data(), nullptr};
  const pmix_status_t result = PMIx_Unpublish(keys, nullptr, 0);
  return result == PMIX_SUCCESS ? Status()
                                : pmix_error(Code::unsupported, "PMIx_Unpublish", result);
}

void PmixBoard::abort(int exit_code, std::string_view message) {
  if (exit_code == kPeerLostCode) usleep(200'000);  // the launcher must learn of that one first
  (void)PMIx_Abort(exit_code, std::string(message).c_str(), nullptr, 0);
}

Status PmixBoard::close() {
  if (num_closed.fetch_add(1) == 0 && std::atexit(finalize_at_exit) != 0)
    return {Code::no_memory, "cannot end PMIx with the process"};
  return {};
}

}  // namespace

bool pmix_is_there() noexcept { return getenv("PMIX_RANK") && getenv("PMIX_NAMESPACE"); }

Status make_pmix_board(Party party, std::unique_ptr<Board>& board) {
  auto opened = std::make_unique<PmixBoard>(party);
  Status status = opened->join();
  if (status) board = std::move(opened);
  return status;
}

}  // namespace weft

#endif
