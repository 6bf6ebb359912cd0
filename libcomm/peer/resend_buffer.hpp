#pragma once
// ResendBuffer: messages of a session that the peer has not acknowledged, in order, so that they
// can be sent again after a link broke. One circular buffer that grows to a limit. One thread at a
// time.
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

namespace weft::transport {

class ResendBuffer {
 public:
  static constexpr std::size_t kStartBytes = 128;
  static constexpr std::size_t kMostBytes = 1 << 20;

  bool empty() const { return first_ == end_; }
  bool all_sent() const { return next_ == end_; }

  // Returns room for a message that counts as sent once mark_sent() is called; empty if there is
  // none.
  std::span<std::byte> append(std::size_t bytes) {
    const std::size_t need = place(bytes);
    while (capacity_ - (end_ - first_) < need + gap(need)) {
      if (capacity_ >= kMostBytes || !grow()) return {};
    }
    if (const std::size_t skip = gap(need); skip > 0) {
      write_length(end_, kGap);
      end_ += skip;
    }
    write_length(end_, static_cast<std::uint32_t>(bytes));
    std::span<std::byte> to(at(end_) + kLengthBytes, bytes);
    end_ += need;
    ++num_appended_;
    return to;
  }

  // The next message to be sent.
  std::span<std::byte> next() {
    if (all_sent()) return {};
    skip_gap(next_);
    return {at(next_) + kLengthBytes, read_length(next_)};
  }
  void mark_sent() {
    skip_gap(next_);
    next_ += place(read_length(next_));
  }
  // Sends again from the first that is still here.
  void rewind() { next_ = first_; }

  // Drops the oldest messages until `number` have gone since the start. False: there never were so
  // many.
  bool drop_until(std::uint64_t number) {
    if (number > num_appended_) return false;
    for (; num_dropped_ < number; ++num_dropped_) {
      skip_gap(first_);
      const bool was_next = next_ <= first_;
      first_ += place(read_length(first_));
      if (was_next) next_ = first_;
    }
    if (empty()) first_ = next_ = end_ = 0;
    return true;
  }
  std::uint64_t num_dropped() const { return num_dropped_; }

 private:
  static constexpr std::size_t kLengthBytes = 8;
  static constexpr std::uint32_t kGap = ~0u;  // the bytes up to the end are not used

  static std::size_t place(std::size_t bytes) { return kLengthBytes + (bytes + 7) / 8 * 8; }
  std::byte* at(std::uint64_t position) { return memory_.get() + position % capacity_; }
  std::uint32_t read_length(std::uint64_t position) {
    std::uint32_t length;
    std::memcpy(&length, at(position), sizeof length);
    return length;
  }
  void write_length(std::uint64_t position, std::uint32_t length) {
    std::memcpy(at(position), &length, sizeof length);
  }
  // The bytes that stay unused at the end of the memory if `need` does not fit there.
  std::size_t gap(std::size_t need) const {
    if (capacity_ == 0) return 0;
    const std::size_t left = capacity_ - end_ % capacity_;
    return left < need ? left : 0;
  }
  void skip_gap(std::uint64_t& position) {
    if (position < end_ && read_length(position) == kGap)
      position += capacity_ - position % capacity_;
  }
  bool grow() {
    ResendBuffer larger;
    larger.capacity_ = capacity_ == 0 ? kStartBytes : capacity_ * 2;
    larger.memory_.reset(new (std::nothrow) std::byte[larger.capacity_]);
    if (larger.memory_ == nullptr) return false;
    for (std::uint64_t position = first_; position < end_;) {
      skip_gap(position);
      const std::uint32_t length = read_length(position);
      std::memcpy(larger.append(length).data(), at(position) + kLengthBytes, length);
      if (position < next_) larger.mark_sent();
      position += place(length);
    }
    larger.num_appended_ = num_appended_;
    larger.num_dropped_ = num_dropped_;
    *this = std::move(larger);
    return true;
  }

  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_ = 0;
  std::uint64_t first_ = 0, next_ = 0, end_ = 0;  // positions, counted on and on
  std::uint64_t num_appended_ = 0, num_dropped_ = 0;
};

}  // namespace weft::transport
