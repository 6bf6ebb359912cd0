#include "mpi/comm/group.hpp"

#include <algorithm>
#include <memory>

#include "mpi/core/call.hpp"
#include "mpi/core/state.hpp"

namespace weft::mpi {
namespace {

struct GroupObject {
  GroupPtr group;
};
Immortal<HandleTable<MPI_Group, GroupObject, Kind::group>> groups;

const GroupPtr& empty_group() {
  static const GroupPtr* const empty = new GroupPtr(std::make_shared<Group>(std::size_t{0}));
  return *empty;
}

// Checks that each of the ranks is one of the group and named once.
int check_ranks(const Group& group, int count, const int* ranks) {
  if (count < 0) return MPI_ERR_ARG;
  if (count > 0 && ranks == nullptr) return MPI_ERR_ARG;
  std::vector<bool> named(static_cast<std::size_t>(group.size()));
  for (int i = 0; i < count; ++i) {
    if (ranks[i] < 0 || ranks[i] >= group.size()) return MPI_ERR_RANK;
    if (named[static_cast<std::size_t>(ranks[i])]) return MPI_ERR_RANK;
    named[static_cast<std::size_t>(ranks[i])] = true;
  }
  return MPI_SUCCESS;
}

// Expands triplets (first, last, stride). MPI_SUCCESS or the error class.
int expand_ranges(const Group& group, int count, const int (*ranges)[3], std::vector<int>& ranks) {
  if (count < 0 || (count > 0 && ranges == nullptr)) return MPI_ERR_ARG;
  for (int i = 0; i < count; ++i) {
    const int first = ranges[i][0];
    const int last = ranges[i][1];
    const int stride = ranges[i][2];
    if (stride == 0) return MPI_ERR_ARG;
    if (first < 0 || first >= group.size()) return MPI_ERR_RANK;
    if (stride > 0) {
      for (long rank = first; rank <= last; rank += stride) {
        if (rank >= group.size()) return MPI_ERR_RANK;
        ranks.push_back(static_cast<int>(rank));
      }
    } else {
      for (long rank = first; rank >= last; rank += stride) {
        if (rank < 0) return MPI_ERR_RANK;
        ranks.push_back(static_cast<int>(rank));
      }
    }
  }
  return check_ranks(group, static_cast<int>(ranks.size()), ranks.data());
}

GroupPtr include(const Group& group, const int* ranks, int count) {
  std::vector<int> members;
  members.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) members.push_back(group.world(ranks[i]));
  return std::make_shared<Group>(std::span<const int>(members), group.session());
}

GroupPtr exclude(const Group& group, const int* ranks, int count) {
  std::vector<bool> out(static_cast<std::size_t>(group.size()));
  for (int i = 0; i < count; ++i) out[static_cast<std::size_t>(ranks[i])] = true;
  std::vector<int> members;
  for (int rank = 0; rank < group.size(); ++rank)
    if (!out[static_cast<std::size_t>(rank)]) members.push_back(group.world(rank));
  return std::make_shared<Group>(std::span<const int>(members), group.session());
}

int give(GroupPtr group, MPI_Group* out, const char* function) {
  const MPI_Group handle = make_group_handle(std::move(group));
  if (handle == nullptr) return raise(nullptr, MPI_ERR_NO_MEM, function);
  *out = handle;
  return MPI_SUCCESS;
}

enum class SetOperation { unite, intersect, subtract };

int combine(MPI_Group first, MPI_Group second, MPI_Group* out, SetOperation operation,
            const char* function) {
  const GroupPtr a = find_group(first);
  const GroupPtr b = find_group(second);
  if (a == nullptr || b == nullptr) return raise(nullptr, MPI_ERR_GROUP, function);
  if (out == nullptr) return raise(nullptr, MPI_ERR_ARG, function, "newgroup is null");
  std::vector<int> members;
  for (const int world : a->members()) {
    const bool in_both = b->rank_of(world) != MPI_UNDEFINED;
    if (operation == SetOperation::unite || in_both == (operation == SetOperation::intersect))
      members.push_back(world);
  }
  if (operation == SetOperation::unite)
    for (const int world : b->members())
      if (a->rank_of(world) == MPI_UNDEFINED) members.push_back(world);
  return give(std::make_shared<Group>(std::span<const int>(members), a->session()), out, function);
}

}  // namespace

