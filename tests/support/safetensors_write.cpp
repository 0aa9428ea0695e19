// safetensors_write OUT: a file of known contents, for other software to read. Its tensors: "x", seeded bf16
// [5, 33]; "columns", columns 3 to 20 of it; "wide", the first two rows of it as f32; "none", bf16 [0, 7].
// Digests go to stdout.
#include <cstdio>
#include <exception>
#include <vector>

#include "samebits/digest.hpp"
#include "samebits/safetensors.hpp"
#include "samebits/seeded.hpp"

int main(int count, char** arguments) {
  using namespace samebits;
  if (count != 2) return std::fprintf(stderr, "usage: safetensors_write OUT\n"), 2;
  try {
    std::vector<std::uint16_t> bits(5 * 33);
    const View x = host_view(bits.data(), 5, 33);
    fill_seeded(x, {.seed = 11, .tensor = SeededTensor::x, .row_length = 33});
    std::vector<std::uint32_t> wide;
    for (std::size_t i = 0; i < 2 * 33; ++i) wide.push_back(std::uint32_t{bits[i]} << 16);
    const std::vector<NamedTensor> tensors = {
        {"x", x},
        {"columns", x.slice_cols(3, 20)},
        {"wide \xc3\xa9", host_view(static_cast<const void*>(wide.data()), 2, 33, DType::f32)},
        {"none", host_view(static_cast<const void*>(nullptr), 0, 7)}};
    write_safetensors(arguments[1], tensors,
                      {{"contract", "bf16-tree-v1"}, {"note", "two\nlines, \"quoted\""}});
    for (const NamedTensor& tensor : tensors)
      std::printf("%s  %s\n", digest(tensor.view).c_str(), tensor.name.c_str());
  } catch (const std::exception& failure) {
    return std::fprintf(stderr, "%s\n", failure.what()), 2;
  }
  return 0;
}
