#include "stream_share.hpp"

#include <cstring>
#include <vector>

#include "weft/exchange.hpp"

namespace weft::graph {
namespace {

struct Record {
  VertexId source, destination;
  Weight weight;
};

// Hands blocks to the ranks round robin: as they were read, behind their place (8 bytes), or as
// edges where only rank 0 can parse them.
class Sharing {
 public:
  Sharing(transport::Job& job, FileSource& source, bool in_order, EdgeStore& edges)
      : job_(job), source_(source), in_order_(in_order), edges_(edges), exchange_(job, 1) {}

  Status read(const FileSource::Progress& progress) {
    Status status;
    if (job_.rank() == 0)
      status = source_.read_blocks([&](const FileSource::Block& block) { return give(block); },
                                   progress);
    const Status ended = exchange_.quiesce(0, [&](transport::Bytes bytes) {
      if (status.ok()) status = take(bytes);
    });
    return ended.ok() ? status : ended;
  }

 private:
  Status give(const FileSource::Block& block) {
    const int to = next_;
    next_ = (next_ + 1) % job_.size();
    if (to == 0) return source_.parse_block(block, edges_);
    if (!in_order_) {
      bytes_.resize(sizeof block.at + block.content.size());
      std::memcpy(bytes_.data(), &block.at, sizeof block.at);
      std::memcpy(bytes_.data() + sizeof block.at, block.content.data(), block.content.size());
      return send(to);
    }
    EdgeStore parsed(edges_.weighted());
    if (const Status status = source_.parse_block(block, parsed); !status.ok()) return status;
    Status status;
    bytes_.clear();
    const auto flush = [&] {
      if (status.ok() && !bytes_.empty()) status = send(to);
      bytes_.clear();
    };
    parsed.for_each(
        true,
        [&](VertexId u, VertexId v, Weight weight) {
          const Record record{u, v, weight};
          const auto* const begin = reinterpret_cast<const std::byte*>(&record);
          bytes_.insert(bytes_.end(), begin, begin + sizeof record);
          if (bytes_.size() >= kMostBytes) flush();
        },
        flush);
    return status;
  }

  Status send(int to) {
    const Code sent = exchange_.send(to, 0, std::span<const std::byte>(bytes_));
    return sent == Code::ok ? Status() : Status{sent, "cannot hand edges to " + job_.describe(to)};
  }

  Status take(transport::Bytes bytes) {
    if (!in_order_) {
      FileSource::Block block{0, {}, false};
      if (bytes.size() < sizeof block.at) return Code::ok;
      std::memcpy(&block.at, bytes.data(), sizeof block.at);
      block.content = {reinterpret_cast<const char*>(bytes.data()) + sizeof block.at,
                       bytes.size() - sizeof block.at};
      return source_.parse_block(block, edges_);
    }
    for (std::size_t i = 0; i + sizeof(Record) <= bytes.size(); i += sizeof(Record)) {
      Record record{};
      std::memcpy(&record, bytes.data() + i, sizeof record);
      edges_.add(record.source, record.destination, record.weight);
    }
    return Code::ok;
  }

  static constexpr std::size_t kMostBytes = std::size_t{1} << 18;
  transport::Job& job_;
  FileSource& source_;
  bool in_order_;
  EdgeStore& edges_;
  transport::Exchange<transport::Bytes> exchange_;
  std::vector<std::byte> bytes_;
  int next_ = 0;
};

}  // namespace

Status read_shared(transport::Job& job, FileSource& source, bool in_order, EdgeStore& edges,
                   const FileSource::Progress& progress) {
  return Sharing(job, source, in_order, edges).read(progress);
}

}  // namespace weft::graph
