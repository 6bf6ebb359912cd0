#pragma once
// The sender's side of a file tree: what there is, and its data. Threads: one.
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
  std::string from;           // where it lies here; empty: standard input
  std::size_t top_bytes = 0;  // of `from`: the path that the user gave, which may lead over links
};

// A descriptor of a file that scan() has found, to read; -1 with errno: there is none, a link is on
// the way below the user's path by now (ELOOP), or it is no file any more (ESTALE).
int open_source(const Source& source) noexcept;

// All below these files and folders, each under its last name; folders before what is in them.
// not_found, bad_argument: one of them can't be read, or two have the same name. `skipped`: what is
// below them and can't be copied (sockets, devices, what may not be read, has vanished or has a
// path that is too long), with the reason; each has an entry that says so, too
// (EntryKind::unreadable).
Status scan(const std::vector<std::string>& paths, std::vector<Source>& sources,
            std::vector<std::string>& skipped);

}  // namespace weft::copy
