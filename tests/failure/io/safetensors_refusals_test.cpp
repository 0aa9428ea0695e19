// Files that are not what they claim: each is refused, by name, before a byte of its data is believed.
#include <gtest/gtest.h>

#include <string>

#include "io/safetensors_parser.hpp"
#include "unit/io/expect_error.hpp"
#include "unit/io/safetensors_bytes.hpp"

namespace samebits {
namespace {

using test::as_bytes;
using test::length_bytes;
using test::safetensors_bytes;

void refused(const std::string& bytes, std::string_view culprit, std::string_view reason) {
  SCOPED_TRACE(bytes.substr(0, 120));
  test::expect_bad_file({"dir/f.safetensors", culprit, reason},
                        [&] { io::parse_safetensors(as_bytes(bytes), "dir/f.safetensors"); });
}

// One tensor 'w' with these fields, and six bytes of data.
void refused_tensor(const std::string& fields, std::string_view reason) {
  refused(safetensors_bytes("{\"w\":" + fields + "}", "abcdef"), "'w'", reason);
}

TEST(SafetensorsRefusals, Lengths) {
  refused("", "0 bytes", "8 bytes of header length");
  refused("1234567", "7 bytes", "8 bytes of header length");
  refused(length_bytes(0) + "{}", "header length is 0", "JSON");
  refused(length_bytes(3) + "{}", "header length is 3", "only 2 bytes follow");
  refused(length_bytes(100'000'001), "100000001", "at most 100000000");
  refused(length_bytes(~std::uint64_t{0}) + "{}", "18446744073709551615", "not a safetensors file");
}

TEST(SafetensorsRefusals, GitLfsPointer) {
  refused("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "Git LFS pointer",
          "git lfs pull");
}

TEST(SafetensorsRefusals, NotAJsonObject) {
  refused(safetensors_bytes("[]"), "'{'", "not a safetensors file");
  refused(safetensors_bytes(" {}"), "'{'", "not a safetensors file");
  refused(safetensors_bytes("\xef\xbb\xbf{}"), "'{'", "not a safetensors file");
  refused(safetensors_bytes("{"), "not JSON", "byte");
  refused(safetensors_bytes("{} x"), "not JSON", "byte");
  refused(safetensors_bytes("{}{}"), "not JSON", "byte");
  refused(safetensors_bytes(std::string("{}\0{}", 5)), "NUL", "header");
  refused(safetensors_bytes("{\"\xff\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}"), "not JSON",
          "UTF-8");
  refused(safetensors_bytes("{\"a\":1e999}"), "not JSON", "overflow");
}

TEST(SafetensorsRefusals, DuplicateKeys) {
  const std::string w = R"("w":{"dtype":"U8","shape":[6],"data_offsets":[0,6]})";
  refused(safetensors_bytes("{" + w + "," + w + "}", "abcdef"), "'w'", "twice");
  refused(safetensors_bytes(R"({"__metadata__":{},"__metadata__":{}})"), "'__metadata__'", "twice");
  refused(safetensors_bytes(R"({"__metadata__":{"k":"1","k":"2"}})"), "'k'", "twice");
  refused_tensor(R"({"dtype":"U8","shape":[6],"data_offsets":[0,6],"dtype":"I8"})", "'dtype' twice");
  refused_tensor(R"({"dtype":"U8","shape":[6],"shape":[6],"data_offsets":[0,6]})", "'shape' twice");
  // The same key in another spelling.
  refused(
      safetensors_bytes("{" + w + R"(,"\u0077":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", "abcdef"),
      "'w'", "twice");
}

TEST(SafetensorsRefusals, Metadata) {
  refused(safetensors_bytes(R"({"__metadata__":[]})"), "__metadata__", "an array");
  refused(safetensors_bytes(R"({"__metadata__":null})"), "__metadata__", "null");
  refused(safetensors_bytes(R"({"__metadata__":{"k":1}})"), "'k'", "only strings");
  refused(safetensors_bytes(R"({"__metadata__":{"k":{"deep":"x"}}})"), "'k'", "only strings");
}

TEST(SafetensorsRefusals, Fields) {
  refused_tensor("7", "not an object");
  refused_tensor("[]", "not an object");
  refused_tensor("{}", "no dtype");
  refused_tensor(R"({"dtype":"U8","data_offsets":[0,6]})", "no shape");
  refused_tensor(R"({"dtype":"U8","shape":[6]})", "no data_offsets");
  refused_tensor(R"({"dtype":"U8","shape":[6],"data_offsets":[0,6],"extra":1})", "'extra'");
  refused_tensor(R"({"dtype":8,"shape":[6],"data_offsets":[0,6]})", "a dtype is a string");
  refused_tensor(R"({"dtype":"bf16","shape":[3],"data_offsets":[0,6]})", "unknown dtype 'bf16'");
  refused_tensor(R"({"dtype":"F128","shape":[3],"data_offsets":[0,6]})",
                 "BF16");  // the legal ones are listed
}

TEST(SafetensorsRefusals, Shapes) {
  const auto shape = [](const std::string& text, std::string_view reason) {
    refused_tensor(R"({"dtype":"BF16","shape":)" + text + R"(,"data_offsets":[0,6]})", reason);
  };
  shape("3", "a shape is an array");
  shape("[-3]", "-3");
  shape("[-0]", "-0");
  shape("[3.0]", "3.0");
  shape("[\"3\"]", "a string");
  shape("[[3]]", "an array");
  shape("[null]", "null");
  shape("[true]", "true");
  shape("[9223372036854775808]", "9223372036854775808");
  shape("[99999999999999999999999]", "whole numbers");
  shape("[4294967296,4294967296]", "64 bits");
  shape("[9223372036854775807,0,9223372036854775807,2]", "takes 0");
  shape("[9223372036854775807,2,0]", "64 bits");
  shape("[4611686018427387904]", "64 bits");
  shape("[4]", "takes 8");
  shape("[1,1,1]", "takes 2");
  std::string many = "[1";
  for (int i = 0; i < 64; ++i) many += ",1";
  shape(many + "]", "64 axes");
  refused_tensor(R"({"dtype":"F4","shape":[3],"data_offsets":[0,2]})", "whole bytes");
}

TEST(SafetensorsRefusals, Offsets) {
  const auto offsets = [](const std::string& text, std::string_view reason) {
    refused_tensor(R"({"dtype":"BF16","shape":[3],"data_offsets":)" + text + "}", reason);
  };
  offsets("6", "array of two numbers");
  offsets("[]", "fewer than two");
  offsets("[0]", "fewer than two");
  offsets("[0,6,6]", "more than two");
  offsets("[-1,5]", "-1");
  offsets("[0,6.0]", "6.0");
  offsets("[6,0]", "end before they begin");
  offsets("[0,5]", "takes 6");
  offsets("[1,7]", "the file holds 6");
  offsets("[18446744073709551610,18446744073709551615]", "takes 6");
  offsets("[18446744073709551609,18446744073709551615]", "the file holds 6");
}

TEST(SafetensorsRefusals, HolesOverlapsAndTails) {
  const auto two = [](const char* a, const char* b) {
    return std::string(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)") + a +
           R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + b + "}}";
  };
  refused(safetensors_bytes(two("[0,2]", "[1,3]"), "abc"), "'b'", "inside tensor 'a'");
  refused(safetensors_bytes(two("[0,2]", "[0,2]"), "ab"), "'b'", "inside tensor 'a'");
  refused(safetensors_bytes(two("[0,2]", "[3,5]"), "abcde"), "'b'", "holes");
  refused(safetensors_bytes(two("[1,3]", "[3,5]"), "abcde"), "'a'", "holes");
  refused(safetensors_bytes(two("[0,2]", "[2,4]"), "abcde"), "last 1", "no tensor");
  refused(safetensors_bytes("{}", "x"), "last 1", "no tensor");
}

TEST(SafetensorsRefusals, DeepNestingDoesNotOverflowTheStack) {
  for (const std::string& open : {std::string("["), std::string("{\"a\":")}) {
    std::string header = "{\"w\":";
    for (int i = 0; i < 1'000'000; ++i) header += open;
    refused(safetensors_bytes(header), "'w'", "");
  }
}

TEST(SafetensorsRefusals, NamesCannotBreakTheLine) {
  refused(safetensors_bytes(R"({"a\nb\u001b[2J":3})"), "a\\x0ab\\x1b[2J", "not an object");
}

}  // namespace
}  // namespace samebits
