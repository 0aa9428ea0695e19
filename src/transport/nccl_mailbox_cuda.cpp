// A build with CUDA: mailboxes in device memory, reached by address within a process and through CUDA's
// inter-process handles beyond it.
#include <algorithm>
#include <exception>

#include "gpu/device_buffer.hpp"
#include "transport/cuda_place.hpp"
#include "transport/mailbox_gather.hpp"
#include "transport/mailbox_stream.hpp"
#include "transport/peer_memory.hpp"

namespace samebits::transport::nccl {
namespace {

constexpr std::size_t kLinesBytes = std::size_t{8} << 20;
constexpr std::size_t kFewBytes = 1 << 20;  // of a rank: more of them travel faster in pieces than in lines

// What a rank keeps for the others of a group: lines, slots and counts, the latter two for each other rank.
struct BoxLayout {
  explicit BoxLayout(int of)
      : size(of),
        lanes(static_cast<std::size_t>(lanes_of(of))),
        pair_slots(lanes * kSlots * kSlotBytes),
        pair_counts(lanes * sizeof(LaneCounts)),
        counts(kLinesBytes + static_cast<std::size_t>(of - 1) * pair_slots),
        bytes(counts + static_cast<std::size_t>(of - 1) * pair_counts) {}

  // Of `owner`'s memory, for what `other` sends.
  std::size_t slots_of(int owner, int other) const { return kLinesBytes + place(owner, other) * pair_slots; }
  std::size_t counts_of(int owner, int other) const { return counts + place(owner, other) * pair_counts; }

  int size;
  std::size_t lanes, pair_slots, pair_counts, counts, bytes;

 private:
  std::size_t place(int owner, int other) const {
    return static_cast<std::size_t>((other - owner + size) % size - 1);
  }
};

// A word that a waiting kernel reads and the host writes, whatever the stream does meanwhile.
class HostWord {
 public:
  HostWord() {
    void* data = nullptr;
    check(cudaHostAlloc(&data, sizeof(std::uint32_t), cudaHostAllocPortable | cudaHostAllocMapped),
          "allocating a word of pinned memory");
    data_ = static_cast<std::uint32_t*>(data);
    *data_ = 0;
  }
  ~HostWord() { static_cast<void>(cudaFreeHost(data_)); }
  HostWord(const HostWord&) = delete;
  HostWord& operator=(const HostWord&) = delete;

  const std::uint32_t* data() const { return data_; }
  void set() noexcept { *static_cast<volatile std::uint32_t*>(data_) = 1; }

 private:
  std::uint32_t* data_ = nullptr;
};

class CudaMailbox final : public Mailbox {
 public:
  CudaMailbox(int rank, int size, int device)
      : device_(device), layout_(size), box_(device, layout_.bytes), turn_(device, sizeof(MailTurn)) {
    const DeviceScope scope(device);
    check(cudaMemset(box_.data(), 0, box_.bytes()), "clearing a mailbox");
    check(cudaMemset(turn_.data(), 0, turn_.bytes()), "clearing a mailbox's turn");
    gather_.rank = rank;
    gather_.size = size;
    gather_.lines = kLinesBytes / sizeof(MailLine) / (2 * static_cast<std::size_t>(size));
    gather_.turn = turn_.as<MailTurn>();
    stream_.rank = rank;
    stream_.size = size;
    gather_.abandoned = stream_.abandoned = abandoned_.data();
  }

  // No kernel waits with an address in its hands that is no more.
  ~CudaMailbox() override {
    abandoned_.set();
    static_cast<void>(drain());
    static_cast<void>(on_device([&] {
      opened_.clear();
      return cudaSuccess;
    }));
  }
  CudaMailbox(const CudaMailbox&) = delete;
  CudaMailbox& operator=(const CudaMailbox&) = delete;

  Offer offer() const { return offer_of(box_.data(), device_); }

  // Threads of one process have windows none: what one of them frees another may still write to.
  std::shared_ptr<Window> open_window(const Gather& gather, const std::shared_ptr<void>& memory) override {
    if (!all_processes_) return nullptr;
    std::shared_ptr<Window> window;
    const Offer mine = offer_of(memory.get(), device_);
    const bool open = agree(gather, mine, gather_.size, [&](const std::vector<Offer>& offers) {
      window = window_on(memory, device_, gather_.rank, offers);
    });
    if (open) gather_.vouches = true;
    return open ? window : nullptr;
  }

