// An MPI that fails: this process's own calls go through MPI's profiling interface, and do as they are told.
#pragma once

namespace samebits::test::mpi_faults {

enum class Fault {
  none,
  one_thread,      // MPI begins, and takes calls from one thread only
  second_copy,     // no second communicator is made
  second_message,  // of the messages with bytes of collectives the second is not begun, send or receive
  words,           // what ranks tell each other beside the bytes is not sent
  tests,           // whether something has been sent is not known
};

void begin(Fault fault);  // from now on; counts begin anew

int messages();    // with bytes of collectives that were begun
int cancelled();   // requests
int copies();      // communicators made and not freed
bool is_at_end();  // MPI is finalized

}  // namespace samebits::test::mpi_faults
