#!/usr/bin/env python3
"""Writes src/numerics/sigma_cuda_table.hpp from a recording of torch.sigmoid on CUDA.

usage: make_sigma_table.py tests/fixtures/sigmoid_torch_cuda.f32 > src/numerics/sigma_cuda_table.hpp
The recording holds one little-endian f32 for each bf16 bit pattern, as torch.sigmoid returned it on an H200.
"""
import math
import struct
import sys


def exact(x):
    if abs(x) < 2.0**-10:  # a tie of f32 that the cubic term decides, below the last place of a double
        line = 0.5 + 0.25 * x
        total = line - x * x * x / 48.0
        return total if total != line else math.nextafter(line, 0.5)
    e = math.exp(-abs(x))
    return e / (1.0 + e) if x < 0 else 1.0 / (1.0 + e)


def main():
    recorded = open(sys.argv[1], "rb").read()
    entries = []
    for pattern in range(65536):
        x = struct.unpack("<f", struct.pack("<I", pattern << 16))[0]
        if x != x or x < -88.7 or math.isinf(x):
            continue
        ours = struct.unpack("<i", struct.pack("<f", exact(x)))[0]
        theirs = struct.unpack_from("<i", recorded, 4 * pattern)[0]
        if ours != theirs:
            entries.append(f"{{0x{pattern:04x}, {theirs - ours}}}")
    print("// Made by scripts/make_sigma_table.py from tests/fixtures/sigmoid_torch_cuda.f32: where torch.sigmoid on an")
    print("// H200 departs from the correctly rounded sigma, and by how many ulps. Sorted by bit pattern; below -88.7 it")
    print("// is 0.")
    print("// clang-format off")
    print("#pragma once\n\n#include <cstdint>\n\nnamespace samebits::numerics {\n")
    print("struct SigmaCudaEntry {\n  std::uint16_t g;\n  std::int8_t ulps;\n};\n")
    print("inline constexpr SigmaCudaEntry kSigmaCudaTable[] = {")
    for start in range(0, len(entries), 8):
        print("    " + ", ".join(entries[start : start + 8]) + ",")
    print("};\n\n}  // namespace samebits::numerics\n// clang-format on")


main()
