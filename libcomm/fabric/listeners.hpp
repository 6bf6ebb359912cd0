#pragma once
// The sockets at which endpoints of this process listen. No other process may keep one: whoever
// asks there after the end of this process is to be refused, and so learn of it. Programs that this
// process starts do not get it, and neither do its forked children, as long as there are at
// most 64.
//
// Threads: any thread may call any function.
#include <string_view>

namespace weft::fabric {

// Call it before anybody knows the address. owner: whoever asks to forget it.
void keep_listener(const void* owner, int fd) noexcept;
// The same for the socket that listens at this address, where a library does not tell its number.
void keep_listener(const void* owner, std::string_view address) noexcept;
// Call it before the socket is closed.
void forget_listener(const void* owner) noexcept;

}  // namespace weft::fabric
