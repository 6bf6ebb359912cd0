#pragma once

namespace weft::copy {

// weft-copy --receive: a receiver, which its sender starts. Both exchange lines over the receiver's
// standard input and output:
//
//   from the sender: secret HEX VERSION (or, where it may be read by
//     others, salt HEX VERSION, of which and the listener's secret it is made: key SECRET); near
//     ADDRESS (an address of the sender's machine; several); into FOLDER; delete; dry-run; resume;
//     start; group ID SELF MEMBER...; end
//   to the sender: weft-copy-address TEXT VERSION, after the output of login scripts;
//     joined ID; lack RANGES; held INDEX FIRST DIGESTS; wrote NUMBER; error TEXT; deletes PATH (of
//     a dry run); done FILES DELETED
//
// VERSION is kCopyVersion; either side reports another one by both numbers and ends.
//
// Ends when the sender does. is_below: the sender's FOLDER must lie below the working directory.
// Returns the exit status.
int run_receiver(bool is_below);

}  // namespace weft::copy
