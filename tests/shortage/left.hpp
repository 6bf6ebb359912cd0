#pragma once
// What a program of tests/shortage leaves behind: descriptors, and mappings of Weft's shared
// memory.
#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace weft::testing {

class Left {
 public:
  // `result` is how it ended, of which the one line tells, and whether anything is left since this
  // was made.
  void print(const char* rank, const std::string& result) const {
    // What libfabric keeps is its own.
    const bool remote = std::getenv("WEFT_FABRIC") != nullptr;
    const int files = remote ? 0 : num_files() - files_, maps = num_maps() - maps_;
    std::printf("rank %s: %s%s\n", rank, result.c_str(),
                files != 0 || maps != 0 ? ", and leaks" : "");
    if (files == 0 && maps == 0) return;
    std::printf("%d files, %d maps; open are now:\n", files, maps);
    num_files(true);
  }

 private:
  // But for the counters, which stay until the process ends.
  static int num_files(bool shows = false) {
    int num = 0;
    DIR* files = opendir("/proc/self/fd");
    while (files != nullptr) {
      const dirent* file = readdir(files);
      if (file == nullptr) break;
      char target[64] = {};
      (void)!readlinkat(dirfd(files), file->d_name, target, sizeof target - 1);
      num += std::strstr(target, "memfd:weft-stats") == nullptr;
      if (shows) std::printf("%s %s\n", file->d_name, target);
    }
    if (files != nullptr) closedir(files);
    return num;
  }
  // Of Weft's shared memory, likewise.
  static int num_maps() {
    int num = 0;
    char line[512];
    FILE* maps = std::fopen("/proc/self/maps", "r");
    while (std::fgets(line, sizeof line, maps) != nullptr)
      num += std::strstr(line, "memfd:weft") != nullptr &&
             std::strstr(line, "memfd:weft-stats") == nullptr;
    std::fclose(maps);
    return num;
  }
  int files_ = num_files(), maps_ = num_maps();
};

}  // namespace weft::testing
