// XXH3-128 of a tensor: one line that says dtype and shape, then the elements.
#include "samebits/digest.hpp"

#include <fmt/format.h>

#include <memory>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "io/elements.hpp"
#include "io/message.hpp"
#include "samebits/safetensors.hpp"

namespace samebits {
namespace {

class Hasher {
 public:
  Hasher() : state_(XXH3_createState()) {
    if (!state_) throw std::bad_alloc();
    XXH3_128bits_reset(state_.get());
  }
  void add(const void* data, std::size_t size) {
    if (size > 0) XXH3_128bits_update(state_.get(), data, size);
  }
  // 32 hex digits in canonical (big-endian) order.
  std::string finish() const {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
    std::string text;
    for (const unsigned char byte : canonical.digest) text += fmt::format("{:02x}", byte);
    return text;
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace

std::string digest(const ConstView& tensor) {
  io::check_host_view(tensor, "the tensor to digest");
  const std::string line = fmt::format("{}:{}x{}\n", name_of(tensor.dtype), tensor.rows, tensor.cols);
  Hasher hasher;
  hasher.add(line.data(), line.size());
  io::for_each_run(tensor, [&](const void* data, std::size_t size) { hasher.add(data, size); });
  return hasher.finish();
}

std::string digest(const SafetensorsTensor& tensor) {
  std::string line;
  for (const char c : tensor.dtype) line += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  line += fmt::format(":{}\n", io::joined(tensor.shape, "x"));
  Hasher hasher;
  hasher.add(line.data(), line.size());
  hasher.add(tensor.data, tensor.bytes());
  return hasher.finish();
}

}  // namespace samebits
