// A group's joining, failing and closing.
#include <fmt/core.h>
#include <sodium.h>

#include <algorithm>
#include <set>

#include "mcast/group/digest.hpp"
#include "mcast/group/group_impl.hpp"
#include "weft/job.hpp"

namespace weft {

Group::Group(Multicast& multicast, GroupSettings settings, GroupEvents events)
    : impl_(std::make_shared<mcast::GroupImpl>(*multicast.impl_, std::move(settings),
                                               std::move(events))) {
  impl_->join();
}
Group::~Group() { impl_->leave(); }
Status Group::ready() { return impl_->ready(); }
Status Group::send(const void* data, std::uint64_t bytes) { return impl_->send(data, bytes); }
Status Group::post(void* memory, std::uint64_t bytes) { return impl_->post(memory, bytes); }
Status Group::close(int timeout_ms) { return impl_->close(timeout_ms); }
Status Group::status() const { return impl_->status(); }
int Group::rank() const noexcept { return impl_->rank(); }
int Group::size() const noexcept { return impl_->size(); }
Status Group::native() const { return impl_->native(); }
std::uint64_t Group::num_completed() const noexcept { return impl_->num_completed(); }
int Group::num_neighbors() const noexcept { return impl_->num_neighbors(); }

namespace mcast {

namespace {

constexpr int kMaxMembers = 65'535;
constexpr int kMaxSmallMembers = 16;
constexpr std::size_t kMaxSmallBytes = 10'240;
// Deadline for a member to reconnect after its old connection ended: that of a silent peer.
constexpr auto kReconnectDeadline = std::chrono::milliseconds(5'000);
// Deadline for others to say why a member has ended before it greeted.
constexpr auto kReasonDeadline = std::chrono::milliseconds(1'000);

// That close() waits beyond the Node's timeout: a lost member is named by its other neighbors, too.
constexpr int kMorePatienceMs = 15'000;

// Of another member's bytes, what an error may show of a name or an address.
std::string shown(Bytes bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data()),
                   std::min(bytes.size(), std::size_t{80}));
  if (const std::size_t end = text.find('\0'); end != std::string::npos) text.resize(end);
  for (char& letter : text)
    if (letter < ' ' || letter > '~') letter = '?';
  return text;
}

// In native groups the pipeline moves what the network does not copy.
constexpr std::string_view kNative = "native";

const Algorithm& checked_algorithm(const GroupSettings& settings) {
  const int size = static_cast<int>(settings.members.size());
  const auto wrong = [](const std::string& text) { throw Error({Code::bad_argument, text}); };
  if (size < 1 || size > kMaxMembers)
    wrong(fmt::format("a group has 1 to {} members, not {}", kMaxMembers, size));
  if (settings.self < 0 || settings.self >= size)
    wrong(fmt::format("there is no member {} in a group of {}", settings.self, size));
  if (std::set(settings.members.begin(), settings.members.end()).size() != settings.members.size())
    wrong("a member is in the list of a group twice");
  if (settings.block_bytes > (std::size_t{1} << 30))
    wrong(fmt::format("blocks of a group have at most 1 GiB, not {} bytes", settings.block_bytes));
  if (settings.small_bytes > kMaxSmallBytes)
    wrong(fmt::format("small messages of a group have at most {} bytes", kMaxSmallBytes));
  if (!settings.racks.empty() && settings.racks.size() != settings.members.size())
    wrong("racks of a group are given for all members or for none");
  if (settings.algorithm != kNative && !settings.multicast_address.empty())
    wrong(fmt::format("a group by {} has no multicast address", settings.algorithm));
  const Algorithm* algorithm =
      settings.algorithm == kNative ? &kBinomialPipeline : find_algorithm(settings.algorithm);
  if (algorithm == nullptr) {
    std::string names = fmt::format(" {}", kNative);
    for (const Algorithm* item : algorithms()) names += fmt::format(" {}", item->name);
    wrong(fmt::format("unknown multicast algorithm {}; known:{}", settings.algorithm, names));
  }
  return *algorithm;
}

// Two members that give one place would wait for whose place the other is. Where the list has the
// text of this Node's address, that is its place.
void take_place(MulticastImpl& multicast, GroupSettings& settings) {
  const auto is_node = [](const std::string& text) { return text.starts_with("weft:"); };
  std::string own;
  if (!std::ranges::any_of(settings.members, is_node) || !multicast.node().address(own)) return;
  const auto found = std::ranges::find(settings.members, own);
  if (found != settings.members.end())
    settings.self = static_cast<int>(found - settings.members.begin());
}

// Translates ranks of the job into addresses of members. given_self: as it is in the settings.
GroupSettings with_members(MulticastImpl& multicast, GroupSettings settings, int& given_self) {
  const std::vector<JobRank>& ranks = multicast.ranks();
  const auto wrong = [](const std::string& text) { throw Error({Code::bad_argument, text}); };
  if (settings.members.empty() && settings.ranks.empty())
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      settings.ranks.push_back(static_cast<int>(rank));
  if (settings.ranks.empty()) {
    given_self = settings.self;
    if (given_self >= 0 && given_self < static_cast<int>(settings.members.size()))
      take_place(multicast, settings);
    return settings;
  }
  if (!settings.members.empty())
    wrong("the members of a group are given by address or by rank, not both");
  if (ranks.empty()) wrong("a group of ranks needs a Multicast that was made of a job");
  const bool knows_racks = !settings.racks.empty();
  settings.self = -1;
  for (const int rank : settings.ranks) {
    if (rank < 0 || rank >= static_cast<int>(ranks.size()))
      wrong(fmt::format("there is no rank {} in a job of {}", rank, ranks.size()));
    if (rank == multicast.rank()) settings.self = static_cast<int>(settings.members.size());
    const JobRank& member = ranks[static_cast<std::size_t>(rank)];
    settings.members.push_back(member.address);
    if (!knows_racks) settings.racks.push_back(member.host);
  }
  if (settings.self < 0)
    wrong(fmt::format("rank {} is not among the ranks of its group", multicast.rank()));
  given_self = settings.self;
  return settings;
}

// The parent in the tree of control messages: an edge of the pipeline's hypercube, or the other
// member of a pair.
int parent_of(int rank, int size) {
  int corner = 1;
  while (2 * corner <= size) corner *= 2;
  return rank >= corner ? rank - corner + 1 : rank & (rank - 1);
}

// The same in native groups, where the parent repairs as well: the first member of the rack or one
// nearer to it; of that one the first member of another rack.
int near_parent_of(int rank, const Racks& racks) {
  const auto [rack, index] = racks.position(rank);
  if (index == 0) return racks.leader(parent_of(rack, racks.num_racks()));
  const std::span<const int> members = racks.members(rack);
  return members[static_cast<std::size_t>(parent_of(index, static_cast<int>(members.size())))];
}

}  // namespace

GroupImpl::GroupImpl(MulticastImpl& multicast, GroupSettings settings, GroupEvents events)
    : multicast_(multicast),
      settings_(with_members(multicast, std::move(settings), given_self_)),
      events_(std::move(events)),
      handle_(multicast.next_handle()),
      algorithm_(&checked_algorithm(settings_)),
      racks_(settings_.racks, size()),
      is_one_host_(!settings_.ranks.empty() && racks_.num_racks() == 1) {
  std::set<int> ranks;
  for (const int rank : mcast::neighbors(*algorithm_, racks_, size(), settings_.self))
    ranks.insert(rank);
  const auto parent = [this](int rank) {
    return settings_.algorithm == kNative ? near_parent_of(rank, racks_) : parent_of(rank, size());
  };
  std::set<int> children;
  for (int rank = 1; rank < size(); ++rank)
    if (parent(rank) == settings_.self) children.insert(rank);
  ranks.insert(children.begin(), children.end());
  if (!is_root()) ranks.insert(parent_ = parent(settings_.self));
  uses_small_ = size() <= kMaxSmallMembers && settings_.small_bytes > 0;
  if (uses_small_ && !is_root()) ranks.insert(0);
  if (uses_small_ && is_root())
    for (int rank = 1; rank < size(); ++rank) ranks.insert(rank);
  for (const int rank : ranks) {
    Neighbor neighbor{.rank = rank};
    neighbor.is_child = children.contains(rank);
    neighbors_.push_back(std::move(neighbor));
  }
  if (settings_.algorithm == kNative) open_native();
}

void GroupImpl::join() {
  std::lock_guard guard(multicast_.lock());
  if (multicast_.has(settings_.id))
    throw Error(
        {Code::bad_argument, fmt::format("group {} exists already in this process", settings_.id)});
  create_until_ = Clock::now() + std::chrono::milliseconds(settings_.create_timeout_ms);
  const auto& own = settings_.members[static_cast<std::size_t>(settings_.self)];
  for (Neighbor& neighbor : neighbors_) {
    neighbor.connection =
        &multicast_.use(own, settings_.members[static_cast<std::size_t>(neighbor.rank)], *this);
    neighbor.is_old = static_cast<bool>(neighbor.connection->peer);
    if (neighbor.is_old) send_hello(neighbor);
  }
  multicast_.add(shared_from_this());
  FailedMessage failure;
  Bytes text;
  if (const auto* bytes = multicast_.failure_of(settings_.id);
      bytes != nullptr && read_message(*bytes, failure, text))
    fail(static_cast<Code>(failure.code), failure.who,
         std::string(reinterpret_cast<const char*>(text.data()), text.size()));
  if (given_self_ != settings_.self)
    fail(Code::bad_argument, settings_.self,
         fmt::format("{} has {} as its self", name(settings_.self), given_self_));
  note_joined();
  multicast_.make_active(*this);
  multicast_.wake();
}

void GroupImpl::leave() {
  std::unique_lock guard(multicast_.lock());
  is_dead_ = true;
  if (!is_over())
    fail(Code::cancelled, settings_.self,
         fmt::format("{} left before the group was closed", name(settings_.self)));
  multicast_.make_active(*this);
  multicast_.wake();
  multicast_.changed().wait(guard, [&] { return puts_.empty() && num_calls_ == 0; });
  multicast_.remove(*this);
  for (Neighbor& neighbor : neighbors_) {
    neighbor.memories.clear();
    neighbor.buffers.clear();
  }
}

std::string GroupImpl::name(int rank) const {
  const auto place = static_cast<std::size_t>(rank);
  return fmt::format(
      "member {} ({})", rank,
      settings_.ranks.empty()
          ? settings_.members[place]
          : multicast_.ranks()[static_cast<std::size_t>(settings_.ranks[place])].name);
}

GroupImpl::Neighbor* GroupImpl::find(const Connection& connection) {
  for (Neighbor& neighbor : neighbors_)
    if (neighbor.connection == &connection) return &neighbor;
  return nullptr;
}

// Fails the group if a member misses its deadline.
void GroupImpl::end_waiting(Clock::time_point now) {
  for (const Neighbor& neighbor : neighbors_)
    if (neighbor.back_until && now >= *neighbor.back_until)
      return fail(Code::peer_lost, neighbor.rank,
                  fmt::format("{} is lost: {}", name(neighbor.rank), neighbor.why_lost));
  if (now <= create_until_) return;
  std::string missing;
  for (const Neighbor& neighbor : neighbors_) {
    if (neighbor.has_greeted && (!neighbor.is_child || neighbor.has_joined)) continue;
    missing = fmt::format("{} {} in {} ms", name(neighbor.rank),
                          neighbor.has_greeted ? "waits for members below it" : "did not join",
                          settings_.create_timeout_ms);
    if (!neighbor.connection->last_failure)
      missing += ": " + neighbor.connection->last_failure.text();
    if (!neighbor.has_greeted) break;
  }
  if (missing.empty())
    missing = fmt::format("not all members joined in {} ms", settings_.create_timeout_ms);
  fail(Code::timed_out, -1, missing);
}

GroupImpl::Neighbor* GroupImpl::find(int rank) {
  for (Neighbor& neighbor : neighbors_)
    if (neighbor.rank == rank) return &neighbor;
  return nullptr;
}

void GroupImpl::call_user(std::function<void()> function) {
  ++num_calls_;
  multicast_.call([self = shared_from_this(), function = std::move(function)] {
    bool is_dead = false;
    {
      std::lock_guard guard(self->multicast_.lock());
      is_dead = self->is_dead_;
    }
    if (!is_dead) function();
    std::lock_guard guard(self->multicast_.lock());
    if (--self->num_calls_ == 0) self->multicast_.changed().notify_all();
  });
}

// Runs on the Multicast's thread without the lock, before the program's completion callback.
void GroupImpl::deregister(void* memory) {
  ++num_calls_;
  multicast_.call([self = shared_from_this(), memory] {
    [[maybe_unused]] const Status status = self->multicast_.node().deregister_memory(memory);
    std::lock_guard guard(self->multicast_.lock());
    if (--self->num_calls_ == 0) self->multicast_.changed().notify_all();
  });
}

// Joining.

HelloMessage GroupImpl::hello() const {
  HelloMessage message{};
  message.kind = Kind::hello;
  message.version = kWireVersion;
  message.handle = handle_;
  message.num_members = static_cast<std::uint32_t>(size());
  message.block_bytes = settings_.block_bytes;
  message.small_bytes = settings_.small_bytes;
  settings_.algorithm.copy(message.algorithm.data(), message.algorithm.size() - 1);
  message.members_digest = digest(settings_.members);
  message.racks_digest = digest(settings_.racks);
  message.address_digest = digest(std::vector{settings_.multicast_address});
  message.delivery_all = settings_.delivery_all ? 1 : 0;
  return message;
}

void GroupImpl::send_hello(Neighbor& neighbor) {
  HelloMessage message = hello();
  message.text_bytes = static_cast<std::uint32_t>(settings_.multicast_address.size());
  send_to(neighbor, message, std::as_bytes(std::span(settings_.multicast_address)));
}

bool GroupImpl::wants_hello(const Connection& connection) {
  const Neighbor* neighbor = find(connection);
  return !is_over() && neighbor != nullptr && !neighbor->has_greeted;
}

void GroupImpl::on_connected(Connection& connection) {
  Neighbor* neighbor = find(connection);
  if (neighbor == nullptr || is_over()) return;
  neighbor->is_old = false;
  neighbor->back_until.reset();
  send_hello(*neighbor);
}

void GroupImpl::on_unreachable(Connection& connection, const Status& why) {
  const Neighbor* neighbor = find(connection);
  if (neighbor != nullptr && !is_going_)
    fail(why.code(), neighbor->rank,
         fmt::format("{} cannot be reached: {}", name(neighbor->rank), why.text()));
}

FailedMessage GroupImpl::failed_message(Code code, int who, std::string_view text) const {
  FailedMessage message{};
  message.kind = Kind::failed;
  message.rank = static_cast<std::uint16_t>(settings_.self);
  message.group = settings_.id;
  message.text_bytes = static_cast<std::uint32_t>(text.size());
  message.code = static_cast<std::uint32_t>(code);
  message.who = who;
  return message;
}

// The first setting in which the hello differs from this member's; empty: none.
std::string GroupImpl::difference(const HelloMessage& theirs, Bytes text) const {
  const HelloMessage mine = hello();
  const auto is_on = [](std::uint32_t value) { return value != 0 ? "on" : "off"; };
  if (theirs.version != mine.version)
    return fmt::format("speaks version {}, this member {}", theirs.version, mine.version);
  if (theirs.num_members != mine.num_members)
    return fmt::format("has {} members in its list, this member {}", theirs.num_members,
                       mine.num_members);
  if (theirs.members_digest != mine.members_digest)
    return "has another list of members, or the same in another order";
  if (theirs.block_bytes != mine.block_bytes)
    return fmt::format("has blocks of {} bytes, this member of {}", theirs.block_bytes,
                       mine.block_bytes);
  if (theirs.algorithm != mine.algorithm)
    return fmt::format("uses the algorithm {}, this member {}",
                       shown(std::as_bytes(std::span(theirs.algorithm))), settings_.algorithm);
  if (theirs.address_digest != mine.address_digest)
    return fmt::format("has the multicast address '{}', this member '{}'", shown(text),
                       settings_.multicast_address);
  if (theirs.racks_digest != mine.racks_digest) return "has other racks";
  if (theirs.small_bytes != mine.small_bytes)
    return fmt::format("has small_bytes of {}, this member of {}", theirs.small_bytes,
                       mine.small_bytes);
  if (theirs.delivery_all != mine.delivery_all)
    return fmt::format("has delivery_all {}, this member {}", is_on(theirs.delivery_all),
                       is_on(mine.delivery_all));
  return {};
}

void GroupImpl::on_hello(Neighbor& neighbor, const HelloMessage& theirs, Bytes text) {
  std::string what = difference(theirs, text);
  if (what.empty() && theirs.rank != neighbor.rank)
    what = fmt::format("calls itself member {} of the same list", theirs.rank);
  if (!what.empty())
    return fail(Code::bad_argument, neighbor.rank,
                fmt::format("{} does not agree with {}: it {}", name(neighbor.rank),
                            name(settings_.self), what));
  neighbor.has_greeted = true;
  neighbor.handle = theirs.handle;
  note_joined();
}

bool GroupImpl::refuse_foreign_hello(Connection& connection, Bytes bytes) {
  HelloMessage theirs;
  if (is_over() || is_going_ || find(connection) != nullptr || !read_hello(bytes, theirs))
    return false;
  std::string what = difference(theirs, bytes.subspan(std::min(bytes.size(), sizeof theirs)));
  if (what.empty()) what = "calls itself another member";
  Neighbor foreign{.rank = -1, .connection = &connection};
  what = fmt::format("member {} ({}) does not agree with {}: it {}", theirs.rank,
                     connection.address, name(settings_.self), what);
  fail(Code::bad_argument, theirs.rank, what);
  const FailedMessage message = failed_message(Code::bad_argument, theirs.rank, what);
  send_to(foreign, message, std::as_bytes(std::span(what)));
  return true;
}

void GroupImpl::note_joined() {
  if (has_joined_ || is_over()) return;
  for (const Neighbor& neighbor : neighbors_)
    if (!neighbor.has_greeted || (neighbor.is_child && !neighbor.has_joined)) return;
  has_joined_ = true;
  send_joined();
}

void GroupImpl::go(const GoMessage& message) {
  if (is_going_ || is_over()) return;
  is_going_ = true;
  send_to_children(message);
  if (native_ != nullptr) native_->start({message.token, message.channel});
  for (const Posted& posted : posted_)
    for (Neighbor& neighbor : neighbors_)
      send_ready(neighbor, posted.sequence, posted.bytes, posted.key);
  multicast_.make_active(*this);
  multicast_.changed().notify_all();
}

// A wait for the progress thread would never end on that thread.
Status GroupImpl::refuse_own_thread(const char* call) const {
  if (!multicast_.is_own_thread()) return {};
  return {Code::bad_argument,
          fmt::format("{} of group {} within a callback, which would wait for itself", call,
                      settings_.id)};
}

Status GroupImpl::ready() {
  if (Status status = refuse_own_thread("ready"); !status) return status;
  std::unique_lock guard(multicast_.lock());
  // end_waiting() bounds this by create_timeout_ms.
  multicast_.changed().wait(guard, [&] { return is_going_ || failed_; });
  return failed_ ? *failed_ : Status();
}

// Failing.

void GroupImpl::fail(Code code, int who, std::string text) {
  if (is_over()) return;
  if (text.size() > kMaxTextBytes) text.resize(kMaxTextBytes);
  failed_ = Status(code, fmt::format("group {} has failed: {}", settings_.id, text));
  multicast_.note_failed(settings_.id, failed_message(code, who, text), text);
  // A member that has not come yet hears why, too, and not only that others did not join.
  for (const Neighbor& neighbor : neighbors_)
    if (neighbor.connection != nullptr &&
        (neighbor.connection->peer ||
         (!is_going_ && (neighbor.rank != who || code != Code::peer_lost))))
      multicast_.tell_failure(*neighbor.connection, settings_.id, create_until_);
  queued_.clear();
  for (const auto& item : messages_)
    if (item->is_registered_here) deregister(item->data);
  if (events_.on_failure && !is_dead_)
    call_user([this, status = *failed_] { events_.on_failure(status); });
  multicast_.make_active(*this);
  multicast_.changed().notify_all();
}

void GroupImpl::on_lost(Connection& connection, const Status& why) {
  Neighbor* neighbor = find(connection);
  if (neighbor == nullptr || is_over()) return;
  // The peers of a connection that earlier groups used may detect its end at different times: the
  // hello was lost, and the member counts as not connected yet. So does one that ends before it has
  // greeted: it may have left as members differ, which others are about to say.
  if (!neighbor->has_greeted) {
    neighbor->back_until = std::min(
        Clock::now() + (neighbor->is_old ? kReconnectDeadline : kReasonDeadline), create_until_);
    neighbor->is_old = false;
    neighbor->why_lost = why.text();
    const auto& members = settings_.members;
    multicast_.use(members[static_cast<std::size_t>(settings_.self)],
                   members[static_cast<std::size_t>(neighbor->rank)], *this);
    return multicast_.make_active(*this);
  }
  fail(Code::peer_lost, neighbor->rank,
       fmt::format("{} is lost: {}", name(neighbor->rank), why.text()));
}

Status GroupImpl::status() {
  std::lock_guard guard(multicast_.lock());
  return failed_ ? *failed_ : Status();
}

std::uint64_t GroupImpl::num_completed() {
  std::lock_guard guard(multicast_.lock());
  return num_completed_;
}

// Closing.

Status GroupImpl::close(int timeout_ms) {
  if (Status status = refuse_own_thread("close"); !status) return status;
  const std::chrono::milliseconds patience(
      timeout_ms < 0 ? std::int64_t{multicast_.node().timeout_ms()} + kMorePatienceMs : timeout_ms);
  std::unique_lock guard(multicast_.lock());
  if (is_root() && !num_in_all_) {
    num_in_all_ = num_sent_;
    multicast_.make_active(*this);
    multicast_.wake();
  }
  if (!multicast_.changed().wait_for(guard, patience,
                                     [&] { return is_over() && puts_.empty() && num_calls_ == 0; }))
    return {Code::timed_out,
            fmt::format("group {} is not closed after {} ms: {} of {} messages are here{}",
                        settings_.id, patience.count(), num_completed_,
                        num_in_all_ ? fmt::format("{}", *num_in_all_) : "an unknown number",
                        unreachable())};
  return failed_ ? *failed_ : Status();
}

// The neighbors whose links are down. Empty: there are none.
std::string GroupImpl::unreachable() const {
  std::string text;
  for (const Neighbor& neighbor : neighbors_) {
    const int ms = neighbor.connection != nullptr ? neighbor.connection->peer.unreachable_ms() : 0;
    if (ms > 0) text += fmt::format("; {} has been unreachable for {} ms", name(neighbor.rank), ms);
  }
  if (!text.empty())
    text +=
        fmt::format(" (lost after {} ms, WEFT_PEER_TIMEOUT_MS)", multicast_.node().timeout_ms());
  return text;
}

void GroupImpl::note_have() {
  if ((!settings_.delivery_all && native_ == nullptr) || is_over()) return;
  const std::uint64_t least = least_with_children(num_here_, &Neighbor::num_have);
  if (least <= num_reported_have_) return;
  if (!settings_.delivery_all && !native_->has(num_reported_have_, least)) return;
  num_reported_have_ = least;
  if (is_root()) {
    num_stable_ = least;
    if (settings_.delivery_all) send_to_children(CountMessage{{.kind = Kind::stable}, least});
    multicast_.make_active(*this);
  } else {
    send_to(*find(parent_), CountMessage{{.kind = Kind::have}, least});
  }
}

void GroupImpl::note_all() {
  if (has_reported_all_ || is_over() || !is_going_ || num_delivered_ != num_in_all_) return;
  for (const Neighbor& neighbor : neighbors_)
    if (neighbor.is_child && !neighbor.has_all) return;
  has_reported_all_ = true;
  if (is_root()) return note_closed();
  send_to(*find(parent_), Head{.kind = Kind::has_all});
}

// All neighbors are notified before this member can leave, so that none takes that for a loss.
void GroupImpl::note_closed() {
  if (is_over()) return;
  closed_ = true;
  for (Neighbor& neighbor : neighbors_) send_to(neighbor, Head{.kind = Kind::closed});
  multicast_.changed().notify_all();
}

}  // namespace mcast

}  // namespace weft
