#include "transport.hpp"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "module.hpp"
#include "options.hpp"

namespace samebits::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// A function of Python that any thread may call and let go of.
class Function {
 public:
  explicit Function(nb::object function)
      : function_(new nb::object(std::move(function)), [](nb::object* held) {
          const nb::gil_scoped_acquire gil;
          delete held;
        }) {}

  // Needs the GIL.
  template <class... Arguments>
  void operator()(Arguments&&... arguments) const {
    (*function_)(std::forward<Arguments>(arguments)...);
  }

 private:
  std::shared_ptr<nb::object> function_;
};

template <class Number>
nb::tuple tuple_of(std::span<const Number> numbers) {
  nb::list list;
  for (const Number number : numbers) list.append(number);
  return nb::tuple(list);
}

std::uintptr_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

TransportCallbacks callbacks_of(nb::object all_gather, nb::object all_to_all, nb::object abort,
                                const std::vector<std::string>& spaces, bool concurrent) {
  TransportCallbacks callbacks;
  callbacks.all_gather = [call = Function(std::move(all_gather))](
                             std::span<const int> group, const void* send, void* receive,
                             std::span<const std::size_t> bytes, MemorySpace space, Queue queue) {
    const nb::gil_scoped_acquire gil;
    call(tuple_of(group), address(send), address(receive), tuple_of(bytes), name_of(space),
         address(queue.handle));
  };
  callbacks.all_to_all = [call = Function(std::move(all_to_all))](
                             std::span<const int> group, const void* send,
                             std::span<const std::size_t> send_bytes, void* receive,
                             std::span<const std::size_t> receive_bytes, MemorySpace space, Queue queue) {
    const nb::gil_scoped_acquire gil;
    call(tuple_of(group), address(send), tuple_of(send_bytes), address(receive), tuple_of(receive_bytes),
         name_of(space), address(queue.handle));
  };
  if (!abort.is_none()) {
    callbacks.abort = [call = Function(std::move(abort))](const std::string& reason) {
      const nb::gil_scoped_acquire gil;
      try {
        call(reason);
      } catch (nb::python_error& error) {  // destroyed here, where the GIL is held
        error.discard_as_unraisable("abort of a samebits.CallbackTransport");
      }
    };
  }
  callbacks.spaces.clear();
  for (const std::string& space : spaces) callbacks.spaces.push_back(memory_space(space));
  callbacks.concurrent = concurrent;
  return callbacks;
}

}  // namespace

void tell_others(Transport* transport, const char* what) {
  if (transport == nullptr || transport->size() == 1) return;
  const std::string reason = fmt::format("rank {} failed: {}", transport->rank(), what);
  const nb::gil_scoped_release release;
  transport->abort(reason);
}

void bind_transport(nb::module_& module) {
  nb::class_<HeldTransport>(module, "Transport", "What moves bytes between ranks.")
      .def_prop_ro("rank", [](const HeldTransport& self) { return self.transport->rank(); })
      .def_prop_ro("size", [](const HeldTransport& self) { return self.transport->size(); })
      .def_prop_ro("name", [](const HeldTransport& self) { return self.transport->name(); })
      .def(
          "abort",
          [](const HeldTransport& self, const std::string& reason) {
            const nb::gil_scoped_release release;
            self.transport->abort(reason);
          },
          "reason"_a, "This rank cannot go on: the others' calls raise RankError instead of waiting.");

  nb::class_<CallbackTransport, HeldTransport>(
      module, "CallbackTransport",
      "Ranks that exchange bytes by functions of the caller. Both are collective over `group`, a tuple of "
      "ranks, and "
      "return when the bytes are there (cpu) or enqueued on `stream` (cuda):\n\n"
      "all_gather(group, send, receive, bytes, space, stream): bytes[r] bytes at address `send` of the r-th "
      "rank of the "
      "group land in `receive` of every rank, one behind the other. `send` may be where it lands.\n"
      "all_to_all(group, send, send_bytes, receive, receive_bytes, space, stream): `send` holds "
      "send_bytes[0] bytes for "
      "the first rank of the group, then send_bytes[1] for the second; `receive` likewise by sender.\n"
      "abort(reason): this rank has failed; the functions of the others raise from then on.\n\n"
      "`space` is \"cpu\" or \"cuda\". What a function raises, forward and backward raise. concurrent=True: "
      "exchanges may "
      "be called from another thread beside the computing, one at a time.")
      .def(
          "__init__",
          [](CallbackTransport* self, int rank, int size, nb::callable all_gather, nb::callable all_to_all,
             std::optional<nb::callable> abort, const std::vector<std::string>& spaces, bool concurrent) {
            nb::object tell = abort ? nb::object(std::move(*abort)) : nb::object(nb::none());
            new (self) CallbackTransport{
                {callback_transport(rank, size,
                                    callbacks_of(std::move(all_gather), std::move(all_to_all),
                                                 std::move(tell), spaces, concurrent))}};
          },
          "rank"_a, "size"_a, "all_gather"_a, "all_to_all"_a, "abort"_a = nb::none(),
          "spaces"_a = std::vector<std::string>{"cpu"}, "concurrent"_a = false);

  module.def(
      "local_transports",
      [](int ranks) {
        std::vector<HeldTransport> held;
        for (auto& transport : local_transports(ranks)) held.push_back({std::move(transport)});
        return held;
      },
      "ranks"_a, "Ranks as threads of this process: element r is for the thread that plays rank r.");
}

}  // namespace samebits::python
