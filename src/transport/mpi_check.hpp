// What calls into MPI return, as samebits::Error.
#pragma once

namespace samebits::transport {

// Throws Error(environment) with MPI's own words.
void check_mpi(int code, const char* what);

}  // namespace samebits::transport
