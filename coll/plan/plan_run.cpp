#include "coll/plan/plan_run.hpp"

namespace weft::coll {

Status run(Team& team, Collective collective, const Plan& plan, const Buffers& buffers,
           const Reduction* op) {
  std::byte* scratch = team.scratch(plan.scratch_bytes());
  const std::vector<Step>& steps = plan.steps();
  std::unique_ptr<tagged::Request>* requests = nullptr;
  Status got;
  std::uint64_t since_ns = 0;
  do {
    got = or_no_memory([&] { requests = team.plan_requests(steps.size()); });
  } while (!got && team.wait_for_memory(since_ns));
  if (scratch == nullptr || !got) return Code::no_memory;
  const auto readable = [&](BufferRef ref) -> const std::byte* {
    if (ref.memory == Memory::scratch) return scratch + ref.offset;
    return at(ref.memory == Memory::input ? buffers.input : buffers.output, ref.offset);
  };
  const auto writable = [&](BufferRef ref) {
    return ref.memory == Memory::scratch ? scratch + ref.offset : at(buffers.output, ref.offset);
  };

  Links links(team, collective);
  Status status;
  const auto finish = [&](std::size_t message) {
    if (Status done = links.finish(requests[message]); status && !done) status = done;
  };
  std::size_t waited = 0;  // the messages before it are complete
  for (std::size_t i = 0; i < steps.size() && status; ++i) {
    const Step& step = steps[i];
    for (const int after : step.after)
      if (after >= 0) finish(static_cast<std::size_t>(after));
    if (!status) break;
    switch (step.kind) {
      case Step::Kind::send:
        links.start_send(requests[i], readable(step.from), step.length, step.peer);
        break;
      case Step::Kind::receive:
        links.start_receive(requests[i], writable(step.to), step.length, step.peer);
        break;
      case Step::Kind::copy:
        copy_bytes(writable(step.to), readable(step.from), step.length);
        break;
      case Step::Kind::reduce:
        op->apply(readable(step.from), writable(step.to), step.length, op->argument);
        break;
      case Step::Kind::wait_all:
        for (; waited < i; ++waited) finish(waited);
    }
  }
  // After an error no step begins, but started messages must complete.
  for (; waited < steps.size(); ++waited) finish(waited);
  // A member that cannot make the shared segment, as another has died, sends other messages.
  if (!status && team.is_broken()) status = Code::peer_lost;
  if (status == Code::peer_lost) team.give_up();
  return status;
}

}  // namespace weft::coll
