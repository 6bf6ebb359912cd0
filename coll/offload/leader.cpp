// An operation through the switch. recovery.cpp has the case that the switch fails.
#include "coll/offload/leader.hpp"

#include <algorithm>
#include <cstring>

#include "coll/offload/fixed_point.hpp"

namespace weft::offload {

using namespace innet;

namespace {
constexpr std::size_t kReorder = 8;  // packets by which one may overtake another
constexpr std::uint64_t kMostLost = 8;
}  // namespace

void Leader::open(const LeaderOptions& options) {
  options_ = options;
  // Before the switch is given up, so many repetitions may be lost one after the other.
  options_.repeat_max_ns = std::clamp(options.silence_ns / kMostLost, options.repeat_ns,
                                      std::max(options.repeat_ns, options.repeat_max_ns));
  frozen_ = false;
  refusal_ = Answer::ok;
  state_ = State::idle;
}

void Leader::close() {
  frozen_ = true;
  state_ = State::idle;
}

Header Leader::header(Kind kind) const noexcept {
  Header header;
  header.kind = kind;
  header.group = options_.group;
  header.key = options_.key;
  header.ticket = options_.ticket;
  header.epoch = options_.epoch;
  header.child = options_.child;
  return header;
}

void Leader::begin(Element element, Operation operation, std::span<const std::byte> contribution,
                   std::uint64_t now_ns) {
  ++operation_;
  is_fixed_ = options_.fixed && element == Element::f32 && operation == Operation::sum;
  element_ = is_fixed_ ? Element::fixed : element;
  arithmetic_ = operation;
  contribution_.assign(contribution.begin(), contribution.end());
  Kept& kept = kept_[operation_ & 1];
  kept.operation = operation_;
  kept.is_complete = false;
  kept.data.resize(contribution.size());
  const std::size_t unit = element_bytes(element);
  chunk_bytes_ = options_.payload_bytes / unit * unit;
  if (is_fixed_ && chunk_bytes_ != 0) chunk_bytes_ -= unit;  // for the exponent
  kept.chunk_bytes = std::max<std::size_t>(1, chunk_bytes_);
  if (frozen_ || chunk_bytes_ == 0) {
    state_ = State::host;
    return;
  }
  split();
  silent_since_ns_ = 0;
  unanswered_ = 0;
  state_ = State::working;
  if (chunks_.empty()) return complete();
  send_allowed(now_ns);
}

void Leader::split() {
  const std::size_t parts = (contribution_.size() + chunk_bytes_ - 1) / chunk_bytes_;
  lead_ = is_fixed_ ? std::min<std::size_t>(options_.window, parts) : 0;
  exponents_.assign(is_fixed_ ? parts : 0, kNoExponent);
  is_finite_ = true;
  chunks_.assign(parts + lead_, Chunk{});
  base_ = next_ = latest_ = 0;
}

std::span<const std::byte> Leader::part(std::span<const std::byte> vector,
                                        std::size_t chunk) const {
  const std::size_t offset = chunk * chunk_bytes_;
  return vector.subspan(offset, std::min(chunk_bytes_, vector.size() - offset));
}

void Leader::send_allowed(std::uint64_t now_ns) {
  // A slot is free for the next chunk once the result of the chunk before in it is here.
  const std::size_t slots = num_slots();
  while (next_ < num_chunks() && (next_ < slots || chunks_[next_ - slots].is_here)) {
    chunks_[next_].repeat_ns = repeat_after_ns();
    contribute(next_++, now_ns);
  }
}

void Leader::contribute(std::size_t chunk, std::uint64_t now_ns) {
  Header header = this->header(Kind::data);
  header.operation = operation_;
  header.offset = static_cast<std::uint32_t>(chunk * chunk_bytes_);
  header.slot = static_cast<std::uint16_t>(chunk % num_slots());
  header.element = element_;
  header.arithmetic = arithmetic_;
  std::byte packet[kMaxPacketBytes];
  std::byte integers[kMaxPayloadBytes];
  const std::size_t bytes =
      is_fixed_ ? write_packet(packet, header, {integers, write_fixed(chunk, integers)})
                : write_packet(packet, header, part(contribution_, chunk));
  chunks_[chunk].sent_ns = now_ns;
  if (silent_since_ns_ == 0) silent_since_ns_ = now_ns;
  ++counters_.contributions;
  counters_.sent_bytes += bytes - kHeaderBytes;
  wire_.to_switch({packet, bytes});
}

// Of a contribution that was not repeated: of others nobody knows which one the result is for.
void Leader::note_time(std::uint64_t time_ns) noexcept {
  longer_ns_ = 0;
  if (time_ns_ == 0) {
    time_ns_ = std::max<std::uint64_t>(1, time_ns);
    spread_ns_ = time_ns / 2;
    return;
  }
  const std::uint64_t distance = std::max(time_ns, time_ns_) - std::min(time_ns, time_ns_);
  spread_ns_ = (3 * spread_ns_ + distance) / 4;
  time_ns_ = std::max<std::uint64_t>(1, (7 * time_ns_ + time_ns) / 8);
}

// The answer to a contribution that the switch had already: it was repeated too early.
void Leader::note_second(const Header& header) noexcept {
  if (header.operation == repeated_in_)
    longer_ns_ = std::min(2 * repeat_after_ns(), options_.repeat_max_ns);
}

std::uint64_t Leader::repeat_after_ns() const noexcept {
  return std::clamp(std::max(time_ns_ + 4 * spread_ns_, longer_ns_), options_.repeat_ns,
                    options_.repeat_max_ns);
}

std::size_t Leader::packet_bytes(std::size_t chunk) const {
  if (!is_fixed_) return part(contribution_, chunk).size();
  return 4 + (chunk < lead_ ? 0 : part(contribution_, chunk - lead_).size());
}

std::size_t Leader::write_fixed(std::size_t chunk, std::byte* to) const {
  const std::int32_t exponent =
      chunk < exponents_.size() ? exponent_of(part(contribution_, chunk)) : kNoExponent;
  std::memcpy(to, &exponent, 4);
  if (chunk >= lead_)
    to_fixed(part(contribution_, chunk - lead_), exponents_[chunk - lead_], options_.num_leaders,
             to + 4);
  return packet_bytes(chunk);
}

void Leader::read_fixed(std::size_t chunk, std::span<const std::byte> data) {
  std::int32_t exponent;
  std::memcpy(&exponent, data.data(), 4);
  if (chunk < exponents_.size()) {
    exponents_[chunk] = exponent;
    is_finite_ = is_finite_ && exponent < kNotFinite;
  }
  if (chunk >= lead_)
    from_fixed(data.subspan(4), exponents_[chunk - lead_], options_.num_leaders,
               kept_[operation_ & 1].data.data() + (chunk - lead_) * chunk_bytes_);
}

bool Leader::take(std::uint32_t offset, std::span<const std::byte> data) {
  const std::size_t chunk = offset / chunk_bytes_;
  if (offset % chunk_bytes_ != 0 || chunk >= num_chunks() || chunks_[chunk].is_here ||
      data.size() != packet_bytes(chunk))
    return false;
  if (is_fixed_)
    read_fixed(chunk, data);
  else
    std::memcpy(kept_[operation_ & 1].data.data() + offset, data.data(), data.size());
  chunks_[chunk].is_here = true;
  while (base_ < num_chunks() && chunks_[base_].is_here) ++base_;
  return true;
}

void Leader::complete() {
  kept_[operation_ & 1].is_complete = true;
  state_ = State::done;
}

void Leader::on_switch(std::span<const std::byte> bytes, std::uint64_t now_ns) {
  const auto packet = read_packet(bytes);
  if (!packet) return void(++counters_.ignored);
  const Header& header = packet->header;
  if (header.group != options_.group || header.key != options_.key ||
      header.epoch != options_.epoch || header.ticket != options_.ticket ||
      header.child != options_.child || state_ != State::working || frozen_)
    return void(++counters_.ignored);
  if (header.operation != operation_) {
    note_second(header);
    return void(++counters_.ignored);
  }
  switch (header.kind) {
    case Kind::result:
      silent_since_ns_ = 0;
      unanswered_ = 0;
      if (header.element != element_ || header.arithmetic != arithmetic_ ||
          !take(header.offset, packet->payload)) {
        note_second(header);
        return void(++counters_.ignored);
      }
      latest_ = std::max<std::size_t>(latest_, header.offset / chunk_bytes_);
      last_result_ns_ = now_ns;
      if (const Chunk& chunk = chunks_[header.offset / chunk_bytes_]; !chunk.is_repeated)
        note_time(now_ns - chunk.sent_ns);
      ++counters_.results;
      counters_.received_bytes += packet->payload.size();
      if (base_ == num_chunks()) {
        // All leaders have seen the same exponents, and none has a result.
        if (!is_finite_) {
          state_ = State::host;
          return;
        }
        ++counters_.operations;
        return complete();
      }
      return send_allowed(now_ns);
    case Kind::wait:
      silent_since_ns_ = 0;
      unanswered_ = 0;
      ++counters_.waits;
      return note_second(header);
    case Kind::refuse:
      refusal_ = header.answer;
      return give_up(now_ns);
    default:
      return void(++counters_.ignored);
  }
}

void Leader::on_time(std::uint64_t now_ns) {
  if (state_ == State::recovering) {
    if (now_ns - asked_ns_ >= options_.repeat_ns * 8) giver_ >= 0 ? fetch(now_ns) : ask(now_ns);
    return;
  }
  if (state_ != State::working) return;
  if (silent_since_ns_ != 0 && now_ns - silent_since_ns_ > options_.silence_ns &&
      unanswered_ >= 3) {
    refusal_ = Answer::parent_silent;
    return give_up(now_ns);
  }
  for (std::size_t chunk = base_; chunk < next_; ++chunk) {
    Chunk& at = chunks_[chunk];
    // While results come, only what they have overtaken is late.
    const bool is_overtaken = chunk + kReorder < latest_;
    const std::uint64_t since = is_overtaken ? at.sent_ns : std::max(at.sent_ns, last_result_ns_);
    if (at.is_here || now_ns < since + at.repeat_ns) continue;
    at.repeat_ns = std::min(at.repeat_ns * 2, options_.repeat_max_ns);
    at.is_repeated = true;
    repeated_in_ = operation_;
    ++counters_.repeated;
    ++unanswered_;
    contribute(chunk, now_ns);
  }
}

void Leader::finish(std::span<const std::byte> result) {
  Kept& kept = kept_[operation_ & 1];
  kept.data.assign(result.begin(), result.end());
  ++counters_.by_hosts;
  complete();
}

}  // namespace weft::offload
