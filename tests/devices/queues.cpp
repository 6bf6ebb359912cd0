// Queue pairs, completion queues and registrations of described devices.
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/devices/context.hpp"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace weft::devices {
namespace {

// A send request, with all that it points at.
struct Kept {
  explicit Kept(const ibv_send_wr& request)
      : own(request), pieces(request.sg_list, request.sg_list + request.num_sge) {
    if ((request.send_flags & IBV_SEND_INLINE) == 0) return;
    for (const ibv_sge& piece : pieces) {
      const auto* at = reinterpret_cast<const std::byte*>(piece.addr);
      bytes.emplace_back(at, at + piece.length);
    }
  }
  int post(const Context& context, ibv_qp* qp) {
    for (std::size_t i = 0; i < bytes.size(); ++i)
      pieces[i].addr = reinterpret_cast<std::uintptr_t>(bytes[i].data());
    own.sg_list = pieces.data();
    ibv_send_wr* bad = nullptr;
    return context.real_ops.post_send(qp, &own, &bad);
  }
  ibv_send_wr own;
  std::vector<ibv_sge> pieces;
  std::vector<std::vector<std::byte>> bytes;  // inline, of each piece
};

struct Pair {
  ibv_qp* qp = nullptr;
  std::shared_ptr<Context> context;
  std::uint32_t inline_bytes = 0;
  std::int64_t reads = 0;  // answered at once
  unsigned path_bytes = 0;
  std::uint32_t peer = 0;
  ibv_wc_status ends_as = IBV_WC_SUCCESS;  // what its first failure is to be
  bool has_ended = false;
  int num_posts = 0;  // and those that are held, by who may post
  std::vector<Kept> kept;
};

std::mutex pairs_lock;
std::unordered_map<std::uint32_t, std::shared_ptr<Pair>> pairs;  // by number
std::unordered_map<ibv_cq*, std::deque<ibv_wc>> held;            // completions, for reordering

std::shared_ptr<Pair> pair_of(std::uint32_t number) {
  std::lock_guard lock(pairs_lock);
  const auto found = pairs.find(number);
  return found == pairs.end() ? nullptr : found->second;
}

int refuse(int error) {
  errno = error;
  return error;
}

unsigned active_bytes(Context& context) {
  std::lock_guard lock(context.device->lock);
  return static_cast<unsigned>(context.device->described.limit("active_mtu", 4096));
}

bool has_atomics(Context& context) {
  std::lock_guard lock(context.device->lock);
  return context.device->described.atomics != IBV_ATOMIC_NONE;
}

// Of a send queue pair, before it is made; under the device's lock.
int check_wanted(const Device& device, const ibv_qp_init_attr& wanted) {
  const Description& described = device.described;
  const auto above = [&](std::int64_t asked, const char* name) {
    return asked > described.limit(name, INT32_MAX);
  };
  if (above(device.num_pairs + 1, "max_qp")) return ENOMEM;
  if (above(wanted.cap.max_send_wr, "max_qp_wr") || above(wanted.cap.max_send_sge, "max_sge"))
    return EINVAL;
  if (wanted.srq == nullptr &&
      (above(wanted.cap.max_recv_wr, "max_qp_wr") || above(wanted.cap.max_recv_sge, "max_sge")))
    return EINVAL;
  if (!described.cuts_inline && above(wanted.cap.max_inline_data, "max_inline_data")) return EINVAL;
  return 0;
}

// Of a change of state; under the device's lock. A device has room for so many reads in all.
int check_change(Device& device, const ibv_qp_attr& change, int mask, Pair& pair) {
  const Description& described = device.described;
  const auto above = [&](std::int64_t asked, const char* name) {
    return asked > described.limit(name, INT32_MAX);
  };
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0 && described.atomics == IBV_ATOMIC_NONE &&
      (change.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC) != 0)
    return EOPNOTSUPP;
  if ((mask & IBV_QP_PATH_MTU) != 0 && above(bytes_of(change.path_mtu), "max_mtu")) return EINVAL;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 && above(change.max_rd_atomic, "max_qp_init_rd_atom"))
    return EINVAL;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) {
    const std::int64_t reads = change.max_dest_rd_atomic;
    // 0 in all: it does not say.
    const bool is_too_many = described.limit("max_res_rd_atom", INT32_MAX) > 0 &&
                             above(device.num_reads - pair.reads + reads, "max_res_rd_atom");
    if (is_too_many || above(reads, "max_qp_rd_atom")) return EINVAL;
    device.num_reads += reads - std::exchange(pair.reads, reads);
  }
  return 0;
}