void Group::assign(std::span<const int> members) {
  members_.assign(members.begin(), members.end());
  identity_ = true;
  own_rank_ = MPI_UNDEFINED;
  const int own = engine == nullptr ? -1 : engine->rank();
  for (int rank = 0; rank < size(); ++rank) {
    identity_ = identity_ && members_[static_cast<std::size_t>(rank)] == rank;
    if (members_[static_cast<std::size_t>(rank)] == own) own_rank_ = rank;
    if (engine == nullptr || members_[static_cast<std::size_t>(rank)] < engine->size()) continue;
    engine->use_foreign(members_[static_cast<std::size_t>(rank)]);
    has_foreign_members_ = true;
  }
  by_world_.clear();
  if (identity_) return;
  for (int rank = 0; rank < size(); ++rank) by_world_.emplace_back(world(rank), rank);
  std::sort(by_world_.begin(), by_world_.end());
}

Group::~Group() {
  if (!has_foreign_members_ || engine == nullptr) return;
  for (const int world : members_)
    if (world >= engine->size()) engine->release_foreign(world);
}

int Group::rank_of(int world) const noexcept {
  if (identity_) return world >= 0 && world < size() ? world : MPI_UNDEFINED;
  const auto found = std::lower_bound(by_world_.begin(), by_world_.end(), std::pair(world, 0));
  return found != by_world_.end() && found->first == world ? found->second : MPI_UNDEFINED;
}

GroupPtr find_group(MPI_Group handle) {
  if (!is_running()) return nullptr;
  if (handle == MPI_GROUP_EMPTY) return empty_group();
  const GroupObject* object = groups->find(handle);
  return object == nullptr ? nullptr : object->group;
}

MPI_Group make_group_handle(GroupPtr group) {
  if (group->size() == 0) return MPI_GROUP_EMPTY;
  std::unique_ptr<GroupObject> object(new GroupObject{std::move(group)});
  const MPI_Group handle = groups->insert(object.get());
  if (handle != nullptr) static_cast<void>(object.release());
  return handle;
}

int compare_groups(const Group& a, const Group& b) {
  if (a.members() == b.members()) return MPI_IDENT;
  if (a.size() != b.size()) return MPI_UNEQUAL;
  for (const int world : a.members())
    if (b.rank_of(world) == MPI_UNDEFINED) return MPI_UNEQUAL;
  return MPI_SIMILAR;
}

void clear_groups() {
  groups->for_each([](MPI_Group handle, GroupObject*) { delete groups->erase(handle); });
}

}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_CONVERSIONS(Group, MPI_Group, groups)

MPI_FUNCTION(Group_size)(MPI_Group group, int* size) {
  const GroupPtr object = find_group(group);
  if (object == nullptr) return raise(nullptr, MPI_ERR_GROUP, __func__);
  if (size == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "size is null");
  *size = object->size();
  return MPI_SUCCESS;
}

MPI_FUNCTION(Group_rank)(MPI_Group group, int* rank) {
  const GroupPtr object = find_group(group);
  if (object == nullptr) return raise(nullptr, MPI_ERR_GROUP, __func__);
  if (rank == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "rank is null");
  *rank = object->rank();
  return MPI_SUCCESS;
}

MPI_FUNCTION(Group_compare)(MPI_Group group1, MPI_Group group2, int* result) {
  const GroupPtr a = find_group(group1);
  const GroupPtr b = find_group(group2);
  if (a == nullptr || b == nullptr) return raise(nullptr, MPI_ERR_GROUP, __func__);
  if (result == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "result is null");
  *result = compare_groups(*a, *b);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Group_translate_ranks)
