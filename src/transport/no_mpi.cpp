// The MPI transport of a build without MPI: it says so.
#include "samebits/error.hpp"
#include "samebits/transport.hpp"

namespace samebits {

std::shared_ptr<Transport> mpi_transport(const MpiOptions&) {
  throw Error(ErrorCode::environment,
              "this build has no mpi transport: build where MPI is found (cmake -DSAMEBITS_MPI=ON)");
}

MpiStatus mpi_status() { return {}; }

}  // namespace samebits
