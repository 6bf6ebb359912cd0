// weft-copy: copies files and folders to many hosts at once.
#include <fmt/core.h>
#include <sodium.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fstream>
#include <set>

#include "mcast/copy/receiver.hpp"
#include "mcast/copy/sender.hpp"

namespace {

bool add_hosts(const std::string& text, std::vector<std::string>& hosts) {
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    if (end > start) hosts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return !hosts.empty();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Copies files and folders to many hosts at once: each host passes on what it gets, so many\n"
      "take little longer than one. Receivers are started by WEFT_LAUNCH (ssh -oBatchMode=yes\n"
      "{host}); weft-copy must be there under the same path. What a host has already, by size and\n"
      "time, is left out; what arrives gets its name once it is whole. If a host dies, the others\n"
      "go on.");
  weft::copy::SendOptions options;
  std::string hosts, host_file, folder, name;
  bool receives = false, deletes = false;
  double rate = 0;
  app.add_option("paths", options.paths, "files and folders; -: standard input, with --name");
  app.add_option("--hosts", hosts, "a,b,c or a:FOLDER,...: where to, and below which folder");
  app.add_option("--hosts-file", host_file, "one host a line");
  app.add_option("--into", folder, "folder for hosts that name none (this one's path)");
  app.add_option("--name", name, "of what comes by standard input");
  app.add_option("--rate", rate, "MB/s at most")->check(CLI::PositiveNumber);
  app.add_flag("--delete", deletes, "delete what is in copied folders there and not here");
  app.add_flag("--dry-run", options.is_dry, "only print which files would be sent");
  app.add_flag("--quiet", options.is_quiet);
  app.add_flag("--receive", receives, "be a receiver; for weft-copy itself");
  CLI11_PARSE(app, argc, argv);
  if (::sodium_init() < 0) return 1;
  if (receives) return weft::copy::run_receiver();

  const auto refuse = [](const std::string& text) {
    fmt::print(stderr, "weft-copy: {}\n", text);
    return 2;
  };
  std::vector<std::string> words;
  add_hosts(hosts, words);
  if (!host_file.empty()) {
    std::ifstream file(host_file);
    if (!file) return refuse(host_file + " can't be read");
    for (std::string line; std::getline(file, line);) {
      line = line.substr(0, line.find('#'));
      line.erase(std::remove_if(line.begin(), line.end(), ::isspace), line.end());
      if (!line.empty()) words.push_back(line);
    }
  }
  if (words.empty()) return refuse("no hosts: --hosts a,b,c or --hosts-file FILE");
  if (options.paths.empty()) return refuse("nothing to copy");
  if (folder.empty()) {
    char* here = ::getcwd(nullptr, 0);
    folder = here != nullptr ? here : "/";
    std::free(here);
  }
  std::set<std::string> known;
  for (const std::string& word : words) {
    const std::size_t colon = word.find(':');
    weft::copy::Target target{word.substr(0, colon),
                              colon == std::string::npos ? folder : word.substr(colon + 1)};
    if (target.host.empty() || target.host.front() == '-' || target.folder.empty())
      return refuse("no host: " + word);
    if (!known.insert(word).second) return refuse("twice in the list: " + word);
    options.targets.push_back(std::move(target));
  }
  for (std::string& path : options.paths)
    if (path == "-") {
      if (name.empty()) return refuse("standard input needs --name");
      path = "-:" + name;
    }
  options.deletes = deletes;
  options.rate = rate * 1e6;
  const char* launch = std::getenv("WEFT_LAUNCH");
  options.launch = launch != nullptr && *launch != 0 ? launch : "ssh -oBatchMode=yes {host}";
  char self[4096];
  const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self);
  if (length <= 0) return refuse("/proc is not there");
  options.program.assign(self, static_cast<std::size_t>(length));
  return weft::copy::run_sender(options);
}
