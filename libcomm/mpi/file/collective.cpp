// Collective reading and writing in two phases (del Rosario, Bordawekar, Choudhary 1993; Thakur,
// Gropp, Lusk 1999): where the pieces of the members are small and interleave, some members, the
// aggregators, gather all data for a stripe of the file and write it at once, or read it and
// distribute it. Otherwise each member accesses the file by itself; one exchange of extents
// decides.
//
// It goes in rounds, so that no member needs more memory for it than a stripe's: first all members
// publish where their next piece begins, and the stripes of the round, one for each aggregator, lie
// from the least of these on. Thus parts of the file that no member touches cost nothing. Messages
// are collectives of the file's communicator, so a member's death ends all of it with
// MPIX_ERR_PROC_FAILED.
//
// An aggregator writes the data it was given and nothing between. Where members overlap the one
// with the highest rank is written.
#include <algorithm>
#include <cstring>
#include <limits>

#include "mpi/file/access.hpp"

namespace weft::mpi {
namespace {

// Members whose pieces are larger than this, on average, access the file by themselves.
constexpr std::uint64_t kSmallPieceBytes = std::uint64_t{16} << 10;
constexpr std::uint64_t kLeastStripeBytes = std::uint64_t{64} << 10;
// Gaps between pieces, up to this size, that an aggregator reads along with them.
constexpr std::uint64_t kReadThroughBytes = std::uint64_t{64} << 10;
constexpr std::int64_t kNowhere = std::numeric_limits<std::int64_t>::max();

// The first exchange: the extent of every member's access.
struct Extent {
  std::int64_t code;
  std::int64_t first;
  std::int64_t last;
  std::int64_t num_pieces;
  std::int64_t bytes;
  std::int64_t host;  // the first member of the same host
  bool is_ascending;
};

// A part of a stripe. A member sends an aggregator the number of its ranges, the ranges, and, for
// writing, the data.
struct StripeRange {
  std::uint32_t offset;
  std::uint32_t bytes;
};

// True if the extents interleave. Sorts them by position.
bool interleave(std::vector<Extent>& extents) {
  std::ranges::sort(extents, {}, &Extent::first);
  std::int64_t last = 0;
  for (const Extent& extent : extents) {
    if (extent.bytes == 0) continue;
    if (extent.first < last) return true;
    last = extent.last;
  }
  return false;
}

// True if the access is to go in two phases. May change the order of `extents`.
bool wants_two_phases(const FileHints::Choice choice, std::vector<Extent>& extents) {
  std::int64_t num_pieces = 0, bytes = 0;
  for (const Extent& extent : extents) {
    if (!extent.is_ascending) return false;
    num_pieces += extent.num_pieces;
    bytes += extent.bytes;
  }
  if (bytes == 0) return false;
  if (choice != FileHints::Choice::automatic) return choice == FileHints::Choice::enable;
  return num_pieces != 0 && static_cast<std::uint64_t>(bytes / num_pieces) <= kSmallPieceBytes &&
         interleave(extents);
}

// Chooses the first members of each host.
std::vector<int> choose_aggregators(const FileHints& hints, const std::vector<Extent>& extents) {
  constexpr int kMostOfHost = 4;
  const int per_host = hints.per_host > 0 ? hints.per_host : kMostOfHost;
  std::vector<int> chosen;
  // Round robin over the hosts, should the hint want fewer members than there are hosts.
  for (int turn = 0; turn < per_host && chosen.size() < extents.size(); ++turn) {
    std::vector<int> seen(extents.size());
    for (std::size_t i = 0; i < extents.size(); ++i) {
      const auto host = static_cast<std::size_t>(extents[i].host);
      if (seen[host]++ == turn) chosen.push_back(static_cast<int>(i));
    }
  }
  if (hints.num_aggregators > 0 && chosen.size() > static_cast<std::size_t>(hints.num_aggregators))
    chosen.resize(static_cast<std::size_t>(hints.num_aggregators));
  return chosen;
}

class TwoPhase {
 public:
  TwoPhase(Access& access, const std::vector<Extent>& extents)
      : access_(access),
        file_(*access.file),
        team_(*file_.comm->team),
        size_(extents.size()),
        aggregators_(choose_aggregators(access.hints, extents)),
        cursor_(access.view->shape, access.position),
        memory_(access.memory()) {
    std::int64_t first = kNowhere, last = 0;
    for (const Extent& extent : extents) {
      if (extent.bytes == 0) continue;
      first = std::min(first, extent.first);
      last = std::max(last, extent.last);
    }
    const std::uint64_t share =
        (static_cast<std::uint64_t>(last - first) / aggregators_.size() + 4096) / 4096 * 4096;
    stripe_ = std::clamp(access.hints.collective_bytes / 4096 * 4096, kLeastStripeBytes,
                         std::uint64_t{1} << 30);
    stripe_ = std::min(stripe_, std::max(share, kLeastStripeBytes));
    const auto own = std::ranges::find(aggregators_, file_.rank());
    own_stripe_ = own == aggregators_.end() ? -1 : own - aggregators_.begin();
    send_counts_.resize(size_);
    send_places_.resize(size_);
    receive_counts_.resize(size_);
    receive_places_.resize(size_);
    nexts_.resize(size_);
    codes_.resize(size_);
    data_bytes_.resize(aggregators_.size());
    to_.resize(aggregators_.size());
  }