bool is_atomic(const ibv_send_wr& request) {
  return request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
         request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

std::size_t length_of(const ibv_send_wr& request) {
  std::size_t bytes = 0;
  for (int i = 0; i < request.num_sge; ++i) bytes += request.sg_list[i].length;
  return bytes;
}

// Packets above what a port at either end takes are lost on the way: as if the peer was silent.
bool is_lost(Pair& pair, const ibv_send_wr& request) {
  unsigned most = active_bytes(*pair.context);
  if (const auto peer = pair_of(pair.peer); peer != nullptr)
    most = std::min(most, active_bytes(*peer->context));
  return pair.path_bytes > most && length_of(request) > most;
}

int post_one(ibv_qp* qp, ibv_send_wr& request) {
  const auto pair = pair_of(qp->qp_num);
  ibv_send_wr* bad = nullptr;
  if (pair == nullptr) return find(qp->context)->real_ops.post_send(qp, &request, &bad);
  Device& device = *pair->context->device;
  if (const int error = device.enter("ibv_post_send"); error != 0 && error != EIO) return error;
  int vanishes_after, holds_posts;
  {
    std::lock_guard lock(device.lock);
    if (request.num_sge > device.described.limit("max_sge", INT32_MAX)) return EINVAL;
    vanishes_after = device.described.vanishes_after;
    holds_posts = device.described.holds_posts;
  }
  if (vanishes_after >= 0 && device.num_calls("ibv_post_send") > vanishes_after) device.vanish();
  const bool is_inline = (request.send_flags & IBV_SEND_INLINE) != 0;
  if (is_inline && length_of(request) > pair->inline_bytes) return EINVAL;
  if (is_atomic(request) && !has_atomics(*pair->context)) return EINVAL;
  if (pair->num_posts++ < holds_posts) {
    pair->kept.emplace_back(request);
    return 0;
  }
  for (Kept& kept : std::exchange(pair->kept, {}))
    if (const int error = kept.post(*pair->context, qp); error != 0) return error;
  ibv_send_wr own = request;
  std::vector<ibv_sge> pieces;
  if (!is_inline && is_lost(*pair, request)) {
    // The real device ends it for another reason.
    pieces.assign(request.sg_list, request.sg_list + request.num_sge);
    for (ibv_sge& piece : pieces) piece.lkey = ~0u;
    own.sg_list = pieces.data();
    pair->ends_as = IBV_WC_RETRY_EXC_ERR;
  }
  return pair->context->real_ops.post_send(qp, &own, &bad);
}

int post_send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
  for (; request != nullptr; request = request->next) {
    ibv_send_wr one = *request;
    one.next = nullptr;
    if (const int error = post_one(qp, one); error != 0) {
      *bad = request;
      return error;
    }
  }
  return 0;
}

// A completion that failed has only its number, its queue pair and the status: the rest is not
// defined (ibv_poll_cq(3)).
void spoil(ibv_wc& completion) {
  const ibv_wc right = completion;
  std::memset(&completion, 0xa5, sizeof completion);
  completion.wr_id = right.wr_id;
  completion.status = right.status;
  completion.vendor_err = right.vendor_err;
  completion.qp_num = right.qp_num;
}

