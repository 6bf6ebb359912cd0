#pragma once
// Offload: a Team's allreduce through switches that compute. Made by the team at its first use; all
// members call it together, one thread at a time.
//
// The members of a node (or socket) reduce in shared memory, their leader goes through the switch
// with the other leaders, and publishes the result. When the switch cannot, the leaders compute the
// same sums in the same order by messages, so the result does not depend on whether it could.
#include <memory>
#include <string>
#include <vector>

#include "coll/coll.hpp"
#include "coll/offload/link.hpp"
#include "coll/offload/placement.hpp"

namespace weft::offload {

class Offload {
 public:
  // Collective over the team: learns where all are and makes the group, if a switch takes it. Null,
  // on all members: the settings ask for none, or are wrong, which rank 0 logs.
  static std::unique_ptr<Offload> make(coll::Team& team);
  ~Offload();

  // Whether calls of this size and operation come here: the same on all members.
  bool takes(std::size_t bytes, const coll::Reduction& op) const noexcept;
  // As coll::allreduce. In place: send is null.
  Status allreduce(const void* send, void* receive, std::size_t count, const coll::Reduction& op);
  // Collective, before the team's end: nobody leaves while another may ask it for the last result.
  void close();

 private:
  Offload(coll::Team& team, Mode mode) : team_(team), mode_(mode) {}
  void arrange(std::vector<Place> places);
  bool is_leader() const noexcept { return node_->rank() == 0; }
  Status negotiate();
  Status piece(const void* input, void* receive, std::size_t count, const coll::Reduction& op);
  Status lead(std::span<std::byte> data, const coll::Reduction& op);
  Status wait_for_leaders();

  coll::Team& team_;
  Mode mode_;
  std::vector<Place> leader_places_;
  std::unique_ptr<coll::Team> node_;     // those whom my leader leads
  std::unique_ptr<coll::Team> leaders_;  // leaders only
  std::unique_ptr<Link> link_;           // leaders only
  int num_nodes_ = 1;
  int num_members_of_node_ = 1;  // the most
  bool forced_ = false;
  bool ordered_ = true;
  // What the switches of the last group can: others never come to them. Before: all, so that what
  // leaders count is the same with and without a group.
  std::uint32_t elements_ = ~0u, operations_ = ~0u;
  std::uint32_t operation_ = 0;  // counted by all leaders alike
  std::uint16_t epoch_ = 0;
  std::uint32_t group_ = 0;
  std::uint64_t key_ = 0;
  std::vector<std::byte> block_;  // a status, and a piece of the vector
};

// The same sums as the switches make in ordered mode, by messages among the leaders: each adds up
// its share of the vector. `data` holds the contribution and takes the result.
Status sum_by_messages(coll::Team& leaders, std::span<std::byte> data, innet::Element element,
                       innet::Operation operation, const std::vector<std::vector<int>>& order);

}  // namespace weft::offload
