// Partitioned communication: MPI 5.0 section 4.2. The two sides may partition the message
// differently.
//
// MPI_Psend_init sends the receiver a header: how it partitions the message, and a context of its
// own. The header goes on the team's context under a negative tag, so that this matches
// MPI_Precv_init by communicator, process and tag in order. From then on every partition of the
// sender is one message, whose tag is its number; the receiver posts all of them, straight into the
// buffer, at MPI_Start. A partition of the receiver has arrived when all messages have that overlap
// it.
#include <algorithm>
#include <atomic>
#include <climits>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/wait.hpp"
#include "mpi/core/request.hpp"
#include "mpi/p2p/transfer.hpp"

namespace weft::mpi {
namespace {

// Team messages have tags above 0, and kAnyTag is -1.
constexpr std::int32_t header_tag(int tag) { return -2 - tag; }

struct HeaderMessage {
  std::uint64_t partitions;
  std::uint64_t bytes;  // of each partition
  std::uint32_t context;
  std::uint32_t zero;
};

// The receiver's side of a header. It outlives the request it was made for if no sender has come:
// the sender that comes one day is still this one's.
struct Header {
  HeaderMessage message{};
  tagged::Request request;
  std::unique_ptr<Header> next;  // of the orphaned headers
};
struct Orphans {
  std::mutex mutex;
  std::unique_ptr<Header> first;
};
Immortal<Orphans> orphans;

// The part common to both sides: a buffer of equal partitions.
class Partitioned : public Operation {
 public:
  Partitioned(Comm& comm, void* buffer, int partitions, MPI_Count count, Datatype* type, int peer,
              int tag)
      : comm_(comm),
        buffer_(static_cast<char*>(buffer)),
        partitions_(static_cast<std::size_t>(partitions)),
        count_(count),
        type_(type),
        peer_(peer),
        tag_(tag) {
    retain(type);
  }
  ~Partitioned() override { release(type_); }

  // Checks the sizes and gets the memory. MPI_SUCCESS or an error class; called once.
  int prepare() {
    std::size_t total = 0;
    if (!mpi::bytes_of(count_, *type_, bytes_) ||
        __builtin_mul_overflow(bytes_, partitions_, &total))
      return MPI_ERR_COUNT;
    if (type_->is_contiguous()) {
      data_ = first_byte(buffer_, *type_);
      return data_ == nullptr && total != 0 ? MPI_ERR_BUFFER : MPI_SUCCESS;
    }
    staging_.reset(new (std::nothrow) char[total + 1]);
    data_ = staging_.get();
    return data_ == nullptr ? MPI_ERR_NO_MEM : MPI_SUCCESS;
  }
  std::size_t partitions() const noexcept { return partitions_; }

 protected:
  char* typed(std::size_t partition) const noexcept {
    return buffer_ + static_cast<std::ptrdiff_t>(partition) * count_ * type_->extent();
  }
  char* bytes_of(std::size_t partition) const noexcept { return data_ + partition * bytes_; }
  bool is_staged() const noexcept { return staging_ != nullptr; }
  // Once the communicator is revoked: withdraws the messages, which have a context of their own.
  void end_if_revoked(tagged::Request* messages, std::size_t num) {
    if (!is_revoked(comm_) || std::exchange(is_ended_, true)) return;
    for (std::size_t i = 0; i < num; ++i) (void)engine->cancel(messages[i]);
  }

  bool is_ended_ = false;
  Comm& comm_;  // counted by the request
  char* const buffer_;
  const std::size_t partitions_;
  const MPI_Count count_;  // elements of a partition
  Datatype* const type_;   // counted
  const int peer_;
  const int tag_;
  std::size_t bytes_ = 0;  // of a partition
  char* data_ = nullptr;

 private:
  std::unique_ptr<char[]> staging_;
};

class PartitionedSend final : public Partitioned {
 public:
  using Partitioned::Partitioned;
  ~PartitionedSend() override {
    if (opened_) wait_progressing(header_request_);
    if (context_ != 0) drop_context(context_);
  }