void change(ibv_wc& completion) {
  const auto pair = pair_of(completion.qp_num);
  if (pair == nullptr) return;
  Device& device = *pair->context->device;
  const bool is_send =
      completion.status != IBV_WC_SUCCESS || (completion.opcode & IBV_WC_RECV) == 0;
  if (completion.status == IBV_WC_SUCCESS && is_send) {
    std::lock_guard lock(device.lock);
    const auto found = device.described.completions.find(device.num_sent++);
    if (found != device.described.completions.end())
      completion.status = found->second;
    else if (pair->has_ended)
      completion.status = IBV_WC_WR_FLUSH_ERR;
  }
  if (completion.status == IBV_WC_SUCCESS) return;
  if (pair->ends_as != IBV_WC_SUCCESS && completion.status != IBV_WC_WR_FLUSH_ERR)
    completion.status = std::exchange(pair->ends_as, IBV_WC_SUCCESS);
  if (!std::exchange(pair->has_ended, true)) {
    static auto* const modify = real<decltype(ibv_modify_qp)>("ibv_modify_qp");
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    (void)modify(pair->qp, &error, IBV_QP_STATE);
  }
  spoil(completion);
}

// Those of one queue stay in order; of a queue pair that has failed, both of its.
void reorder(std::vector<ibv_wc>& all) {
  static std::mt19937 random(1);
  const auto queue_of = [&](const ibv_wc& one) {
    const bool failed = std::ranges::any_of(all, [&](const ibv_wc& other) {
      return other.qp_num == one.qp_num && other.status != IBV_WC_SUCCESS;
    });
    const bool is_receive = !failed && (one.opcode & IBV_WC_RECV) != 0;
    return std::uint64_t{one.qp_num} * 2 + (is_receive ? 1 : 0);
  };
  std::unordered_map<std::uint64_t, std::deque<ibv_wc>> queues;
  std::vector<std::uint64_t> order;
  for (const ibv_wc& one : all) {
    queues[queue_of(one)].push_back(one);
    order.push_back(queue_of(one));
  }
  std::ranges::shuffle(order, random);
  all.clear();
  for (const std::uint64_t queue : order) {
    all.push_back(queues[queue].front());
    queues[queue].pop_front();
  }
}

int poll_cq(ibv_cq* queue, int most, ibv_wc* completions) {
  const auto context = find(queue->context);
  Device& device = *context->device;
  bool reorders;
  {
    std::lock_guard lock(device.lock);
    if (device.is_gone) return 0;
    reorders = device.described.reorders;
  }
  if (!reorders) {
    const int count = context->real_ops.poll_cq(queue, most, completions);
    for (int i = 0; i < count; ++i) change(completions[i]);
    return count;
  }
  std::unique_lock lock(pairs_lock);
  std::deque<ibv_wc>& waiting = held[queue];
  if (waiting.empty()) {
    lock.unlock();
    std::vector<ibv_wc> all(32);
    const int count = context->real_ops.poll_cq(queue, static_cast<int>(all.size()), all.data());
    if (count < 0) return count;
    all.resize(static_cast<std::size_t>(count));
    reorder(all);
    for (ibv_wc& one : all) change(one);
    lock.lock();
    waiting.assign(all.begin(), all.end());
  }
  int given = 0;
  for (; given < most && !waiting.empty(); waiting.pop_front())
    completions[given++] = waiting.front();
  return given;
}

template <class Make>
ibv_mr* register_as_described(ibv_pd* pd, std::size_t bytes, unsigned access, Make&& make) {
  const auto context = find(pd->context);
  if (context == nullptr) return make();
  Device& device = *context->device;
  int error = device.enter("ibv_reg_mr");
  if (error == 0) {
    std::lock_guard lock(device.lock);
    const Description& described = device.described;
    if (static_cast<std::int64_t>(bytes) > described.limit("max_mr_size", INT64_MAX))
      error = EINVAL;
    else if (device.num_regions >= described.limit("max_mr", INT32_MAX))
      error = ENOMEM;
    else if (described.atomics == IBV_ATOMIC_NONE && (access & IBV_ACCESS_REMOTE_ATOMIC) != 0)
      error = EOPNOTSUPP;
    else
      ++device.num_regions;
  }
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  ibv_mr* const mr = make();
  if (mr == nullptr) {
    const int why = errno;
    std::lock_guard lock(device.lock);
    --device.num_regions;
    errno = why;
  }
  return mr;
}

}  // namespace

