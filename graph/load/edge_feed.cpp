#include "edge_feed.hpp"

#include <algorithm>
#include <numeric>

#include "graph/common/agree.hpp"
#include "stream_share.hpp"

namespace weft::graph {

EdgeFeed::EdgeFeed(transport::Job& job, Team& team, std::string name, bool weighted,
                   bool keeps_text)
    : job_(job), team_(team), name_(std::move(name)), weighted_(weighted), keeps_text_(keeps_text) {
  for (int t = 0; t < team.size(); ++t) {
    kept_.emplace_back(weighted);
    blocks_.emplace_back(weighted);
  }
}

std::uint64_t EdgeFeed::num_kept_entries() const noexcept {
  std::uint64_t sum = 0;
  for (const EdgeStore& store : kept_) sum += store.size() - store.num_mirrored();
  return sum;
}

void EdgeFeed::add(std::unique_ptr<FileSource> source, const FileFacts& facts,
                   const FileSource::Progress& progress) {
  std::vector<std::uint64_t> counts;
  throw_if(job_.all_gather(static_cast<std::uint64_t>(team_.size()), counts));
  const auto sum_of_first = [&](std::size_t n) {
    return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(n),
                           std::uint64_t{0});
  };
  Plain plain{std::move(source), sum_of_first(static_cast<std::size_t>(job_.rank())),
              sum_of_first(counts.size())};
  FileSource& file = *plain.source;
  Status status;
  std::uint64_t num_entries = 0;
  if (keeps(facts)) {
    const std::uint64_t before = num_kept_entries();
    keep(file, facts, plain.first_part, plain.num_parts, progress, status);
    num_entries = num_kept_entries() - before;
  } else {
    count_plain(plain, progress, status, num_entries);
  }
  if (status.ok()) status = file.check_unchanged();
  throw_together(job_, status);
  throw_if(job_.all_reduce(num_entries, std::plus<>()));
  throw_if(file.check_entries(num_entries));
  if (!keeps(facts)) plain_.push_back(std::move(plain));
}

void EdgeFeed::keep(FileSource& source, const FileFacts& facts, std::uint64_t first_part,
                    std::uint64_t num_parts, const FileSource::Progress& progress, Status& status) {
  const auto size = [&] {
    std::uint64_t sum = 0;
    for (const EdgeStore& store : kept_) sum += store.size();
    return sum;
  };
  const std::uint64_t before = size();
  if (facts.streamed()) {
    status = read_shared(job_, source, facts.in_order(), kept_[0], progress);
  } else {
    std::vector<Status> results(kept_.size());
    team_.run([&](int thread) {
      const auto t = static_cast<std::size_t>(thread);
      try {
        results[t] = source.read_part(first_part + t, num_parts, kept_[t], progress);
      } catch (const std::exception& error) {
        results[t] = no_memory(error);
      }
    });
    status = first_failure(results);
  }
  num_edges_ += size() - before;
  for (const EdgeStore& store : kept_)
    if (store.size() > 0) largest_ = std::max(largest_, store.largest());
}

// The first pass, which finds how many edges there are and the largest vertex.
void EdgeFeed::count_plain(const Plain& plain, const FileSource::Progress& progress, Status& status,
                           std::uint64_t& num_entries) {
  struct Counted {
    std::uint64_t edges = 0, mirrored = 0;
  };
  std::vector<Counted> counted(blocks_.size());
  std::vector<Status> results(blocks_.size());
  team_.run([&](int thread) {
    const auto t = static_cast<std::size_t>(thread);
    EdgeStore& block = blocks_[t];
    try {
      results[t] =
          plain.source->read_part(plain.first_part + t, plain.num_parts, block, [&](auto bytes) {
            counted[t].edges += block.size();
            counted[t].mirrored += block.num_mirrored();
            block.clear();
            progress(bytes);
          });
    } catch (const std::exception& error) {
      results[t] = no_memory(error);
    }
  });
  status = first_failure(results);
  for (const Counted& count : counted) {
    num_edges_ += count.edges;
    num_entries += count.edges - count.mirrored;
  }
  for (const EdgeStore& block : blocks_) largest_ = std::max(largest_, block.largest());
}

Status EdgeFeed::read_plain(const Plain& plain, std::size_t thread,
                            const OnBlock& on_block) noexcept {
  EdgeStore& block = blocks_[thread];
  try {
    return plain.source->read_part(plain.first_part + thread, plain.num_parts, block,
                                   [&](std::uint64_t) {
                                     // Otherwise check_unchanged finds what happened.
                                     if (block.largest() <= largest_) on_block(block);
                                     block.clear();
                                   });
  } catch (const std::exception& error) {
    return no_memory(error);
  }
}

Status EdgeFeed::check_unchanged() const {
  for (const Plain& plain : plain_)
    if (const Status status = plain.source->check_unchanged(); !status.ok()) return status;
  return Code::ok;
}

}  // namespace weft::graph
