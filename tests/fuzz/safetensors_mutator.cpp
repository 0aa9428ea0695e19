// Mutations that mostly keep the length field true: otherwise nearly every input ends at that check and the
// header's grammar is hardly reached. One in sixteen is left as it comes.
#include <cstddef>
#include <cstdint>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  const std::size_t mutated = LLVMFuzzerMutate(data, size, max_size);
  if (mutated < 8 || seed % 16 == 0) return mutated;
  std::size_t end = mutated;  // the header ends at the last '}'
  while (end > 8 && data[end - 1] != '}') --end;
  for (std::size_t i = 0; i < 8; ++i) data[i] = static_cast<std::uint8_t>(std::uint64_t{end - 8} >> (8 * i));
  return mutated;
}
