#include "coll/offload/enrolment.hpp"

#include <algorithm>

namespace weft::offload {

using namespace innet;

namespace {
constexpr std::uint64_t kRepeatNs = 10'000'000;
}

void Enrolment::query(const HostPort& host, std::uint64_t now_ns, std::uint64_t limit_ns) {
  header_ = Header{};
  header_.kind = Kind::query;
  // A number of its own, so that no answer to an earlier question is taken for one to this.
  header_.key = now_ns;
  body_ = encode(host);
  limit_ns_ = limit_ns;
  is_over_ = answers_ = false;
  send(now_ns);
}

void Enrolment::notify(const Header& header, const Branch& branch, std::uint64_t now_ns,
                       std::uint64_t limit_ns) {
  header_ = header;
  header_.kind = Kind::notify;
  body_ = encode(branch);
  limit_ns_ = limit_ns;
  is_over_ = false;
  answer_ = Answer::pending;
  send(now_ns);
}

void Enrolment::send(std::uint64_t now_ns) {
  sent_ns_ = now_ns;
  std::byte packet[kMaxPacketBytes];
  wire_.to_switch({packet, write_packet(packet, header_, body_)});
}

void Enrolment::on_switch(std::span<const std::byte> bytes) {
  const auto packet = read_packet(bytes);
  if (!packet || is_over_) return;
  const Header& header = packet->header;
  if (header.key != header_.key || header.group != header_.group) return;
  if (header_.kind == Kind::query && header.kind == Kind::query_reply) {
    auto can = decode_capabilities(packet->payload);
    if (!can) return;
    can_ = std::move(*can);
    answers_ = true;
    // The switch knows its spines' answers a little later than it answers the first query.
    is_over_ = std::all_of(can_.spines.begin(), can_.spines.end(),
                           [](const auto& spine) { return spine.answers; });
  } else if (header_.kind == Kind::notify && header.kind == Kind::notify_reply &&
             header.epoch == header_.epoch && header.child == header_.child) {
    if (header.answer == Answer::pending) return;
    answer_ = header.answer;
    is_over_ = true;
    if (answer_ != Answer::ok) return;
    const auto grant = decode_grant(packet->payload);
    ticket_ = header.ticket;
    window_ = grant ? grant->window : 0;
    if (window_ == 0 || ticket_ == 0) answer_ = Answer::bad_format;
  }
}

void Enrolment::on_time(std::uint64_t now_ns) {
  if (is_over_) return;
  if (now_ns >= limit_ns_) {
    is_over_ = true;
    return;
  }
  if (now_ns - sent_ns_ >= kRepeatNs) send(now_ns);
}

}  // namespace weft::offload
