// weft-copy: copies files and folders to many hosts at once.
#include <fmt/core.h>
#include <sodium.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "base/os/own_program.hpp"
#include "mcast/copy/hosts.hpp"
#include "mcast/copy/listen.hpp"
#include "mcast/copy/receiver.hpp"
#include "mcast/copy/sender.hpp"
#include "tools/cli/cli.hpp"

namespace {

// The other hosts of the Slurm job that this process runs in.
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
      "Copies files and folders to many hosts at once: the network copies the data by multicast, "
      "or\n"
      "each host forwards them, so many hosts take little longer than one. Receivers are started "
      "by WEFT_LAUNCH (ssh -oBatchMode=yes\n"
      "{host}); weft-copy must have the same path on every host. Files that a host has already, "
      "by\n"
      "size and time, are skipped; a file gets its name when it is complete. If a host dies, the\n"
      "copy to the others continues.");
  weft::copy::SendOptions options;
  weft::copy::ListenOptions listen_options;
  std::string hosts, host_file, listening, folder, name, reach;
  bool receives = false, is_below = false, deletes = false;
  double rate = 0;
  app.option("paths", options.paths, "files and folders; -: standard input, with --name");
  app.option(
      "--hosts", hosts,
      "a,node[01-16]:FOLDER,...: destinations, each with the folder to copy into; in a Slurm "
      "job the default is its other hosts");
  app.option("--hosts-file", host_file, "one host a line");
  app.option("--listening", listening, "a:PORT,b:PORT,...: destinations that run --listen");
  app.option("--secret-file", options.secret_file,
             "file with the secret of --listen and --listening, readable by its owner alone");
  app.option("--listen", listen_options.address,
             "HOST:PORT: wait for senders, and receive below the working directory; 0.0.0.0: any "
             "network");
  app.option(
      "--into", folder,
      "folder on hosts without one of their own (default: the path of the working directory; "
      "with --listening, the listener's)");
  app.option("--name", name, "file name for standard input");
  app.option("--rate", rate, "maximal MB/s").positive();
  app.flag("--delete", deletes,
           "delete entries of copied folders that the source lacks, and replace entries of another "
           "kind; keep everything at and below what can't be read here");
  app.flag("--resume", options.resumes,
           "continue large files that an earlier run with --resume did not finish");
  app.flag("--dry-run", options.is_dry, "only print the files that would be sent and deleted");
  app.flag("--quiet", options.is_quiet, "print errors only");
  app.flag("--receive", receives, "run as a receiver; used by weft-copy itself");
  app.flag("--below", is_below,
           "with --receive: only below the working directory; used by weft-copy itself");
  app.option("--reach", reach, "connect to this listener; used by weft-copy itself");
  if (const auto status = app.parse(argc, argv)) return *status;
  if (::sodium_init() < 0) return 1;
  if (receives) return weft::copy::run_receiver(is_below);

  const auto refuse = [](const std::string& text) {
    fmt::print(stderr, "weft-copy: {}\n", text);
    return 2;
  };
  options.program = weft::own_program();
  if (options.program.empty()) return refuse("cannot read /proc/self/exe: is /proc mounted?");
  if (!reach.empty() || !listening.empty() || !listen_options.address.empty()) {
    if (options.secret_file.empty()) return refuse("--listen and --listening need --secret-file");
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
  if (!weft::copy::expand_hosts(hosts, words)) return refuse("invalid --hosts: " + hosts);
  if (!weft::copy::expand_hosts(listening, listeners))
    return refuse("invalid --listening: " + listening);
  if (!host_file.empty()) {
    std::ifstream file(host_file);
    if (!file) return refuse(host_file + ": cannot be read");
    for (std::string line; std::getline(file, line);) {
      line = line.substr(0, line.find('#'));
      line.erase(std::remove_if(line.begin(), line.end(), ::isspace), line.end());
      if (!line.empty()) words.push_back(line);
    }
  }
  if (words.empty() && listeners.empty()) words = hosts_of_slurm();
  if (words.empty() && listeners.empty())
    return refuse("no hosts: give --hosts a,b,c, --hosts-file FILE or --listening a:PORT,b:PORT");
  if (options.paths.empty()) return refuse("no files or folders to copy");
  std::set<std::string> known;
  for (const std::string& word : listeners) {
    if (!known.insert(word).second) return refuse("the host is given twice: " + word);
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
      return refuse("invalid host: " + word);
    if (!known.insert(word).second) return refuse("the host is given twice: " + word);
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
