#include "cache_writer.hpp"

#include <zlib.h>

#include <algorithm>

namespace weft::graph {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

}  // namespace

CacheWriter::CacheWriter(const std::string& path, const CacheHeader& header)
    : header_(header), file_(path) {
  status_ = file_.open();
  if (status_.ok()) status_ = file_.write(&header, sizeof header);
}

void CacheWriter::write(const void* data, std::size_t bytes) {
  const auto* const from = static_cast<const unsigned char*>(data);
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t taken = std::min<std::size_t>(bytes - at, kCacheBlockBytes - in_block_);
    crc_ = static_cast<std::uint32_t>(crc32_z(crc_, from + at, taken));
    at += taken;
    in_block_ += taken;
    if (in_block_ == kCacheBlockBytes) end_block();
  }
  position_ += bytes;
  if (status_.ok()) status_ = file_.write(data, bytes);
}

void CacheWriter::write(transport::Job& job, const Parts& parts) {
  std::vector<std::byte> piece(kPieceBytes);
  const std::uint64_t end = parts.begins.back();
  for (std::uint64_t first = 0; first < end && status_.ok();) {
    const std::size_t count = std::min<std::uint64_t>(end - first, kPieceBytes / parts.value_bytes);
    status_ = gather(job, parts, first, count, piece.data());
    write(piece.data(), count * parts.value_bytes);
    first += count;
  }
}

void CacheWriter::begin_vertices(bool out) {
  const char zeros[sizeof(VertexId)] = {};
  write(zeros, header_.vertices_at(out) - position_);
}

void CacheWriter::end_block() {
  sums_.push_back(crc_);
  crc_ = 0;
  in_block_ = 0;
}

Status CacheWriter::commit() {
  if (in_block_ > 0) end_block();
  if (status_.ok()) status_ = file_.write(sums_.data(), sums_.size() * sizeof(std::uint32_t));
  if (status_.ok()) status_ = file_.commit();
  return status_;
}

}  // namespace weft::graph
