#include "transport/staged_exchange.hpp"

#include <algorithm>
#include <utility>

namespace samebits::transport {
namespace {

constexpr std::size_t kLeastPiece = 256;

HostBuffer no_buffer() {
  return {nullptr, [](unsigned char*) {}};
}

// A message goes in pieces of one size and ends in one that is smaller, of no bytes if need be: so ranks that
// disagree about a message find out.
std::size_t pieces_of(std::size_t bytes, std::size_t piece) { return bytes / piece + 1; }

struct Part {
  std::size_t at, bytes;
};

Part part_of(std::size_t bytes, std::size_t piece, std::size_t round) {
  return {round * piece, std::min(piece, bytes - round * piece)};
}

// Whether a message is the one before it again: a gather sends everybody the same bytes, which are fetched
// once.
bool repeats(std::span<const Outgoing> outgoing, std::size_t i) {
  return i > 0 && outgoing[i].data == outgoing[i - 1].data && outgoing[i].bytes == outgoing[i - 1].bytes;
}

}  // namespace

StagedExchange::StagedExchange(std::unique_ptr<HostLink> link, HostExchange exchange,
                               std::size_t buffer_bytes)
    : link_(std::move(link)),
      exchange_(std::move(exchange)),
      buffer_bytes_(buffer_bytes),
      out_{no_buffer(), no_buffer()},
      in_{no_buffer(), no_buffer()} {}

// Copies that are still on their way use the buffers.
StagedExchange::~StagedExchange() {
  for (std::size_t mark = 0; mark < kMarks; ++mark) {
    try {
      link_->wait(mark);
    } catch (...) {  // the device has failed: nothing runs there any more
    }
  }
}

void StagedExchange::exchange(std::span<const Incoming> incoming, std::span<const Outgoing> outgoing,
                              Queue queue) {
  const std::size_t peers = std::max<std::size_t>(1, incoming.size());
  piece_ = std::max(kLeastPiece, buffer_bytes_ / peers / kLeastPiece * kLeastPiece);
  make_buffers(std::max(buffer_bytes_, peers * piece_));
  std::size_t rounds = 0;
  for (const Incoming& in : incoming) rounds = std::max(rounds, pieces_of(in.bytes, piece_));
  for (const Outgoing& out : outgoing) rounds = std::max(rounds, pieces_of(out.bytes, piece_));
  if (rounds > 0) fetch(outgoing, 0, queue);
  for (std::size_t round = 0; round < rounds; ++round) {
    if (round + 1 < rounds) fetch(outgoing, round + 1, queue);
    move(incoming, outgoing, round);
    bring(incoming, round, queue);
  }
}

// The buffer is free: what it held before has been sent.
void StagedExchange::fetch(std::span<const Outgoing> outgoing, std::size_t round, Queue queue) {
  unsigned char* const buffer = out_[round % 2].get();
  const void* touched = nullptr;
  for (std::size_t i = 0; i < outgoing.size(); ++i) {
    const Outgoing& out = outgoing[i];
    if (repeats(outgoing, i) || round >= pieces_of(out.bytes, piece_)) continue;
    const Part part = part_of(out.bytes, piece_, round);
    if (part.bytes == 0) continue;
    touched = static_cast<const unsigned char*>(out.data) + part.at;
    link_->to_host(buffer + i * piece_, touched, part.bytes, queue);
  }
  if (touched != nullptr) link_->mark(round % 2, touched, queue);
}

void StagedExchange::move(std::span<const Incoming> incoming, std::span<const Outgoing> outgoing,
                          std::size_t round) {
  in_pieces_.clear();
  out_pieces_.clear();
  for (std::size_t i = 0; i < incoming.size(); ++i) {
    if (round >= pieces_of(incoming[i].bytes, piece_)) continue;
    in_pieces_.push_back({incoming[i].rank, in_[round % 2].get() + i * piece_,
                          part_of(incoming[i].bytes, piece_, round).bytes});
  }
  std::size_t at = 0;  // the message whose copy is sent
  for (std::size_t i = 0; i < outgoing.size(); ++i) {
    if (!repeats(outgoing, i)) at = i;
    if (round >= pieces_of(outgoing[i].bytes, piece_)) continue;
    out_pieces_.push_back({outgoing[i].rank, out_[round % 2].get() + at * piece_,
                           part_of(outgoing[i].bytes, piece_, round).bytes});
  }
  link_->wait(round % 2);
  link_->wait(2 + round % 2);
  exchange_(in_pieces_, out_pieces_);
}

void StagedExchange::bring(std::span<const Incoming> incoming, std::size_t round, Queue queue) {
  unsigned char* const buffer = in_[round % 2].get();
  void* touched = nullptr;
  for (std::size_t i = 0; i < incoming.size(); ++i) {
    const Incoming& in = incoming[i];
    if (round >= pieces_of(in.bytes, piece_)) continue;
    const Part part = part_of(in.bytes, piece_, round);
    if (part.bytes == 0) continue;
    touched = static_cast<unsigned char*>(in.data) + part.at;
    link_->to_device(touched, buffer + i * piece_, part.bytes, queue);
  }
  if (touched != nullptr) link_->mark(2 + round % 2, touched, queue);
}

// They grow with the number of ranks, where pieces cannot be smaller.
void StagedExchange::make_buffers(std::size_t bytes) {
  if (bytes <= held_bytes_) return;
  for (std::size_t mark = 0; mark < kMarks; ++mark) link_->wait(mark);
  for (std::array<HostBuffer, 2>* const pair : {&out_, &in_}) {
    for (HostBuffer& buffer : *pair) buffer = link_->allocate(bytes);
  }
  held_bytes_ = bytes;
}

}  // namespace samebits::transport
