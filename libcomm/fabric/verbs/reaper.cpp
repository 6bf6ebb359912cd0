#include "fabric/verbs/reaper.hpp"

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "base/os/thread.hpp"
#include "base/shortage.hpp"

namespace weft::verbs {
namespace {

// A multiple of the usual time. When a device has stopped, the first wait shows it, and the others
// must not add up.
constexpr std::chrono::milliseconds kDeadline{100};
constexpr std::chrono::milliseconds kDeadlineAfterLate{1};

bool is_done(const std::future<void>& ending, std::chrono::milliseconds limit) {
  return ending.wait_for(limit) == std::future_status::ready;
}

}  // namespace

void put_in_error_state(ibv_qp* qp) noexcept {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  (void)ibv_modify_qp(qp, &attributes, IBV_QP_STATE);
}

bool Reaper::destroy(ibv_qp* qp) noexcept {
  put_in_error_state(qp);
  return end([qp] { (void)ibv_destroy_qp(qp); });
}

void Reaper::destroy(rdma_cm_id* cm, const std::shared_future<int>& asked) noexcept {
  const auto body = [cm, asked] {
    if (asked.valid()) asked.wait();
    (void)rdma_destroy_id(cm);
  };
  std::function<void()> ending;
  const bool is_asking =
      asked.valid() && asked.wait_for(std::chrono::seconds{0}) != std::future_status::ready;
  if (or_no_memory([&] { ending = body; }) == Code::ok)
    end(ending, !is_asking);
  else
    body();
}

std::shared_future<int> Reaper::run(std::function<int()> body) {
  const auto task = std::make_shared<std::packaged_task<int()>>(std::move(body));
  std::shared_future<int> result = task->get_future().share();
  std::thread thread;
  if (start_thread(thread, [task] { (*task)(); }))
    thread.detach();
  else
    (*task)();
  return result;
}

bool Reaper::end(const std::function<void()>& body, bool waits) noexcept {
  const auto deadline = !waits   ? std::chrono::milliseconds{0}
                        : idle() ? kDeadline
                                 : kDeadlineAfterLate;
  std::shared_ptr<std::packaged_task<void()>> task;
  std::future<void> ending;
  const Code prepared = or_no_memory([&] {
    make_room(late_);
    task = std::make_shared<std::packaged_task<void()>>(body);
    ending = task->get_future();
  });
  if (prepared != Code::ok) {
    body();
    return true;
  }
  std::thread thread;
  if (!start_thread(thread, [task] { (*task)(); })) {
    (*task)();  // this one, then
    return true;
  }
  if (is_done(ending, deadline)) {
    thread.join();
    return true;
  }
  thread.detach();
  late_.push_back(std::move(ending));
  return false;
}

bool Reaper::idle() noexcept {
  std::erase_if(late_, [](const std::future<void>& ending) {
    return is_done(ending, std::chrono::milliseconds{0});
  });
  return late_.empty();
}

}  // namespace weft::verbs
