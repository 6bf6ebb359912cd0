#pragma once
// Progress: what is being done, on standard error, once it takes more than two seconds; on a
// terminal in one line. Any thread may say something.
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace weft::check {

class Progress {
 public:
  Progress();
  ~Progress();
  void say(std::string text);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace weft::check