  int open() {
    if (const int code = prepare(); code != MPI_SUCCESS) return code;
    messages_ = std::make_unique<tagged::Request[]>(partitions_);
    ready_ = std::make_unique<std::atomic<bool>[]>(partitions_);
    context_ = new_context(is_across(comm_), false);
    opened_ = peer_ != MPI_PROC_NULL;
    message_ = {partitions_, bytes_, context_, 0};
    if (opened_)
      engine->isend(header_request_, comm_.world(peer_), comm_.context + 1, header_tag(tag_),
                    &message_, sizeof message_);
    return MPI_SUCCESS;
  }

  Code start() override {
    for (std::size_t i = 0; i < partitions_; ++i) ready_[i].store(false, std::memory_order_relaxed);
    first_pending_ = 0;
    code_ = Code::ok;
    num_ready_.store(0, std::memory_order_relaxed);
    return Code::ok;
  }
  // Called by any thread. False: the partition was ready already.
  bool set_ready(std::size_t partition) {
    if (ready_[partition].exchange(true, std::memory_order_relaxed)) return false;
    if (peer_ != MPI_PROC_NULL) {
      if (is_staged()) type_->pack(bytes_of(partition), typed(partition), count_);
      engine->isend(messages_[partition], comm_.world(peer_), context_,
                    static_cast<std::int32_t>(partition), bytes_of(partition), bytes_);
    }
    // Read before the last one is counted: another thread may then complete and free the request.
    const std::size_t partitions = partitions_;
    // release: the message above is started; pairs with the acquire in advance().
    if (num_ready_.fetch_add(1, std::memory_order_release) + 1 == partitions)
      engine->ring(engine->rank());
    return true;
  }
  bool advance(Code& code) override {
    if (!is_ended_ && is_revoked(comm_)) close();
    if (num_ready_.load(std::memory_order_acquire) < partitions_) return false;
    if (peer_ != MPI_PROC_NULL) end_if_revoked(messages_.get(), partitions_);
    for (; peer_ != MPI_PROC_NULL && first_pending_ < partitions_; ++first_pending_) {
      const tagged::Request& message = messages_[first_pending_];
      if (!message.is_complete()) return false;
      if (code_ == Code::ok) code_ = message.code;
    }
    code = code_;
    return true;
  }

