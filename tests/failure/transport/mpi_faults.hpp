// An MPI that fails: this process's own calls go through MPI's profiling interface, and do as they are told.
#pragma once

namespace samebits::test::mpi_faults {

// Of the messages with bytes of collectives: the second that is begun from now on, send or receive.
void fail_second_message();

// How many such messages were begun, and how many of all requests cancelled.
int begun_messages();
int cancelled_requests();

}  // namespace samebits::test::mpi_faults
