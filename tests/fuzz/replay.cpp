// replay FILE-OR-FOLDER...: runs a fuzz target once on every file, with any compiler; the kept corpus is a
// test this way.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void run(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::printf("%s\n", path.filename().c_str());  // the last name printed is the one that failed
  std::fflush(stdout);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int count, char** arguments) {
  std::size_t files = 0;
  for (int i = 1; i < count; ++i) {
    std::vector<std::filesystem::path> paths;
    if (std::filesystem::is_directory(arguments[i])) {
      for (const auto& entry : std::filesystem::directory_iterator(arguments[i]))
        paths.push_back(entry.path());
    } else {
      paths.emplace_back(arguments[i]);
    }
    std::sort(paths.begin(), paths.end());
    for (const auto& path : paths) run(path);
    files += paths.size();
  }
  std::printf("%zu files\n", files);
  return files > 0 ? 0 : 2;  // an empty corpus tests nothing
}