  void connect(const std::vector<Offer>& offers, const std::vector<Identity>& ranks) {
    const DeviceScope scope(device_);
    const Identity& mine = ranks[static_cast<std::size_t>(gather_.rank)];
    all_processes_ = all_apart(ranks);
    for (std::size_t r = 0; r < offers.size(); ++r) {
      if (static_cast<int>(r) == gather_.rank || share_a_process(ranks[r], mine)) {
        reach_device(offers[r].device, device_);
        gather_.boxes[r] = static_cast<MailLine*>(offers[r].memory);
      } else {
        opened_.emplace_back(offers[r].handle);
        gather_.boxes[r] = static_cast<MailLine*>(opened_.back().data());
      }
    }
    for (int r = 0; r < gather_.size; ++r) {
      if (r != gather_.rank) open_lanes(r);
    }
    check(cudaDeviceSynchronize(), "waiting for a cleared mailbox");
  }

  Result all_gather(const void* send, void* receive, std::span<const std::size_t> bytes,
                    Queue queue) noexcept override {
    const std::size_t most = *std::max_element(bytes.begin(), bytes.end());
    if (most > std::min(kFewBytes, gather_.lines * kLineBytes)) {
      MailboxStream stream = stream_;
      auto* to = static_cast<unsigned char*>(receive);
      for (std::size_t r = 0; r < bytes.size(); ++r) {
        set_messages(stream.with[r], send, bytes[static_cast<std::size_t>(stream.rank)], to, bytes[r]);
        to += bytes[r];
      }
      return on_device([&] { return launch_mailbox_stream(stream, stream_of(queue)); });
    }
    MailboxGather gather = gather_;
    gather.send = static_cast<const unsigned char*>(send);
    gather.receive = static_cast<unsigned char*>(receive);
    std::copy(bytes.begin(), bytes.end(), gather.bytes);
    return on_device([&] { return launch_mailbox_gather(gather, stream_of(queue)); });
  }

  Result all_to_all(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                    std::span<const std::size_t> receive_bytes, Queue queue) noexcept override {
    MailboxStream stream = stream_;
    const auto* from = static_cast<const unsigned char*>(send);
    auto* to = static_cast<unsigned char*>(receive);
    for (std::size_t r = 0; r < send_bytes.size(); ++r) {
      set_messages(stream.with[r], from, send_bytes[r], to, receive_bytes[r]);
      from += send_bytes[r];
      to += receive_bytes[r];
    }
    return on_device([&] { return launch_mailbox_stream(stream, stream_of(queue)); });
  }

  Result drain() noexcept final {
    return on_device([] { return cudaDeviceSynchronize(); });
  }

  void abandon() noexcept override { abandoned_.set(); }

 private:
  static void set_messages(PairMessages& pair, const void* send, std::size_t send_bytes,
                           unsigned char* receive, std::size_t receive_bytes) {
    pair.send = static_cast<const unsigned char*>(send);
    pair.send_bytes = send_bytes;
    pair.receive = receive;
    pair.receive_bytes = receive_bytes;
  }

  void open_lanes(int other) {
    const int me = gather_.rank;
    auto* const here = reinterpret_cast<unsigned char*>(gather_.boxes[me]);
    auto* const there = reinterpret_cast<unsigned char*>(gather_.boxes[other]);
    PairMessages& pair = stream_.with[other];
    pair.slots_here = here + layout_.slots_of(me, other);
    pair.slots_there = there + layout_.slots_of(other, me);
    pair.here = reinterpret_cast<LaneCounts*>(here + layout_.counts_of(me, other));
    pair.there = reinterpret_cast<LaneCounts*>(there + layout_.counts_of(other, me));
  }

  template <class Body>
  Result on_device(const Body& body) const noexcept {
    try {
      const DeviceScope scope(device_, kIfCurrent);
      if (body() == cudaSuccess) return kSuccess;
      static_cast<void>(cudaGetLastError());
      return kUnhandledCudaError;
    } catch (const Error&) {
      return kUnhandledCudaError;
    }
  }

  int device_;
  bool all_processes_ = false;
  BoxLayout layout_;
  HostWord abandoned_;
  DeviceBuffer box_, turn_;
  std::vector<OpenedBox> opened_;
  MailboxGather gather_;
  MailboxStream stream_;
};

}  // namespace

std::unique_ptr<Mailbox> Mailbox::open(const Gather& gather, const std::vector<Identity>& ranks, int rank,
                                       int device, MemorySpace space, bool wanted) {
  const auto size = static_cast<int>(ranks.size());
  if (space != MemorySpace::cuda || size < 2 || size > kMostMailboxRanks || !all_on_one_machine(ranks))
    return nullptr;
  // Whatever a rank cannot do, it says, and all do without.
  std::unique_ptr<CudaMailbox> box;
  Offer mine;
  try {
    if (wanted) {
      box = std::make_unique<CudaMailbox>(rank, size, device);
      mine = box->offer();
    }
  } catch (const std::exception&) {
    static_cast<void>(cudaGetLastError());
  }
  if (!agree(gather, mine, size, [&](const std::vector<Offer>& offers) { box->connect(offers, ranks); }))
    return nullptr;
  return box;
}

}  // namespace samebits::transport::nccl
