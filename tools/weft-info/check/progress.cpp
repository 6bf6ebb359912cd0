#include "tools/weft-info/check/progress.hpp"

#include <stdio.h>
#include <unistd.h>

#include <chrono>

namespace weft::check {

Progress::Progress() : thread_([this] { run(); }) {}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Progress::say(std::string text) {
  const std::lock_guard lock(mutex_);
  text_ = std::move(text);
}

void Progress::run() {
  constexpr auto kEvery = std::chrono::seconds(2);
  const bool is_terminal = isatty(STDERR_FILENO) != 0;
  std::string shown;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kEvery, [this] { return is_over_; })) {
    if (text_ == shown) continue;
    shown = text_;
    fprintf(stderr, is_terminal ? "\r\033[Kweft-info: %s" : "weft-info: %s\n", shown.c_str());
    fflush(stderr);
  }
  if (is_terminal && !shown.empty()) fputs("\r\033[K", stderr);
}

}  // namespace weft::check
