// The golden digests of docs/numerics.md section 8, as plain data: from an evaluation of the contract that
// shares no code with this project. Seeded tensors of seed 0, 77 tokens, H 64, I 208.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "samebits/layout.hpp"

namespace samebits::reference {

inline constexpr std::uint64_t kGoldenSeed = 0;
inline constexpr std::int64_t kGoldenTokens = 77;
inline constexpr Shape kGoldenShape{64, 208};

struct Golden {
  std::string_view contract;
  std::string_view y, dx, d_gate, d_up, d_down;  // bf16
  std::string_view d_gate_f32, d_down_f32;       // the same gradients asked for as f32
};

inline constexpr std::array<Golden, 6> kGolden{{
    {"bf16-tree-v1", "53d45770cb1262cb74a9deb3457a78cb", "a868e7cb071354bb51d58039cfbd2e61",
     "f816a6619e2fc5b002a93b9182baef60", "645f228b05d393729e0551b2bfcfd913",
     "5a089ae13c6d80551dbe77f0c94b61bb", "e9565b4440b231b6ed0ac020b365bd79",
     "73cf9544d3e70d864364a26b9e402725"},
    {"f32-tree-v1", "795e8395dabb9521a6ef8fe456c1dbbd", "c42e1050ccdf5e6e23d071ce76410420",
     "b318ec6024b09d3fc35c1cfb7568da5b", "89a9086163dfa925b246e6461a8e3b1d",
     "bc164411606092979384eb24cd161e30", "ad4c0f531d4ff6dd36844fd6a029da14",
     "353747a5e804b71f68e6a3e14c1accc6"},
    {"sm90-v1", "795e8395dabb9521a6ef8fe456c1dbbd", "c42e1050ccdf5e6e23d071ce76410420",
     "d3a43e0dd03501911500eceb02072490", "a2e7eee32072c1471290d5fb86e17d36",
     "ac62e6d1cc009d1408d43a60bf0d8eb9", "ca2b5af6e61c31b85f168e53b91b5420",
     "1b1ee957ae4a247446070c6f712f282d"},
    {"hf-sm90-v1", "f61721c93acaa3f6f306c3921deef0a9", "0b59e796b3373de6b5978b3c1ee38d35",
     "bb7679ccbe9b81d5adba2b8b82e5e21f", "0bed64e13c80c39679de081b02a3fe4f",
     "497e26f37fd269094fdb9c2d6d11460f", "6519ca67c75a2d3a0abba3797436e1a6",
     "d82e533d24d06f7734b56f7675374e1c"},
    {"f32-tree-v1,T=block:16", "795e8395dabb9521a6ef8fe456c1dbbd", "c42e1050ccdf5e6e23d071ce76410420",
     "b318ec6024b09d3fc35c1cfb7568da5b", "781f49411cfcbdd141b814abdf3b2dc2",
     "dab09257beee3ee315cf2d7e78e60c19", "96f73c2ada3d8763bda1b98ed990c107",
     "e8f8e1c305283a578acee290d6044ee0"},
    {"sm90-v1,I=max:32,node=bf16,lanes=bf16", "c86e44df4c4a8ca90405ffbadd24f6af",
     "2495bf8aa7c5b139d1a25084e51e44cf", "d3a43e0dd03501911500eceb02072490",
     "a2e7eee32072c1471290d5fb86e17d36", "ac62e6d1cc009d1408d43a60bf0d8eb9",
     "d8a821d929dbac669019361d6ebff943", "fecef91c9cdc56a9e132c7c04488fd90"},
}};

// Single elements that show what digests of ordinary values hide.

// Under `swiglu=one`: the gate's gradient for these operands is another bf16 when 1 + g*(1-s) is contracted
// to an fma.
struct ContractionCanary {
  std::uint16_t gate, up, d_act;
  std::uint16_t d_gate;
};
inline constexpr std::array<ContractionCanary, 6> kContractionCanaries{{
    {0xbfa4, 0x3fd6, 0x3fcc, 0xbad4},
    {0xbfa4, 0x3f4c, 0x3f56, 0xb9d4},
    {0xc018, 0x3f35, 0x3fb6, 0xbdcd},
    {0xbf8c, 0x3f0e, 0x3f69, 0x3cbc},
    {0xbfae, 0x3f28, 0x3fa6, 0xbc69},
    {0xbf7e, 0x3fc9, 0x3f06, 0x3d7c},
}};

// A subnormal weight of the down projection, and y where gate and up are 1: lost where subnormals are
// flushed.
struct SubnormalCanary {
  std::uint16_t down;
  std::uint16_t y;
};
inline constexpr std::array<SubnormalCanary, 4> kSubnormalCanaries{{
    {0x0001, 0x0001},
    {0x0005, 0x0004},
    {0x0047, 0x0034},
    {0x8063, 0x8048},
}};

}  // namespace samebits::reference
