#pragma once
// Info: ordered pairs of strings. Handles share an object; copies are made where the standard says
// so.
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "mpi/core/abi.hpp"
#include "mpi/core/handle_table.hpp"

namespace weft::mpi {

struct Info {
  std::mutex mutex;
  std::vector<std::pair<std::string, std::string>> pairs;  // in the order of setting

  const std::string* find(const std::string& key) const;
  void set(const std::string& key, const std::string& value);
};

// A communicator's own copy of the hints, or null.
using InfoPtr = std::shared_ptr<const Info>;

Info* find_info(MPI_Info handle);      // null: no info object; MPI_INFO_ENV is one
InfoPtr copy_of(const Info* info);     // null for null
MPI_Info make_info(const Info* from);  // a new handle with a copy of `from` (may be null)
void clear_infos();

}  // namespace weft::mpi
