#include "mpi/ft/control.hpp"

#include <algorithm>
#include <deque>
#include <iterator>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/log.hpp"
#include "base/shortage.hpp"
#include "coll/coll.hpp"
#include "mpi/file/file.hpp"
#include "mpi/ft/wire.hpp"
#include "mpi/tools/tools.hpp"
#include "mpi/window/window.hpp"

namespace weft::mpi::ft {

struct Incoming final : tagged::Kept {
  bool is_over() const noexcept override { return request.is_over(); }
  tagged::Request request;
  std::string bytes;
};

struct Sent final : tagged::Kept {
  explicit Sent(std::string its_bytes) : bytes(std::move(its_bytes)) {}
  bool is_over() const noexcept override { return request.is_over(); }
  tagged::Request request;
  std::string bytes;
};

namespace {

constexpr std::int32_t kTag = -1;
// Agreements of freed communicators, and messages for communicators that are not there yet. Both
// are there for moments, and the oldest go first.
constexpr std::size_t kMostFreed = 1024, kMostEarly = 4096, kMostEarlyBytes = 64 << 20;

void send(int to, std::string bytes) {
  if (to == engine->rank() || !engine->is_alive(to)) return;
  if (engine->try_send(to, kControlContext, kTag, bytes.data(), bytes.size())) return;
  auto sent = std::make_unique<Sent>(std::move(bytes));
  engine->isend(sent->request, to, kControlContext, kTag, sent->bytes.data(), sent->bytes.size());
  engine->keep(std::move(sent));
}

}  // namespace

struct Control {
  struct Early {
    int source;
    std::uint32_t context;
    std::string bytes;
  };
  // Communicators that a message was for: to be revoked, and to be released, without the mutex.
  struct Found {
    struct Revoked {
      Comm* comm;
      int teller;
    };
    std::vector<Revoked> revoked;
    std::vector<Comm*> others;
    void conclude();
  };

  // Handles the messages that are there. Returns true if one is half-way.
  bool poll();
  // The following with the mutex held.
  bool receive(std::vector<std::pair<int, std::string>>& received);
  void handle(int source, std::string&& bytes, Found& found);
  void handle_agreement(Agreements& one, int source, std::string_view bytes);
  void flush(Agreements& one);
  void lose_members(Agreements& one);
  std::shared_ptr<Agreements> agreements_in(const Comm& comm);
  static void end(Agreements& one) noexcept { one.consensus_.end(); }

