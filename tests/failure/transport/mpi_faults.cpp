#include "mpi_faults.hpp"

#include <mpi.h>

#include <atomic>

namespace samebits::test::mpi_faults {
namespace {

constexpr int kBytesTag = 1, kWordsTag = 2;  // src/transport/mpi_world.cpp, mpi_pulse.cpp

std::atomic<Fault> current = Fault::none;
std::atomic<int> message_count = 0, cancelled_count = 0, copy_count = 0;

bool message_fails() {
  if (current == Fault::second_message && message_count == 1) return true;
  ++message_count;
  return false;
}

}  // namespace

void begin(Fault fault) {
  message_count = cancelled_count = copy_count = 0;
  current = fault;
}

int messages() { return message_count; }
int cancelled() { return cancelled_count; }
int copies() { return copy_count; }

bool is_at_end() {
  int ended = 0;
  return MPI_Finalized(&ended) == MPI_SUCCESS && ended != 0;
}

extern "C" {

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const int code = PMPI_Init_thread(argc, argv, required, provided);
  if (current == Fault::one_thread) *provided = MPI_THREAD_FUNNELED;
  return code;
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* copy) {
  if (current == Fault::second_copy && copy_count == 1) return MPI_ERR_OTHER;
  ++copy_count;
  return PMPI_Comm_dup(comm, copy);
}

int MPI_Comm_free(MPI_Comm* comm) {
  --copy_count;
  return PMPI_Comm_free(comm);
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  if (message_fails()) return MPI_ERR_OTHER;
  return PMPI_Irecv(data, count, type, from, tag, comm, request);
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  if (tag == kBytesTag && message_fails()) return MPI_ERR_OTHER;
  if (tag == kWordsTag && current == Fault::words) return MPI_ERR_OTHER;
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int MPI_Test(MPI_Request* request, int* over, MPI_Status* status) {
  if (current == Fault::tests) return MPI_ERR_OTHER;
  return PMPI_Test(request, over, status);
}

int MPI_Cancel(MPI_Request* request) {
  ++cancelled_count;
  return PMPI_Cancel(request);
}

}  // extern "C"

}  // namespace samebits::test::mpi_faults
