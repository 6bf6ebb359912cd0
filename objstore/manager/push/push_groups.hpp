#pragma once
// PushGroups: the Multicast that the groups of pushes are made in, at both sides. It begins with
// the first push.
//
// Lock. Manager's turn_mutex_. Groups have threads of their own, which only post to the inbox.
#include <memory>
#include <string>

#include "objstore/manager/inbox.hpp"
#include "push_group.hpp"

namespace weft::objstore {

class PushGroups {
 public:
  // A group's number is a push's, by the store's number, or with this bit of one that comes here.
  static constexpr std::uint64_t kPushedHere = std::uint64_t{1} << 63;

  PushGroups(ManagerCore& core, Inbox& inbox) : core_(core), inbox_(inbox) {}

  // unsupported: the store does not listen; others: as Node's.
  Status open();
  // The address where others reach this host's groups. After open().
  const std::string& address() const { return address_; }
  // Its end is posted as CommandKind::group_ended with the number, after group_arrived if it comes.
  std::unique_ptr<PushGroup> make(std::uint64_t number, PushGroupSettings settings);
  // When no group is left.
  void close() { multicast_.reset(); }

 private:
  ManagerCore& core_;
  Inbox& inbox_;
  std::unique_ptr<Multicast> multicast_;
  std::string address_;
};

}  // namespace weft::objstore
