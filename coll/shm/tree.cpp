// Barrier and reductions of many members along the groups that share a cache: up to the heads of
// the groups, to the root, and down the same path. Each step is a round of the team.
#include "coll/shm/collectives.hpp"

namespace weft::coll {
namespace {

// into = value(0) op ... op value(last), from the right as everywhere inside a host.
template <class Value>
void reduce_all(std::byte* into, std::size_t number, Value&& value, std::size_t count,
                const Reduction& op) {
  copy_bytes(into, value(number - 1), count * op.element_bytes);
  for (std::size_t i = number - 1; i-- > 0;) op.apply(value(i), into, count, op.argument);
}

// Reduces all members' inputs into the root's `receive`: two rounds. Without `op` only the arrival.
Status climb(ShmTeam& team, const void* input, void* receive, std::size_t count,
             const Reduction* op, int root) {
  const ShmTree& tree = team.tree();
  const int me = team.rank(), mine = tree.group_of(me), head = tree.head(mine, root);
  const std::size_t bytes = op == nullptr ? 0 : count * op->element_bytes;
  const std::span<const int> group = tree.group(mine);
  team.begin();
  const Own own(team, bytes, head);
  if (own.cell == nullptr) return Code::peer_lost;
  if (bytes != 0) team.fill(own.data, input, bytes);
  if (me != head) {
    team.publish(own.cell);
    team.ring(head);
    team.end();
    team.begin();
    team.end();
    return {};
  }
  const std::byte* values[ShmTree::kGroupMost];
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (group[i] != me && !team.wait_for(group[i])) return Code::peer_lost;
    values[i] = slot(team, group[i], bytes);
  }
  // The first round ends with the second: until then the members' slots are read.
  team.begin();
  const Own sum(team, bytes, root);
  if (sum.cell == nullptr) return Code::peer_lost;
  if (bytes != 0)
    reduce_all(
        sum.data, group.size(), [&](std::size_t i) { return values[i]; }, count, *op);
  if (me != root) {
    team.publish(sum.cell);
    team.ring(root);
  } else {
    const int last = tree.num_groups() - 1;
    for (int g = last; g >= 0; --g)
      if (g != mine && !team.wait_for(tree.head(g, root))) return Code::peer_lost;
    if (bytes != 0)
      reduce_all(
          static_cast<std::byte*>(receive), index(tree.num_groups()),
          [&](std::size_t g) { return slot(team, tree.head(static_cast<int>(g), root), bytes); },
          count, *op);
  }
  team.end();
  return {};
}

// Broadcasts the root's bytes: two rounds. Every member knows at the end that all have arrived in
// the two rounds before.
Status descend(ShmTeam& team, void* data, std::size_t bytes, int root) {
  const ShmTree& tree = team.tree();
  const int me = team.rank(), mine = tree.group_of(me), head = tree.head(mine, root);
  team.begin();
  if (me == root) {
    const Own own(team, bytes);
    if (own.cell == nullptr) return Code::peer_lost;
    if (bytes != 0) team.fill(own.data, data, bytes);
    team.publish(own.cell);
    for (int g = 0; g < tree.num_groups(); ++g)
      if (g != mine) team.ring(tree.head(g, root));
  } else if (me == head) {
    if (!team.wait_for(root)) return Code::peer_lost;
    if (bytes != 0) copy_bytes(data, slot(team, root, bytes), bytes);
  }
  team.end();
  team.begin();
  if (me == head) {
    const Own own(team, bytes);
    if (own.cell == nullptr) return Code::peer_lost;
    if (bytes != 0) team.fill(own.data, data, bytes);
    team.publish(own.cell);
    for (const int member : tree.group(mine))
      if (member != me) team.ring(member);
  } else {
    if (!team.wait_for(head)) return Code::peer_lost;
    if (bytes != 0) copy_bytes(data, slot(team, head, bytes), bytes);
  }
  team.note_all_arrived(4);
  team.end();
  return {};
}

}  // namespace

Status tree_barrier(ShmTeam& team) {
  WEFT_COLL_TRY(climb(team, nullptr, nullptr, 0, nullptr, 0));
  return descend(team, nullptr, 0, 0);
}

Status tree_reduce(ShmTeam& team, const void* input, void* receive, std::size_t count,
                   const Reduction& op, int root) {
  return climb(team, input, receive, count, &op, root);
}

Status tree_allreduce(ShmTeam& team, const void* input, void* receive, std::size_t count,
                      const Reduction& op) {
  WEFT_COLL_TRY(climb(team, input, receive, count, &op, 0));
  return descend(team, receive, count * op.element_bytes, 0);
}

}  // namespace weft::coll
