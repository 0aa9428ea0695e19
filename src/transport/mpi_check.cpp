#include "transport/mpi_check.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <string>

#include "samebits/error.hpp"

namespace samebits::transport {
namespace {

// MPI may be asked for words only between its beginning and its end.
std::string words_of(int code) {
  int begun = 0, ended = 0, length = 0;
  char text[MPI_MAX_ERROR_STRING] = {};
  if (MPI_Initialized(&begun) == MPI_SUCCESS && MPI_Finalized(&ended) == MPI_SUCCESS && begun != 0 &&
      ended == 0 && MPI_Error_string(code, text, &length) == MPI_SUCCESS)
    return {text, static_cast<std::size_t>(length)};
  return fmt::format("MPI answers {}", code);
}

}  // namespace

void check_mpi(int code, const char* what) {
  if (code != MPI_SUCCESS) throw Error(ErrorCode::environment, fmt::format("{}: {}", what, words_of(code)));
}

}  // namespace samebits::transport
