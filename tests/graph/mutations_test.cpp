// Files of every kind with random changes, through every reader; the same ones in each run.
//
//   mutations_test CORPUS NUMBER
//
// CORPUS has the inputs of tests/fuzz/graph_formats.cpp, which says what must hold.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

class Random {
 public:
  std::uint64_t below(std::uint64_t limit) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return limit == 0 ? 0 : state_ % limit;
  }

 private:
  std::uint64_t state_ = 88172645463325252ull;
};

void mutate(std::string& bytes, const std::string& other, Random& random) {
  static const std::string kOfInterest = "0123456789-+.e \t,;|\"\n\r%#acp\xff";
  const std::size_t at = random.below(bytes.size() + 1);
  const std::size_t length = random.below(std::min<std::size_t>(bytes.size() - at, 16) + 1);
  switch (random.below(8)) {
    case 0:
      if (at < bytes.size()) bytes[at] = static_cast<char>(random.below(256));
      break;
    case 1:
      if (at < bytes.size()) bytes[at] = kOfInterest[random.below(kOfInterest.size())];
      break;
    case 2:
      bytes.insert(at, 1, kOfInterest[random.below(kOfInterest.size())]);
      break;
    case 3:
      bytes.erase(at, length);
      break;
    case 4:
      bytes.insert(at, bytes.substr(at, length));
      break;
    case 5:
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
      break;
    case 6:
      bytes.resize(at);
      break;
    default:
      bytes.insert(at, other.substr(random.below(other.size() + 1), 1 + random.below(24)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  if (seeds.empty()) return 2;
  Random random;
  const std::uint64_t number = std::strtoull(argv[2], nullptr, 10);
  for (std::uint64_t i = 0; i < number; ++i) {
    std::string bytes = seeds[i % seeds.size()];
    for (std::uint64_t changes = random.below(6); changes > 0; --changes)
      mutate(bytes, seeds[random.below(seeds.size())], random);
    // Written first, as an input that aborts is then there.
    if (std::getenv("WEFT_MUTATION") != nullptr)
      std::ofstream(std::getenv("WEFT_MUTATION"), std::ios::binary) << bytes;
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
  std::printf("%llu files from %zu\n", static_cast<unsigned long long>(number), seeds.size());
  return 0;
}
