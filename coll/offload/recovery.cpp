// An operation that the switch did not finish: the leaders agree which of them has its result
// (leader.hpp).
#include <algorithm>

#include "coll/offload/leader.hpp"

namespace weft::offload {

using namespace innet;

namespace {
// The most parts of a result requested at once.
constexpr std::size_t kFetchWindow = 32;
}  // namespace

void Leader::send_to(int leader, Kind kind, Answer answer, std::uint32_t operation,
                     std::uint32_t offset, std::span<const std::byte> payload) {
  Header header = this->header(kind);
  header.ticket = 0;  // for packets to the switch only
  header.answer = answer;
  header.operation = operation;
  header.offset = offset;
  std::byte packet[kMaxPacketBytes];
  wire_.to_leader(leader, {packet, write_packet(packet, header, payload)});
}

void Leader::give_up(std::uint64_t now_ns) {
  frozen_ = true;
  if (state_ != State::working) return;
  state_ = State::recovering;
  if (is_fixed_) {
    // The other leaders send floats, not integers.
    is_fixed_ = false;
    split();
  }
  giver_ = -1;
  answers_.assign(static_cast<std::size_t>(options_.num_leaders), Answer::ok);
  answers_[static_cast<std::size_t>(options_.self)] = Answer::lacks;
  if (options_.num_leaders == 1) {
    state_ = State::host;
    return;
  }
  ask(now_ns);
}

void Leader::ask(std::uint64_t now_ns) {
  asked_ns_ = now_ns;
  for (const int leader : silent_leaders())
    send_to(leader, Kind::recover, Answer::ok, operation_, 0, {});
}

std::vector<int> Leader::silent_leaders() const {
  std::vector<int> silent;
  if (state_ != State::recovering) return silent;
  for (int leader = 0; leader < options_.num_leaders; ++leader)
    if (answers_[static_cast<std::size_t>(leader)] == Answer::ok) silent.push_back(leader);
  return silent;
}

void Leader::on_leader(int from, std::span<const std::byte> bytes, std::uint64_t now_ns) {
  const auto packet = read_packet(bytes);
  if (!packet) return void(++counters_.ignored);
  const Header& header = packet->header;
  if (header.group != options_.group || header.key != options_.key ||
      header.epoch != options_.epoch || from < 0 || from >= options_.num_leaders ||
      from == options_.self)
    return void(++counters_.ignored);
  switch (header.kind) {
    case Kind::recover:
      return on_recover(from, header, now_ns);
    case Kind::recover_reply:
      return on_answer(from, header, now_ns);
    case Kind::fetch:
      return on_fetch(from, header);
    case Kind::fetch_reply:
      if (state_ != State::recovering || giver_ != from || header.operation != operation_ ||
          !take(header.offset, packet->payload))
        return void(++counters_.ignored);
      if (base_ == num_chunks()) {
        ++counters_.fetched;
        return complete();
      }
      // The next parts once the last ones are here.
      if (std::all_of(chunks_.begin() + static_cast<std::ptrdiff_t>(base_),
                      chunks_.begin() + static_cast<std::ptrdiff_t>(next_),
                      [](const Chunk& chunk) { return chunk.is_here; }) ||
          base_ >= next_)
        fetch(now_ns);
      return;
    default:
      return void(++counters_.ignored);
  }
}

void Leader::on_recover(int from, const Header& header, std::uint64_t now_ns) {
  const std::uint32_t asked = header.operation;
  const Kept& kept = kept_[asked & 1];
  // No leader can be further ahead than the operation after this leader's, nor further behind than
  // the one before.
  if (asked == 0 || asked > operation_ + 1 || asked + 1 < operation_)
    return void(++counters_.ignored);
  const bool has = asked <= operation_ && kept.operation == asked && kept.is_complete;
  give_up(now_ns);
  send_to(from, Kind::recover_reply, has ? Answer::has : Answer::lacks, asked, 0, {});
}

void Leader::on_answer(int from, const Header& header, std::uint64_t now_ns) {
  if (state_ != State::recovering || header.operation != operation_ || giver_ >= 0 ||
      (header.answer != Answer::has && header.answer != Answer::lacks))
    return void(++counters_.ignored);
  auto& answer = answers_[static_cast<std::size_t>(from)];
  if (answer != Answer::ok) return void(++counters_.ignored);
  answer = header.answer;
  if (std::find(answers_.begin(), answers_.end(), Answer::ok) != answers_.end()) return;
  const auto giver = std::find(answers_.begin(), answers_.end(), Answer::has);
  if (giver == answers_.end()) {
    state_ = State::host;
    return;
  }
  giver_ = static_cast<int>(giver - answers_.begin());
  fetch(now_ns);
}

void Leader::fetch(std::uint64_t now_ns) {
  asked_ns_ = now_ns;
  std::size_t asked = 0;
  next_ = base_;
  for (std::size_t chunk = base_; chunk < num_chunks() && asked < kFetchWindow; ++chunk) {
    next_ = chunk + 1;
    if (chunks_[chunk].is_here) continue;
    ++asked;
    send_to(giver_, Kind::fetch, Answer::ok, operation_,
            static_cast<std::uint32_t>(chunk * chunk_bytes_), {});
  }
}

void Leader::on_fetch(int from, const Header& header) {
  const Kept& kept = kept_[header.operation & 1];
  if (kept.operation != header.operation || !kept.is_complete || header.operation == 0 ||
      header.offset >= kept.data.size())
    return void(++counters_.ignored);
  const std::size_t length =
      std::min<std::size_t>(kept.chunk_bytes, kept.data.size() - header.offset);
  send_to(from, Kind::fetch_reply, Answer::ok, header.operation, header.offset,
          std::span<const std::byte>(kept.data).subspan(header.offset, length));
}

}  // namespace weft::offload
