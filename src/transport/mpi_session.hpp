// MPI itself, begun where nobody has, and then ended with the object.
#pragma once

namespace samebits::transport {

class MpiSession {
 public:
  // Throws Error(environment) where MPI does not begin, or takes calls from one thread only.
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  // The end waits for all ranks: after a failure there is none, and the process leaves MPI as it is.
  void leave() noexcept { ends_ = false; }

 private:
  void end() noexcept;

  bool ends_ = false;  // this object began it
};

}  // namespace samebits::transport
