// An operation through the switch. What happens when that fails is in recovery.cpp.
#include "coll/offload/leader.hpp"

#include <algorithm>
#include <cstring>

namespace weft::offload {

using namespace innet;

void Leader::open(const LeaderOptions& options) {
  options_ = options;
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
  element_ = element;
  arithmetic_ = operation;
  contribution_.assign(contribution.begin(), contribution.end());
  Kept& kept = kept_[operation_ & 1];
  kept.operation = operation_;
  kept.is_complete = false;
  kept.data.resize(contribution.size());
  const std::size_t unit = element_bytes(element);
  chunk_bytes_ = options_.payload_bytes / unit * unit;
  kept.chunk_bytes = std::max<std::size_t>(1, chunk_bytes_);
  if (frozen_ || chunk_bytes_ == 0) {
    state_ = State::host;
    return;
  }
  chunks_.assign((contribution.size() + chunk_bytes_ - 1) / chunk_bytes_, Chunk{});
  base_ = next_ = 0;
  silent_since_ns_ = 0;
  unanswered_ = 0;
  state_ = State::working;
  if (chunks_.empty()) return complete();
  send_allowed(now_ns);
}

std::span<const std::byte> Leader::part(std::span<const std::byte> vector,
                                        std::size_t chunk) const {
  const std::size_t offset = chunk * chunk_bytes_;
  return vector.subspan(offset, std::min(chunk_bytes_, vector.size() - offset));
}

void Leader::send_allowed(std::uint64_t now_ns) {
  // A slot is free for the next chunk once the result of the one before in it is here.
  while (next_ < num_chunks() &&
         (next_ < options_.window || chunks_[next_ - options_.window].is_here)) {
    chunks_[next_].repeat_ns = options_.repeat_ns;
    contribute(next_++, now_ns);
  }
}

void Leader::contribute(std::size_t chunk, std::uint64_t now_ns) {
  Header header = this->header(Kind::data);
  header.operation = operation_;
  header.offset = static_cast<std::uint32_t>(chunk * chunk_bytes_);
  header.slot = static_cast<std::uint16_t>(chunk % options_.window);
  header.element = element_;
  header.arithmetic = arithmetic_;
  std::byte packet[kMaxPacketBytes];
  const std::size_t bytes = write_packet(packet, header, part(contribution_, chunk));
  chunks_[chunk].sent_ns = now_ns;
  if (silent_since_ns_ == 0) silent_since_ns_ = now_ns;
  ++counters_.contributions;
  wire_.to_switch({packet, bytes});
}

bool Leader::take(std::uint32_t offset, std::span<const std::byte> data) {
  const std::size_t chunk = offset / chunk_bytes_;
  if (offset % chunk_bytes_ != 0 || chunk >= num_chunks() || chunks_[chunk].is_here ||
      data.size() != part(contribution_, chunk).size())
    return false;
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
  if (header.operation != operation_) return void(++counters_.ignored);
  switch (header.kind) {
    case Kind::result:
      silent_since_ns_ = 0;
      unanswered_ = 0;
      if (header.element != element_ || header.arithmetic != arithmetic_ ||
          !take(header.offset, packet->payload))
        return void(++counters_.ignored);
      ++counters_.results;
      if (base_ == num_chunks()) {
        ++counters_.operations;
        return complete();
      }
      return send_allowed(now_ns);
    case Kind::wait:
      silent_since_ns_ = 0;
      unanswered_ = 0;
      ++counters_.waits;
      return;
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
    if (at.is_here || now_ns - at.sent_ns < at.repeat_ns) continue;
    at.repeat_ns = std::min(at.repeat_ns * 2, options_.repeat_max_ns);
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
