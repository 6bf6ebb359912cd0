#include "mpi/core/request.hpp"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/shortage.hpp"

namespace weft::mpi {

Immortal<RequestTable> requests;

namespace {

// A list of requests in order, linked by that field.
template <RequestObject* RequestObject::*next>
struct RequestList {
  RequestObject* head = nullptr;
  RequestObject* tail = nullptr;

  void push(RequestObject* request) noexcept {
    request->*next = nullptr;
    (tail != nullptr ? tail->*next : head) = request;
    tail = request;
  }
  // Removes the request behind `before`; null: the first.
  void remove_after(RequestObject* before) noexcept {
    RequestObject*& place = before != nullptr ? before->*next : head;
    if (place == tail) tail = before;
    place = place->*next;
  }
};

struct Pool {
  std::mutex mutex;
  RequestObject* free = nullptr;
  std::vector<std::unique_ptr<RequestObject[]>> blocks;
  RequestList<&RequestObject::next> detached;  // freed by the program, last seen not complete
  std::atomic<std::uint32_t> life{0};          // changes when all blocks go; changed under `mutex`
};
Immortal<Pool> pool;

// A thread's own free requests: with MPI_THREAD_MULTIPLE it need not lock the pool for each.
class ThreadPool {
 public:
  constexpr ThreadPool() = default;
  ~ThreadPool() {
    const std::lock_guard lock(pool->mutex);
    if (life_ == pool->life.load(std::memory_order_relaxed)) give(num_free_);
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Returns a free request; null if there is no memory.
  RequestObject* take() noexcept {
    start_life();
    if (free_ == nullptr) refill();
    if (free_ == nullptr) return nullptr;
    --num_free_;
    return std::exchange(free_, free_->next);
  }
  void put(RequestObject* request) noexcept {
    start_life();
    request->next = free_;
    free_ = request;
    if (++num_free_ < 2 * kMoved) return;
    const std::lock_guard lock(pool->mutex);
    give(kMoved);
  }

 private:
  static constexpr std::size_t kMoved = 64;
  void start_life() noexcept {
    const std::uint32_t now = pool->life.load(std::memory_order_relaxed);
    if (life_ == now) [[likely]]
      return;
    life_ = now;
    free_ = nullptr;
    num_free_ = 0;
  }
  void refill() noexcept;
  // Returns requests to the pool, whose lock the caller holds.
  void give(std::size_t count) noexcept {
    for (; count > 0; --count, --num_free_) {
      RequestObject* const request = std::exchange(free_, free_->next);
      request->next = pool->free;
      pool->free = request;
    }
  }

  RequestObject* free_ = nullptr;
  std::size_t num_free_ = 0;
  std::uint32_t life_ = 0;
};
thread_local ThreadPool thread_pool;

struct Running {
  std::mutex mutex;
  RequestList<&RequestObject::next_running> list;
};
Immortal<Running> running;

constexpr std::size_t kBlockRequests = 256;

[[gnu::noinline]] void drop_belongings(RequestObject* request) {
  if (request->type != nullptr) release(request->type);
  request->type = nullptr;
  request->operation.reset();
}

inline void put_back(RequestObject* request) {
  if (request->type != nullptr || request->operation) [[unlikely]]
    drop_belongings(request);
  if (request->comm != nullptr) {
    release(request->comm);
    request->comm = nullptr;
  }
  if (multi_threaded()) return thread_pool.put(request);
  request->next = pool->free;
  pool->free = request;
}

// Adds free requests, each with its slot in the handle table; none if there is no memory or no
// slot.
[[gnu::noinline]] void add_block() noexcept {
  (void)or_no_memory([] {
    auto made = std::make_unique<RequestObject[]>(kBlockRequests);
    RequestObject* const block = made.get();
    make_room(pool->blocks);
    block[0].slot_ref = requests->reserve(block);
    pool->blocks.push_back(std::move(made));
    for (std::size_t i = 0; i < kBlockRequests; ++i) {
      if (i != 0) block[i].slot_ref = requests->reserve(&block[i]);
      if (!block[i].slot_ref.is_valid()) break;
      block[i].next = pool->free;
      pool->free = &block[i];
    }
  });
}

[[gnu::noinline]] void ThreadPool::refill() noexcept {
  const std::lock_guard lock(pool->mutex);
  for (; num_free_ < kMoved; ++num_free_) {
    if (pool->free == nullptr) add_block();
    if (pool->free == nullptr) return;
    RequestObject* const request = std::exchange(pool->free, pool->free->next);
    request->next = free_;
    free_ = request;
  }
}

// Checks a few detached requests, round robin, so that detaching costs the same however many there
// are: each call adds one request and checks several.
void reclaim_detached() {
  constexpr std::size_t kScanned = 4;
  RequestObject* complete[kScanned];
  std::size_t num_complete = 0;
  {
    OptionalLock lock(pool->mutex);
    auto& list = pool->detached;
    for (std::size_t i = 0; i < kScanned && list.head != nullptr; ++i) {
      RequestObject* const request = list.head;
      list.remove_after(nullptr);
      if (request->base.is_over())
        complete[num_complete++] = request;
      else
        list.push(request);
    }
  }
  for (std::size_t i = 0; i < num_complete; ++i) put_back(complete[i]);
}

}  // namespace

RequestObject* new_request(Comm* comm, RequestObject::Kind kind) {
  RequestObject* request;
  if (multi_threaded()) {
    request = thread_pool.take();
    if (request == nullptr) return nullptr;
  } else {
    if (pool->free == nullptr) [[unlikely]] {
      add_block();
      if (pool->free == nullptr) return nullptr;
    }
    request = pool->free;
    pool->free = request->next;
  }
  request->kind = kind;
  request->persistent = false;
  request->active = true;
  request->mode = SendMode::standard;
  request->comm = comm;
  if (comm != nullptr) retain(comm);
  request->base.complete.store(false, std::memory_order_relaxed);
  request->base.code = Code::ok;
  request->base.packer = nullptr;
  request->handle = requests->open(request->slot_ref);
  return request;
}

void free_request(RequestObject* request) {
  requests->close(request->slot_ref);
  put_back(request);
}

void FreeRequest::operator()(RequestObject* request) const noexcept { free_request(request); }

void detach_request(RequestObject* request) {
  requests->close(request->slot_ref);
  {
    OptionalLock lock(pool->mutex);
    pool->detached.push(request);
  }
  reclaim_detached();
}

void create_shared_requests() {
  RequestObject* send = new_request(nullptr, RequestObject::Kind::done_send);
  RequestObject* none = new_request(nullptr, RequestObject::Kind::done_none);
  if (send == nullptr || none == nullptr) throw std::bad_alloc();
  send->base.complete.store(true, std::memory_order_relaxed);
  none->base.complete.store(true, std::memory_order_relaxed);
  done_send_handle = send->handle;
  done_none_handle = none->handle;
}

void destroy_requests() {
  // Requests still under way belong to peers that are gone or to a program that never waited; the
  // engine is closed, so nothing will touch the memory again.
  requests->for_each([](MPI_Request, RequestObject* request) { free_request(request); });
  for (RequestObject* request = pool->detached.head; request != nullptr;) {
    RequestObject* const next = request->next;
    put_back(request);
    request = next;
  }
  pool->detached = {};
  running->list = {};
  num_operations.store(0, std::memory_order_relaxed);
  // A thread may be ending just now.
  const std::lock_guard lock(pool->mutex);
  pool->life.fetch_add(1, std::memory_order_relaxed);
  pool->free = nullptr;
  pool->blocks.clear();
}

void add_operation(RequestObject* request) noexcept {
  {
    std::lock_guard lock(running->mutex);
    running->list.push(request);
    num_operations.fetch_add(1, std::memory_order_relaxed);
    engine->set_background(&progress_operations);
  }
  progress_operations(false);  // sends at once what can be sent
  note_start();
}

void progress_operations(bool before_sleep) {
  std::unique_lock lock(running->mutex, std::defer_lock);
  // A thread that finds another one advancing the operations leaves them to it. Before sleep it
  // must lock: the other thread may be past an operation that can advance just now, and a sleeping
  // thread would not check again.
  if (before_sleep)
    lock.lock();
  else if (!lock.try_lock())
    return;
  auto& list = running->list;
  RequestObject* before = nullptr;
  for (RequestObject *request = list.head, *next; request != nullptr; request = next) {
    Code code = Code::ok;
    bool is_over = true;
    if (or_no_memory([&] { is_over = request->operation->advance(code); }) != Code::ok)
      code = Code::no_memory;
    next = request->next_running;
    if (!is_over) {
      if (before_sleep) request->operation->before_sleep();
      before = request;
      continue;
    }
    list.remove_after(before);
    if (num_operations.fetch_sub(1, std::memory_order_relaxed) == 1)
      engine->set_background(nullptr);
    request->base.code = code;
    // release: pairs with is_complete(); the owner may free the request from here on.
    request->base.complete.store(true, std::memory_order_release);
    engine->ring(engine->rank());
  }
}

namespace {

int read_cancelled(MPI_Status* status) {
  if (status != MPI_STATUS_IGNORE) {
    fill_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
    store_private(*status, 0, true);
  }
  return MPI_SUCCESS;
}

}  // namespace

int read_result(RequestObject* request, MPI_Status* status) {
  const tagged::Request& base = request->base;
  if (!base.is_over()) [[unlikely]] {  // it pauses, or has just gone on
    fill_empty(status);
    return MPIX_ERR_PROC_FAILED_PENDING;
  }
  if (status == MPI_STATUS_IGNORE && request->kind <= RequestObject::Kind::receive)
    return base.code == Code::cancelled ? MPI_SUCCESS : error_class(base.code, request->comm);
  switch (request->kind) {
    case RequestObject::Kind::done_send:
      fill_empty(status);
      return MPI_SUCCESS;
    case RequestObject::Kind::done_none:
      fill_proc_null(status);
      return MPI_SUCCESS;
    case RequestObject::Kind::receive:
      if (base.code == Code::cancelled) return read_cancelled(status);
      if (request->peer == MPI_PROC_NULL) {
        fill_proc_null(status);
        return MPI_SUCCESS;
      }
      if (status != MPI_STATUS_IGNORE) {
        if (base.code == Code::ok || base.code == Code::truncated) {
          const std::size_t bytes = base.received < base.length ? base.received : base.length;
          fill_status(status, request->comm->rank_of_world(base.peer), base.tag,
                      static_cast<std::int64_t>(bytes));
        } else {
          fill_status(status, request->peer, request->tag, 0);
        }
      }
      return error_class(base.code, request->comm);
    case RequestObject::Kind::generalized: {
      MPI_Status own;
      fill_empty(&own);
      const int code = request->generalized.query(request->generalized.extra_state, &own);
      if (status != MPI_STATUS_IGNORE) {
        const int error = status->MPI_ERROR;
        *status = own;
        status->MPI_ERROR = error;
      }
      return code;
    }
    case RequestObject::Kind::operation:
      request->operation->describe(status);
      return request->operation->failure(base.code, request->comm);
    case RequestObject::Kind::send:
      if (base.code == Code::cancelled) return read_cancelled(status);
      break;
  }
  if (status != MPI_STATUS_IGNORE) fill_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
  return error_class(base.code, request->comm);
}

int finish_request(RequestObject* request, MPI_Request* handle, MPI_Status* status) {
  int code = read_result(request, status);
  if (request->persistent) {
    request->active = false;
    return code;
  }
  *handle = MPI_REQUEST_NULL;
  if (request->kind <= RequestObject::Kind::done_none) return code;
  if (request->kind == RequestObject::Kind::generalized) {
    const int freed = request->generalized.free(request->generalized.extra_state);
    if (code == MPI_SUCCESS) code = freed;
  }
  free_request(request);
  return code;
}

}  // namespace weft::mpi