  Status run() {
    advance();
    for (;;) {
      const std::int64_t next =
          left_ == 0 && next_.bytes == 0 ? kNowhere : access_.view->displacement + next_.offset;
      if (Status status =
              insist([&] { return coll::allgather(team_, &next, nexts_.data(), sizeof next); });
          !status)
        return status;
      base_ = *std::ranges::min_element(nexts_);
      if (base_ == kNowhere) return {};
      base_ = base_ / 4096 * 4096;
      if (Status status = access_.writes ? write_round() : read_round(); !status) return status;
    }
  }

  std::uint64_t done() const noexcept { return done_; }
  const FileError& error() const noexcept { return error_; }

 private:
  void advance() {
    next_ = left_ == 0 ? ByteRange{0, 0} : cursor_.next_joined(left_);
    left_ -= next_.bytes;
  }

  // Collects the ranges of this round, by aggregator.
  void collect() {
    for (auto& pieces : to_) pieces.clear();
    std::ranges::fill(data_bytes_, 0);
    const auto reach = static_cast<std::int64_t>(stripe_ * aggregators_.size());
    while (next_.bytes != 0) {
      const std::int64_t place = access_.view->displacement + next_.offset - base_;
      if (place >= reach) break;
      const auto stripe = static_cast<std::uint64_t>(place) / stripe_;
      const std::uint64_t offset = static_cast<std::uint64_t>(place) % stripe_;
      const std::uint64_t part = std::min(next_.bytes, stripe_ - offset);
      to_[stripe].push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(part)});
      data_bytes_[stripe] += part;
      next_.offset += static_cast<std::int64_t>(part);
      next_.bytes -= part;
      if (next_.bytes == 0) advance();
    }
  }

  // Packs the lists, and behind each its data if these are written.
  void pack_pieces() {
    std::ranges::fill(send_counts_, 0);
    std::size_t total = 0;
    for (std::size_t i = 0; i < aggregators_.size(); ++i) {
      if (to_[i].empty()) continue;
      const auto member = static_cast<std::size_t>(aggregators_[i]);
      send_counts_[member] = sizeof(std::uint64_t) + to_[i].size() * sizeof(StripeRange) +
                             (access_.writes ? data_bytes_[i] : 0);
      send_places_[member] = static_cast<std::ptrdiff_t>(total);
      total += (send_counts_[member] + 7) / 8 * 8;
    }
    grow(send_, total);
    for (std::size_t i = 0; i < aggregators_.size(); ++i) {
      if (to_[i].empty()) continue;
      std::byte* to = send_.data() + send_places_[static_cast<std::size_t>(aggregators_[i])];
      const std::uint64_t num = to_[i].size();
      std::memcpy(to, &num, sizeof num);
      std::memcpy(to + sizeof num, to_[i].data(), num * sizeof(StripeRange));
      // The stripes are in the order of the data.
      if (access_.writes)
        memory_.copy_to(to + sizeof num + num * sizeof(StripeRange), data_bytes_[i]);
    }
  }

  // Sends every member's ranges to their aggregators.
  Status send_pieces() {
    return exchange(or_no_memory([this] {
      collect();
      pack_pieces();
    }));
  }

