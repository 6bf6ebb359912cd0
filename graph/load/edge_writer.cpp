#include "edge_writer.hpp"

#include <charconv>
#include <cstring>
#include <iterator>
#include <numeric>
#include <vector>

#include "file_source.hpp"

namespace weft::graph {
namespace {

// splitmix64: a number for each place in a sequence.
std::uint64_t random_at(std::uint64_t seed, std::uint64_t at) {
  std::uint64_t z = seed + (at + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ z >> 27) * 0x94D049BB133111EBull;
  return z ^ z >> 31;
}

}  // namespace

Status EdgeWriter::format_of(const std::string& path, FileFormat& format) {
  std::string name = path;
  if (const Compression packed = compression_by_name(name); packed != Compression::none)
    return {Code::unsupported,
            path + ": no compressed file is written: compress it afterwards by " + name_of(packed)};
  const bool by_name = format == FileFormat::automatic;
  if (by_name) format = format_by_name(path);
  if (format == FileFormat::metis || (by_name && !advice_on(path).empty()))
    return {Code::unsupported,
            path + ": this format is not written; --format says what it is to be"};
  if (format == FileFormat::automatic) format = FileFormat::paper_binary;
  return Code::ok;
}

Status EdgeWriter::open(std::uint64_t num_vertices, std::uint64_t num_edges) {
  const Status status = file_.open();
  if (!status.ok() || !needs_sizes(format_)) return status;
  const std::string sizes = std::to_string(num_vertices) + " " + std::to_string(num_edges) + "\n";
  return file_.write(format_ == FileFormat::dimacs
                         ? "p sp " + sizes
                         : "%%MatrixMarket matrix coordinate " +
                               std::string(real_ ? "real" : "integer") + " general\n" +
                               std::to_string(num_vertices) + " " + sizes);
}

Status EdgeWriter::add(VertexId source, VertexId destination, Weight weight) {
  if (format_ == FileFormat::edge_list || format_ == FileFormat::weighted_edge_list ||
      needs_sizes(format_)) {
    const unsigned base = needs_sizes(format_) ? 1 : 0;
    std::string line = format_ == FileFormat::dimacs ? "a " : "";
    line += std::to_string(source + base);
    line.append(1, ' ').append(std::to_string(destination + base));
    if (format_ != FileFormat::edge_list) {
      char digits[40];
      const auto [end, error] = real_ ? std::to_chars(digits, std::end(digits), real_weight(weight))
                                      : std::to_chars(digits, std::end(digits), weight);
      line.append(1, ' ').append(digits, end);
    }
    line.append(1, '\n');
    return file_.write(line);
  }
  if (source >= 0xffffffff || destination >= 0xffffffff)
    return {Code::unsupported, "binary formats have vertex ids of 32 bits"};
  std::uint32_t record[3] = {static_cast<std::uint32_t>(source),
                             static_cast<std::uint32_t>(destination), weight};
  if (format_ == FileFormat::gemini_weighted && !real_) {
    const auto value = static_cast<float>(weight);
    if (static_cast<double>(value) != weight)
      return {Code::unsupported, "the weight " + std::to_string(weight) +
                                     " is no number of the format, which has 24 bits for it"};
    std::memcpy(&record[2], &value, sizeof value);
  }
  return file_.write(record, format_ == FileFormat::gemini_binary ? 8 : 12);
}

Status generate_rmat(unsigned scale, unsigned edge_factor, std::uint64_t seed, bool permute,
                     EdgeWriter& writer) {
  const std::uint64_t num_vertices = std::uint64_t{1} << scale;
  const std::uint64_t num_edges = num_vertices * edge_factor;
  Status status = writer.open(num_vertices, num_edges);
  std::vector<VertexId> numbers;
  if (permute) {
    numbers.resize(num_vertices);
    std::iota(numbers.begin(), numbers.end(), VertexId{0});
    for (std::uint64_t i = num_vertices - 1; i > 0; --i)
      std::swap(numbers[i], numbers[random_at(~seed, i) % (i + 1)]);
  }
  for (std::uint64_t e = 0; e < num_edges && status.ok(); ++e) {
    std::uint64_t source = 0, destination = 0, bits = 0;
    for (unsigned level = 0; level < scale; ++level) {
      // 16 random bits choose a quarter: a 0.57, b 0.19, c 0.19, d 0.05.
      if (level % 4 == 0) bits = random_at(seed, e * 16 + level / 4);
      const std::uint64_t dice = bits & 0xffff;
      bits >>= 16;
      const bool down = dice >= 49807;                                      // (a + b) * 65536
      const bool right = (dice >= 37356 && dice < 49807) || dice >= 62259;  // b or d
      source = source << 1 | (down ? 1 : 0);
      destination = destination << 1 | (right ? 1 : 0);
    }
    auto from = static_cast<VertexId>(source), to = static_cast<VertexId>(destination);
    if (permute) {
      from = numbers[from];
      to = numbers[to];
    }
    status = writer.add(from, to, hash_weight(from, to));
  }
  return status.ok() ? writer.commit() : status;
}

Status generate_grid(std::uint64_t width, std::uint64_t height, EdgeWriter& writer) {
  Status status = writer.open(width * height, 2 * ((width - 1) * height + width * (height - 1)));
  const auto both = [&](std::uint64_t a, std::uint64_t b) {
    const auto u = static_cast<VertexId>(a), v = static_cast<VertexId>(b);
    if (status.ok()) status = writer.add(u, v, hash_weight(u, v));
    if (status.ok()) status = writer.add(v, u, hash_weight(u, v));
  };
  for (std::uint64_t y = 0; y < height; ++y)
    for (std::uint64_t x = 0; x < width; ++x) {
      if (x + 1 < width) both(y * width + x, y * width + x + 1);
      if (y + 1 < height) both(y * width + x, (y + 1) * width + x);
    }
  return status.ok() ? writer.commit() : status;
}

}  // namespace weft::graph