  std::mutex mutex;
  std::unordered_map<std::uint32_t, std::shared_ptr<Agreements>> agreements;  // by context
  std::deque<std::uint32_t> freed;  // contexts of `agreements` whose communicators are freed
  std::deque<Early> early;
  std::size_t num_early_bytes = 0;
  std::unique_ptr<Incoming> incoming;
};

namespace {

Immortal<Control> control;

bool run_control() {
  bool is_half_way = true;
  // Without memory the rest waits for the next call.
  (void)or_no_memory([&] { is_half_way = control->poll(); });
  return is_half_way;
}

}  // namespace

Agreements::Agreements(std::uint32_t context, std::vector<int> members, int num_first)
    : context_(context),
      members_(std::move(members)),
      rank_(static_cast<int>(std::ranges::find(members_, engine->rank()) - members_.begin())),
      consensus_(rank_, size(), num_first) {}

std::uint32_t Agreements::take_turn() noexcept {
  const std::lock_guard lock(control->mutex);
  return ++num_turns_;
}

bool Agreements::has_turn(std::uint32_t turn) {
  const std::lock_guard lock(control->mutex);
  return num_taken_ + 1 == turn && consensus_.round() + 1 == turn;
}

void Agreements::begin(const Contribution& contribution) {
  const std::lock_guard lock(control->mutex);
  control->lose_members(*this);
  consensus_.start(contribution);
  control->flush(*this);
}

bool Agreements::has_ended(std::uint32_t turn, Decision& decision) {
  (void)control->poll();
  const std::lock_guard lock(control->mutex);
  control->lose_members(*this);
  if (consensus_.last().round != turn) return false;
  decision = consensus_.last();
  num_taken_ = turn;
  return true;
}

void Control::lose_members(Agreements& one) {
  Consensus& consensus = one.consensus_;
  if (const std::uint32_t num_lost = engine->num_lost(); num_lost != one.lost_seen_) {
    one.lost_seen_ = num_lost;
    for (int rank = 0; rank < one.size(); ++rank)
      if (rank != one.rank() && !engine->is_alive(one.world(rank))) consensus.lose(rank);
    flush(one);
  }
  // The coordinator waits for members of which it may never have had a message.
  if (!consensus.is_active() || one.is_watching_ || consensus.coordinator() != one.rank()) return;
  one.is_watching_ = true;
  for (const int member : one.members_)
    if (member != engine->rank()) engine->watch(member);
}

void Control::flush(Agreements& one) {
  for (const auto& [to, message] : one.consensus_.take_messages())
    send(one.world(to), encode(one.context_, message));
}

bool Control::receive(std::vector<std::pair<int, std::string>>& received) {
  constexpr std::size_t kMostBytes = 1 << 20;
  for (;;) {
    if (incoming == nullptr) {
      tagged::MessageInfo info;
      if (engine->iprobe(tagged::kAnySource, kControlContext, kTag, info) != Code::ok) return false;
      incoming = std::make_unique<Incoming>();
      incoming->bytes.resize(std::min(info.bytes, kMostBytes));
      engine->irecv(incoming->request, info.source, kControlContext, kTag, incoming->bytes.data(),
                    incoming->bytes.size());
    }
    const tagged::Request& request = incoming->request;
    if (!request.is_complete()) return true;
    if (request.code == Code::ok && request.received == incoming->bytes.size())
      received.emplace_back(request.peer, std::move(incoming->bytes));
    incoming.reset();
  }
}

void Control::handle_agreement(Agreements& one, int source, std::string_view bytes) {
  const auto member = std::ranges::find(one.members_, source);
  Message message;
  if (member == one.members_.end() || !decode(bytes, one.size(), message)) {
    log_line(LogLevel::warn, engine->rank(),
             "a message of {} about an agreement makes no sense and is ignored",
             engine->job().describe(source));
    return;
  }
  one.consensus_.receive(static_cast<int>(member - one.members_.begin()), message);
  flush(one);
}

void Control::handle(int source, std::string&& bytes, Found& found) {
  ControlHead head;
  if (!decode_head(bytes, head)) {
    log_line(LogLevel::warn, engine->rank(), "an unknown control message of {} is ignored",
             engine->job().describe(source));
    return;
  }
  const bool revokes = head.kind == ControlHead::kRevoke;
  if (!revokes)
    if (const auto known = agreements.find(head.context); known != agreements.end())
      return handle_agreement(*known->second, source, bytes);
  found.revoked.reserve(found.revoked.size() + 1);
  found.others.reserve(found.others.size() + 1);
  Comm* comm = retain_open(head.context);
  if (comm != nullptr && comm->is_being_made.load(std::memory_order_relaxed)) {
    found.others.push_back(comm);
    comm = nullptr;
  }
  if (comm == nullptr) {
    // This process has not finished making it.
    num_early_bytes += bytes.size();
    early.push_back({source, head.context, std::move(bytes)});
    while (early.size() > kMostEarly || num_early_bytes > kMostEarlyBytes) {
      num_early_bytes -= early.front().bytes.size();
      early.pop_front();
    }
    return;
  }
  const bool is_member = comm->group->rank_of(source) != MPI_UNDEFINED ||
                         comm->peer_group().rank_of(source) != MPI_UNDEFINED;
  if (revokes && is_member)
    found.revoked.push_back({comm, source});
  else
    found.others.push_back(comm);
  if (!revokes && is_member) handle_agreement(*agreements_in(*comm), source, bytes);
}

void Control::Found::conclude() {
  for (const auto& [comm, teller] : revoked) {
    revoke(*comm, teller);
    release(comm);
  }
  for (Comm* comm : others) release(comm);
}

bool Control::poll() {
  Found found;
  bool is_half_way;
  {
    const std::lock_guard lock(mutex);
    std::vector<std::pair<int, std::string>> received;
    is_half_way = receive(received);
    for (auto& [source, bytes] : received) handle(source, std::move(bytes), found);
  }
  found.conclude();
  return is_half_way;
}

std::shared_ptr<Agreements> Control::agreements_in(const Comm& comm) {
  std::shared_ptr<Agreements>& place = agreements[comm.context];
  if (place == nullptr) {
    const Group& first = comm.is_inter() && !leads(comm) ? *comm.remote : *comm.group;
    place.reset(new Agreements(comm.context, members_of(comm), first.size()));
  }
  return place;
}

std::vector<int> members_of(const Comm& comm) {
  std::vector<int> members;
  const bool remote_first = comm.is_inter() && !leads(comm);
  if (remote_first) members = comm.remote->members();
  members.insert(members.end(), comm.group->members().begin(), comm.group->members().end());
  if (comm.is_inter() && !remote_first)
    members.insert(members.end(), comm.remote->members().begin(), comm.remote->members().end());
  return members;
}

std::shared_ptr<Agreements> agreements_of(const Comm& comm) {
  const std::lock_guard lock(control->mutex);
  return control->agreements_in(comm);
}

namespace {

// Returns what MPI_Comm_toint, MPI_Win_toint or MPI_File_toint gives for what is revoked with this
// communicator, whose window has no epochs from now on.
int end_all(Comm& comm) {
  const std::lock_guard lock(comm.mutex);
  if (comm.window == nullptr) return CommTable::to_int(comm.handle);
  end_epochs(*comm.window);
  return comm.window->file != MPI_FILE_NULL ? FileTable::to_int(comm.window->file)
                                            : WindowTable::to_int(comm.window->handle);
}

}  // namespace

void revoke(Comm& comm, int teller) {
  const std::vector<int> members = members_of(comm);
  // relaxed: requests that end publish it.
  if (comm.is_revoked.exchange(true, std::memory_order_relaxed)) return;
  comm.num_peers.store(0, std::memory_order_relaxed);
  comm.is_special.store(true, std::memory_order_relaxed);
  // Its channels, that of partitioned messages, and the team's, which is the same but between two
  // groups.
  comm.for_each_channel([](std::uint32_t context) { engine->revoke(context); });
  for (const std::uint32_t context : {comm.context + 1, comm.team->context()})
    engine->revoke(context);
  const int handle = end_all(comm);
  comm.team->interrupt();
  const auto tell = [&](std::size_t member) { send(members[member], encode_revoke(comm.context)); };
  // Who revokes tells all. Who hears of it tells all again, as that one may have died on the way;
  // in large groups those a power of two away, on both sides: what reaches one member reaches all.
  constexpr std::size_t kFew = 64;
  const std::size_t size = members.size();
  if (teller == engine->rank() || size <= kFew) {
    for (std::size_t member = 0; member < size; ++member) tell(member);
  } else {
    const auto self =
        static_cast<std::size_t>(std::ranges::find(members, engine->rank()) - members.begin());
    for (std::size_t distance = 1; distance < size; distance *= 2) {
      tell((self + distance) % size);
      tell((self + size - distance) % size);
    }
  }
  tools::note_revoked(teller, handle);
}

void open_control() { engine->set_control(kControlContext, &run_control); }

void close_control() noexcept {
  const std::lock_guard lock(control->mutex);
  control->agreements.clear();
  control->freed.clear();
  control->early.clear();
  control->num_early_bytes = 0;
  control->incoming.reset();
}

void note_opening(const Comm& comm) noexcept {
  const std::lock_guard lock(control->mutex);
  if (control->agreements.erase(comm.context) != 0) std::erase(control->freed, comm.context);
}

void note_open(Comm& comm) noexcept {
  Control::Found found;
  (void)or_no_memory([&] {
    const std::lock_guard lock(control->mutex);
    const auto first =
        std::stable_partition(control->early.begin(), control->early.end(),
                              [&comm](const auto& each) { return each.context != comm.context; });
    std::deque<Control::Early> mine(std::make_move_iterator(first),
                                    std::make_move_iterator(control->early.end()));
    control->early.erase(first, control->early.end());
    for (const auto& one : mine) control->num_early_bytes -= one.bytes.size();
    for (auto& [source, context, bytes] : mine) control->handle(source, std::move(bytes), found);
  });
  (void)or_no_memory([&] { found.conclude(); });
}

void note_end(const Comm& comm) noexcept {
  (void)or_no_memory([&] {
    const std::lock_guard lock(control->mutex);
    const auto known = control->agreements.find(comm.context);
    if (known == control->agreements.end()) return;
    Control::end(*known->second);
    control->freed.push_back(comm.context);
    if (control->freed.size() <= kMostFreed) return;
    control->agreements.erase(control->freed.front());
    control->freed.pop_front();
  });
}

}  // namespace weft::mpi::ft
