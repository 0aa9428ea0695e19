#include "transport/mpi_session.hpp"

#include <mpi.h>

#include "samebits/error.hpp"
#include "transport/mpi_check.hpp"

namespace samebits::transport {

MpiSession::MpiSession() {
  int begun = 0, provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Initialized(&begun), "asking whether MPI has begun");
  if (begun != 0) {
    check_mpi(MPI_Query_thread(&provided), "asking MPI about threads");
  } else {
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "starting MPI");
    ends_ = true;
  }
  if (provided >= MPI_THREAD_SERIALIZED) return;
  end();  // no rank comes further than here
  throw Error(ErrorCode::environment,
              "this MPI takes calls from one thread only: MPI_THREAD_SERIALIZED is needed");
}

MpiSession::~MpiSession() { end(); }

void MpiSession::end() noexcept {
  int ended = 0;
  if (ends_ && MPI_Finalized(&ended) == MPI_SUCCESS && ended == 0) static_cast<void>(MPI_Finalize());
  ends_ = false;
}

}  // namespace samebits::transport
