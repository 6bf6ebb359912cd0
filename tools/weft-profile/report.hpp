#pragma once
// Gathers the counts of the processes and reports them: a table on standard error, and on request
// the same as JSON with the matrix of messages, also as a picture.

namespace weft::profile {

// Called when MPI has started; counting begins.
void begin(const char* program);
// Collective over MPI_COMM_WORLD, before MPI ends: rank 0 reports for all.
void report();

bool is_counting() noexcept;
void set_counting(bool counting) noexcept;

}  // namespace weft::profile
