// The text of a contract: what is read, what is refused and in which words, and the one way it is written.
#include "numerics/contract_text.hpp"

#include <gtest/gtest.h>

#include <string>

#include "samebits/contract.hpp"
#include "samebits/error.hpp"

namespace samebits {
namespace {

struct Named {
  const char* name;
  const char* canonical;
};

// docs/numerics.md section 5, spelled out. A version never changes its bits, so these strings never change.
constexpr Named kNamed[] = {
    {"bf16-tree-v1",
     "samebits/1;leaf=fma;H=max:32;I=max:32;T=max:32;node=bf16;lanes=bf16;swiglu=one;sigma=exact"},
    {"f32-tree-v1",
     "samebits/1;leaf=fma;H=halve:0;I=halve:3;T=block:1024;node=f32;lanes=f32;swiglu=one;sigma=exact"},
    {"sm90-v1",
     "samebits/1;leaf=sm90;H=halve:0;I=halve:3;T=block:2048;node=f32;lanes=f32;swiglu=one;sigma=exact"},
    {"hf-sm90-v1",
     "samebits/1;leaf=sm90;H=halve:0;I=halve:0;T=halve:0;node=f32;lanes=bf16;swiglu=two;sigma=cuda"},
    {"gfx942-v1",
     "samebits/1;leaf=gfx942;H=halve:0;I=halve:3;T=block:2048;node=f32;lanes=f32;swiglu=one;sigma=exact"},
};

TEST(ContractText, PresetsAreWhatThePageSays) {
  const std::vector<std::string_view> presets = contract_presets();
  ASSERT_EQ(presets.size(), std::size(kNamed));
  for (std::size_t i = 0; i < std::size(kNamed); ++i) {
    EXPECT_EQ(presets[i], kNamed[i].name);
    const Contract contract = parse_contract(kNamed[i].name);
    EXPECT_EQ(canonical(contract), kNamed[i].canonical);
    EXPECT_EQ(name_of(contract), kNamed[i].name);
    EXPECT_EQ(parse_contract(kNamed[i].canonical), contract);
    EXPECT_EQ(name_of(parse_contract(kNamed[i].canonical)), kNamed[i].name);
  }
}

TEST(ContractText, FingerprintIsTheHashOfTheCanonicalString) {
  EXPECT_EQ(fingerprint(parse_contract("bf16-tree-v1")), "23b7fa71e83beffe");
  EXPECT_EQ(fingerprint(parse_contract("f32-tree-v1,leaf=sm90,T=block:2048")),
            fingerprint(parse_contract("sm90-v1")));
  EXPECT_NE(fingerprint(parse_contract("sm90-v1")), fingerprint(parse_contract("hf-sm90-v1")));
  EXPECT_EQ(fingerprint(parse_contract("sm90-v1")).size(), 16u);
}

TEST(ContractText, EveryFieldCanBeSetAlone) {
  const auto text = [](const char* given) { return canonical(parse_contract(given)); };
  EXPECT_EQ(
      text("sm90-v1,node=bf16,I=halve:4"),
      "samebits/1;leaf=sm90;H=halve:0;I=halve:4;T=block:2048;node=bf16;lanes=bf16;swiglu=one;sigma=exact");
  EXPECT_EQ(text("f32-tree-v1,leaf=gfx942,T=block:2048"), text("gfx942-v1"));
  EXPECT_EQ(text("f32-tree-v1,H=max:7"),
            "samebits/1;leaf=fma;H=max:7;I=halve:3;T=block:1024;node=f32;lanes=f32;swiglu=one;sigma=exact");
  EXPECT_EQ(text("f32-tree-v1,T=halve:40"),
            "samebits/1;leaf=fma;H=halve:0;I=halve:3;T=halve:40;node=f32;lanes=f32;swiglu=one;sigma=exact");
  EXPECT_EQ(
      text("f32-tree-v1,lanes=bf16"),
      "samebits/1;leaf=fma;H=halve:0;I=halve:3;T=block:1024;node=f32;lanes=bf16;swiglu=one;sigma=exact");
  EXPECT_EQ(text("f32-tree-v1,swiglu=two"),
            "samebits/1;leaf=fma;H=halve:0;I=halve:3;T=block:1024;node=f32;lanes=f32;swiglu=two;sigma=exact");
  EXPECT_EQ(text("f32-tree-v1,sigma=cuda"),
            "samebits/1;leaf=fma;H=halve:0;I=halve:3;T=block:1024;node=f32;lanes=f32;swiglu=one;sigma=cuda");
}

TEST(ContractText, OrderOfFieldsIsFree) {
  EXPECT_EQ(parse_contract("sm90-v1,node=bf16,I=halve:4"), parse_contract("sm90-v1,I=halve:4,node=bf16"));
  EXPECT_EQ(parse_contract(
                "samebits/1;sigma=exact;swiglu=one;lanes=bf16;node=bf16;T=max:32;I=max:32;H=max:32;leaf=fma"),
            parse_contract("bf16-tree-v1"));
  // A granule of the leaf is asked for when all is read, not on the way.
  EXPECT_EQ(parse_contract("bf16-tree-v1,leaf=sm90,H=max:32"),
            parse_contract("bf16-tree-v1,H=max:32,leaf=sm90"));
}

// Such roots are bf16 already, so that only one string says it.
TEST(ContractText, Bf16NodesMeanBf16Lanes) {
  for (const char* text :
       {"f32-tree-v1,node=bf16", "f32-tree-v1,node=bf16,lanes=f32", "f32-tree-v1,lanes=f32,node=bf16"}) {
    EXPECT_EQ(parse_contract(text).lanes, Precision::bf16) << text;
  }
  EXPECT_EQ(parse_contract("bf16-tree-v1,lanes=f32"), parse_contract("bf16-tree-v1"));
  EXPECT_EQ(name_of(parse_contract("bf16-tree-v1,lanes=f32")), "bf16-tree-v1");
}

TEST(ContractText, CanonicalParsesToItself) {
  for (const char* leaf : {"fma", "sm90", "gfx942"}) {
    for (const char* axis : {"max:16", "halve:0", "block:1099511627776"}) {
      for (const char* rest : {"node=f32,lanes=bf16", "node=bf16,swiglu=two", "lanes=f32,sigma=cuda"}) {
        const std::string text = std::string("f32-tree-v1,leaf=") + leaf + ",H=" + axis + "," + rest;
        const Contract contract = parse_contract(text);
        EXPECT_EQ(parse_contract(canonical(contract)), contract) << text;
        EXPECT_EQ(canonical(parse_contract(canonical(contract))), canonical(contract)) << text;
      }
    }
  }
}

TEST(ContractText, NameOfAChangedPresetIsItsCanonicalString) {
  const Contract contract = parse_contract("sm90-v1,I=halve:4");
  EXPECT_EQ(name_of(contract), canonical(contract));
}

struct Refused {
  const char* text;
  const char* says;  // a part of the message
};

// Every refusal names the field and what is legal there.
TEST(ContractText, RefusesInWords) {
  constexpr Refused kRefused[] = {
      {"", "bf16-tree-v1"},  // the presets are listed
      {",", "name=value"},
      {"bf16-tree-v2", "bf16-tree-v2"},
      {"BF16-TREE-V1", "bf16-tree-v1"},
      {" bf16-tree-v1", "presets are"},
      {"bf16-tree-v1 ", "presets are"},
      {"node=bf16", "presets are"},
      {"sm90-v1,", "name=value"},
      {"sm90-v1,,node=bf16", "name=value"},
      {"sm90-v1,node", "node: a field is written name=value"},
      {"sm90-v1,=bf16", "legal fields are"},
      {"sm90-v1,color=red", "color=red: legal fields are"},
      {"sm90-v1,leaf=sm80", "leaf=sm80: leaf is fma, sm90 or gfx942"},
      {"sm90-v1,node=fp32", "node=fp32: node is bf16 or f32"},
      {"sm90-v1,lanes=", "lanes=: lanes is bf16 or f32"},
      {"sm90-v1,swiglu=three", "swiglu is one or two"},
      {"sm90-v1,sigma=Exact", "sigma is exact or cuda"},
      {"sm90-v1,node=bf16,node=bf16", "node=bf16: the field is given twice"},
      {"sm90-v1,I=halve:4,I=halve:5", "I=halve:5: the field is given twice"},
      {"sm90-v1,I=halve", "max:L, halve:D or block:B"},
      {"sm90-v1,I=halve:", "max:L, halve:D or block:B"},
      {"sm90-v1,I=:4", "max:L, halve:D or block:B"},
      {"sm90-v1,I=third:4", "max:L, halve:D or block:B"},
      {"sm90-v1,I=halve:-1", "whole number"},
      {"sm90-v1,I=halve:+1", "whole number"},
      {"sm90-v1,I=halve: 1", "whole number"},
      {"sm90-v1,I=halve:1x", "whole number"},
      {"sm90-v1,I=halve:1.5", "whole number"},
      {"sm90-v1,I=halve:0x1", "whole number"},
      {"sm90-v1,I=max:9223372036854775808", "whole number"},   // 2^63
      {"sm90-v1,I=max:18446744073709551648", "whole number"},  // 2^64 + 32
      {"sm90-v1,I=max:99999999999999999999999999", "whole number"},
      {"sm90-v1,I=max:9223372036854775807", "I: a leaf holds at most 2^40"},
      {"sm90-v1,I=max:1099511627777", "I: a leaf holds at most 2^40"},
      {"sm90-v1,T=halve:41", "T: halve:D takes D from 0 to 40"},
      {"bf16-tree-v1,H=max:0", "H: a leaf holds at least 1"},
      {"bf16-tree-v1,H=block:0", "H: a leaf holds at least 1"},
      {"sm90-v1,H=max:15", "H: a leaf of this arithmetic holds at least 16"},
      {"sm90-v1,T=block:1000", "T: block:B takes a multiple of 16"},
      {"f32-tree-v1,T=block:1000,leaf=gfx942", "T: block:B takes a multiple of 16"},
      {"samebits/1", "leaf: the canonical string lacks this field"},
      {"samebits/1;", "name=value"},
      {"samebits/2;leaf=fma;H=max:32;I=max:32;T=max:32;node=bf16;lanes=bf16;swiglu=one;sigma=exact",
       "samebits/2"},
      {"samebits/10;leaf=fma;H=max:32;I=max:32;T=max:32;node=bf16;lanes=bf16;swiglu=one;sigma=exact",
       "samebits/1;"},
      {"samebits/1;leaf=fma;H=max:32;I=max:32;T=max:32;node=bf16;lanes=bf16;swiglu=one",
       "sigma: the canonical string lacks"},
      {"samebits/1;leaf=fma;H=max:32;I=max:32;T=max:32;node=bf16;lanes=bf16;swiglu=one;sigma=exact;",
       "name=value"},
      {"samebits/1;leaf=fma;H=max:32;I=max:32;T=max:32;node=bf16;lanes=bf16;swiglu=one;sigma=exact;x=1",
       "legal fields"},
      {"samebits/1;leaf=fma,H=max:32", "leaf is fma"},
  };
  for (const Refused& refused : kRefused) {
    try {
      const Contract contract = parse_contract(refused.text);
      ADD_FAILURE() << "'" << refused.text << "' was read as " << canonical(contract);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << refused.text;
      EXPECT_NE(std::string(error.what()).find(refused.says), std::string::npos)
          << refused.text << "\n  " << error.what();
    }
  }
}

TEST(ContractText, LimitsAreInside) {
  EXPECT_EQ(parse_contract("sm90-v1,I=max:1099511627776").intermediate.value, std::int64_t{1} << 40);
  EXPECT_EQ(parse_contract("sm90-v1,I=max:17").intermediate.value, 17)
      << "L need not be a multiple of the granule";
  EXPECT_EQ(parse_contract("bf16-tree-v1,I=max:1").intermediate.value, 1);
  EXPECT_EQ(parse_contract("sm90-v1,I=halve:40").intermediate.value, 40);
  EXPECT_EQ(parse_contract("f32-tree-v1,T=block:1000").tokens.value, 1000);
}

// A text of any length and any bytes is read or refused, never followed out of its bounds.
TEST(ContractText, OddTextsAreRefused) {
  Contract contract;
  EXPECT_NE(numerics::parse_contract_text(std::string(100000, 'x'), contract).problem, nullptr);
  EXPECT_NE(numerics::parse_contract_text("sm90-v1," + std::string(100000, ','), contract).problem, nullptr);
  EXPECT_NE(numerics::parse_contract_text(std::string_view("sm90-v1\0", 8), contract).problem, nullptr);
  EXPECT_NE(numerics::parse_contract_text(std::string_view(), contract).problem, nullptr);
  EXPECT_THROW(parse_contract(std::string(100000, 'x')), Error);
}

// The longest canonical string fits its buffer.
TEST(ContractText, LongestCanonicalStringIsWhole) {
  const std::string text = canonical(parse_contract(
      "gfx942-v1,H=block:1099511627776,I=block:1099511627776,T=block:1099511627776,lanes=bf16"));
  EXPECT_EQ(
      text,
      "samebits/1;leaf=gfx942;H=block:1099511627776;I=block:1099511627776;T=block:1099511627776;node=f32;"
      "lanes=bf16;swiglu=one;sigma=exact");
}

}  // namespace
}  // namespace samebits
