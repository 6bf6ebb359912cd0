// The public Allreduce: a team of its own, which does not agree on losses as the Job's does, so
// that switches can run its calls.
#include "weft/allreduce.hpp"

#include "base/trace.hpp"
#include "coll/offload/offload.hpp"
#include "exchange/job_impl.hpp"

namespace weft::transport {
namespace {

using innet::Element;

constexpr Element kElements[] = {Element::i8,  Element::u8,  Element::i16, Element::u16,
                                 Element::i32, Element::u32, Element::i64, Element::u64,
                                 Element::f32, Element::f64, Element::bf16};
constexpr innet::Operation kOperations[] = {
    innet::Operation::sum,  innet::Operation::prod, innet::Operation::min, innet::Operation::max,
    innet::Operation::band, innet::Operation::bor,  innet::Operation::bxor};

}  // namespace

struct Allreduce::Impl {
  explicit Impl(Job::Impl& job)
      : process(job),
        team(*job.engine, job.agreement->members(), kFirstAllreduceContext + job.num_allreduces) {
    ++job.num_allreduces;
  }

  Job::Impl& process;
  coll::Team team;
};

Allreduce::Allreduce(Job& job) try : impl_(std::make_unique<Impl>(job.impl())) {
} catch (const std::bad_alloc&) {
  throw Error(Code::no_memory);
}

Allreduce::~Allreduce() {
  if (!impl_->process.is_own_process()) {
    (void)impl_.release();
    return;
  }
  (void)or_no_memory([this] { impl_->team.close_offload(); });
}

Status Allreduce::run(void* values, std::size_t count, detail::Number number, Reduce operation) {
  const trace::Span span("allreduce");
  const Element element = kElements[static_cast<std::size_t>(number)];
  const innet::Operation kind = kOperations[static_cast<std::size_t>(operation)];
  if (innet::find_reduce(element, kind) == nullptr)
    return {Code::bad_argument, "the operation is one of integers"};
  if (count == 0) return {};
  return or_no_memory([&]() -> Status {
    const offload::SumOp op(element, kind);
    Status status = coll::allreduce(impl_->team, nullptr, values, count, op.reduction());
    // After this nothing accesses the caller's values any more.
    if (status == Code::peer_lost) impl_->team.wait_for_abandoned();
    return status;
  });
}

}  // namespace weft::transport
