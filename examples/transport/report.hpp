#pragma once
// Shared by the benchmark programs of this folder: threads, time, and the report of rank 0: a line
// for each measurement, and with --json FILE a JSON object a line.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Runs body(0) here and body(1) to body(num - 1) on threads of their own.
inline void with_threads(int num, auto&& body) {
  std::vector<std::thread> threads;
  for (int t = 1; t < num; ++t) threads.emplace_back([&body, t] { body(t); });
  body(0);
  for (auto& thread : threads) thread.join();
}

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
// True if `what` is to run: --only lists it, or is not given.
inline bool wanted(int argc, char** argv, const char* what) {
  const char* only = option(argc, argv, "--only");
  if (only == nullptr) return true;
  const std::size_t length = std::strlen(what);
  for (const char* at = only; (at = std::strstr(at, what)) != nullptr; at += length)
    if ((at == only || at[-1] == ',') && (at[length] == '\0' || at[length] == ',')) return true;
  return false;
}
