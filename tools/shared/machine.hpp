// What the reports say of the machine and the process.
#pragma once

#include <cstdint>
#include <string>

namespace samebits::tools {

int available_threads();  // that this process may run on
std::string cpu_model();  // "Intel(R) Xeon(R) Processor", or the architecture where the system does not say
std::string os_name();    // "Debian GNU/Linux 12 (bookworm), Linux 6.1.0 x86_64"
std::string host_name();
std::string compiler_name();  // that built the command
std::string utc_time();       // "2026-11-29T16:20:00Z"
std::int64_t peak_rss_bytes();
std::int64_t physical_memory_bytes();

}  // namespace samebits::tools
