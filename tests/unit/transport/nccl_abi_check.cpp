// The transport's own declarations of NCCL's interface against NCCL's header. Checked by compiling.
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "transport/nccl_library.hpp"

namespace samebits::transport::nccl {
namespace {

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) && std::is_trivially_copyable_v<UniqueId>);
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
static_assert(offsetof(Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(Config, max_ctas) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(Config, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(Config, split_share) == offsetof(ncclConfig_t, splitShare));
static_assert(Config{}.magic == ncclConfig_t(NCCL_CONFIG_INITIALIZER).magic);
static_assert(static_cast<int>(kUnhandledCudaError) == static_cast<int>(ncclUnhandledCudaError));
static_assert(static_cast<int>(kInvalidUsage) == static_cast<int>(ncclInvalidUsage));
static_assert(static_cast<int>(kRemoteError) == static_cast<int>(ncclRemoteError));
static_assert(static_cast<int>(kInProgress) == static_cast<int>(ncclInProgress));
static_assert(static_cast<int>(kUint8) == static_cast<int>(ncclUint8));

// Two types that are passed alike.
template <class A, class B>
constexpr bool kAlike =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>&& std::is_class_v<A> ==
                                  std::is_class_v<B>;

template <class R, class... A, class S, class... B>
constexpr bool alike(R (*)(A...), S (*)(B...)) {
  if constexpr (sizeof...(A) == sizeof...(B)) return kAlike<R, S> && (kAlike<A, B> && ...);
  return false;
}

static_assert(alike(decltype(Library::get_version){}, ncclGetVersion));
static_assert(alike(decltype(Library::get_unique_id){}, ncclGetUniqueId));
static_assert(alike(decltype(Library::comm_init_rank_config){}, ncclCommInitRankConfig));
static_assert(alike(decltype(Library::comm_finalize){}, ncclCommFinalize));
static_assert(alike(decltype(Library::comm_destroy){}, ncclCommDestroy));
static_assert(alike(decltype(Library::comm_abort){}, ncclCommAbort));
static_assert(alike(decltype(Library::comm_get_async_error){}, ncclCommGetAsyncError));
static_assert(alike(decltype(Library::group_start){}, ncclGroupStart));
static_assert(alike(decltype(Library::group_end){}, ncclGroupEnd));
static_assert(alike(decltype(Library::send){}, ncclSend));
static_assert(alike(decltype(Library::recv){}, ncclRecv));
static_assert(alike(decltype(Library::all_gather){}, ncclAllGather));
static_assert(alike(decltype(Library::broadcast){}, ncclBroadcast));
static_assert(alike(decltype(Library::get_error_string){}, ncclGetErrorString));
static_assert(alike(decltype(Library::get_last_error){}, ncclGetLastError));

}  // namespace
}  // namespace samebits::transport::nccl
