// Rank 0 sends a word to all ranks, and the last one prints it.
#include <weft/job.hpp>
#include <weft/multicast.hpp>

#include <cstdio>
#include <string>

int main() {
  weft::transport::Job job;
  weft::Multicast multicast(job);
  std::string word = job.rank() == 0 ? "a word" : "";
  weft::Group group(multicast, {.id = 1, .ranks = {}}, {.on_incoming = [&](std::uint64_t length) {
                      word.resize(length);
                      return static_cast<void*>(word.data());
                    }});
  if (!group.ready() || (job.rank() == 0 && !group.send(word.data(), word.size()))) return 1;
  if (!group.close(10'000)) return 1;
  if (job.rank() + 1 == job.size()) std::printf("%s\n", word.c_str());
}
