#pragma once
// The directory that is kept by the managers themselves. Each answers for a share of the ids: the
// member whose generation and the id have the highest hash (rendezvous hashing), so that a member
// that comes or goes moves only its own share. Holders announce what they hold to the answerer, and
// again when the answerer changes; managers that want an object watch it there. The knowledge of a
// manager that dies is lost, and the holders announce to its successor.
#include <deque>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "directory.hpp"

namespace weft::objstore {

class EmbeddedDirectory final : public Directory {
 public:
  EmbeddedDirectory(DirectoryUser& user, std::uint64_t self) : user_(user), self_(self) {}

  void open() override;
  void announce(const ObjectId& id, Announced kind) override;
  void withdraw(const ObjectId& id) override;
  void confirm(const ObjectId& id, std::uint64_t number) override;
  void watch(const ObjectId& id, const PeerMessage& ask) override;
  std::uint64_t answerer(const ObjectId& id) const override;
  void unwatch(const ObjectId& id) override;
  void erase(const ObjectId& id) override;
  void joined(std::uint64_t member) override;
  void lost(std::uint64_t member) override;
  void received(std::uint64_t from, const PeerMessage& message) override;
  void progress(std::uint64_t now_ns) override;
  void await(std::vector<pollfd>&) override {}
  void status(nlohmann::json& json) override;

 private:
  // An id that this manager answers for.
  struct Known {
    std::set<std::uint64_t> holders, watchers;
    bool is_early = false;        // a copy was announced, and its original not yet
    std::uint64_t erased_ns = 0;  // a copy under way then is erased when it is announced
    bool is_empty() const { return holders.empty() && watchers.empty() && erased_ns == 0; }
  };

  std::uint64_t home_of(const ObjectId& id) const;
  void send(std::uint64_t to, PeerKind kind, const ObjectId& id, std::uint64_t number = 0);
  void send_holders(std::uint64_t to, const ObjectId& id, std::vector<std::uint64_t> holders,
                    bool is_deleted, std::uint64_t number = 0);
  void note(std::uint64_t from, const ObjectId& id, Announced kind);
  void answer_erase(std::uint64_t from, const ObjectId& id);

  DirectoryUser& user_;
  const std::uint64_t self_;
  std::set<std::uint64_t> members_;
  std::unordered_set<ObjectId> watched_;
  std::unordered_map<ObjectId, Known> known_;
  std::deque<std::pair<std::uint64_t, ObjectId>> erased_;  // when; what known_ remembers of it
};

}  // namespace weft::objstore
