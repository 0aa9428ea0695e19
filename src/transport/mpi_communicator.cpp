#include "transport/mpi_communicator.hpp"

#include "transport/mpi_check.hpp"

namespace samebits::transport {

// Whatever throws here, the object is one already, and its destructor frees the copy.
MpiCommunicator::MpiCommunicator(MPI_Comm original) : MpiCommunicator() {
  check_mpi(MPI_Comm_dup(original, &handle_), "copying the world");
  check_mpi(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN), "asking MPI for results");
}

MpiCommunicator::~MpiCommunicator() {
  if (handle_ != MPI_COMM_NULL) static_cast<void>(MPI_Comm_free(&handle_));
}

int MpiCommunicator::rank() const {
  int rank = 0;
  check_mpi(MPI_Comm_rank(handle_, &rank), "asking for the rank");
  return rank;
}

int MpiCommunicator::size() const {
  int size = 0;
  check_mpi(MPI_Comm_size(handle_, &size), "asking for the number of ranks");
  return size;
}

}  // namespace samebits::transport