  // Exchanges send_, by counts and places, to receive_. If a member has no memory for that the call
  // ends for all.
  Status exchange(Code code) {
    if (code != Code::ok) std::ranges::fill(send_counts_, 0);
    if (Status status = insist([this] {
          return coll::alltoall(team_, send_counts_.data(), receive_counts_.data(),
                                sizeof(std::size_t));
        });
        !status)
      return status;
    std::size_t total = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      receive_places_[i] = static_cast<std::ptrdiff_t>(total);
      total += (receive_counts_[i] + 7) / 8 * 8;
    }
    if (code == Code::ok)
      code = or_no_memory([&] {
        grow(receive_, total);
        grow(send_, 0);
      });
    if (Status status =
            insist([&] { return coll::allgather(team_, &code, codes_.data(), sizeof code); });
        !status)
      return status;
    for (const Code other : codes_)
      if (other != Code::ok) return other;
    return insist([this] {
      return coll::alltoallv(team_, send_.data(), send_counts_.data(), send_places_.data(),
                             receive_.data(), receive_counts_.data(), receive_places_.data());
    });
  }

  static void grow(std::vector<std::byte>& memory, std::size_t bytes) {
    if (memory.size() < bytes + 8) memory.resize(bytes + 8);
  }

  // The ranges that a member has sent, and where its data begin.
  struct RangeList {
    const StripeRange* pieces;
    std::size_t num;
    std::byte* data;
  };
  RangeList range_list_of(std::size_t member) {
    if (receive_counts_[member] == 0) return {nullptr, 0, nullptr};
    std::byte* from = receive_.data() + receive_places_[member];
    std::uint64_t num = 0;
    std::memcpy(&num, from, sizeof num);
    // The list comes from this same code, but memory outside of it must not be touched.
    if (num > (receive_counts_[member] - sizeof num) / sizeof(StripeRange)) num = 0;
    return {reinterpret_cast<const StripeRange*>(from + sizeof num), num,
            from + sizeof num + num * sizeof(StripeRange)};
  }
  std::int64_t own_place() const noexcept {
    return base_ + static_cast<std::int64_t>(stripe_) * own_stripe_;
  }

  // Joins all members' ranges in the file's order: those that follow each other or have at most
  // `gap` bytes between them become one.
  void join_pieces(std::uint64_t gap) {
    joined_.clear();
    std::vector<std::size_t> ends{0};
    for (std::size_t i = 0; i < size_; ++i) {
      const RangeList list = range_list_of(i);
      if (list.num == 0) continue;
      for (std::size_t k = 0; k < list.num; ++k) {
        const StripeRange& piece = list.pieces[k];
        if (piece.offset >= stripe_ || piece.bytes > stripe_ - piece.offset) continue;
        joined_.push_back(piece);
      }
      ends.push_back(joined_.size());
    }
    // Each member's ranges are in order.
    const auto at = [this](std::size_t i) {
      return joined_.begin() + static_cast<std::ptrdiff_t>(i);
    };
    while (ends.size() > 2) {
      std::vector<std::size_t> merged{0};
      for (std::size_t i = 1; i < ends.size(); i += 2) {
        if (i + 1 < ends.size())
          std::inplace_merge(
              at(ends[i - 1]), at(ends[i]), at(ends[i + 1]),
              [](const StripeRange& a, const StripeRange& b) { return a.offset < b.offset; });
        merged.push_back(ends[std::min(i + 1, ends.size() - 1)]);
      }
      ends = std::move(merged);
    }
    std::size_t num = 0;
    for (const StripeRange& piece : joined_) {
      if (num != 0) {
        StripeRange& last = joined_[num - 1];
        const std::uint64_t end = std::uint64_t{last.offset} + last.bytes;
        if (piece.offset <= end + gap) {
          const std::uint64_t reach =
              std::max<std::uint64_t>(end, std::uint64_t{piece.offset} + piece.bytes);
          last.bytes = static_cast<std::uint32_t>(reach - last.offset);
          continue;
        }
      }
      joined_[num++] = piece;
    }
    joined_.resize(num);
  }

  Status write_round() {
    if (Status status = send_pieces(); !status) return status;
    if (error_) return {};
    for (const std::uint64_t bytes : data_bytes_) done_ += bytes;
    if (own_stripe_ < 0) return {};
    // The agreement at the end reports the error to all.
    error_ = or_no_memory_error([this] { return write_stripe(); });
    return {};
  }

  FileError write_stripe() {
    grow(buffer_, stripe_);
    for (std::size_t i = 0; i < size_; ++i) {
      const RangeList list = range_list_of(i);
      const std::byte* data = list.data;
      const std::byte* const end = receive_.data() + receive_places_[i] + receive_counts_[i];
      for (std::size_t k = 0; k < list.num; ++k) {
        const StripeRange& piece = list.pieces[k];
        if (piece.offset >= stripe_ || piece.bytes > stripe_ - piece.offset ||
            piece.bytes > static_cast<std::size_t>(end - data))
          break;
        std::memcpy(buffer_.data() + piece.offset, data, piece.bytes);
        data += piece.bytes;
      }
    }
    join_pieces(0);
    // Others may write the bytes around it by the buffer.
    const bool locks = access_.hints.sieve_write == FileHints::Choice::enable;
    for (const StripeRange& piece : joined_) {
      const std::int64_t place = own_place() + piece.offset;
      std::optional<RangeLock> lock;
      if (locks)
        if (FileError error = lock.emplace(file_, place, place + piece.bytes, true).error())
          return error;
      if (FileError error = write_at(file_, buffer_.data() + piece.offset, piece.bytes, place))
        return error;
    }
    return {};
  }

  // Reads a stripe. The answer to a list: the length of the stripe's data, then the data.
  Status read_round() {
    if (Status status = send_pieces(); !status) return status;
    if (Status status = exchange(or_no_memory([this] {
          std::uint64_t valid = stripe_;
          if (own_stripe_ >= 0) valid = read_stripe();
          pack_answers(valid);
        }));
        !status)
      return status;
    take_answers();
    return {};
  }

  // Reads the stripe; returns the length of its data.
  std::uint64_t read_stripe() {
    std::uint64_t valid = stripe_;
    grow(buffer_, stripe_);
    join_pieces(kReadThroughBytes);
    for (const StripeRange& piece : joined_) {
      std::uint64_t got = 0;
      if (!error_)
        error_ = read_at(file_, buffer_.data() + piece.offset, piece.bytes,
                         own_place() + piece.offset, got);
      if (got == piece.bytes) continue;
      std::memset(buffer_.data() + piece.offset + got, 0, piece.bytes - got);
      valid = std::min(valid, piece.offset + got);
    }
    return valid;
  }

  // Packs the answers; the lists are still in receive_.
  void pack_answers(std::uint64_t valid) {
    std::size_t total = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      const RangeList list = range_list_of(i);
      send_counts_[i] = 0;
      if (list.num == 0) continue;
      std::size_t bytes = sizeof valid;
      for (std::size_t k = 0; k < list.num; ++k) bytes += list.pieces[k].bytes;
      send_counts_[i] = bytes;
      send_places_[i] = static_cast<std::ptrdiff_t>(total);
      total += (bytes + 7) / 8 * 8;
    }
    grow(send_, total);
    for (std::size_t i = 0; i < size_; ++i) {
      if (send_counts_[i] == 0) continue;
      std::byte* to = send_.data() + send_places_[i];
      std::memcpy(to, &valid, sizeof valid);
      to += sizeof valid;
      const RangeList list = range_list_of(i);
      for (std::size_t k = 0; k < list.num; ++k) {
        const StripeRange& piece = list.pieces[k];
        if (piece.offset >= stripe_ || piece.bytes > stripe_ - piece.offset) break;
        std::memcpy(to, buffer_.data() + piece.offset, piece.bytes);
        to += piece.bytes;
      }
    }
  }

  void take_answers() {
    for (std::size_t i = 0; i < aggregators_.size(); ++i) {
      if (to_[i].empty()) continue;
      const auto member = static_cast<std::size_t>(aggregators_[i]);
      const std::byte* from = receive_.data() + receive_places_[member];
      std::uint64_t valid = 0;
      // The others go on; the agreement at the end reports the error.
      if (receive_counts_[member] != sizeof valid + data_bytes_[i]) {
        if (!error_) error_ = {MPI_ERR_INTERN, "a member's answer has another length"};
        at_end_ = true;
        continue;
      }
      std::memcpy(&valid, from, sizeof valid);
      from += sizeof valid;
      for (const StripeRange& piece : to_[i]) {
        const std::uint64_t part =
            piece.offset >= valid ? 0 : std::min<std::uint64_t>(piece.bytes, valid - piece.offset);
        // Memory for data behind the file's end is left alone, and all that follows.
        if (!at_end_) {
          memory_.copy_from(from, part);
          done_ += part;
        }
        at_end_ = at_end_ || part < piece.bytes;
        from += piece.bytes;
      }
    }
  }

  Access& access_;
  File& file_;
  coll::Team& team_;
  std::size_t size_;
  std::vector<int> aggregators_;
  Cursor cursor_;
  MemoryStream memory_;
  std::uint64_t left_ = access_.bytes;  // bytes that the cursor has not returned
  ByteRange next_{0, 0};                // the last range it returned, not yet in a round
  std::uint64_t stripe_ = 0;
  std::ptrdiff_t own_stripe_ = -1;
  std::int64_t base_ = 0;  // the offset of the round
  std::vector<std::int64_t> nexts_;
  std::vector<Code> codes_;
  std::vector<std::vector<StripeRange>> to_;  // by aggregator
  std::vector<std::uint64_t> data_bytes_;
  std::vector<std::byte> send_, receive_, buffer_;
  std::vector<std::size_t> send_counts_, receive_counts_;
  std::vector<std::ptrdiff_t> send_places_, receive_places_;
  std::vector<StripeRange> joined_;
  std::uint64_t done_ = 0;
  bool at_end_ = false;
  FileError error_;
};

}  // namespace

