#pragma once
// What the programs of this folder print: one line a measurement, and with --json FILE one JSON
// object a line. Used by rank 0.
#include <cstdio>
#include <cstring>

class Report {
 public:
  explicit Report(const char* library) : library_(library) {}
  ~Report() {
    if (file_ != nullptr) std::fclose(file_);
  }
  bool open(const char* path) { return (file_ = std::fopen(path, "a")) != nullptr; }

  void add(const char* what, int processes, int threads, long long bytes, double value,
           const char* unit) {
    std::printf("%-28s %-10s %2d processes %2d threads %9lld B %14.4g %s\n", what, library_,
                processes, threads, bytes, value, unit);
    std::fflush(stdout);
    if (file_ != nullptr)
      std::fprintf(file_,
                   "{\"what\": \"%s\", \"library\": \"%s\", \"processes\": %d, \"threads\": %d, "
                   "\"bytes\": %lld, \"value\": %.6g, \"unit\": \"%s\"}\n",
                   what, library_, processes, threads, bytes, value, unit);
  }

 private:
  const char* library_;
  std::FILE* file_ = nullptr;
};

// The value behind `name`, or null.
inline const char* option(int argc, char** argv, const char* name) {
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], name) == 0) return argv[i + 1];
  return nullptr;
}
// True if `what` is asked for: --only A,B,..., or no such option.
inline bool wanted(int argc, char** argv, const char* what) {
  const char* only = option(argc, argv, "--only");
  if (only == nullptr) return true;
  const std::size_t length = std::strlen(what);
  for (const char* at = only; (at = std::strstr(at, what)) != nullptr; at += length)
    if ((at == only || at[-1] == ',') && (at[length] == '\0' || at[length] == ',')) return true;
  return false;
}
