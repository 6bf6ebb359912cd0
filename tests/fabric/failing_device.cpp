#include "tests/fabric/failing_device.hpp"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

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
