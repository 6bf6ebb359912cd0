// Lanes and the control messages about them. A lane costs a page at each end until it is used, then
// what rings begin with; see chunk_end.
#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "fabric/verbs/handshake.hpp"
#include "fabric/verbs/impl.hpp"

namespace weft::verbs {
namespace {

// Of one connection: what this process asks, for every lane at most, and many times what a peer
// asks that takes its answers.
constexpr std::size_t kMaxWaitingControls = kMaxLanes + 4096;

std::size_t num_waiting_controls(Connection& connection) noexcept {
  const std::lock_guard lock(connection.lock);
  return connection.controls.size();
}

// Only the engine looks at seals.
constexpr std::uint64_t seal_seed(int channel, std::uint32_t writers,
                                  std::uint32_t readers) noexcept {
  const std::uint64_t seed = std::uint64_t{writers} << 32 | readers;
  return channel_of(channel).client != 0 ? 0 : std::max<std::uint64_t>(seed, 1);
}

}  // namespace

Status LaneMemory::reserve(std::uint32_t bytes, std::uint32_t first) {
  ring_bytes = bytes;
  first_bytes = first;
  mapped_bytes = std::size_t{bytes} + kFirstChunk;  // the mark at the very end has a line beyond
  void* address = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    mapped_bytes = 0;
    return {Code::no_memory,
            fmt::format("cannot map a ring of {} bytes: {}", bytes, std::strerror(errno))};
  }
  // A huge page would cost 2 MiB where a small one is meant.
  (void)madvise(address, mapped_bytes, MADV_NOHUGEPAGE);
  base = static_cast<std::byte*>(address);
  std::uint64_t begin = 0;
  for (num_chunks = 0; begin < bytes && num_chunks < kMaxChunks; ++num_chunks) {
    chunks[num_chunks] = {begin, chunk_end(num_chunks, first_bytes, bytes), nullptr, 0};
    begin = chunks[num_chunks].end;
  }
  if (begin < bytes) return {Code::bad_argument, fmt::format("a ring of {} bytes", bytes)};
  chunks[num_chunks - 1].end = mapped_bytes;
  return {};
}

Status LaneMemory::register_chunk(Registrations& registrations, int index, int access) {
  Chunk& chunk = chunks[index];
  if (chunk.mr != nullptr) return {};
  return registrations.make(base + chunk.begin, chunk.end - chunk.begin, access, chunk.mr);
}

void LaneMemory::free() noexcept {
  for (Chunk& chunk : chunks)
    if (chunk.mr != nullptr) (void)ibv_dereg_mr(chunk.mr);
  if (base != nullptr) munmap(base, mapped_bytes);
  *this = {};
}

// This process's half of the secret of a ring's seals, by its number of the lane.
std::uint32_t VerbsFabric::seal_half(std::uint32_t lane) const noexcept {
  return static_cast<std::uint32_t>((own_key_[0] + lane) * (own_key_[1] | 1) >> 32);
}

Status VerbsFabric::connect(int peer, int channel, SendMemory& memory) {
  const std::lock_guard lock(setup_);
  if (!reaches(peer)) return Code::unsupported;
  Connection& connection = at(peer);
  if (connection.state == Connection::failed) {
    const std::lock_guard guard(connection.lock);
    return {Code::peer_lost, fmt::format("{}: {}", both_ends(peer), connection.why)};
  }
  const auto found = std::find_if(connection.writers.begin(), connection.writers.end(),
                                  [&](const auto& lane) { return lane->channel == channel; });
  WriteLane* lane = found != connection.writers.end() ? found->get() : nullptr;
  if (lane == nullptr) {
    auto made = std::make_unique<WriteLane>();
    const std::uint32_t bytes = memory.ring_bytes != 0 ? memory.ring_bytes : ring_max_;
    if (Status status = take_lane_memory(channel, bytes); !status) return status;
    Status status = made->mirror.reserve(bytes, std::max(ring_min_, 2 * kFirstChunk));
    if (status) status = made->mirror.register_chunk(*registrations_, 0, 0);
    if (!status) {
      made->mirror.free();
      give_lane_memory(channel, bytes);
      return status;
    }
    made->connection = &connection;
    made->channel = channel;
    made->number = next_writer_++;
    made->deadline_ns = now_ns() + patience_ns_;
    lane = made.get();
    connection.writers.push_back(std::move(made));
    note_doorbell(writer_doorbell(channel));
    if (connection.state == Connection::ready || connection.mending)
      send_open(*lane);
    else
      begin_connecting(connection);
  }
  if (lane->state == WriteLane::opened) {
    memory = {lane->mirror.base, &lane->consumed, &lane->sleeping, lane->mirror.ring_bytes, lane};
    memory.seal_seed = seal_seed(channel, seal_half(lane->number), lane->seal_half);
    return {};
  }
  if (lane->state == WriteLane::asking && now_ns() < lane->deadline_ns) return Code::again;
  const bool was_refused = lane->state == WriteLane::refused;
  const Code code = lane->refusal;
  give_lane_memory(channel, lane->mirror.ring_bytes);
  lane->mirror.free();
  std::erase_if(connection.writers, [&](const auto& other) { return other.get() == lane; });
  if (was_refused)
    return {code, fmt::format("{} {}", job_.describe(peer),
                              code == Code::no_memory ? "has no room for another ring"
                                                      : "refuses this ring")};
  const std::lock_guard guard(connection.lock);
  return {Code::peer_lost,
          fmt::format("{}: no answer within {} ms{}{}", both_ends(peer), patience_ns_ / 1'000'000,
                      connection.why.empty() ? "" : ": ", connection.why)};
}