FileError error_of(const Status& status) {
  if (status == Code::no_memory) return {MPI_ERR_NO_MEM, {}};
  return {error_class(status.code()), "a member of the file's communicator is lost"};
}

FileError agree(coll::Team& team, const FileError& mine) {
  std::vector<std::int32_t> codes;
  if (const Status status = gather_from_all(team, std::int32_t{mine.code}, codes); !status)
    return error_of(status);
  if (mine) return mine;
  for (std::size_t i = 0; i < codes.size(); ++i)
    if (codes[i] != MPI_SUCCESS)
      return {codes[i], "member " + std::to_string(i) + " of the file's communicator failed"};
  return {};
}

void run_together(Access& access) {
  File& file = *access.file;
  coll::Team& team = *file.comm->team;
  const FileHints::Choice choice =
      access.writes ? access.hints.collective_write : access.hints.collective_read;
  if (file.size() == 1 || access.is_atomic || choice == FileHints::Choice::disable) {
    if (!access.error) run(access);
    return;
  }
  Extent mine{access.error.code, 0, 0, 0, 0, file.window->host_members.front(), true};
  std::vector<Extent> extents, by_place;
  const Status gathered = insist([&] {
    if (!access.error && access.bytes != 0) {
      access.find_range(mine.first, mine.last);
      mine.bytes = static_cast<std::int64_t>(access.bytes);
      const View& view = *access.view;
      mine.num_pieces = view.shape->is_block()
                            ? 1
                            : static_cast<std::int64_t>((access.bytes + view.tile_bytes - 1) /
                                                        view.tile_bytes * view.tile_blocks);
      mine.is_ascending = view.shape->is_ascending();
    }
    by_place.reserve(static_cast<std::size_t>(file.size()));
    extents.resize(static_cast<std::size_t>(file.size()));
    return coll::allgather(team, &mine, extents.data(), sizeof mine);
  });
  if (!gathered) {
    access.error = error_of(gathered);
    return;
  }
  for (std::size_t i = 0; i < extents.size() && !access.error; ++i)
    if (extents[i].code != MPI_SUCCESS)
      access.error = {static_cast<int>(extents[i].code),
                      "member " + std::to_string(i) + " of the file's communicator failed"};
  if (access.error) return;
  by_place = extents;
  if (!wants_two_phases(choice, by_place)) {
    run(access);
    return;
  }
  std::optional<TwoPhase> phases;
  access.error = agree(team, or_no_memory_error([&]() -> FileError {
                         phases.emplace(access, extents);
                         return {};
                       }));
  if (access.error) return;
  if (const Status status = phases->run(); !status) {
    access.error = error_of(status);
    return;
  }
  const FileError finished = or_no_memory_error([&]() -> FileError {
    access.finish(phases->done());
    return std::move(access.error);
  });
  // A member that gave its data to an aggregator learns whether that could write them.
  access.error = agree(team, phases->error() ? phases->error() : finished);
}

}  // namespace weft::mpi
