// weft::Allreduce as a program uses it, of bfloat16 above all. Rank 0 prints a hash of all results.
//   numbers ROUNDS      sums, which are checked: near those in double, and the same bits everywhere
//   numbers lose        rank 1 dies among them; the others hear of it, and go on
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <weft/weft.hpp>

namespace {

int num_wrong = 0;

void expect(bool is_so, const char* what) {
  if (is_so || ++num_wrong > 10) return;
  std::fprintf(stderr, "not so: %s\n", what);
}

double value(int rank, int round, std::size_t i) {
  const auto mixed = static_cast<std::uint32_t>((rank + 1) * 7919 + round * 104729) +
                     static_cast<std::uint32_t>(i) * 2654435761u;
  return static_cast<double>(mixed >> 8) / (1 << 20) - 5;
}

// The sums of all ranks, whose bits go into the hash.
template <class T>
void add_up(weft::Job& job, weft::Allreduce& allreduce, int round, std::size_t count,
            std::uint64_t& hash) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = T(float(value(job.rank(), round, i)));
  const weft::Status status = allreduce.run(std::span(values), weft::Reduce::sum);
  if (!status) {
    std::fprintf(stderr, "%s\n", status.text().c_str());
    std::exit(3);
  }
  // Each addition rounds by half a unit of what may be the largest sum on the way.
  const double bound = job.size() * 16.0 * job.size() * (sizeof(T) == 2 ? 0x1p-8 : 0x1p-23);
  for (std::size_t i = 0; i < count; ++i) {
    double expected = 0;
    for (int rank = 0; rank < job.size(); ++rank)
      expected += double(T(float(value(rank, round, i))));
    expect(std::abs(expected - double(values[i])) <= bound, "a sum is near that in double");
    std::uint64_t bits = 0;
    std::memcpy(&bits, &values[i], sizeof(T));
    hash = (hash ^ bits) * 1099511628211u;
  }
}

int lose(weft::Job& job) {
  std::vector<weft::Bfloat16> values(5000, weft::Bfloat16(1));
  {
    weft::Allreduce allreduce(job);
    for (int i = 0; i < 10; ++i)
      expect(allreduce.run(std::span(values), weft::Reduce::max).ok(), "all live");
    if (job.rank() == 1) raise(SIGKILL);
    for (int i = 0; i < 2; ++i)
      expect(allreduce.run(std::span(values), weft::Reduce::max) == weft::Code::peer_lost,
             "a loss ends it");
  }
  expect(job.barrier() == weft::Code::peer_lost, "the job tells of it");
  weft::Allreduce others(job);
  for (auto& one : values) one = weft::Bfloat16(0.5f);
  for (int i = 0; i < 10; ++i)
    expect(others.run(std::span(values), weft::Reduce::max).ok(), "the others go on");
  expect(float(values[4999]) == 0.5f, "by themselves");
  return num_wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  weft::Job job;
  if (argc != 2) return 2;
  if (std::strcmp(argv[1], "lose") == 0) return lose(job);
  std::uint64_t hash = 14695981039346656037u;
  {
    weft::Allreduce allreduce(job);
    for (int round = 0; round < std::atoi(argv[1]); ++round) {
      const std::size_t count = round % 5 == 4 ? 600'000 : 1 + static_cast<std::size_t>(round) * 37;
      add_up<weft::Bfloat16>(job, allreduce, round, count, hash);
      if (round % 3 == 0) add_up<float>(job, allreduce, round, count, hash);
    }
  }
  std::uint64_t least = hash, most = hash;
  expect(job.all_reduce(least, weft::Min()).ok() && job.all_reduce(most, weft::Max()).ok() &&
             least == most,
         "all have the same bits");
  if (job.rank() == 0) std::printf("hash %016lx\n", hash);
  return num_wrong == 0 ? 0 : 1;
}
