#pragma once
// Reliable multicast: one member of a group sends objects, from none to gigabytes, to all others.
//
//   weft::transport::Job job;                              // among the ranks of a job
//   weft::Multicast multicast(job);
//   weft::Group group(multicast, {.id = 1, .ranks = {0, 3, 5}}, ...);
//
// or, among processes that know each other's addresses:
//
//   weft::Multicast multicast({.name = "node7", .secret = secret});
//   multicast.node().listen("0.0.0.0:7000");               // others reach us there
//   weft::Group group(multicast, {.id = 1, .members = {"a:7000", "b:7000", "c:7000"}, .self = 1},
//                     {.on_incoming = [&](std::uint64_t bytes) { return buffer_of(bytes); },
//                      .on_complete = [&](void* data, std::uint64_t bytes) { use(data, bytes); }});
//   if (weft::Status status = group.ready(); !status) ...
//   group.send(data, bytes);                               // at the root, which is member 0
//   if (weft::Status status = group.close(); !status) ...  // ok: everybody has everything
//
// The algorithms are those of J. Behrens, S. Jha, K. Birman, E. Tremel, "RDMC: A Reliable RDMA
// Multicast for Large Objects", DSN 2018. docs/use/multicast.md compares them.
//
// Guarantees. A receiver gets the root's messages in order, each once and whole, or is notified
// that the group has failed. When a member dies or leaves before the group is closed, every other
// living one is notified, with its name, within WEFT_PEER_TIMEOUT_MS; the group transfers nothing
// more, and some members may have messages that others lack. A group's members never change: close
// it and make another.
//
// Memory. Fastest is memory from multicast.node().allocate() or register_memory(), named by its
// start; any other is registered for the time of one message. A receiver's buffer is written by
// other members from on_incoming (or post) until on_complete; after a failure until close has given
// its reason, or the group is gone. on_incoming may be called for later messages before on_complete
// of earlier ones: each message needs memory of its own until its on_complete. Memory that
// another message of the group still has fails the group (bad_argument), from post only the call.
//
// Threads. Calls may be made by any thread. A thread of the Multicast progresses all its groups and
// makes the callbacks, one at a time; they may send and post. There ready and close are refused
// (bad_argument), and no group is destroyed.
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/export.hpp"
#include "weft/node.hpp"
#include "weft/status.hpp"

namespace weft {

namespace transport {
class Job;
}

namespace mcast {
class GroupImpl;
class MulticastImpl;
}  // namespace mcast

// A process's presence in groups: a Node, its connections to other members, which all groups share,
// and a thread. Any number may live in one process.
class Multicast {
 public:
  // Throws Error, as Node. settings.progress_thread has no effect.
  explicit Multicast(const NodeSettings& settings = {});
  // Among the ranks of a job, which find each other: members of its groups are named by rank
  // (GroupSettings::ranks), and no addresses are needed. Collective: all ranks make it together.
  // Its Node listens where those of other hosts reach it. Without a name and a secret in the
  // settings it chooses them. The job may end before. Throws Error, also with peer_lost.
  explicit Multicast(transport::Job& job, const NodeSettings& settings = {});
  // All groups must be gone. Sends the reports that others have not got yet, also those that are
  // still to come to a group that has failed, within a second: a process that ends without this may
  // be taken for the member that failed.
  ~Multicast();
  Multicast(const Multicast&) = delete;
  Multicast& operator=(const Multicast&) = delete;

  // For listen, address and memory. Its callbacks are the Multicast's.
  Node& node() noexcept;

