# Sourced by the other scripts: installs Debian packages that are missing, as root or through sudo, or says how.

need_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if [ "$(id -u)" -eq 0 ]; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    sudo apt-get update -qq && sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  else
    echo "samebits: these packages are missing; install them with:" >&2
    echo "  sudo apt-get install ${missing[*]}" >&2
    exit 3
  fi
}

# Whether apt knows all of these, so that need_packages could install them.
has_packages() {
  local package
  for package in "$@"; do
    apt-cache show "$package" 2>/dev/null | grep -q '^Package:' || return 1
  done
}

# What compiles and links the HIP engine for gfx942 without ROCm: Debian 12 has all of it.
hip_packages=(clang-19 clang-tools-19 lld-19 libamdhip64-dev rocm-device-libs)
build_packages=(g++ cmake ninja-build libfmt-dev nlohmann-json3-dev libcli11-dev libxxhash-dev libopenblas0-pthread)
test_packages=(ccache openmpi-bin libopenmpi-dev libgtest-dev libmpfr-dev libgmp-dev clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14 python3 python3-dev python3-venv)
