// A communicator of MPI, freed with the object.
#pragma once

#include <mpi.h>

namespace samebits::transport {

class MpiCommunicator {
 public:
  // A copy, whose calls return what goes wrong; collective over the original.
  explicit MpiCommunicator(MPI_Comm original);
  ~MpiCommunicator();
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  MPI_Comm get() const { return handle_; }
  int rank() const;
  int size() const;

  // Freeing is collective: after a failure the communicator stays as it is.
  void leave() noexcept { handle_ = MPI_COMM_NULL; }

 private:
  MpiCommunicator() = default;

  MPI_Comm handle_ = MPI_COMM_NULL;
};

}  // namespace samebits::transport
