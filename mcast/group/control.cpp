// Control messages of other members of a group.
#include <fmt/core.h>

#include "mcast/group/group_impl.hpp"

namespace weft::mcast {

// False: the message is not valid.
bool GroupImpl::on_failed(Bytes bytes) {
  FailedMessage message;
  Bytes text;
  if (!read_message(bytes, message, text) || !is_sane(message, text)) return false;
  fail(static_cast<Code>(message.code), message.who,
       std::string(reinterpret_cast<const char*>(text.data()), text.size()));
  return true;
}

void GroupImpl::on_message(Connection& connection, Bytes bytes) {
  Head head;
  Bytes body;
  Neighbor* neighbor = find(connection);
  if (is_over() || !read_message(bytes, head, body)) return;
  // Where lists differ, a member that is no neighbor here may know why.
  if (neighbor == nullptr) {
    if (head.kind == Kind::failed && !is_going_) on_failed(bytes);
    return;
  }
  const auto corrupt = [&] {
    fail(Code::corrupt, neighbor->rank,
         fmt::format("{} sent an invalid message (kind {})", name(neighbor->rank),
                     static_cast<int>(head.kind)));
  };
  const auto with = [&]<class M>(M message, auto&& handle) {
    if (read_message(bytes, message, body))
      handle(message);
    else
      corrupt();
  };
  const bool is_from_parent = neighbor->rank == parent_;
  // A member with another list of members uses other ranks.
  if (head.rank != neighbor->rank && head.kind != Kind::hello && head.kind != Kind::failed)
    return corrupt();
  switch (head.kind) {
    case Kind::hello: {
      HelloMessage theirs;
      if (!read_hello(bytes, theirs)) return corrupt();
      return on_hello(*neighbor, theirs, bytes.subspan(std::min(bytes.size(), sizeof theirs)));
    }
    case Kind::joined:
      if (!neighbor->is_child) return corrupt();
      return with(JoinedMessage{}, [&](auto& m) {
        neighbor->has_joined = true;
        neighbor->channels = m.channels;
        neighbor->why_not.assign(reinterpret_cast<const char*>(body.data()),
                                 std::min(body.size(), kMaxTextBytes));
        note_joined();
      });
    case Kind::go:
      if (!is_from_parent) return corrupt();
      return with(GoMessage{}, [&](auto& m) { go(m); });
    case Kind::announce:
      if (!is_from_parent) return corrupt();
      return with(AnnounceMessage{}, [&](auto& m) {
        send_to_children(m);
        on_arrival(m.sequence, {m.bytes, m.packet_bytes, {}});
      });
    case Kind::small:
      if (neighbor->rank != 0) return corrupt();
      return with(AnnounceMessage{}, [&](auto& m) {
        if (m.bytes != body.size() || m.bytes > settings_.small_bytes) return corrupt();
        on_arrival(m.sequence, {m.bytes, 0, std::vector(body.begin(), body.end())});
      });
    case Kind::ready:
      return with(ReadyMessage{}, [&](auto& m) { on_ready(*neighbor, m); });
    case Kind::credit:
      return with(CreditMessage{}, [&](auto& m) { on_credit(*neighbor, m); });
    case Kind::heard:
      if (!neighbor->is_child || native_ == nullptr) return corrupt();
      return native_->on_heard(neighbor->child);
    case Kind::able:
      if (!neighbor->is_child || native_ == nullptr) return corrupt();
      return with(CountMessage{}, [&](auto& m) { native_->on_able(neighbor->child, m.count); });
    case Kind::progress:
      if (!neighbor->is_child || native_ == nullptr) return corrupt();
      return with(ProgressMessage{}, [&](auto& m) {
        check_native(*neighbor, native_->on_progress(neighbor->child, m.count, m.lost));
      });
    case Kind::mark:
      if (!is_from_parent || native_ == nullptr) return corrupt();
      return with(CountMessage{},
                  [&](auto& m) { check_native(*neighbor, native_->on_mark(m.count)); });
    case Kind::lack:
      if (!neighbor->is_child || native_ == nullptr) return corrupt();
      return with(LackMessage{}, [&](auto& m) { on_lack(*neighbor, m, body); });
    case Kind::taken:
      return with(CountMessage{}, [&](auto& m) {
        neighbor->num_taken = m.count;
        multicast_.make_active(*this);
      });
    case Kind::have:
      return with(CountMessage{}, [&](auto& m) {
        neighbor->num_have = m.count;
        note_have();
        multicast_.make_active(*this);
      });
    case Kind::stable:
      if (!is_from_parent) return corrupt();
      return with(CountMessage{}, [&](auto& m) {
        send_to_children(m);
        num_stable_ = m.count;
        multicast_.make_active(*this);
      });
    case Kind::ending:
      if (!is_from_parent) return corrupt();
      return with(CountMessage{}, [&](auto& m) {
        send_to_children(m);
        num_in_all_ = m.count;
        note_all();
      });
    case Kind::has_all:
      if (!neighbor->is_child) return corrupt();
      neighbor->has_all = true;
      return note_all();
    case Kind::closed:
      return num_in_all_ == num_delivered_ ? note_closed() : corrupt();
    case Kind::failed:
      if (!on_failed(bytes)) corrupt();
      return;
    default:
      return corrupt();
  }
}

}  // namespace weft::mcast
