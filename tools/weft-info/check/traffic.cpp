#include "tools/weft-info/check/traffic.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/wait.hpp"
#include "fabric/registry.hpp"

namespace weft::check {
namespace {

using fabric::Bytes;

// A message's first letter. Questions have small ones, answers great ones.
enum Kind : char {
  kPing = 'p',  // kPong: at once
  kPong = 'P',
  kData = 'd',   // counted
  kCount = 'c',  // kCounted: so many bytes of data have come
  kCounted = 'C',
  kStream = 's',  // milliseconds: send data for so long, then kStreamed
  kStreamed = 'S',
  kMemory = 'm',  // kKey: the key of memory to put to and get from; kNoKey: why there is none
  kKey = 'K',
  kNoKey = 'N',
};

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kConnectNs = 5000 * kMs;  // the longest wait for a link
constexpr std::uint64_t kSilenceNs = 3000 * kMs;  // and for anything over one
constexpr std::size_t kPieceBytes = 256 << 10, kNumPieces = 4;
constexpr std::size_t kMemoryBytes = kPieceBytes * kNumPieces;

Bytes bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

double gbit_of(double bytes, std::uint64_t ns) {
  return ns == 0 ? 0 : bytes * 8 / static_cast<double>(ns);
}

}  // namespace

// Requests of one put or get each, which are posted again as they end.
struct End::Pieces {
  struct Request : fabric::WorkRequest {
    bool is_posted = false;
    Code code = Code::ok;
  };
  std::array<Request, kNumPieces> requests;
  Pieces() {
    for (Request& request : requests)
      request.done = [](fabric::WorkRequest& ended, Code code) noexcept {
        static_cast<Request&>(ended).is_posted = false;
        static_cast<Request&>(ended).code = code;
      };
  }
};

Status End::open(const std::string& fabric, const fabric::Place& place, const Settings& settings,
                 std::unique_ptr<End>& end) {
  const fabric::Row* const row = fabric::find_row(fabric);
  if (row == nullptr || row->make == nullptr) return {Code::unsupported, "not in this build"};
  Settings own = settings;
  if (row->by_device)
    if (Status status = own.set("DEVICE", place.name); !status) return status;
  std::unique_ptr<fabric::Endpoint> endpoint;
  if (Status status = row->make(own, endpoint); !status) return status;
  end.reset(new End(fabric, place, std::move(endpoint)));
  return {};
}

End::End(std::string fabric, fabric::Place place, std::unique_ptr<fabric::Endpoint> endpoint)
    : fabric_(std::move(fabric)),
      place_(std::move(place)),
      endpoint_(std::move(endpoint)),
      data_(std::min(endpoint_->limits().message_max, std::size_t{1} << 20) - 1) {}

End::~End() {
  for (fabric::Link* link : links_) endpoint_->close(*link);
  if (!memory_.empty() && registration_) endpoint_->deregister(registered_);
}

bool End::on_incoming(fabric::Link& link, Bytes) {
  links_.push_back(&link);
  return true;
}

void End::on_up(fabric::Link& link) {
  if (&link == own_) is_up_ = true;
}

void End::on_down(fabric::Link& link, Code why) {
  if (&link == own_) {
    lost_ = {why, fmt::format("the link went down ({})", code_name(why))};
    own_ = nullptr;
  }
  forget(&link);
  endpoint_->close(link);
}

void End::forget(fabric::Link* link) {
  std::erase(links_, link);
  streams_.erase(link);
  received_.erase(link);
  std::erase_if(waiting_, [=](const Outgoing& outgoing) { return outgoing.link == link; });
}

void End::on_message(fabric::Link& link, Bytes bytes) {
  if (bytes.empty()) return;
  const auto kind = static_cast<char>(bytes[0]);
  const Bytes body = bytes.subspan(1);
  switch (kind) {
    case kData:
      received_[&link] += body.size();
      return;
    case kPing:
      return answer(link, std::string(1, kPong));
    case kCount: {
      const std::uint64_t number = std::exchange(received_[&link], 0);
      std::string text(1, kCounted);
      text.append(reinterpret_cast<const char*>(&number), sizeof number);
      return answer(link, std::move(text));
    }
    case kStream: {
      std::uint32_t ms = 0;
      if (body.size() < sizeof ms) return;
      std::memcpy(&ms, body.data(), sizeof ms);
      streams_[&link] = now_ns() + std::min(ms, 10'000u) * kMs;
      return;
    }
    case kMemory:
      return answer(link, own_key());
    default:
      if (&link != own_) return;
      answer_ = kind;
      answered_.assign(reinterpret_cast<const char*>(body.data()), body.size());
  }
}

// Memory is registered when the first peer wants it.
std::string End::own_key() {
  if (memory_.empty()) {
    memory_.resize(kMemoryBytes);
    registration_ = endpoint_->register_memory(memory_.data(), memory_.size(),
                                               fabric::kRead | fabric::kWrite, registered_);
  }
  if (!registration_) return std::string(1, kNoKey) + registration_.text().substr(0, 200);
  return std::string(1, kKey) +
         std::string(reinterpret_cast<const char*>(registered_.key.data()), registered_.key.size());
}

void End::answer(fabric::Link& link, std::string bytes) {
  waiting_.push_back({&link, std::move(bytes)});
  (void)send_waiting();
}

bool End::send_waiting() {
  bool any = false;
  while (!waiting_.empty()) {
    const Outgoing& next = waiting_.front();
    if (endpoint_->message(*next.link, bytes_of(next.bytes), {}) == Code::again) break;
    waiting_.erase(waiting_.begin());
    any = true;
  }
  return any;
}

// Data for those who have asked for it, as far as there is room.
bool End::stream() {
  constexpr int kAtOnce = 16;
  bool any = false;
  const std::string head(1, kData);
  for (auto at = streams_.begin(); at != streams_.end();) {
    const auto [link, until] = *at;
    bool is_over = now_ns() >= until;
    for (int i = 0; i < kAtOnce && !is_over; ++i) {
      const Code code = endpoint_->message(*link, bytes_of(head), data_);
      if (code == Code::again) break;
      is_over = code != Code::ok;
      any = true;
    }
    at = is_over ? streams_.erase(at) : std::next(at);
    if (is_over) answer(*link, std::string(1, kStreamed));
  }
  return any;
}

bool End::serve() {
  bool any = endpoint_->poll(*this);
  any = send_waiting() || any;
  return stream() || any;
}

template <class F>
Status End::wait(const char* step, F&& is_done) {
  const std::uint64_t end = now_ns() + (is_up_ ? kSilenceNs : kConnectNs);
  while (!is_done()) {
    if (own_ == nullptr) return {lost_.code(), fmt::format("{}: {}", step, lost_.text())};
    if (now_ns() > end)
      return {Code::timed_out, fmt::format("{}: nothing in {} s", step,
                                           (is_up_ ? kSilenceNs : kConnectNs) / (1000 * kMs))};
    serve();
  }
  return {};
}

Status End::send(const char* step, char kind, std::size_t body) {
  const std::string head(1, kind);
  Code code = Code::again;
  Status status = wait(step, [&] {
    code = endpoint_->message(*own_, bytes_of(head), Bytes(data_).first(body));
    return code != Code::again;
  });
  return status && code != Code::ok ? Status{code, fmt::format("{}: {}", step, code_name(code))}
                                    : status;
}

// Sends the question and waits for its answer.
Status End::ask(const char* step, char kind, std::size_t body) {
  answer_ = 0;
  if (Status status = send(step, kind, body); !status) return status;
  return wait(step, [&] { return answer_ != 0; });
}

Status End::measure_latency(int ms, Measured& measured) {
  constexpr std::size_t kLeast = 20, kBody = 7;  // eight bytes with the letter
  std::vector<double> times;
  const std::uint64_t end = now_ns() + static_cast<std::uint64_t>(ms) * kMs;
  while (times.size() < kLeast || now_ns() < end) {
    const std::uint64_t begin = now_ns();
    if (Status status = ask("a message of 8 bytes and its answer", kPing, kBody); !status)
      return status;
    times.push_back(static_cast<double>(now_ns() - begin) / 2000);
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  measured.latency_us = times[times.size() / 2];
  return {};
}

Status End::measure_messages(int ms, Measured& measured) {
  const std::uint64_t begin = now_ns(), end = begin + static_cast<std::uint64_t>(ms) * kMs;
  while (now_ns() < end)
    if (Status status = send("long messages from here", kData, data_.size()); !status)
      return status;
  if (Status status = ask("long messages from here", kCount); !status) return status;
  std::uint64_t bytes = 0;
  if (answered_.size() == sizeof bytes) std::memcpy(&bytes, answered_.data(), sizeof bytes);
  measured.out_gbit = gbit_of(static_cast<double>(bytes), now_ns() - begin);

  const auto wanted = static_cast<std::uint32_t>(ms);
  std::memcpy(data_.data(), &wanted, sizeof wanted);
  received_[own_] = 0;
  answer_ = 0;
  const std::uint64_t asked = now_ns();
  if (Status status = send("long messages to here", kStream, sizeof wanted); !status) return status;
  // As long as something comes, the end comes too.
  std::uint64_t before = 0;
  while (answer_ == 0) {
    const auto has_more = [&] { return answer_ != 0 || received_[own_] != before; };
    if (Status status = wait("long messages to here", has_more); !status) return status;
    if (own_ != nullptr) before = received_[own_];
  }
  measured.in_gbit = gbit_of(static_cast<double>(before), now_ns() - asked);
  return {};
}

Status End::measure_access(int ms, bool is_get, double& gbit) {
  const char* const step = is_get ? "gets" : "puts";
  if (Status status = ask(step, kMemory); !status) return status;
  fabric::Key key;
  if (answer_ != kKey || answered_.size() != key.size())
    return {Code::no_memory, fmt::format("{}: the other end: {}", step, answered_)};
  std::memcpy(key.data(), answered_.data(), key.size());
  std::vector<std::byte> local(kMemoryBytes);
  Pieces pieces;
  double bytes = 0;
  Status status;
  const std::uint64_t begin = now_ns(), end = begin + static_cast<std::uint64_t>(ms) * kMs;
  for (std::size_t next = 0; status && now_ns() < end; next = (next + 1) % kNumPieces) {
    Pieces::Request& request = pieces.requests[next];
    std::byte* const at = local.data() + next * kPieceBytes;
    Code code = Code::again;
    status = wait(step, [&] {
      if (request.is_posted) return false;
      code = is_get ? endpoint_->get(*own_, at, kPieceBytes, key, next * kPieceBytes, request)
                    : endpoint_->put(*own_, at, kPieceBytes, key, next * kPieceBytes, request);
      request.is_posted = code == Code::ok;
      return code != Code::again;
    });
    if (status && code == Code::ok) code = request.code;
    if (status && code != Code::ok) status = {code, fmt::format("{}: {}", step, code_name(code))};
    bytes += kPieceBytes;
  }
  const auto all_done = [&] {
    return std::ranges::none_of(pieces.requests, &Pieces::Request::is_posted);
  };
  if (status) status = wait(step, all_done);
  gbit = gbit_of(bytes, now_ns() - begin);
  for (const Pieces::Request& request : pieces.requests)
    if (status && request.code != Code::ok)
      status = {request.code, fmt::format("{}: {}", step, code_name(request.code))};
  // What is still under way must end while its memory is there.
  if (own_ != nullptr && !all_done()) {
    fabric::Link* const link = std::exchange(own_, nullptr);
    forget(link);
    endpoint_->close(*link);
  }
  return status;
}

Status End::measure(const std::string& address, int ms, Measured& measured) {
  is_up_ = false;
  lost_ = {Code::peer_lost, "the link is closed"};
  const std::string hello = "weft-info --check";
  if (Status status = endpoint_->open(bytes_of(address), bytes_of(hello), own_); !status)
    return status;
  links_.push_back(own_);
  Status status = wait("connecting", [&] { return is_up_; });
  if (status) status = measure_latency(ms, measured);
  const fabric::Limits& limits = endpoint_->limits();
  const bool has_access = limits.puts && limits.gets;
  if (status && has_access) status = measure_access(ms, false, measured.out_gbit);
  if (status && has_access) status = measure_access(ms, true, measured.in_gbit);
  if (status && !has_access) status = measure_messages(ms, measured);
  if (fabric::Link* const link = std::exchange(own_, nullptr); link != nullptr) {
    forget(link);
    endpoint_->close(*link);
  }
  if (!status) {
    const std::string way = endpoint_->way_to(bytes_of(address));
    return {status.code(), status.text() + (way.empty() ? "" : " (" + way + ")")};
  }
  return {};
}

}  // namespace weft::check
