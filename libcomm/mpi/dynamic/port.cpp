#include "mpi/dynamic/port.hpp"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <cstring>

#include "base/wait.hpp"
#include "mpi/core/request.hpp"
#include "peer/sockets.hpp"

namespace weft::mpi {
namespace {

// weft-port|the host|the TCP port|the secret|addresses with commas between them
constexpr std::string_view kPrefix = "weft-port|";
constexpr std::size_t kMaxAddresses = 16;
constexpr std::size_t kMaxWaiting = std::size_t{1} << 26;  // received bytes that no call has read
constexpr int kPauseMs = 1;

std::string random_secret() {
  return fmt::format("{:016x}{:016x}", peer::random_word(), peer::random_word());
}

// A word that is equal on equal hosts.
std::string host_word() {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : peer::host_identity())
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

// Cuts off and returns the text before the next `letter`.
std::string_view take_until(std::string_view& rest, char letter) {
  const std::string_view word = rest.substr(0, rest.find(letter));
  rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  return word;
}

peer::NodeAddress own_address() {
  peer::NodeAddress address;
  address.name = engine->job().describe(engine->rank()).substr(0, peer::kMaxNameBytes);
  address.generation = peer::random_word();
  address.host = peer::host_identity();
  return address;
}

}  // namespace

// An established connection.
struct Port::Visit {
  peer::Connection* connection = nullptr;  // null: it has ended
  bool connected_here = false;
  bool is_chosen = false;  // by the connecting process, which may have connected by several routes
  std::string input;
};

// The pipe of a chosen visit: bytes in both directions.
class Port::Line final : public Pipe {
 public:
  // Takes over the port that was made for this line alone.
  Line(Port& port, std::shared_ptr<Visit> visit) : port_(port), visit_(std::move(visit)) {}
  void own(std::unique_ptr<Port> port) { owned_ = std::move(port); }
  ~Line() override {
    const std::lock_guard lock(port_.mutex_);
    if (visit_->connection == nullptr) return;
    visit_->connection->client = nullptr;
    port_.bootstrap_.close(*visit_->connection);
  }
  // Reports to the accepting process that this connection is chosen. The caller holds the port's
  // lock.
  Status choose() { return port_.bootstrap_.send(*visit_->connection, peer::FrameType::data, "!"); }
  Status swap(const void* send, std::size_t send_bytes, void* receive, std::size_t room) override {
    std::string_view rest(static_cast<const char*>(send), send_bytes);
    for (;;) {
      {
        const std::lock_guard lock(port_.mutex_);
        while (!rest.empty() && visit_->connection != nullptr) {
          const std::string_view piece = rest.substr(0, peer::kMaxFrameBytes);
          const Status sent =
              port_.bootstrap_.send(*visit_->connection, peer::FrameType::data, piece);
          if (sent == Code::again) break;
          if (!sent) return sent;
          rest.remove_prefix(piece.size());
        }
        port_.poll();
        const bool has_all = visit_->input.size() >= room;
        if (visit_->connection == nullptr && (!has_all || !rest.empty()))
          return {Code::peer_lost, "the process at the other side has ended, or given up"};
        if (has_all && rest.empty()) {
          visit_->input.copy(static_cast<char*>(receive), room);
          visit_->input.erase(0, room);
          return {};
        }
      }
      port_.pause();
    }
  }

