#pragma once
// Group: an ordered set of processes. Immutable once made, shared by communicators and handles.
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "mpi/core/abi.hpp"
#include "mpi/core/handle_table.hpp"

namespace weft::mpi {

struct Session;

class Group {
 public:
  // members: world ranks in group order, each at most once.
  explicit Group(std::span<const int> members, const Session* session = nullptr)
      : Group(members.size()) {
    session_ = session;
    assign(members);
  }
  // An empty group with the memory for so many members.
  explicit Group(std::size_t capacity) {
    members_.reserve(capacity);
    by_world_.reserve(capacity);
  }
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  // Sets the members, once, before the group is shared. Allocates nothing if there is enough
  // capacity.
  void assign(std::span<const int> members);

  int size() const noexcept { return static_cast<int>(members_.size()); }
  int world(int rank) const noexcept { return members_[static_cast<std::size_t>(rank)]; }
  const std::vector<int>& members() const noexcept { return members_; }
  // True if rank i is world rank i for every i: translation is the identity.
  bool is_identity() const noexcept { return identity_; }
  // Returns the rank of a world rank, or MPI_UNDEFINED.
  int rank_of(int world) const noexcept;
  // Returns the rank of this process, or MPI_UNDEFINED.
  int rank() const noexcept { return own_rank_; }
  // True if some members are of other jobs. They keep their numbers as long as the group exists.
  bool has_foreign_members() const noexcept { return has_foreign_members_; }
  // The session the group comes from, if any. Not to be dereferenced: it may have ended.
  const Session* session() const noexcept { return session_; }

 private:
  std::vector<int> members_;
  std::vector<std::pair<int, int>> by_world_;  // (world rank, rank), sorted; empty if identity
  bool identity_ = true;
  bool has_foreign_members_ = false;
  int own_rank_ = MPI_UNDEFINED;
  const Session* session_ = nullptr;
};

using GroupPtr = std::shared_ptr<const Group>;

// Returns the group behind a handle, or null if there is none.
GroupPtr find_group(MPI_Group handle);
// Returns a new handle; MPI_GROUP_EMPTY for an empty group.
MPI_Group make_group_handle(GroupPtr group);
// Returns MPI_IDENT, MPI_SIMILAR or MPI_UNEQUAL.
int compare_groups(const Group& a, const Group& b);
void clear_groups();

}  // namespace weft::mpi
