#!/usr/bin/env bash
# Installs a build into a fresh prefix, moves the prefix, and uses the package from a project of its own.
# usage: package_consumer.sh CMAKE BUILD WORK STATIC|SHARED VERSION [COMPONENT]
set -euo pipefail
cmake=$1 build=$2 work=$3 kind=$4 version=$5 component=${6:-}
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
fail() { echo "package_consumer: $*" >&2; exit 1; }
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "failed: $*"; }; }

rm -rf "$work"
mkdir -p "$work"
quietly "$cmake" --install "$build" --prefix "$work/installed" ${component:+--component "$component"}
prefix=$work/prefix
mv "$work/installed" "$prefix"

# What a package must not bring along.
! grep -rnF -e "$source" -e "$build" -e "$work" "$prefix" --include='*.cmake' || fail "a package file names a path of this machine"
! grep -rnE 'ffp-contract|Werror|visibility|xxhash|nlohmann' "$prefix" --include='*.cmake' || fail "a package file tells of the build"
! grep -rnE '#include' "$prefix/include" | grep -vE '#include (<[a-z_]+>|"samebits/[a-z_]+\.hpp")$' ||
  fail "a public header includes what is neither std nor public"

package=$(dirname "$(find "$prefix" -name samebitsConfig.cmake)")
# Version 0.N serves who asks for 0.N.
cat >"$work/version.cmake" <<'END'
find_package(samebits ${asked} CONFIG QUIET PATHS ${package} NO_DEFAULT_PATH)
if(NOT samebits_CONSIDERED_VERSIONS STREQUAL version)
  message(FATAL_ERROR "considered '${samebits_CONSIDERED_VERSIONS}', not '${version}'")
endif()
if(samebits_CONFIG)
  message(FATAL_ERROR "${version} serves who asks for ${asked}")
endif()
END
IFS=. read -r major minor _ <<<"$version"
for asked in "$major.$((minor + 1))" "$major.$minor.999" "$((major + 1)).$minor"; do
  quietly "$cmake" -Dpackage="$package" -Dversion="$version" -Dasked="$asked" -P "$work/version.cmake"
done

# A shared library needs nothing of its consumer.
without=()
[ "$kind" = STATIC ] || without=(-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON -DCMAKE_DISABLE_FIND_PACKAGE_Threads=ON)
quietly "$cmake" -S "$here/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" "${without[@]}"
grep -q "^samebits_DIR:PATH=$prefix/" "$work/consumer/CMakeCache.txt" || fail "another samebits was found"
quietly "$cmake" --build "$work/consumer"
[ -n "$component" ] || quietly "$cmake" --build "$work/consumer" --target headers_alone  # the same for both kinds
"$work/consumer/consumer" | tee "$work/digests"
grep -q "^samebits $version: ok$" "$work/digests" || fail "version.hpp and the package disagree on the version"

needed=$(readelf -d "$work/consumer/consumer" | grep NEEDED)
case $kind in
  STATIC) ! grep samebits <<<"$needed" || fail "linked a shared library" ;;
  SHARED)
    grep -qF "[libsamebits.so.$major.$minor]" <<<"$needed" || fail "the consumer does not need libsamebits.so.$major.$minor"
    ! grep fmt <<<"$needed" || fail "the consumer was made to link fmt" ;;
esac
[ ! -x "$prefix/bin/samebits" ] || quietly "$prefix/bin/samebits" contract