void VerbsFabric::send_open(WriteLane& lane) {
  lane.asked = true;
  send_control(*lane.connection, {ControlKind::open,
                                  {},
                                  0,
                                  lane.number,
                                  static_cast<std::uint32_t>(lane.channel),
                                  lane.mirror.ring_bytes,
                                  lane.mirror.first_bytes,
                                  seal_half(lane.number)});
}

void VerbsFabric::open_waiting_lanes(Connection& connection) {
  for (const auto& lane : connection.writers)
    if (!lane->asked) send_open(*lane);
}

Status VerbsFabric::accept(int client, int& peer, int& channel, ReceiveMemory& memory) {
  const std::lock_guard lock(setup_);
  peer = -1;
  channel = 0;
  const auto found = std::find_if(unaccepted_.begin(), unaccepted_.end(), [&](ReadLane* lane) {
    return channel_of(lane->channel).client == client;
  });
  if (found == unaccepted_.end()) return {};
  ReadLane& lane = **found;
  unaccepted_.erase(found);
  peer = lane.connection->peer;
  channel = lane.channel;
  memory = {lane.ring.base,       &lane.consumed, &lane.sleeping,
            lane.ring.ring_bytes, &lane.arrived,  &lane};
  memory.seal_seed = seal_seed(channel, lane.seal_half, seal_half(lane.number));
  return {};
}

// That all have stopped using the lanes may be heard before what they last wrote is here: their
// messages come by way of others. So nothing is freed before it can no longer be reached.
void VerbsFabric::close_client(int client) noexcept {
  const std::lock_guard poll(poll_lock_);
  const std::lock_guard lock(setup_);
  for (auto& lane : readers_)
    if (lane != nullptr && channel_of(lane->channel).client == client && !lane->closed_here)
      close_reader(*lane);
  for (Connection& connection : connections_)
    std::erase_if(connection.writers, [&](const auto& lane) {
      if (channel_of(lane->channel).client != client) return false;
      close_writer(*lane);
      return true;
    });
  free_closed_lanes();
}

void VerbsFabric::close_reader(ReadLane& lane) noexcept {
  lane.closed_here = true;
  std::erase(unaccepted_, &lane);
  give_lane_memory(lane.channel, lane.ring.ring_bytes);
  closed_rings_.push_back(&lane);
}

// Who is still being asked for a ring hears of it after its answer.
void VerbsFabric::close_writer(WriteLane& lane) noexcept {
  Connection& connection = *lane.connection;
  give_lane_memory(lane.channel, lane.mirror.ring_bytes);
  if (lane.state == WriteLane::opened)
    send_control(connection, {ControlKind::closed, {}, 0, lane.peer_number, 0, 0, 0, 0});
  const std::lock_guard lock(connection.lock);
  closed_mirrors_.push_back({&connection, connection.posted, lane.mirror});
}

// With poll_lock_ and setup_ held.
void VerbsFabric::free_closed_lanes() noexcept {
  std::erase_if(closed_rings_, [this](ReadLane* lane) {
    if (!lane->closed_there && lane->connection->state != Connection::failed) return false;
    lane->ring.free();
    readers_[lane->number].reset();
    return true;
  });
  std::erase_if(closed_mirrors_, [](ClosedMirror& mirror) {
    {
      const Connection& connection = *mirror.connection;
      const std::lock_guard lock(mirror.connection->lock);
      if (connection.state != Connection::failed &&
          static_cast<std::int32_t>(connection.done - mirror.until) < 0)
        return false;
    }
    mirror.memory.free();
    return true;
  });
}

