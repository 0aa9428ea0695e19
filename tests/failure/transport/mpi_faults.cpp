#include "mpi_faults.hpp"

#include <mpi.h>

#include <atomic>

namespace samebits::test::mpi_faults {
namespace {

constexpr int kBytesTag = 1;  // src/transport/mpi_world.cpp

std::atomic<int> until_failure = 0;  // counted down; 0: none is to fail
std::atomic<int> begun = 0, cancelled = 0;

bool message_fails() {
  if (until_failure > 0 && --until_failure == 0) return true;
  ++begun;
  return false;
}

}  // namespace

void fail_second_message() {
  until_failure = 2;
  begun = cancelled = 0;
}
int begun_messages() { return begun; }
int cancelled_requests() { return cancelled; }

extern "C" {

int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  if (message_fails()) return MPI_ERR_OTHER;
  return PMPI_Irecv(data, count, type, from, tag, comm, request);
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  if (tag == kBytesTag && message_fails()) return MPI_ERR_OTHER;
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int MPI_Cancel(MPI_Request* request) {
  ++cancelled;
  return PMPI_Cancel(request);
}

}  // extern "C"

}  // namespace samebits::test::mpi_faults
