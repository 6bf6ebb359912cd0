// share FILE: rank 0 of a job sends a file to all ranks, each of which forwards its blocks and
// prints a checksum. Then every second rank joins a second group, whose root is the last of them.
//
//   weftrun -n 4 share model.bin
//   weftrun --hosts a,b,c -n 3 share model.bin
#include <fmt/core.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "weft/job.hpp"
#include "weft/multicast.hpp"

namespace {

void check(const weft::Status& status) {
  if (!status) throw weft::Error(status);
}

// FNV-1a.
std::uint64_t checksum(std::span<const char> bytes) {
  std::uint64_t sum = 0xcbf29ce484222325;
  for (const char byte : bytes) sum = (sum ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return sum;
}

// The root's bytes, at all members.
void share(weft::Multicast& multicast, std::uint64_t id, std::vector<int> ranks,
           std::vector<char>& bytes) {
  weft::Group group(multicast, {.id = id, .ranks = std::move(ranks)},
                    {.on_incoming = [&](std::uint64_t length) -> void* {
                      bytes.resize(length);
                      return bytes.data();
                    }});
  check(group.ready());
  if (group.rank() == 0) check(group.send(bytes.data(), bytes.size()));
  check(group.close());  // all members have it
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: weftrun -n N share FILE\n");
    return 2;
  }
  try {
    weft::transport::Job job;
    weft::Multicast multicast(job);
    std::vector<char> bytes;
    if (job.rank() == 0) {
      std::ifstream file(argv[1], std::ios::binary);
      if (!file) throw weft::Error({weft::Code::not_found, fmt::format("no file {}", argv[1])});
      bytes.assign(std::istreambuf_iterator<char>(file), {});
    }
    share(multicast, 1, {}, bytes);
    fmt::print("rank {} has {} bytes, {:016x}\n", job.rank(), bytes.size(), checksum(bytes));

    std::vector<int> some;
    for (int rank = job.size() - 1; rank >= 0; rank -= 2) some.push_back(rank);
    if ((job.size() - 1 - job.rank()) % 2 == 0) {
      std::vector<char> answer;
      if (job.rank() == some[0]) answer.assign(100'000, 'x');
      share(multicast, 2, some, answer);
      fmt::print("rank {} has the answer of rank {}, {} bytes\n", job.rank(), some[0],
                 answer.size());
    }
    check(job.barrier());
  } catch (const weft::Error& error) {
    fmt::print(stderr, "share: {}\n", error.status().text());
    return 1;
  }
}
