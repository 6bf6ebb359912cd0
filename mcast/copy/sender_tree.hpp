#pragma once
// The sender's side of a file tree: its entries and their data. Threads: one.
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mcast/copy/records.hpp"
#include "weft/status.hpp"

namespace weft::copy {

struct Source {
  Entry entry;
  std::string from;           // path on this host; empty: standard input
  std::size_t top_bytes = 0;  // of `from`: the path that the user gave, which may lead over links
};

// Opens a file that scan() has found, for reading. -1 with errno: it does not exist, its path below
// the user's now leads through a link (ELOOP), or it is no longer a file (ESTALE).
int open_source(const Source& source) noexcept;

// Lists all entries of these files and folders, each under its last name, folders before their
// entries. not_found, bad_argument: one can't be read, or two have the same name. `skipped`:
// entries that can't be copied, with the reason (sockets, devices, unreadable or vanished entries,
// paths that are too long); each also has an entry of kind EntryKind::unreadable.
Status scan(const std::vector<std::string>& paths, std::vector<Source>& sources,
            std::vector<std::string>& skipped);

}  // namespace weft::copy
