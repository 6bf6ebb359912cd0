#pragma once
// Log lines on weft-store's error output: time, "weft-store", text. Any thread; a line is one
// write. Off the hot path.
#include <string>
#include <string_view>

namespace weft::objstore {

void write_log(std::string_view text);
// Replaces control characters by "?", for names and texts from outside.
std::string printable(std::string_view text);
// "4.0 GiB", "160 MiB", "12 bytes".
std::string size_text(unsigned long long bytes);

}  // namespace weft::objstore
