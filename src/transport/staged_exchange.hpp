// Device memory over a transport that moves host memory: messages go in pieces through buffers of the host,
// and the copies of one piece run while another is on its way.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "transport/memory.hpp"
#include "transport/messages.hpp"

namespace samebits::transport {

// One rank's end. One exchange at a time.
class StagedExchange {
 public:
  // Moves host memory: all of it, done on return.
  using HostExchange = std::function<void(std::span<const Incoming>, std::span<const Outgoing>)>;

  static constexpr std::size_t kMarks = 4;
  static constexpr std::size_t kBufferBytes = std::size_t{8} << 20;

  // `link` has kMarks marks. There are four buffers of `buffer_bytes`, made when the first bytes travel.
  StagedExchange(std::unique_ptr<HostLink> link, HostExchange exchange,
                 std::size_t buffer_bytes = kBufferBytes);
  ~StagedExchange();
  StagedExchange(const StagedExchange&) = delete;
  StagedExchange& operator=(const StagedExchange&) = delete;

  // Addresses of the device. Every other rank of a group is named once in each list, and every rank of the
  // group calls. What is sent has been read on return, what comes is enqueued.
  void exchange(std::span<const Incoming> incoming, std::span<const Outgoing> outgoing, Queue queue);

 private:
  void fetch(std::span<const Outgoing> outgoing, std::size_t round, Queue queue);
  void move(std::span<const Incoming> incoming, std::span<const Outgoing> outgoing, std::size_t round);
  void bring(std::span<const Incoming> incoming, std::size_t round, Queue queue);
  void make_buffers(std::size_t bytes);

  std::unique_ptr<HostLink> link_;
  HostExchange exchange_;
  const std::size_t buffer_bytes_;  // decides the pieces: the same on every rank
  std::size_t held_bytes_ = 0;      // of each buffer
  std::size_t piece_ = 0;           // of the exchange at work

  // Two for each direction, used in turn. Mark 0 and 1: what leaves is in its buffer; 2 and 3: what came has
  // left it.
  std::array<HostBuffer, 2> out_, in_;
  std::vector<Incoming> in_pieces_;  // of a round
  std::vector<Outgoing> out_pieces_;
};

}  // namespace samebits::transport
