#include "transport/cuda_place.hpp"

#include "gpu/check.hpp"
#include "samebits/error.hpp"

namespace samebits::transport {

int device_of(const void* address) {
  AddressPlace place;
  check(place_of(address, place), "asking where an address lies");
  if (!place.device && !place.managed)
    throw Error(ErrorCode::invalid_argument, "a collective over device memory was given a host address");
  return place.index;
}

}  // namespace samebits::transport