 private:
  friend class Group;
  std::shared_ptr<mcast::MulticastImpl> impl_;
};

struct GroupSettings {
  // The settings of a group are equal at all members, except for `self`. The id is not that of
  // another group of these members that lives, or that has failed: a new attempt takes a new id.
  std::uint64_t id = 0;
  // The addresses of members, in any form that Node::connect takes; the same text at all members.
  // The first one is the root.
  std::vector<std::string> members = {};
  int self = 0;  // which of them this is
  // In a Multicast of a job, instead of these two: the ranks that are members, equal at all of
  // them; the first is the root. Without members and ranks: all ranks. Hosts are the racks, if none
  // are given.
  std::vector<int> ranks = {};
  // Bytes of a block, up to 1 GiB; 0: chosen for each message, by its size 64 to 256 KiB, and 1 MiB
  // among ranks of a job that are all in one rack, as those of one host are.
  std::size_t block_bytes = 0;
  // pipeline, tree, chain, sequential; hybrid and hybrid-blocks, which know racks; native: the
  // network copies messages from 256 KiB on, which the root sends once, and where it does not, or
  // there are two members, the pipeline is taken. on_complete then waits until the members below
  // this one in a tree, at the root all, have the message.
  std::string algorithm = "pipeline";
  // Of native groups: the IP multicast address, with or without a port, as "239.1.2.3",
  // "239.1.2.3:5000" or "[ff15::1]:5000"; none of 224.0.0.0/24 and ff02::/16, which no router
  // passes on. Empty: chosen by the id and the members among administratively scoped ones (RFC
  // 2365).
  std::string multicast_address = {};
  std::vector<int> racks = {};  // of each member, any numbers; empty: all in one
  // on_complete waits until all members have the message.
  bool delivery_all = false;
  // Messages up to this go to every receiver at once; at most 16 members, 10240 bytes.
  std::size_t small_bytes = 10240;
  int create_timeout_ms = 30'000;  // for members to come
};

// What a member does with its time while it has a message; of those that hold, the first one
// counts.
enum class Spent {
  posting,      // hands blocks to the fabric, which inside a host copies them then
  sending,      // blocks are on their way to other members
  setup,        // its memory is not there yet (on_incoming, registering)
  first_block,  // waits for its first block
  block,        // waits for the block that it sends next, or for its last ones
  buffer,       // waits for the memory of the member that it sends to next
  credit,       // waits for that member's credit (docs/use/multicast.md)
  other,        // earlier messages are sent, or all members have to have it
};

// Where the time of one message went at this member, in microseconds since it was announced here;
// at the root since its sending began. weft-mcast explain prints it.
struct MessageTimes {
  std::uint64_t bytes = 0, block_bytes = 0;
  std::array<double, 8> us = {};  // by Spent
  double total_us = 0;            // their sum: until it is complete
  struct Received {
    std::uint32_t block;
    int from;
    double at_us;
  };
  struct Sent {
    std::uint32_t block;
    int to;
    double begin_us;
    double end_us = 0;                     // when it is there
    std::array<double, 8> waited_us = {};  // since the block before was posted, by Spent
  };
  // In that order; empty for small messages.
  std::vector<Received> received = {};
  std::vector<Sent> sent = {};

  double& operator[](Spent spent) { return us[static_cast<std::size_t>(spent)]; }
};

struct GroupEvents {
  // A message comes: where to. nullptr, too little room behind it, or memory that another message
  // has fails the group. Not called for messages for which a buffer was posted.
  std::function<void*(std::uint64_t bytes)> on_incoming = {};
  // The message is there, or sent; its memory is the program's again. In order of sending.
  std::function<void(void* data, std::uint64_t bytes)> on_complete = {};
  // Once, with the name of the member.
  std::function<void(const Status& why)> on_failure = {};
  // Before on_complete. Given, the member looks at the clock for each part of a block.
  std::function<void(const MessageTimes& times)> on_times = {};
};

class Group {
 public:
  // Returns at once. Throws Error (bad_argument: no such algorithm, member or rack; a group of this
  // id lives here).
  Group(Multicast& multicast, GroupSettings settings, GroupEvents events);
  // Leaves. If the group is neither closed nor failed, it fails at the others. Blocks until no
  // transfer uses the program's memory, which the Node's timeout bounds.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Blocks until all members have come and agree. bad_argument: they differ, with the member and
  // setting; timed_out: with the missing members; peer_lost.
  Status ready();

  // At the root: queues the message; its memory stays as it is until on_complete, or until close
  // has given the reason of a failure. bad_argument: not the root, or closed; or why the group has
  // failed. Doesn't block.
  Status send(const void* data, std::uint64_t bytes);
  // At a receiver: the next message that has no buffer yet goes here, without a call of
  // on_incoming; so blocks come as soon as the root sends. `memory` must come from allocate() or
  // register_memory(). A message that is longer fails the group. bad_argument (also for memory
  // that another message has), not_found.
  Status post(void* memory, std::uint64_t bytes);
  // No more messages. Blocks until every member has every message, or the group has failed, with
  // its reason. At receivers it waits for the root's close. timed_out, with the members that cannot
  // be reached at the moment: it may be called again. timeout_ms < 0: the Node's, and 15 s, so that
  // a member that is lost is named first.
  Status close(int timeout_ms = -1);

  // ok, or why it has failed.
  Status status() const;
  int rank() const noexcept;
  int size() const noexcept;
  std::uint64_t num_completed() const noexcept;
  // ok: the network copies the group's long messages; again: not known yet; or why it does not,
  // which the root knows of all members, and others of themselves. bad_argument: by another
  // algorithm.
  Status native() const;
  // Connections that this member's part needs; other groups share them.
  int num_neighbors() const noexcept;

 private:
  std::shared_ptr<mcast::GroupImpl> impl_;
};

}  // namespace weft