void take_over_queues(ibv_context& context) {
  context.ops.post_send = post_send;
  context.ops.poll_cq = poll_cq;
}

void end_queues(ibv_context* context) {
  std::lock_guard lock(pairs_lock);
  std::erase_if(held, [&](const auto& item) { return item.first->context == context; });
}

}  // namespace weft::devices

using namespace weft::devices;

DESCRIBED_CALL ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* wanted) {
  static auto* const create = real<decltype(ibv_create_qp)>("ibv_create_qp");
  const auto context = find(pd->context);
  if (context == nullptr) return create(pd, wanted);
  Device& device = *context->device;
  int error = device.enter("ibv_create_qp");
  {
    std::lock_guard lock(device.lock);
    if (error == 0) error = check_wanted(device, *wanted);
    if (error == 0) ++device.num_pairs;
  }
  ibv_qp* const qp = error == 0 ? create(pd, wanted) : nullptr;
  if (qp == nullptr) {
    if (error == 0) {
      error = errno;
      std::lock_guard lock(device.lock);
      --device.num_pairs;
    }
    refuse(error);
    return nullptr;
  }
  auto pair = std::make_shared<Pair>();
  pair->qp = qp;
  pair->context = context;
  {
    std::lock_guard lock(device.lock);
    wanted->cap.max_inline_data = static_cast<std::uint32_t>(
        device.described.limit("max_inline_data", wanted->cap.max_inline_data));
  }
  pair->inline_bytes = wanted->cap.max_inline_data;
  std::lock_guard lock(pairs_lock);
  pairs[qp->qp_num] = std::move(pair);
  return qp;
}

DESCRIBED_CALL int ibv_destroy_qp(ibv_qp* qp) {
  static auto* const destroy = real<decltype(ibv_destroy_qp)>("ibv_destroy_qp");
  if (const auto pair = pair_of(qp->qp_num); pair != nullptr) {
    Device& device = *pair->context->device;
    {
      std::lock_guard lock(device.lock);
      --device.num_pairs;
      device.num_reads -= pair->reads;
    }
    std::lock_guard lock(pairs_lock);
    pairs.erase(qp->qp_num);
    // As drivers do it.
    for (auto& [queue, waiting] : held)
      std::erase_if(waiting, [&](const ibv_wc& one) { return one.qp_num == qp->qp_num; });
  }
  return destroy(qp);
}

DESCRIBED_CALL int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* change, int mask) {
  static auto* const modify = real<decltype(ibv_modify_qp)>("ibv_modify_qp");
  const auto pair = pair_of(qp->qp_num);
  if (pair == nullptr) return modify(qp, change, mask);
  Device& device = *pair->context->device;
  if (const int error = device.enter("ibv_modify_qp"); error != 0) return refuse(error);
  {
    std::lock_guard lock(device.lock);
    if (const int error = check_change(device, *change, mask, *pair); error != 0)
      return refuse(error);
  }
  if ((mask & IBV_QP_PATH_MTU) != 0) pair->path_bytes = bytes_of(change->path_mtu);
  if ((mask & IBV_QP_DEST_QPN) != 0) pair->peer = change->dest_qp_num;
  return modify(qp, change, mask);
}

