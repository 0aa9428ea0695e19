#!/usr/bin/env bash
# The shared library exports the public interface, all of it and nothing else.
# usage: exported_symbols.sh NM SHARED_LIBRARY OBJECT...
set -euo pipefail
export LC_ALL=C
nm=$1 library=$2
shift 2

# A function of namespace samebits itself or of a class in it; inner namespaces and nested classes are ours alone, and
# so is what takes a nested class.
identifier='[A-Za-z0-9_]+'
tag='(\[abi:[a-z0-9]+\])*'
class='[A-Z][A-Za-z0-9_]*'
public="^samebits::($identifier$tag|$class::(~?$identifier$tag|operator[^:]*))\(.*\)( const)?\$"
private="$class::(Impl|Contents)\\b"
type="^(typeinfo|typeinfo name|vtable) for samebits::$class\$"

names() { sed -E 's/^[0-9a-f]+ . //' | sort -u; }
exported=$("$nm" -DC --defined-only "$library" | names)
functions=$(grep -vE "$type" <<<"$exported" || true)
defined=$("$nm" -C --defined-only "$@" | grep -E '^[0-9a-f]+ T ' | names | grep -E "$public" | grep -vE "$private")

rc=0
surplus=$(grep -vE "$public" <<<"$functions" || true)
if [ -n "$surplus" ]; then
  printf '%s exports what is no part of the public interface:\n%s\n' "$library" "$surplus" >&2
  rc=1
fi
missing=$(comm -23 <(echo "$defined") <(echo "$functions"))
if [ -n "$missing" ]; then
  printf '%s\n%s\n' "$library does not export these; mark them SAMEBITS_API, or give them an inner namespace:" "$missing" >&2
  rc=1
fi
for class in Error Transport; do
  grep -qx "typeinfo for samebits::$class" <<<"$exported" || { echo "the type samebits::$class is not exported" >&2; rc=1; }
done
grep -q '^samebits::Plan::forward(' <<<"$functions" || { echo "no Plan::forward; was the library read?" >&2; rc=1; }
[ $rc -ne 0 ] || echo "$(wc -l <<<"$exported") names, $(wc -l <<<"$defined") public functions defined, all exported"
exit $rc
