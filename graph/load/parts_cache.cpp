#include "parts_cache.hpp"

#include <sys/statvfs.h>

#include <memory>

#include "graph/common/agree.hpp"
#include "graph/common/machine.hpp"
#include "row_filler.hpp"

namespace weft::graph {
namespace {

// Makes the rows of one direction and has rank 0 write them.
class PartsWriter {
 public:
  PartsWriter(transport::Job& job, Team& team, EdgeFeed& edges, const RowKind& kind,
              const LoadOptions& options, std::uint64_t num_vertices, CacheWriter* file)
      : job_(job),
        team_(team),
        edges_(edges),
        kind_(kind),
        options_(options),
        degrees_(nullptr, num_vertices),
        file_(file) {}

  void write(std::uint64_t part_edges, bool is_last) {
    count_edges(job_, team_, edges_, kind_, degrees_, places_);
    if (file_ != nullptr) {
      file_->write(degrees_.data(), degrees_.size() * sizeof(std::uint32_t));
      file_->begin_vertices(kind_.out);
    }
    const auto num_vertices = static_cast<VertexId>(degrees_.size());
    for (VertexId first = 0; first < num_vertices;) {
      const std::vector<VertexId> cut =
          next_part({degrees_.data(), degrees_.size()}, first, job_.size(), part_edges);
      first = cut.back();
      if (options_.progress && job_.rank() == 0)
        options_.progress(kind_.out ? "sorting edges out" : "sorting edges in",
                          static_cast<double>(first) / num_vertices);
      write_part(cut, is_last && first == num_vertices);
    }
    if (file_ != nullptr) file_->end_weights();
  }

 private:
  void write_part(const std::vector<VertexId>& cut, bool is_last) {
    const VertexId begin = cut[static_cast<std::size_t>(job_.rank())];
    const VertexId end = cut[static_cast<std::size_t>(job_.rank()) + 1];
    Rows rows;
    std::uint64_t num_edges = 0;
    Status status;
    try {
      rows.offsets = Buffer<std::uint64_t>(nullptr, std::size_t{end - begin} + 1);
      for (VertexId v = begin; v < end; ++v) {
        rows.offsets[v - begin + 1] = num_edges;
        num_edges += degrees_[v];
      }
      rows.vertices = Buffer<VertexId>(&job_, num_edges);
      if (kind_.weights != Weights::none) rows.weights = Buffer<Weight>(&job_, num_edges);
    } catch (const Error& error) {
      status = error.status();
    }
    throw_together(job_, status);
    fill_rows(job_, team_, edges_, kind_, cut, is_last, places_, rows);

    std::vector<std::uint64_t> counts, begins{0};
    throw_if(job_.all_gather(num_edges, counts));
    for (const std::uint64_t count : counts) begins.push_back(begins.back() + count);
    std::vector<transport::RemoteMemory> vertices, weights;
    throw_if(job_.all_gather(rows.vertices.remote(), vertices));
    throw_if(job_.all_gather(rows.weights.remote(), weights));
    if (file_ != nullptr) {
      file_->write(job_, {begins, sizeof(VertexId), rows.vertices.data(), &vertices});
      if (kind_.weights != Weights::none)
        file_->write_weights(job_, {begins, sizeof(Weight), rows.weights.data(), &weights},
                             kind_.out);
    }
    // The rows stay until rank 0 has read them.
    throw_together(job_, file_ != nullptr ? file_->status() : Status());
  }

  transport::Job& job_;
  Team& team_;
  EdgeFeed& edges_;
  const RowKind kind_;
  const LoadOptions& options_;
  Buffer<std::uint32_t> degrees_;
  Places places_;
  CacheWriter* file_;  // of rank 0; else null
};

}  // namespace

std::vector<VertexId> next_part(std::span<const std::uint32_t> degrees, VertexId first,
                                int num_ranks, std::uint64_t part_edges) {
  std::vector<VertexId> cut{first};
  VertexId v = first;
  for (int rank = 0; rank < num_ranks; ++rank) {
    std::uint64_t sum = 0;
    for (const VertexId begin = v; v < degrees.size(); ++v) {
      sum += degrees[v];
      if (sum > part_edges && v > begin) break;
    }
    cut.push_back(v);
  }
  return cut;
}

Status check_disk(const std::string& path, std::uint64_t bytes) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  struct statvfs disk {};
  if (statvfs(folder.c_str(), &disk) != 0) return Code::ok;  // opening the file says what is wrong
  const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  if (bytes <= free) return Code::ok;
  return {Code::no_memory, path + " needs " + mib(bytes) + " of disk, which has " + mib(free) +
                               " left, " + mib(bytes - free) +
                               " too little: make room, or link the graph into another folder"};
}

void write_cache_in_parts(transport::Job& job, Team& team, EdgeFeed& edges,
                          const CacheHeader& header, const LoadOptions& options,
                          std::uint64_t part_bytes, const std::string& path) {
  std::unique_ptr<CacheWriter> file;
  if (job.rank() == 0) file = std::make_unique<CacheWriter>(path, header);
  for (const bool out : {true, false}) {
    if (!out && header.in_edges == 0) break;
    const RowKind kind{
        .out = out, .undirected = header.undirected != 0, .weights = options.weights};
    PartsWriter(job, team, edges, kind, options, header.num_vertices, file.get())
        .write(part_bytes / edge_bytes(options.weights), !out || header.in_edges == 0);
  }
  throw_together(job, file != nullptr ? file->commit() : Status());
}

}  // namespace weft::graph
