// What a file system does to readers and writers.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "io/output_file.hpp"
#include "samebits/safetensors.hpp"
#include "unit/io/expect_error.hpp"
#include "unit/io/safetensors_bytes.hpp"
#include "unit/io/temp_folder.hpp"

namespace samebits {
namespace {

using test::expect_bad_file;
using test::expect_error;
using test::TempFolder;

TEST(ReadingFiles, WhatCannotBeRead) {
  const TempFolder folder;
  expect_bad_file({"absent.safetensors", "No such file"},
                  [&] { SafetensorsFile::open(folder.file("absent.safetensors")); });
  expect_bad_file({folder.path(), "is a folder"}, [&] { SafetensorsFile::open(folder.path()); });
  ASSERT_EQ(::mkfifo(folder.file("fifo").c_str(), 0600), 0);
  expect_bad_file({"fifo", "not a regular file"}, [&] { SafetensorsFile::open(folder.file("fifo")); });
  const std::string empty = folder.write("empty", "");
  expect_bad_file({"empty", "0 bytes"}, [&] { SafetensorsFile::open(empty); });
  const std::string pointer =
      folder.write("lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
  expect_bad_file({"lfs", "Git LFS pointer", "git lfs pull"}, [&] { SafetensorsFile::open(pointer); });
}

TEST(ReadingFiles, TensorsThatAreNotThereOrNoMatrix) {
  const TempFolder folder;
  const auto file = SafetensorsFile::open(folder.write(
      "t",
      test::safetensors_bytes(R"({"ids":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", "12345678")));
  expect_bad_file({"/t", "'x'", "'ids'"}, [&] { file.at("x"); });
  expect_bad_file({"/t", "'ids'", "I64", "BF16"}, [&] { file.matrix("ids"); });
}

const std::vector<std::uint16_t>& large() {
  static const std::vector<std::uint16_t> values(std::size_t{4} << 20);
  return values;
}
NamedTensor large_tensor() { return {"w", host_view(static_cast<const void*>(large().data()), 4, 1 << 20)}; }

TEST(WritingFiles, TargetsThatCannotBeWritten) {
  const TempFolder folder;
  expect_bad_file({"nowhere/t", "cannot be written", "No such file", "folder"},
                  [&] { write_safetensors(folder.file("nowhere/t"), {}); });
  expect_bad_file({folder.path(), "is a folder"}, [&] { write_safetensors(folder.path(), {}); });
  expect_bad_file({"/dev/null", "not a regular file"}, [&] { write_safetensors("/dev/null", {}); });
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  const std::string file = folder.write("file", "x");
  expect_bad_file({"file/t", "cannot be written"}, [&] { write_safetensors(file + "/t", {}); });
  expect_bad_file({"cannot be written"}, [&] { write_safetensors("", {}); });
  EXPECT_EQ(folder.entries().size(), 1u);
}

TEST(WritingFiles, NothingPartialIsLeftWhenTheDiskIsFull) {
  const TempFolder folder;
  const std::string target = folder.write("t.safetensors", "the old contents");
  // A file size limit stands in for a full disk: write() fails midway.
  ::rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ::rlimit small = before;
  small.rlim_cur = 3 << 20;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_bad_file({target, "cannot be written", "File too large"},
                  [&] { write_safetensors(target, {large_tensor()}); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(folder.entries(), (std::vector<std::string>{"t.safetensors"}));
  EXPECT_EQ(test::read_all(target), "the old contents");
}

TEST(WritingFiles, WithoutCommitNothingIsLeft) {
  const TempFolder folder;
  {
    io::OutputFile file(folder.file("report.json"));
    file.write("{}", 2);
    EXPECT_EQ(folder.entries(),
              (std::vector<std::string>{std::string("report.json.tmp-") + std::to_string(::getpid())}));
  }
  EXPECT_TRUE(folder.entries().empty());
}

TEST(WritingFiles, WritersOfOnePathDoNotMix) {
  const TempFolder folder;
  io::OutputFile first(folder.file("t")), second(folder.file("t"));
  first.write("first", 5);
  second.write("second", 6);
  second.commit();
  first.commit();
  EXPECT_EQ(test::read_all(folder.file("t")), "first");
  EXPECT_EQ(folder.entries().size(), 1u);
  io::write_text_file(folder.file("t"), "{}\n");
  EXPECT_EQ(test::read_all(folder.file("t")), "{}\n");
}

TEST(WritingFiles, TensorsThatCannotBeStored) {
  const TempFolder folder;
  const std::vector<std::uint32_t> memory(8);
  const ConstView view = host_view(static_cast<const void*>(memory.data()), 2, 2);
  const auto refuse = [&](std::string_view named, const std::vector<NamedTensor>& tensors,
                          const std::map<std::string, std::string>& metadata = {}) {
    expect_error(ErrorCode::invalid_argument, {named},
                 [&] { write_safetensors(folder.file("t"), tensors, metadata); });
  };
  refuse("'__metadata__'", {{"__metadata__", view}});
  refuse("'twin'", {{"twin", view}, {"twin", view}});
  refuse("UTF-8", {{"\xff", view}});
  refuse("UTF-8", {{"w", view}}, {{"k", "\xff"}});
  refuse("'w'", {{"w", host_view(static_cast<const void*>(nullptr), 2, 2)}});
  refuse("[-1, 2]", {{"w", host_view(static_cast<const void*>(memory.data()), -1, 2)}});
  refuse("64 bits", {{"w", host_view(static_cast<const void*>(memory.data()), std::int64_t{1} << 40,
                                     std::int64_t{1} << 40)}});
  ConstView device = view;
  device.device.space = MemorySpace::cuda;
  refuse("device memory", {{"w", device}});
  EXPECT_TRUE(folder.entries().empty());
}

}  // namespace
}  // namespace samebits
