#include "shared/failure.hpp"

#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

namespace samebits::tools {

ExitCode exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::bad_file:
    case ErrorCode::refused:
    case ErrorCode::disagreement:
      return kUsage;
    case ErrorCode::environment:
    case ErrorCode::out_of_memory:
    case ErrorCode::lost_rank:
    case ErrorCode::internal:
      break;
  }
  return kEnvironment;
}

void print_failure(std::string_view message) {
  std::string line = "samebits: ";
  for (const char c : message) {
    const bool control =
        static_cast<unsigned char>(c) < 0x20 || c == 0x7F;  // names in files may hold anything
    if (!control) {
      line += c;
    } else if (line.back() != ' ') {
      line += ' ';
    }
  }
  while (line.back() == ' ') line.pop_back();
  line += '\n';
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

Error error_of(const std::exception_ptr& thrown) {
  constexpr const char* kTooMuch = "out of memory: fewer --tokens or a smaller --shape need less";
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {ErrorCode::out_of_memory, kTooMuch};
  } catch (const std::length_error&) {  // a container asked for more than there can be
    return {ErrorCode::out_of_memory, kTooMuch};
  } catch (const std::system_error& error) {  // threads that cannot be started
    return {ErrorCode::environment, error.what()};
  } catch (const std::exception& error) {
    return {ErrorCode::internal, std::string("internal error: ") + error.what()};
  } catch (...) {
    return {ErrorCode::internal, "internal error: an exception that is no std::exception"};
  }
}

int guarded(const std::function<int()>& body) {
  try {
    return body();
  } catch (...) {
    const Error error = error_of(std::current_exception());
    print_failure(error.what());
    return exit_code_of(error.code());
  }
}

void fail_usage(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }
void fail_environment(const std::string& message) { throw Error(ErrorCode::environment, message); }

}  // namespace samebits::tools