void VerbsFabric::send_control(Connection& connection, Control control) noexcept {
  control.rank = static_cast<std::uint32_t>(job_.rank());
  const std::lock_guard lock(connection.lock);
  if (connection.state != Connection::ready && !connection.mending) return;
  if (connection.controls.empty() && post_control(connection, control)) return;
  connection.controls.push_back(control);
}

void VerbsFabric::broken(Connection& connection, const char* what) {
  fail(connection, fmt::format("it sent {} that makes no sense", what));
}

ReadLane* VerbsFabric::reader_of(const Connection& connection, std::uint32_t number) noexcept {
  ReadLane* lane = number < readers_.size() ? readers_[number].get() : nullptr;
  return lane != nullptr && lane->connection == &connection ? lane : nullptr;
}

WriteLane* VerbsFabric::writer_of(Connection& connection, std::uint32_t number) noexcept {
  for (const auto& lane : connection.writers)
    if (lane->number == number) return lane.get();
  return nullptr;
}

void VerbsFabric::on_control(const Control& control, std::uint32_t qp_number) {
  if (control.rank >= connections_.size()) return;
  Connection& connection = at(static_cast<int>(control.rank));
  if (connection.qp_number != qp_number) return;  // of a lost one
  count_message(connection);
  if (control.kind == ControlKind::credit) return on_credit(connection, control);
  const std::lock_guard lock(setup_);
  if (connection.state != Connection::ready && !connection.mending) return;
  if (num_waiting_controls(connection) > kMaxWaitingControls)
    return fail(connection, "it asks and takes no answers");
  switch (control.kind) {
    case ControlKind::open:
      return on_open(connection, control);
    case ControlKind::opened:
    case ControlKind::refused:
      return on_opened(connection, control);
    case ControlKind::grow:
      return on_grow(connection, control);
    case ControlKind::grown:
      return on_grown(connection, control);
    case ControlKind::look:
      return on_look(connection, control);
    case ControlKind::found:
      return on_found(connection, control);
    case ControlKind::gone:
      return on_gone(connection, control);
    case ControlKind::forgotten:
      return on_forgotten(connection, control);
    case ControlKind::operands:
      connection.operands = control;
      return;
    case ControlKind::cas:
    case ControlKind::fetch_add:
      return on_change(connection, control);
    case ControlKind::changed:
      return on_changed(connection, control);
    case ControlKind::closed:
      return on_closed(connection, control);
    case ControlKind::here:
      return;  // that it has come says all
    case ControlKind::goodbye:
      connection.peer_left.store(true, std::memory_order_release);
      return ring_all();
    default:
      return broken(connection, "a control message");
  }
}

void VerbsFabric::on_credit(Connection& connection, const Control& control) {
  const std::lock_guard lock(setup_);
  WriteLane* lane = writer_of(connection, control.lane);
  if (lane == nullptr) return;  // closed meanwhile
  // release: the reader is done with what it counts; pairs with the acquire in RingWriter::look.
  lane->consumed.store(control.b, std::memory_order_release);
  ring_own(writer_doorbell(lane->channel));
}

