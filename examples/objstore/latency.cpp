// latency SOCKET OTHER_SOCKET [BYTES [COUNT [PAUSE_US]]]: how long a get of a new object takes that
// another host's store holds, one after the other, with a pause before each. SOCKET is the store
// that gets, OTHER_SOCKET one in reach of this file system whose host plays the other one.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "weft/object_store.hpp"

namespace {

void check(const weft::Status& status) {
  if (status) return;
  std::fprintf(stderr, "latency: %s\n", status.text().c_str());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  if (argc < 3) {
    std::fprintf(stderr, "latency SOCKET OTHER_SOCKET [BYTES [COUNT [PAUSE_US]]]\n");
    return 2;
  }
  weft::ObjectStore here({.socket = argv[1]}), there({.socket = argv[2]});
  const std::size_t bytes = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 1024;
  const std::size_t count = argc > 4 ? std::max(1ul, std::strtoul(argv[4], nullptr, 10)) : 2000;
  const auto pause_us = static_cast<useconds_t>(argc > 5 ? std::strtoul(argv[5], nullptr, 10) : 0);
  const std::vector<std::byte> data(bytes);
  std::vector<weft::ObjectId> ids(count);
  for (std::size_t i = 0; i < count; ++i) {
    weft::ObjectId::parse("latency-" + std::to_string(::getpid()) + "-" + std::to_string(i),
                          ids[i]);
    check(there.put(ids[i], data));
  }
  ::usleep(300'000);  // until all are announced
  std::vector<double> microseconds;
  for (const weft::ObjectId& id : ids) {
    ::usleep(pause_us);
    weft::Object object;
    const auto begin = Clock::now();
    check(here.get(id, object, 10'000));
    microseconds.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::sort(microseconds.begin(), microseconds.end());
  double sum = 0;
  for (const double each : microseconds) sum += each;
  std::printf("%zu bytes: median %.1f us, of ten one below %.1f and one above %.1f, mean %.1f\n",
              bytes, microseconds[count / 2], microseconds[count / 10],
              microseconds[count * 9 / 10], sum / static_cast<double>(count));
  for (const weft::ObjectId& id : ids) check(there.erase(id));
}
