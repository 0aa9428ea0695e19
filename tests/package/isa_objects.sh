#!/usr/bin/env bash
# Kernels are compiled for processors that this one may not be, and the linker keeps one definition of a weak symbol for
# everyone: a weak function of theirs must be theirs alone, so its name must hold Avx2 or Avx512.
# usage: isa_objects.sh NM kernels_avx2.cpp.o kernels_avx512.cpp.o ...
set -euo pipefail
nm=$1
shift
rc=0
for object in "$@"; do
  case $object in
    *kernels_avx2.*) own=Avx2 ;;
    *kernels_avx512.*) own=Avx512 ;;
    *) echo "$object: of which instruction set?" >&2 && exit 2 ;;
  esac
  weak=$("$nm" -C --defined-only "$object" | grep -E '^[0-9a-f]* *[WVu] ' || true)
  [ -n "$weak" ] || { echo "$object: no weak symbol; is it an object file of the kernels?" >&2 && exit 2; }
  # Type descriptions and the reference to the unwinder are data, the same in every file.
  shared=$(grep -vE "\b$own\b| V (typeinfo (name )?for |DW\.ref\.)" <<<"$weak" || true)
  if [ -n "$shared" ]; then
    printf '%s defines for everyone, compiled for %s:\n%s\n' "$object" "$own" "$shared" >&2
    rc=1
  else
    echo "$(basename "$object"): $(wc -l <<<"$weak") weak symbols, all of $own"
  fi
done
exit $rc
