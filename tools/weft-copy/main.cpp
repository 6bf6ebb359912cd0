// weft-copy: copies files and folders to many hosts at once.
#include <fmt/core.h>
#include <sodium.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "mcast/copy/hosts.hpp"
#include "mcast/copy/listen.hpp"
#include "mcast/copy/receiver.hpp"
#include "mcast/copy/sender.hpp"
#include "tools/cli/cli.hpp"

namespace {

// Where a batch job runs: all of it but this host.
std::vector<std::string> hosts_of_slurm() {
  std::vector<std::string> hosts;
  for (const char* name : {"SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    const char* list = std::getenv(name);
    if (list == nullptr || !hosts.empty() || !weft::copy::expand_hosts(list, hosts)) continue;
    char own[256] = {};
    ::gethostname(own, sizeof own - 1);
    const std::string_view text(own);
    std::erase_if(hosts, [&](const std::string& host) {
      return host == text || host == text.substr(0, text.find('.'));
    });
  }
  return hosts;
}

}  // namespace

int main(int argc, char** argv) {
  weft::cli::Command app(
      "weft-copy",
      "Copies files and folders to many hosts at once: each host passes on what it gets, so many\n"
      "take little longer than one. Receivers are started by WEFT_LAUNCH (ssh -oBatchMode=yes\n"
      "{host}); weft-copy must be there under the same path. What a host has already, by size and\n"
      "time, is left out; what arrives gets its name once it is whole. If a host dies, the others\n"
      "go on.");
  weft::copy::SendOptions options;
  weft::copy::ListenOptions listen_options;
  std::string hosts, host_file, listening, folder, name, reach;
  bool receives = false, is_below = false, deletes = false;
  double rate = 0;
  app.option("paths", options.paths, "files and folders; -: standard input, with --name");
  app.option("--hosts", hosts,
             "a,node[01-16]:FOLDER,...: where to, and below which folder; in a job of Slurm its "
             "other hosts, if none are named");
  app.option("--hosts-file", host_file, "one host a line");
  app.option("--listening", listening, "a:PORT,b:PORT,...: where --listen runs");
  app.option("--secret-file", options.secret_file,
             "of --listen and --listening: the secret, readable by its owner alone");
  app.option("--listen", listen_options.address,
             "HOST:PORT: wait for senders, and receive below this folder; 0.0.0.0: any network");
  app.option("--into", folder,
             "folder for hosts that name none (this one's path; where --listen runs, "
             "its own)");
  app.option("--name", name, "of what comes by standard input");
  app.option("--rate", rate, "MB/s at most").positive();
  app.flag("--delete", deletes,
           "delete what is in copied folders there and not here, and what is in the way of "
           "something of another kind; nothing at or below what can't be read here");
  app.flag("--resume", options.resumes,
           "go on in the middle of large files that an earlier run with --resume did not finish");
  app.flag("--dry-run", options.is_dry, "only print which files would be sent, and deleted");
  app.flag("--quiet", options.is_quiet);
  app.flag("--receive", receives, "be a receiver; for weft-copy itself");
  app.flag("--below", is_below, "of --receive: only below this folder; for weft-copy itself");
  app.option("--reach", reach, "talk to this listener; for weft-copy itself");
  if (const auto status = app.parse(argc, argv)) return *status;
  if (::sodium_init() < 0) return 1;
  if (receives) return weft::copy::run_receiver(is_below);

  const auto refuse = [](const std::string& text) {
    fmt::print(stderr, "weft-copy: {}\n", text);
    return 2;
  };
  char self[4096];
  const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self);
  if (length <= 0) return refuse("/proc is not there");
  options.program.assign(self, static_cast<std::size_t>(length));
  if (!reach.empty() || !listening.empty() || !listen_options.address.empty()) {
    if (options.secret_file.empty()) return refuse("a listener needs --secret-file");
    options.secret = weft::copy::read_secret(options.secret_file);
    if (options.secret.empty()) return 2;
  }
  if (!reach.empty()) return weft::copy::run_reach(reach, options.secret);
  if (!listen_options.address.empty()) {
    listen_options.secret = options.secret;
    listen_options.program = options.program;
    listen_options.is_quiet = options.is_quiet;
    return weft::copy::run_listener(listen_options);
  }
  std::vector<std::string> words, listeners;
  if (!weft::copy::expand_hosts(hosts, words)) return refuse("--hosts makes no sense: " + hosts);
  if (!weft::copy::expand_hosts(listening, listeners))
    return refuse("--listening makes no sense: " + listening);
  if (!host_file.empty()) {
    std::ifstream file(host_file);
    if (!file) return refuse(host_file + " can't be read");
    for (std::string line; std::getline(file, line);) {
      line = line.substr(0, line.find('#'));
      line.erase(std::remove_if(line.begin(), line.end(), ::isspace), line.end());
      if (!line.empty()) words.push_back(line);
    }
  }
  if (words.empty() && listeners.empty()) words = hosts_of_slurm();
  if (words.empty() && listeners.empty())
    return refuse("no hosts: --hosts a,b,c, --hosts-file FILE or --listening a:PORT,b:PORT");
  if (options.paths.empty()) return refuse("nothing to copy");
  std::set<std::string> known;
  for (const std::string& word : listeners) {
    if (!known.insert(word).second) return refuse("twice in the list: " + word);
    options.targets.push_back({word, folder.empty() ? "." : folder, true});
  }
  if (folder.empty()) {
    char* here = ::getcwd(nullptr, 0);
    folder = here != nullptr ? here : "/";
    std::free(here);
  }
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
  return weft::copy::run_sender(options);
}
