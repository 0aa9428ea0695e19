// safetensors_read IN: one line a tensor, "name<TAB>dtype<TAB>shape<TAB>bytes in hex", then one a metadata
// entry.
#include <cstdio>
#include <exception>

#include "io/message.hpp"
#include "samebits/safetensors.hpp"

int main(int count, char** arguments) {
  using namespace samebits;
  if (count != 2) return std::fprintf(stderr, "usage: safetensors_read IN\n"), 2;
  try {
    const auto file = SafetensorsFile::open(arguments[1]);
    for (const SafetensorsTensor& tensor : file.tensors()) {
      std::printf("%s\t%s\t%s\t", tensor.name.c_str(), tensor.dtype.c_str(),
                  io::joined(tensor.shape, "x").c_str());
      const auto* const bytes = static_cast<const unsigned char*>(tensor.data);
      for (std::uint64_t i = 0; i < tensor.bytes(); ++i) std::printf("%02x", bytes[i]);
      std::printf("\n");
    }
    for (const auto& [key, value] : file.metadata())
      std::printf("metadata\t%s\t%s\n", key.c_str(), value.c_str());
  } catch (const std::exception& failure) {
    return std::fprintf(stderr, "%s\n", failure.what()), 2;
  }
  return 0;
}
