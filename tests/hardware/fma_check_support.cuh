// Values and comparisons of fma_check.cu: matrices of every kind of value, and outputs held twice, as the
// fast kernels and as the plain ones leave them.
#pragma once

// ---- values ----

enum Values { kNormal, kWide, kCancelling, kSubnormal, kSpecial, kRaw, kValues };
constexpr const char* kNames[] = {"normal", "wide", "cancelling", "subnormal", "special", "raw"};

__device__ std::uint32_t mix(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return static_cast<std::uint32_t>(x ^ (x >> 33));
}

__device__ Bf16 value_of(Values kind, std::uint64_t i, std::uint32_t r) {
  const std::uint32_t pick = r >> 16;
  const auto field = [&](std::uint32_t f) { return static_cast<Bf16>((r & 0x807F) | (f << 7)); };
  switch (kind) {
    case kNormal:
      return field(122 + pick % 6);
    case kWide:
      return field(67 + pick % 121);
    case kCancelling:
      return pick % 4 == 0 ? static_cast<Bf16>((field(134 + pick % 3) & 0x7FFF) | ((i & 1) << 15))
                           : field(120 + pick % 8);
    case kSubnormal:
      return field(pick % 4);
    case kSpecial: {
      constexpr Bf16 kSpecials[] = {0x7F80, 0xFF80, 0x7FC0, 0xFF81, 0x0000, 0x8000, 0x7F7F, 0xFF7F};
      if (pick % 1024 == 0) return kSpecials[r % 8];
      return pick % 10 == 0 ? static_cast<Bf16>(r & 0x8000) : field(122 + pick % 6);
    }
    default:
      return static_cast<Bf16>(r);
  }
}

__global__ void fill(Bf16* data, std::uint64_t count, Values kind, std::uint64_t seed) {
  for (std::uint64_t i = blockIdx.x * 256ull + threadIdx.x; i < count; i += gridDim.x * 256ull)
    data[i] = value_of(kind, i, mix(seed * 0x9E3779B97F4A7C15ULL + i));
}

struct Matrix {
  DeviceBuffer memory;
  std::int64_t rows = 0, cols = 0, stride = 0;
  Matrix(std::int64_t r, std::int64_t c, std::int64_t pad, Values kind, std::uint64_t seed)
      : memory(0, static_cast<std::size_t>(r * (c + pad)) * 2 + 64), rows(r), cols(c), stride(c + pad) {
    fill<<<1056, 256>>>(memory.as<Bf16>(), static_cast<std::uint64_t>(r * stride), kind, seed);
  }
  Bf16* data() const { return memory.as<Bf16>(); }
  // The axis begins at column (row) `from` of it.
  Operand by_rows(std::int64_t from = 0) const { return {data() + from, rows, stride, 1}; }
  Operand by_cols(std::int64_t from = 0) const { return {data() + from * stride, cols, 1, stride}; }
  View view() const { return {memory.data(), DType::bf16, rows, cols, stride, 1, {}}; }
};

// ---- comparison ----

__global__ void compare(const unsigned char* got, const unsigned char* want, std::uint64_t count, int size,
                        unsigned long long* result) {
  for (std::uint64_t i = blockIdx.x * 256ull + threadIdx.x; i < count; i += gridDim.x * 256ull) {
    bool same = true;
    for (int b = 0; b < size; ++b) same = same && got[i * size + b] == want[i * size + b];
    if (same) continue;
    atomicAdd(result, 1ull);
    atomicMin(result + 1, static_cast<unsigned long long>(i));
  }
}

// Two copies of one output, both filled with a pattern, so that a store out of place shows too.
struct Output {
  DeviceBuffer got, want;
  std::int64_t rows, cols, stride, nodes;
  int size;
  Output(std::int64_t r, std::int64_t c, std::int64_t pad, std::int64_t n, bool f32)
      : got(0, bytes(r, c + pad, n, f32)),
        want(0, bytes(r, c + pad, n, f32)),
        rows(r),
        cols(c),
        stride(c + pad),
        nodes(n),
        size(f32 ? 4 : 2) {
    check(cudaMemset(got.data(), 0xCD, got.bytes()), "filling");
    check(cudaMemset(want.data(), 0xCD, want.bytes()), "filling");
  }
  static std::size_t bytes(std::int64_t r, std::int64_t stride, std::int64_t n, bool f32) {
    return static_cast<std::size_t>(r * stride * n) * (f32 ? 4 : 2) + 64;
  }
  Target target(const DeviceBuffer& of) const {
    return {of.data(), size == 4, stride, 1, nodes > 1 ? rows * stride : 0};
  }
  View view(const DeviceBuffer& of) const {
    return {of.data(), size == 4 ? DType::f32 : DType::bf16, rows, cols, stride, 1, {}};
  }
  void expect_same(const std::string& what) const {
    static DeviceBuffer result(0, 16);
    const unsigned long long start[2] = {0, ~0ull};
    check(cudaMemcpy(result.data(), start, 16, cudaMemcpyHostToDevice), "starting a comparison");
    compare<<<1056, 256>>>(got.as<unsigned char>(), want.as<unsigned char>(),
                           got.bytes() / static_cast<std::size_t>(size), size,
                           result.as<unsigned long long>());
    unsigned long long found[2];
    check(cudaMemcpy(found, result.data(), 16, cudaMemcpyDeviceToHost), ("running " + what).c_str());
    if (found[0] == 0) return;
    ++failures;
    std::uint32_t values[2] = {};
    check(cudaMemcpy(values, got.as<char>() + found[1] * size, size, cudaMemcpyDeviceToHost), "reading");
    check(cudaMemcpy(values + 1, want.as<char>() + found[1] * size, size, cudaMemcpyDeviceToHost), "reading");
    const auto at = static_cast<std::int64_t>(found[1]);
    std::printf(
        "DIFFERS %s: %llu of %lld; first at node %lld row %lld col %lld (of %lld): %0*x, plain has %0*x\n",
        what.c_str(), found[0], static_cast<long long>(rows * cols * nodes),
        static_cast<long long>(at / (rows * stride)), static_cast<long long>(at / stride % rows),
        static_cast<long long>(at % stride), static_cast<long long>(cols), size * 2, values[0], size * 2,
        values[1]);
  }
};