 private:
  // Partitions that are not ready are never sent.
  void close() {
    for (std::size_t i = 0; i < partitions_; ++i) {
      if (ready_[i].exchange(true, std::memory_order_relaxed)) continue;
      messages_[i].complete.store(tagged::Request::kOver, std::memory_order_relaxed);
      code_ = Code::peer_lost;
      num_ready_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  HeaderMessage message_{};
  tagged::Request header_request_;
  bool opened_ = false;  // the header was sent
  std::uint32_t context_ = 0;
  std::unique_ptr<tagged::Request[]> messages_;
  std::unique_ptr<std::atomic<bool>[]> ready_;
  std::atomic<std::size_t> num_ready_{0};
  std::size_t first_pending_ = 0;
  Code code_ = Code::ok;
};

class PartitionedReceive final : public Partitioned {
 public:
  using Partitioned::Partitioned;
  ~PartitionedReceive() override {
    if (header_ == nullptr || header_->request.is_complete()) return;
    const std::lock_guard lock(orphans->mutex);
    header_->next = std::move(orphans->first);
    orphans->first = std::move(header_);
  }

  int open() {
    if (const int code = prepare(); code != MPI_SUCCESS) return code;
    arrived_.resize(partitions_);
    if (peer_ == MPI_PROC_NULL) return MPI_SUCCESS;
    header_ = std::make_unique<Header>();
    engine->irecv(header_->request, comm_.world(peer_), comm_.context + 1, header_tag(tag_),
                  &header_->message, sizeof header_->message);
    return MPI_SUCCESS;
  }

  Code start() override {
    const std::lock_guard lock(mutex_);
    arrived_.assign(partitions_, false);
    posted_ = false;
    first_pending_ = 0;
    code_ = Code::ok;
    return Code::ok;
  }
  bool advance(Code& code) override {
    const std::lock_guard lock(mutex_);
    if (peer_ == MPI_PROC_NULL) return true;
    if (!post()) return false;
    end_if_revoked(messages_.get(), num_messages_);
    for (; first_pending_ < num_messages_; ++first_pending_) {
      const tagged::Request& message = messages_[first_pending_];
      if (!message.is_complete()) return false;
      if (code_ == Code::ok) code_ = message.code;
    }
    for (std::size_t i = 0; i < partitions_ && code_ == Code::ok; ++i) take(i);
    code = code_;
    return true;
  }
  void describe(MPI_Status* status) const override {
    if (peer_ == MPI_PROC_NULL)
      fill_proc_null(status);
    else
      fill_status(status, peer_, tag_, static_cast<std::int64_t>(partitions_ * bytes_));
  }
  // Called by any thread. True also if the partition will never come: the request completes with
  // the error.
  bool has_arrived(std::size_t partition) {
    const std::lock_guard lock(mutex_);
    if (peer_ == MPI_PROC_NULL || arrived_[partition]) return true;
    if (!post()) return false;
    if (code_ != Code::ok) return true;
    const std::size_t cut = header_->message.bytes;
    if (bytes_ == 0 || cut == 0) return false;  // arrives with the whole message
    const std::size_t last = std::min((partition * bytes_ + bytes_ - 1) / cut + 1, num_messages_);
    bool good = true;
    for (std::size_t i = partition * bytes_ / cut; i < last; ++i) {
      if (!messages_[i].is_complete()) return false;
      good = good && messages_[i].code == Code::ok;
    }
    if (good) take(partition);
    return true;
  }

 private:
  void take(std::size_t partition) {
    if (arrived_[partition]) return;
    arrived_[partition] = true;
    if (is_staged()) type_->unpack(typed(partition), bytes_of(partition), count_, bytes_);
  }
  // Posts the receives once the sender's header has arrived. True: done.
  bool post() {
    if (posted_) return true;
    if (!header_->request.is_complete()) return false;
    code_ = header_->request.code;
    const HeaderMessage& sender = header_->message;
    if (code_ == Code::ok && messages_ == nullptr) {
      if (sender.partitions > INT_MAX) code_ = Code::corrupt;
      if (code_ == Code::ok)
        messages_.reset(new (std::nothrow) tagged::Request[sender.partitions + 1]);
      if (code_ == Code::ok && messages_ == nullptr) {
        if (may_wait_for_memory()) return false;
        code_ = Code::no_memory;
      }
    }
    posted_ = true;
    num_messages_ = code_ == Code::ok ? sender.partitions : 0;
    const std::size_t total = partitions_ * bytes_;
    for (std::size_t i = 0; i < num_messages_; ++i) {
      std::size_t place = 0;
      if (__builtin_mul_overflow(i, sender.bytes, &place) || place > total) place = total;
      engine->irecv(messages_[i], comm_.world(peer_), sender.context, static_cast<std::int32_t>(i),
                    data_ + place, std::min<std::size_t>(sender.bytes, total - place));
    }
    return true;
  }

  // True while the call should wait for memory, which the sender's messages cannot do without.
  bool may_wait_for_memory() {
    const std::uint64_t now = now_ns();
    if (short_since_ns_ == 0) short_since_ns_ = now;
    const auto& settings = process->job->settings();
    return now - short_since_ns_ < settings.patience_ns();
  }

  std::unique_ptr<Header> header_;
  std::mutex mutex_;  // guards what follows
  std::uint64_t short_since_ns_ = 0;
  std::unique_ptr<tagged::Request[]> messages_;
  std::size_t num_messages_ = 0;
  std::vector<bool> arrived_;
  bool posted_ = false;
  std::size_t first_pending_ = 0;
  Code code_ = Code::ok;
};

template <class Side>
int init(const void* buffer, int partitions, MPI_Count count, MPI_Datatype datatype, int peer,
         int tag, MPI_Comm handle, MPI_Info info, MPI_Request* out, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  if (partitions < 1) return raise(comm, MPI_ERR_ARG, function, "there is no partition");
  if (info != MPI_INFO_NULL && find_info(info) == nullptr)
    return raise(comm, MPI_ERR_INFO, function);
  Datatype* type;
  // Receives have no wildcards here either.
  int code = check_send(*comm, count, datatype, peer, tag, type);
  if (code != MPI_SUCCESS) return raise(comm, code, function);
  if (out == nullptr) return raise(comm, MPI_ERR_ARG, function, "request is null");
  auto side =
      std::make_unique<Side>(*comm, const_cast<void*>(buffer), partitions, count, type, peer, tag);
  RequestPtr request(new_request(comm, RequestObject::Kind::operation));
  if (request == nullptr) return raise(comm, MPI_ERR_NO_MEM, function);
  request->persistent = true;
  request->active = false;
  code = side->open();
  request->operation = std::move(side);
  if (code != MPI_SUCCESS) {
    request.reset();
    return raise(comm, code, function);
  }
  *out = request.release()->handle;
  return MPI_SUCCESS;
}

// Finds the side of a request and checks the partition's number. MPI_SUCCESS or the code raised.
template <class Side>
int find(MPI_Request handle, int first, int last, RequestObject*& request, Side*& side,
         const char* function) {
  request = find_request(handle);
  if (request == nullptr) return raise(nullptr, MPI_ERR_REQUEST, function);
  side = request->kind == RequestObject::Kind::operation
             ? dynamic_cast<Side*>(request->operation.get())
             : nullptr;
  if (side == nullptr)
    return raise(request->comm, MPI_ERR_REQUEST, function, "not a request of that kind");
  if (first < 0 || last < first || static_cast<std::size_t>(last) >= side->partitions())
    return raise(request->comm, MPI_ERR_ARG, function, "no such partition");
  return MPI_SUCCESS;
}

int ready(MPI_Request handle, int first, int last, const char* function) {
  RequestObject* request;
  PartitionedSend* send = nullptr;
  if (const int code = find(handle, first, last, request, send, function); code != MPI_SUCCESS)
    return code;
  if (is_revoked(*request->comm)) return raise(request->comm, MPIX_ERR_REVOKED, function);
  if (!request->active)
    return raise(request->comm, MPI_ERR_REQUEST, function, "the request was not started");
  for (int i = first; i <= last; ++i)
    if (!send->set_ready(static_cast<std::size_t>(i)))
      return raise(request->comm, MPI_ERR_ARG, function, "the partition is ready already");
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

#define WEFT_PARTITIONED(Count, suffix)                                                            \
  MPI_FUNCTION(Psend_init##suffix)                                                                 \
  (const void* buf, int partitions, Count count, MPI_Datatype datatype, int dest, int tag,         \
   MPI_Comm comm, MPI_Info info, MPI_Request* request) {                                           \
    return init<PartitionedSend>(buf, partitions, count, datatype, dest, tag, comm, info, request, \
                                 __func__);                                                        \
  }                                                                                                \
  MPI_FUNCTION(Precv_init##suffix)                                                                 \
  (void* buf, int partitions, Count count, MPI_Datatype datatype, int source, int tag,             \
   MPI_Comm comm, MPI_Info info, MPI_Request* request) {                                           \
    return init<PartitionedReceive>(buf, partitions, count, datatype, source, tag, comm, info,     \
                                    request, __func__);                                            \
  }
WEFT_PARTITIONED(int, )
WEFT_PARTITIONED(MPI_Count, _c)

MPI_FUNCTION(Pready)(int partition, MPI_Request request) {
  return ready(request, partition, partition, __func__);
}
MPI_FUNCTION(Pready_range)(int partition_low, int partition_high, MPI_Request request) {
  return ready(request, partition_low, partition_high, __func__);
}
MPI_FUNCTION(Pready_list)(int length, const int partitions[], MPI_Request request) {
  MPI_MUST_RUN();
  if (length < 0 || (length > 0 && partitions == nullptr))
    return raise(nullptr, MPI_ERR_ARG, __func__, "the list is null or shorter than nothing");
  for (int i = 0; i < length; ++i)
    if (const int code = ready(request, partitions[i], partitions[i], __func__);
        code != MPI_SUCCESS)
      return code;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Parrived)(MPI_Request handle, int partition, int* flag) {
  MPI_MUST_RUN();
  // An inactive request has nothing under way.
  if (handle == MPI_REQUEST_NULL && flag != nullptr) {
    *flag = 1;
    return MPI_SUCCESS;
  }
  RequestObject* request;
  PartitionedReceive* receive = nullptr;
  if (const int code = find(handle, partition, partition, request, receive, __func__);
      code != MPI_SUCCESS)
    return code;
  if (flag == nullptr) return raise(request->comm, MPI_ERR_ARG, __func__, "flag is null");
  const auto arrived = [&] {
    return !request->active || request->is_complete() ||
           receive->has_arrived(static_cast<std::size_t>(partition));
  };
  if (!arrived()) progress_once();
  *flag = arrived();
  return MPI_SUCCESS;
}