DESCRIBED_CALL ibv_cq* ibv_create_cq(ibv_context* of, int entries, void* user,
                                     ibv_comp_channel* channel, int vector) {
  static auto* const create = real<decltype(ibv_create_cq)>("ibv_create_cq");
  const auto context = find(of);
  if (context == nullptr) return create(of, entries, user, channel, vector);
  Device& device = *context->device;
  int error = device.enter("ibv_create_cq");
  std::int64_t most, first;
  {
    std::lock_guard lock(device.lock);
    most = device.described.limit("max_cqe", INT32_MAX);
    first = device.described.limit("first_cqe", INT32_MAX);
  }
  if (error == 0 && entries > most) error = EINVAL;
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  ibv_cq* const queue = create(of, entries, user, channel, vector);
  // Devices give more entries than are asked for, which are not to help here.
  if (queue != nullptr) queue->cqe = static_cast<int>(std::min<std::int64_t>(entries, first));
  return queue;
}

DESCRIBED_CALL int ibv_destroy_cq(ibv_cq* queue) {
  static auto* const destroy = real<decltype(ibv_destroy_cq)>("ibv_destroy_cq");
  {
    std::lock_guard lock(pairs_lock);
    held.erase(queue);
  }
  return destroy(queue);
}

DESCRIBED_CALL int ibv_resize_cq(ibv_cq* queue, int entries) {
  static auto* const resize = real<decltype(ibv_resize_cq)>("ibv_resize_cq");
  const auto context = find(queue->context);
  if (context == nullptr) return resize(queue, entries);
  Device& device = *context->device;
  if (const int error = device.enter("ibv_resize_cq"); error != 0) return error;
  {
    std::lock_guard lock(device.lock);
    if (entries > device.described.limit("max_cqe", INT32_MAX)) return EINVAL;
  }
  return resize(queue, entries);
}

DESCRIBED_CALL ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* wanted) {
  static auto* const create = real<decltype(ibv_create_srq)>("ibv_create_srq");
  const auto context = find(pd->context);
  if (context == nullptr) return create(pd, wanted);
  Device& device = *context->device;
  int error = device.enter("ibv_create_srq");
  if (error == 0) {
    std::lock_guard lock(device.lock);
    const Description& described = device.described;
    if (described.limit("max_srq", 1) == 0)
      error = EOPNOTSUPP;
    else if (wanted->attr.max_wr > described.limit("max_srq_wr", INT32_MAX) ||
             wanted->attr.max_sge > described.limit("max_srq_sge", INT32_MAX))
      error = EINVAL;
  }
  if (error == 0) return create(pd, wanted);
  errno = error;
  return nullptr;
}

DESCRIBED_CALL ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) {
  static auto* const make = real<ibv_mr*(ibv_pd*, void*, std::size_t, int)>("ibv_reg_mr");
  return register_as_described(pd, bytes, static_cast<unsigned>(access),
                               [&] { return make(pd, address, bytes, access); });
}

DESCRIBED_CALL ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t bytes,
                                        std::uint64_t iova, unsigned access) {
  static auto* const make = real<decltype(ibv_reg_mr_iova2)>("ibv_reg_mr_iova2");
  return register_as_described(pd, bytes, access,
                               [&] { return make(pd, address, bytes, iova, access); });
}

DESCRIBED_CALL int ibv_dereg_mr(ibv_mr* mr) {
  static auto* const end = real<decltype(ibv_dereg_mr)>("ibv_dereg_mr");
  if (const auto context = find(mr->context); context != nullptr) {
    if (const int error = context->device->enter("ibv_dereg_mr"); error != 0 && error != EIO)
      return error;
    std::lock_guard lock(context->device->lock);
    --context->device->num_regions;
  }
  return end(mr);
}

DESCRIBED_CALL int rdma_establish(rdma_cm_id* id) {
  static auto* const establish = real<decltype(rdma_establish)>("rdma_establish");
  const auto context = find(id->verbs);
  if (context == nullptr) return establish(id);
  {
    std::lock_guard lock(context->device->lock);
    ++context->device->calls["rdma_establish"];
    if (context->device->described.loses_confirms) return 0;
  }
  return establish(id);
}
