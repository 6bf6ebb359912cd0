#pragma once
// Members of a job that keep to nothing but the handshake of the verbs fabric: queue pairs made by
// hand, for tests of what the fabric does with what comes over them. One thread.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "fabric/verbs/device.hpp"
#include "fabric/verbs/wire.hpp"
#include "job/job.hpp"

namespace weft {

struct HostileMember {
  int rank = 0;
  std::uint64_t key[2] = {};
  rdma_cm_id* id = nullptr;
  bool is_up = false;
  bool was_refused = false;  // since ask()
  std::uint32_t attempts = 0;
  std::uint32_t received = 0;  // messages, as the next hello says
  int num_sending = 0;
  std::deque<verbs::Control> heard;  // the last kMaxHeard control messages, the newest first
  std::size_t num_heard = 0;         // ever
};

class HostileMembers {
 public:
  static constexpr std::size_t kMaxHeard = 32;
  static constexpr std::size_t kTargetBytes = std::size_t{1} << 20;
  static constexpr int kMaxSending = 32;

  // They have the ranks from `first` on. Without receives their queue pairs take no message.
  HostileMembers(const verbs::Port& port, int first, int count, bool takes_messages = true);
  ~HostileMembers();
  HostileMembers(const HostileMembers&) = delete;
  HostileMembers& operator=(const HostileMembers&) = delete;

  // What the board of such a member is to have.
  void publish(Job& job) const;
  // Whom they connect to.
  void set_victim(Job& job, int rank);

  HostileMember& member(int rank) { return members_[static_cast<std::size_t>(rank - first_)]; }
  // Requests a connection; poll() until is_up or was_refused.
  void ask(HostileMember& member);
  void drop(HostileMember& member);
  // False: it is not connected, or there are kMaxSending under way.
  bool send(HostileMember& member, const void* data, std::size_t bytes);
  bool send(HostileMember& member, const verbs::Control& control) {
    return send(member, &control, sizeof control);
  }
  bool write(HostileMember& member, std::uint64_t address, std::uint32_t key, std::size_t bytes,
             const std::uint32_t* immediate = nullptr);
  void poll();

  // What write() sends.
  std::byte* sent();

  // Memory that others may read and write, whose bytes are all the same at first.
  std::byte* target() { return memory_.get(); }
  std::uint32_t target_key() const { return mr_->rkey; }

  bool answers_requests = true;
  // Whether and how members answer what they hear, as ours do.
  bool answers_controls = true;
  std::uint8_t found_flags = 0;

 private:
  void on_event(rdma_cm_event& event, const void* data, std::size_t bytes);
  void on_control(HostileMember& member, const verbs::Control& control);
  bool make_queue_pair(HostileMember& member);
  bool post(HostileMember& member, ibv_send_wr& request, std::size_t bytes, const void* data);
  void post_receive(std::uint64_t index);
  verbs::Hello hello(HostileMember& member);

  const int first_;
  std::vector<HostileMember> members_;
  std::string address_;
  std::string victims_address_;
  int victims_port_ = 0;
  std::uint64_t victims_key_[2] = {};
  rdma_event_channel* events_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_srq* receives_ = nullptr;
  std::unique_ptr<std::byte[]> memory_;  // the target, then the receives, then what is sent
  ibv_mr* mr_ = nullptr;
};

}  // namespace weft
