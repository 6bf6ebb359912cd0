#include <CLI/CLI.hpp>

#include "routing/install.hpp"

namespace weft::mcast {

void add_install_options(CLI::App* command, InstallOptions* options) {
  command->add_option("--topology", options->topology, "the fabric the tables were made for")
      ->required();
  command->add_option("--tables,tables", options->tables, "what to write, in either form")
      ->required();
  command->add_option("--previous", options->previous,
                      "tables that an earlier install wrote: their entries may be changed, and "
                      "those no longer wanted are emptied");
  command->add_flag("--replace-foreign", options->replace_foreign,
                    "write over entries that are neither empty nor of --previous");
  command->add_flag("--dry-run", options->dry_run, "read the fabric, print, write nothing");
  command->add_option("--first-mlid", options->first_mlid, "MLID of the tables' first entry")
      ->capture_default_str();
  command->add_option("--device", options->device, "such as mlx5_0; without it, the first");
  command->add_option("--port", options->port, "of the device; without it, the first that is up");
  command->add_option("--timeout-ms", options->timeout_ms, "for each of 3 attempts of a packet")
      ->check(CLI::Range(1, 60000))
      ->capture_default_str();
  command->add_option("--m-key", options->key, "management key of the fabric's switches");
}

}  // namespace weft::mcast
