#include "tests/fabric/failing_device.hpp"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>

namespace weft {

FailingDevice failing_device;

namespace {

template <class F>
F* real(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

decltype(ibv_context_ops::post_send) real_post_send;

int post_send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
  if (failing_device.refused.load() > 0 && failing_device.taken.fetch_sub(1) <= 0) {
    failing_device.refused.fetch_sub(1);
    *bad = request;
    return ENOMEM;
  }
  return real_post_send(qp, request, bad);
}

}  // namespace
}  // namespace weft

// Posting is a call through the queue pair's device, not a function of the library.
extern "C" ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  ibv_qp* qp = weft::real<decltype(ibv_create_qp)>("ibv_create_qp")(pd, attributes);
  if (qp != nullptr && qp->context->ops.post_send != weft::post_send) {
    weft::real_post_send = qp->context->ops.post_send;
    qp->context->ops.post_send = weft::post_send;
  }
  return qp;
}

extern "C" int rdma_establish(rdma_cm_id* id) {
  weft::failing_device.confirmed.fetch_add(1);
  return weft::failing_device.confirmations_lost.load()
             ? 0
             : weft::real<decltype(rdma_establish)>("rdma_establish")(id);
}

extern "C" int ibv_query_device(ibv_context* context, ibv_device_attr* limits) {
  const int error = weft::real<decltype(ibv_query_device)>("ibv_query_device")(context, limits);
  if (const int most = weft::failing_device.max_entries; most != 0) limits->max_cqe = most;
  return error;
}

extern "C" int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  if (!weft::failing_device.queue_fails.exchange(false))
    return weft::real<decltype(ibv_get_async_event)>("ibv_get_async_event")(context, event);
  event->event_type = IBV_EVENT_CQ_ERR;
  event->element.cq = nullptr;
  return 0;
}

extern "C" void ibv_ack_async_event(ibv_async_event* event) {
  if (event->event_type != IBV_EVENT_CQ_ERR)
    weft::real<decltype(ibv_ack_async_event)>("ibv_ack_async_event")(event);
}

// Devices give more entries than are asked for, which are not to help here.
extern "C" ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* user,
                                 ibv_comp_channel* channel, int vector) {
  ibv_cq* queue =
      weft::real<decltype(ibv_create_cq)>("ibv_create_cq")(context, entries, user, channel, vector);
  if (queue != nullptr && weft::failing_device.max_entries != 0)
    queue->cqe = std::min(entries, weft::failing_device.first_entries.load());
  return queue;
}