 private:
  Port& port_;
  std::shared_ptr<Visit> visit_;
  std::unique_ptr<Port> owned_;
};

Port::Port(std::string_view secret) : bootstrap_(peer::Secret(secret), own_address()) {}
Port::~Port() = default;

Status Port::open(std::unique_ptr<Port>& port) {
  const std::string secret = random_secret();
  std::unique_ptr<Port> opened(new Port(secret));
  Status status = opened->bootstrap_.listen("[::]:0");
  if (!status) status = opened->bootstrap_.listen("0.0.0.0:0");
  if (!status) return status;
  const std::string bound = opened->bootstrap_.own().bootstraps.back();
  std::string addresses;
  std::vector<std::string> own = peer::own_addresses();
  if (own.size() > kMaxAddresses) own.resize(kMaxAddresses);
  for (const std::string& address : own)
    addresses += fmt::format("{}{}", addresses.empty() ? "" : ",", address);
  opened->name_ = fmt::format("{}{}|{}|{}|{}", kPrefix, host_word(),
                              bound.substr(bound.rfind(':') + 1), secret, addresses);
  port = std::move(opened);
  return {};
}

bool Port::on_met(peer::Connection& connection, bool connected_here) {
  auto visit = std::make_shared<Visit>();
  visit->connection = &connection;
  visit->connected_here = connected_here;
  connection.client = visit.get();
  visits_.push_back(std::move(visit));
  return true;
}

void Port::on_failed(peer::Connection&, const Status& status) {
  ++num_failed_;
  failure_ = status;
}

bool Port::on_frame(peer::Connection& connection, peer::FrameType type, std::string_view body,
                    std::span<int>) {
  auto* visit = static_cast<Visit*>(connection.client);
  if (visit == nullptr || type != peer::FrameType::data || body.empty() ||
      visit->input.size() + body.size() > kMaxWaiting)
    return false;
  // The first byte says that the connecting process has chosen this connection.
  if (!visit->connected_here && !visit->is_chosen) {
    visit->is_chosen = true;
    body.remove_prefix(1);
  }
  visit->input.append(body);
  return true;
}

void Port::on_end(peer::Connection& connection, const Status&) {
  auto* visit = static_cast<Visit*>(connection.client);
  if (visit == nullptr) return;
  visit->connection = nullptr;
  std::erase_if(visits_, [&](const auto& one) { return one.get() == visit; });
}

void Port::poll() { static_cast<void>(bootstrap_.poll(*this)); }

void Port::pause() const {
  progress_once();
  pollfd ready{bootstrap_.wait_fd(), POLLIN, 0};
  ::poll(&ready, 1, kPauseMs);
}

// Takes a visit that is ready. again: there is none yet.
Status Port::take(std::unique_ptr<Pipe>& pipe, bool connected_here) {
  const auto found = std::ranges::find_if(visits_, [&](const auto& visit) {
    return visit->connected_here == connected_here && (connected_here || visit->is_chosen);
  });
  if (found == visits_.end()) return Code::again;
  auto line = std::make_unique<Line>(*this, *found);
  visits_.erase(found);
  pipe = std::move(line);
  return {};
}

Status Port::accept(Watch& watch, int timeout_ms, std::unique_ptr<Pipe>& pipe) {
  const std::uint64_t limit = now_ns() + static_cast<std::uint64_t>(timeout_ms) * 1'000'000;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      poll();
      if (Status status = take(pipe, false); status != Code::again) return status;
    }
    if (Status status = watch.check(); !status) return status;
    if (timeout_ms >= 0 && now_ns() > limit)
      return {Code::timed_out, fmt::format("no process has connected within {} ms", timeout_ms)};
    pause();
  }
}

Status Port::connect(std::string_view name, int timeout_ms, Watch& watch,
                     std::unique_ptr<Pipe>& pipe) {
  const auto no_port = [&] {
    return Status(Code::bad_argument, fmt::format("'{}' is no port's name", name));
  };
  std::string_view rest = name;
  if (!rest.starts_with(kPrefix)) return no_port();
  rest.remove_prefix(kPrefix.size());
  const std::string_view host = take_until(rest, '|'), number = take_until(rest, '|'),
                         secret = take_until(rest, '|');
  if (number.empty() || secret.empty()) return no_port();
  std::vector<std::string> addresses;
  if (host == host_word()) addresses.push_back(fmt::format("127.0.0.1:{}", number));
  while (!rest.empty() && addresses.size() < 1 + kMaxAddresses)
    addresses.push_back(fmt::format("{}:{}", take_until(rest, ','), number));
  if (addresses.empty()) return no_port();

  const std::uint64_t deadline = now_ns() + static_cast<std::uint64_t>(timeout_ms) * 1'000'000;
  std::unique_ptr<Port> port(new Port(secret));
  // Try all addresses at once; the first connection that is established is used.
  std::size_t num_begun = 0;
  for (const std::string& address : addresses) {
    Status status = port->bootstrap_.connect(address, deadline, nullptr);
    if (status)
      ++num_begun;
    else
      port->failure_ = status;
  }
  for (;;) {
    {
      const std::lock_guard lock(port->mutex_);
      port->poll();
      std::unique_ptr<Pipe> line;
      Status status = port->take(line, true);
      if (status) {
        auto& chosen = static_cast<Line&>(*line);
        status = chosen.choose();
        pipe = std::move(line);
        chosen.own(std::move(port));
        return status;
      }
      if (port->num_failed_ == num_begun) {
        if (now_ns() >= deadline)
          return {Code::timed_out,
                  fmt::format("no process accepts at the port within {} ms", timeout_ms)};
        return {Code::not_found, fmt::format("the port is not there: {}", port->failure_.text())};
      }
    }
    if (Status status = watch.check(); !status) return status;
    port->pause();
  }
}

}  // namespace weft::mpi
