// weftrun: starts a program as a job of several processes, on this machine or several.
#include <stdio.h>

#include <string>

#include "job/weftrun/agent.hpp"
#include "job/weftrun/launcher.hpp"
#include "job/weftrun/options.hpp"

namespace {

constexpr int kUsageStatus = 2;
constexpr int kStartStatus = 125;

int complain(const weft::Status& status, int exit_status) {
  fprintf(stderr, "weftrun: %s\n", status.text().c_str());
  return exit_status;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace weft::weftrun;
  Options options;
  if (weft::Status status = parse_options(argc, argv, options); !status)
    return complain(status, kUsageStatus);
  if (options.help) {
    fputs(help_text().c_str(), stdout);
    return 0;
  }
  if (options.version) {
    puts("weftrun (Weft) " WEFT_VERSION);
    return 0;
  }
  if (options.serve_host) return run_agent();
  Launcher launcher(options);
  if (weft::Status status = launcher.start(); !status)
    return complain(status, status == weft::Code::not_found      ? kMissingStatus
                            : status == weft::Code::bad_argument ? kUsageStatus
                            : status == weft::Code::bad_setting  ? kUsageStatus
                                                                 : kStartStatus);
  return launcher.run();
}
