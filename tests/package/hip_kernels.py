#!/usr/bin/env python3
"""Compiles the hot kernels of the HIP engine for gfx942 and holds them against the table of docs/rocm.md.

usage: hip_kernels.py COMPILER SOURCE_DIR [flag...]
Fails when a hot kernel touches scratch memory, when one that is said to use matrix cores has no v_mfma, or when registers or
LDS leave fewer waves on a SIMD than the table says, or the table does not name the kernel.
"""
import pathlib
import re
import subprocess
import sys

REGISTERS, LDS, SIMDS = 512, 65536, 4  # of a SIMD of gfx942, a lane; of a compute unit
COLD = ["activate_kernel", "gradient_kernel", "finish_kernel", "zero_kernel", "copy_kernel"]


def table_of(text):
    """name: (threads, LDS bytes, fewest waves a SIMD, matrix cores), from the rows `| \\`name\\` | source | ... |`."""
    rows = {}
    for name, source, threads, lds, waves, matrix in re.findall(
            r"^\| `([\w<>, ]+)` \| (\w+\.hip) \| (\d+) \| (\d+) \| (\d+) \| (yes|no) \|$", text, re.M):
        rows[name] = (source, int(threads), int(lds), int(waves), matrix == "yes")
    return rows


def kernels_of(assembly):
    """demangled name: (metadata, instructions)."""
    found = {}
    for entry in re.split(r"^  - (?=\.a)", assembly[assembly.rindex(".amdgpu_metadata"):], flags=re.M)[1:]:
        field = dict(re.findall(r"^ *(\.\w+): +(\S+)$", entry, re.M))
        symbol = field[".name"].strip("'")
        body = assembly[assembly.index(f"\n{symbol}:"):]
        found[symbol] = (field, body[:body.index("s_endpgm")])
    return found


def name_of(symbol):
    """`tiles<gfx942>`: the table's name of a kernel, by what its mangled name says."""
    if "fma_leaf" in symbol:
        left, right, bf16 = re.search(r"tiles_kernelILb(\d)ELb(\d)ELb(\d)E", symbol).groups()
        return f"fma_tiles<{'bf16' if bf16 == '1' else 'f32'}>"
    if "tiles_kernel" in symbol:
        return f"tiles<{'fma' if 'LeafE0' in symbol else 'gfx942'}>"
    return next(cold for cold in COLD if cold in symbol)


def check(symbol, field, body, rows):
    name = name_of(symbol)
    if name in COLD:
        return []
    if name not in rows:
        return [f"{name} ({symbol}) stands in no row of docs/rocm.md"]
    _, threads, lds, waves, matrix = rows[name]
    problems = []
    if int(field[".private_segment_fixed_size"]) > 0 or "scratch_" in body:
        problems.append(f"touches {field['.private_segment_fixed_size']} bytes of scratch memory a lane")
    if matrix and "v_mfma_f32_32x32x8_bf16" not in body:
        problems.append("has no v_mfma_f32_32x32x8_bf16")
    if int(field[".wavefront_size"]) != 64:
        problems.append(f"has waves of {field['.wavefront_size']}")
    if int(field[".max_flat_workgroup_size"]) != threads:
        problems.append(f"has {field['.max_flat_workgroup_size']} threads, not {threads}")
    # Registers of both kinds are one file, taken by eights; the count is of both.
    registers = (int(field[".vgpr_count"]) + 7) // 8 * 8
    by_registers = REGISTERS // registers
    fixed = int(field[".group_segment_fixed_size"])
    if fixed > lds:
        problems.append(f"has {fixed} bytes of LDS, not {lds}")
    by_lds = LDS // lds * (threads // 64) / SIMDS
    if min(by_registers, by_lds) < waves:
        problems.append(f"has {registers} registers and {lds} bytes of LDS: {min(by_registers, by_lds):g} waves a SIMD, not {waves}")
    print(f"{name}: {registers} registers, {fixed} bytes of LDS, {body.count('v_mfma')} v_mfma{': ' if problems else ''}{'; '.join(problems)}")
    return [f"{name}: {problem}" for problem in problems]


def main():
    compiler, root, *flags = sys.argv[1:]
    root = pathlib.Path(root)
    rows = table_of((root / "docs/rocm.md").read_text())
    problems, seen = [], set()
    for source in sorted({row[0] for row in rows.values()}):
        command = [compiler, "-x", "hip", "--offload-arch=gfx942", "--cuda-device-only", "-S", "-o", "-", "-std=c++20", "-O3", "-DNDEBUG",
                   f"-I{root / 'src'}", f"-I{root / 'include'}", *flags, str(root / "src/engine/hip" / source)]
        assembly = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        for symbol, (field, body) in kernels_of(assembly).items():
            seen.add(name_of(symbol))
            problems += check(symbol, field, body, rows)
    problems += [f"{name}: of the table, and not compiled" for name in rows if name not in seen]
    if not rows or problems:
        sys.exit("\n".join(problems) or "docs/rocm.md has no table of kernels")


main()
