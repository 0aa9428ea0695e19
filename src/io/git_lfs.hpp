// A clone made without Git LFS holds small text files where the data should be.
#pragma once

#include <string_view>

namespace samebits::io {

constexpr bool is_git_lfs_pointer(std::string_view text) {
  return text.starts_with("version https://git-lfs.github.com/spec/");
}

inline constexpr std::string_view kGitLfsProblem =
    "is a Git LFS pointer, not the data itself; fetch the data with `git lfs pull` in its folder";

}  // namespace samebits::io