void VerbsFabric::on_open(Connection& connection, const Control& control) {
  const auto refuse = [&](Code code) {
    send_control(
        connection,
        {ControlKind::refused, {}, 0, control.lane, static_cast<std::uint32_t>(code), 0, 0, 0});
  };
  const std::uint64_t bytes = control.b;
  if (!is_possible_ring(control)) return broken(connection, "a ring");
  const auto channel = static_cast<int>(control.a);
  // The engine's, whose memory nobody counts, is never opened again.
  if (std::any_of(readers_.begin(), readers_.end(), [&](const auto& other) {
        return other != nullptr && other->connection == &connection && other->channel == channel &&
               (!other->closed_there || channel == 0);
      }))
    return refuse(Code::not_permitted);
  auto free = std::find(readers_.begin(), readers_.end(), nullptr);
  if (free == readers_.end()) {
    if (readers_.size() >= kMaxLanes) return refuse(Code::no_memory);
    free = readers_.insert(readers_.end(), nullptr);
  }
  auto lane = std::make_unique<ReadLane>();
  lane->connection = &connection;
  lane->channel = channel;
  if (!take_lane_memory(lane->channel, static_cast<std::uint32_t>(bytes)))
    return refuse(Code::no_memory);
  lane->number = static_cast<std::uint32_t>(free - readers_.begin());
  lane->peer_number = control.lane;
  lane->seal_half = control.high;
  Status status = lane->ring.reserve(static_cast<std::uint32_t>(bytes), control.key);
  if (status)
    status = lane->ring.register_chunk(*registrations_, 0,
                                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (!status) {
    log_line(LogLevel::error, job_.rank(), "no ring for {}: {}", job_.describe(connection.peer),
             status.text());
    lane->ring.free();
    give_lane_memory(lane->channel, static_cast<std::uint32_t>(bytes));
    return refuse(status.code());
  }
  send_control(connection, {ControlKind::opened,
                            {},
                            0,
                            control.lane,
                            lane->number,
                            reinterpret_cast<std::uintptr_t>(lane->ring.base),
                            lane->ring.chunks[0].mr->rkey,
                            seal_half(lane->number)});
  unaccepted_.push_back(lane.get());
  note_doorbell(reader_doorbell(lane->channel));
  const int doorbell = reader_doorbell(lane->channel);
  *free = std::move(lane);
  // release: pairs with the acquire of who looks for something to accept.
  num_connections_.fetch_add(1, std::memory_order_release);
  ring_own(doorbell);
}

void VerbsFabric::on_opened(Connection& connection, const Control& control) {
  WriteLane* lane = writer_of(connection, control.lane);
  if (lane == nullptr) {  // given up meanwhile
    if (control.kind == ControlKind::opened)
      send_control(connection, {ControlKind::closed, {}, 0, control.a, 0, 0, 0, 0});
    return;
  }
  if (lane->state != WriteLane::asking) return broken(connection, "an answer");
  if (control.kind == ControlKind::refused) {
    lane->refusal = control.a == static_cast<std::uint32_t>(Code::no_memory) ? Code::no_memory
                                                                             : Code::not_permitted;
    lane->state = WriteLane::refused;
  } else {
    if (control.a >= kMaxLanes) return broken(connection, "the number of a lane");
    lane->peer_number = control.a;
    lane->seal_half = control.high;
    lane->peer_address = control.b;
    lane->mirror.chunks[0].peer_key = control.key;
    lane->asked_chunks.store(1, std::memory_order_relaxed);
    lane->ready_chunks.store(1, std::memory_order_release);
    lane->state = WriteLane::opened;
  }
  ring_own(writer_doorbell(lane->channel));
}

// It comes behind all that the lane has written.
void VerbsFabric::on_closed(Connection& connection, const Control& control) {
  ReadLane* lane = reader_of(connection, control.lane);
  if (lane == nullptr || lane->closed_there) return broken(connection, "the number of a lane");
  lane->closed_there = true;
  // Its writer had given it up before it was there, perhaps when all was closed here already.
  if (lane->arrived.load(std::memory_order_relaxed) == 0 &&
      std::find(unaccepted_.begin(), unaccepted_.end(), lane) != unaccepted_.end())
    close_reader(*lane);
}

void VerbsFabric::on_grow(Connection& connection, const Control& control) {
  ReadLane* lane = reader_of(connection, control.lane);
  if (lane == nullptr || control.a >= static_cast<std::uint32_t>(lane->ring.num_chunks))
    return broken(connection, "the number of a lane");
  const auto index = static_cast<int>(control.a);
  const Status status = lane->ring.register_chunk(*registrations_, index,
                                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  // Without more of its ring the lane cannot go on: its writer may be where it must.
  if (!status) return fail(connection, fmt::format("its ring cannot grow: {}", status.text()));
  send_control(connection, {ControlKind::grown,
                            {},
                            0,
                            lane->peer_number,
                            control.a,
                            0,
                            lane->ring.chunks[index].mr->rkey,
                            0});
}

void VerbsFabric::on_grown(Connection& connection, const Control& control) {
  WriteLane* lane = writer_of(connection, control.lane);
  if (lane == nullptr) return;
  const int ready = lane->ready_chunks.load(std::memory_order_relaxed);
  // acquire: the chunk of the mirror; pairs with the release in post().
  if (control.a != static_cast<std::uint32_t>(ready) ||
      ready >= lane->asked_chunks.load(std::memory_order_acquire))
    return broken(connection, "an answer");
  lane->mirror.chunks[ready].peer_key = control.key;
  // release: the key before the count; pairs with the acquire in post().
  lane->ready_chunks.store(ready + 1, std::memory_order_release);
  ring_own(writer_doorbell(lane->channel));
}

}  // namespace weft::verbs