(MPI_Group group1, int n, const int* ranks1, MPI_Group group2, int* ranks2) {
  const GroupPtr a = find_group(group1);
  const GroupPtr b = find_group(group2);
  if (a == nullptr || b == nullptr) return raise(nullptr, MPI_ERR_GROUP, __func__);
  if (n < 0 || (n > 0 && (ranks1 == nullptr || ranks2 == nullptr)))
    return raise(nullptr, MPI_ERR_ARG, __func__);
  for (int i = 0; i < n; ++i) {
    if (ranks1[i] == MPI_PROC_NULL) {
      ranks2[i] = MPI_PROC_NULL;
    } else if (ranks1[i] < 0 || ranks1[i] >= a->size()) {
      return raise(nullptr, MPI_ERR_RANK, __func__);
    } else {
      ranks2[i] = b->rank_of(a->world(ranks1[i]));
    }
  }
  return MPI_SUCCESS;
}

MPI_FUNCTION(Group_union)(MPI_Group group1, MPI_Group group2, MPI_Group* newgroup) {
  return combine(group1, group2, newgroup, SetOperation::unite, __func__);
}
MPI_FUNCTION(Group_intersection)(MPI_Group group1, MPI_Group group2, MPI_Group* newgroup) {
  return combine(group1, group2, newgroup, SetOperation::intersect, __func__);
}
MPI_FUNCTION(Group_difference)(MPI_Group group1, MPI_Group group2, MPI_Group* newgroup) {
  return combine(group1, group2, newgroup, SetOperation::subtract, __func__);
}

MPI_FUNCTION(Group_incl)(MPI_Group group, int n, const int* ranks, MPI_Group* newgroup) {
  const GroupPtr object = find_group(group);
  if (object == nullptr) return raise(nullptr, MPI_ERR_GROUP, __func__);
  if (newgroup == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "newgroup is null");
  const int code = check_ranks(*object, n, ranks);
  if (code != MPI_SUCCESS) return raise(nullptr, code, __func__);
  return give(include(*object, ranks, n), newgroup, __func__);
}

MPI_FUNCTION(Group_excl)(MPI_Group group, int n, const int* ranks, MPI_Group* newgroup) {
  const GroupPtr object = find_group(group);
  if (object == nullptr) return raise(nullptr, MPI_ERR_GROUP, __func__);
  if (newgroup == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "newgroup is null");
  const int code = check_ranks(*object, n, ranks);
  if (code != MPI_SUCCESS) return raise(nullptr, code, __func__);
  return give(exclude(*object, ranks, n), newgroup, __func__);
}

MPI_FUNCTION(Group_range_incl)(MPI_Group group, int n, int ranges[][3], MPI_Group* newgroup) {
  const GroupPtr object = find_group(group);
  if (object == nullptr) return raise(nullptr, MPI_ERR_GROUP, __func__);
  if (newgroup == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "newgroup is null");
  std::vector<int> ranks;
  const int code = expand_ranges(*object, n, ranges, ranks);
  if (code != MPI_SUCCESS) return raise(nullptr, code, __func__);
  return give(include(*object, ranks.data(), static_cast<int>(ranks.size())), newgroup, __func__);
}

MPI_FUNCTION(Group_range_excl)(MPI_Group group, int n, int ranges[][3], MPI_Group* newgroup) {
  const GroupPtr object = find_group(group);
  if (object == nullptr) return raise(nullptr, MPI_ERR_GROUP, __func__);
  if (newgroup == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "newgroup is null");
  std::vector<int> ranks;
  const int code = expand_ranges(*object, n, ranges, ranks);
  if (code != MPI_SUCCESS) return raise(nullptr, code, __func__);
  return give(exclude(*object, ranks.data(), static_cast<int>(ranks.size())), newgroup, __func__);
}

MPI_FUNCTION(Group_free)(MPI_Group* group) {
  MPI_MUST_RUN();
  if (group == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "group is null");
  if (*group != MPI_GROUP_EMPTY) {  // the empty group may be a result and is freed like one
    GroupObject* object = groups->erase(*group);
    if (object == nullptr) return raise(nullptr, MPI_ERR_GROUP, __func__);
    delete object;
  }
  *group = MPI_GROUP_NULL;
  return MPI_SUCCESS;
}
