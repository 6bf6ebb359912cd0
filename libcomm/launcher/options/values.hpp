#pragma once
// The values of weftrun's options. `option` is named in errors.
// Tests: tests/job/options_test.cpp.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/options.hpp"
#include "weft/status.hpp"

namespace weft::weftrun {

using Environment = std::vector<std::pair<std::string, std::string>>;

// bad_argument: what the value must be.
Status bad_value(std::string_view option, std::string_view value, std::string_view expected);

Status parse_count(std::string_view option, std::string_view value, int& number);
Status parse_seconds(std::string_view option, std::string_view value, double& seconds);
Status parse_port(std::string_view option, std::string_view value, int& port);
Status parse_descriptor(std::string_view option, std::string_view value, int& descriptor);

// NAME=VALUE, or NAME alone for the value it has here.
Status add_variable(std::string_view option, std::string_view value, Environment& environment);
// Names with commas between them.
Status add_variables(std::string_view option, std::string_view names, Environment& environment);
// Slurm's --export: ALL, and NAME or NAME=VALUE, with commas between them.
Status apply_export(std::string_view option, std::string_view value, Options& options);

// Open MPI's "core", "node:PE=2:OVERSUBSCRIBE", "ppr:2:socket".
Status apply_mapping(std::string_view option, std::string_view value, Options& options);
Status apply_ranking(std::string_view option, std::string_view value, Options& options);
// "core", Open MPI's "l3cache:overload-allowed", Hydra's "core:2".
Status apply_binding(std::string_view option, std::string_view value, Options& options);
// Slurm's --cpu-bind: "verbose,cores".
Status apply_cpu_bind(std::string_view option, std::string_view value, Options& options);
Status bind_to_cores_each(std::string_view option, std::string_view value, Options& options);

// Open MPI's --output-filename: PATH[:nocopy,nojobid].
Status apply_output_files(std::string_view option, std::string_view value, Options& options);
// Open MPI 5's --output: "tag,merge,dir=PATH:nocopy", and --display: "map,bind".
Status apply_output(std::string_view option, std::string_view value, Options& options);
Status apply_display(std::string_view option, std::string_view value, Options& options);

// Open MPI's --prefix: weftrun, programs and libraries are below this folder.
Status apply_prefix(std::string_view option, std::string_view value, Options& options);
// Hydra's -launcher: ssh, rsh, slurm and others.
Status apply_launcher(std::string_view option, std::string_view value, Options& options);

}  // namespace weft::weftrun
