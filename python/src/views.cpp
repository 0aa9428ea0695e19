#include "views.hpp"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <string>
#include <vector>

#include "dlpack.hpp"

namespace samebits::python {
namespace {

[[noreturn]] void wrong_type(const std::string& message) { throw nb::type_error(message.c_str()); }
[[noreturn]] void wrong_value(const std::string& message) { throw nb::value_error(message.c_str()); }

std::string text_of(const nb::object& object) { return nb::cast<std::string>(nb::str(object)); }

struct Axes {
  std::vector<std::int64_t> sizes, strides;  // strides in elements
};

Axes row_major(std::vector<std::int64_t> sizes) {
  Axes axes{std::move(sizes), {}};
  axes.strides.resize(axes.sizes.size());
  std::int64_t stride = 1;
  for (std::size_t i = axes.sizes.size(); i-- > 0;) {
    axes.strides[i] = stride;
    stride *= axes.sizes[i];
  }
  return axes;
}

// All axes but the last become rows.
void set_axes(const char* name, const Axes& axes, View& view) {
  const std::size_t count = axes.sizes.size();
  view.cols = count == 0 ? 1 : axes.sizes.back();
  view.col_stride = view.cols > 1 ? axes.strides.back() : 1;
  view.rows = 1;
  view.row_stride = view.cols;
  bool merges = true;
  std::int64_t outer_stride = 0;  // of the last leading axis of more than one
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const std::int64_t size = axes.sizes[i], stride = axes.strides[i];
    if (size != 1) {
      if (view.rows != 1 && outer_stride != stride * size) merges = false;
      outer_stride = view.row_stride = stride;
    }
    view.rows *= size;
  }
  if (!merges && !view.empty()) {
    wrong_value(
        fmt::format("{} has leading axes whose strides do not make rows of one stride: pass a contiguous "
                    "array, or one of two axes",
                    name));
  }
}

Device device_of(const char* name, std::int64_t type, std::int64_t index) {
  switch (type) {
    case dlpack::kCpu:
    case dlpack::kCudaHost:
    case dlpack::kRocmHost:
      return {MemorySpace::host, 0};
    case dlpack::kCuda:
    case dlpack::kCudaManaged:
      return {MemorySpace::cuda, static_cast<int>(index)};
    case dlpack::kRocm:
      return {MemorySpace::hip, static_cast<int>(index)};
    default:
      wrong_value(
          fmt::format("{} lies on a device of DLPack type {}; memory of CPUs and of CUDA and ROCm devices "
                      "is read",
                      name, type));
  }
}

[[noreturn]] void wrong_dtype(const char* name, const std::string& dtype) {
  wrong_type(
      fmt::format("{} is {}; bfloat16, float16 and float32 are read, and bfloat16 alone is computed with "
                  "(NumPy has it from ml_dtypes)",
                  name, dtype));
}

// The eight numbers of an array that is described instead of exported: no protocol, no allocation.
Array from_description(const char* name, nb::handle description) {
  PyObject* tuple = description.ptr();
  if (PyTuple_GET_SIZE(tuple) != 8) {
    wrong_type(
        fmt::format("{} is described by {} numbers; they are pointer, rows, columns, row stride, column "
                    "stride, dtype, device type, device index",
                    name, PyTuple_GET_SIZE(tuple)));
  }
  void* data = PyLong_AsVoidPtr(PyTuple_GET_ITEM(tuple, 0));
  std::int64_t numbers[8] = {};
  for (int i = 1; i < 8; ++i) numbers[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  const auto [unused, rows, cols, row_stride, col_stride, code, type, index] = numbers;
  static_cast<void>(unused);
  if (rows < 0 || cols < 0) wrong_value(fmt::format("{} is {} x {}: sizes are 0 or more", name, rows, cols));
  if (code < kBf16 || code > kF32) {
    wrong_type(
        fmt::format("{} has the dtype code {}; {} is bf16, {} f16, {} f32", name, code, kBf16, kF16, kF32));
  }
  const DType dtype = code == kF32 ? DType::f32 : code == kF16 ? DType::f16 : DType::bf16;
  return {{data, dtype, rows, cols, row_stride, col_stride, device_of(name, type, index)}, false, {}};
}

std::vector<std::int64_t> numbers_of(nb::handle tuple) {
  std::vector<std::int64_t> numbers;
  for (nb::handle number : tuple) numbers.push_back(nb::cast<std::int64_t>(number));
  return numbers;
}

// NumPy's own protocol: it tells of arrays that may not be written, and of bfloat16, which NumPy does not
// export.
Array from_interface(const char* name, nb::handle array, const nb::dict& interface) {
  const auto kind = nb::cast<std::string>(interface["typestr"]);
  const std::string dtype = nb::hasattr(array, "dtype") ? text_of(array.attr("dtype")) : kind;
  Array out;
  if (kind == "<f4") {
    out.view.dtype = DType::f32;
  } else if (kind == "<f2") {
    out.view.dtype = DType::f16;
  } else if (kind == "<V2" && dtype == "bfloat16") {
    out.view.dtype = DType::bf16;
  } else {
    wrong_dtype(name, dtype);
  }
  const nb::tuple data = nb::cast<nb::tuple>(interface["data"]);
  out.view.data = PyLong_AsVoidPtr(nb::object(data[0]).ptr());
  out.read_only = nb::cast<bool>(data[1]);
  Axes axes = row_major(numbers_of(interface["shape"]));
  if (interface.contains("strides") && !nb::object(interface["strides"]).is_none()) {
    axes.strides = numbers_of(interface["strides"]);
    const auto size = static_cast<std::int64_t>(size_of(out.view.dtype));
    for (std::int64_t& stride : axes.strides) {
      if (stride % size != 0)
        wrong_value(fmt::format("{} has a stride of {} bytes, no multiple of {}", name, stride, size));
      stride /= size;
    }
  }
  set_axes(name, axes, out.view);
  return out;
}

// The capsule of an export. Data on a device is ready for `stream`, as the protocol numbers streams.
nb::object export_of(nb::handle array, std::int64_t device_type, std::uintptr_t stream) {
  nb::dict arguments;
  if (device_type == dlpack::kCuda || device_type == dlpack::kCudaManaged) {
    arguments["stream"] = stream == 0 ? std::uintptr_t{1} : stream;  // 1: the legacy default stream
  } else if (device_type == dlpack::kRocm) {
    arguments["stream"] = stream;
  }
  const nb::object exporter = array.attr("__dlpack__");
  arguments["max_version"] = nb::make_tuple(1, 0);
  try {
    return exporter(**arguments);
  } catch (nb::python_error& error) {  // from before DLPack 1.0
    if (!error.matches(PyExc_TypeError)) throw;
  }
  PyDict_DelItemString(arguments.ptr(), "max_version");
  return exporter(**arguments);
}

Array from_dlpack(const char* name, nb::handle array, std::uintptr_t stream) {
  nb::object source = nb::borrow(array);
  // PyTorch exports no tensor that records gradients; its values are what is wanted.
  if (nb::hasattr(source, "requires_grad") && nb::cast<bool>(nb::object(source.attr("requires_grad"))))
    source = source.attr("detach")();
  const auto device = nb::cast<nb::tuple>(source.attr("__dlpack_device__")());
  const auto type = static_cast<std::int64_t>(nb::int_(nb::object(device[0])));
  Array out;
  out.owner = export_of(source, type, stream);
  PyObject* capsule = out.owner.ptr();
  const dlpack::Tensor* tensor = nullptr;
  // A capsule that nobody takes over frees the export when it goes.
  if (PyCapsule_IsValid(capsule, "dltensor_versioned") != 0) {
    const auto* managed =
        static_cast<dlpack::Versioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    if (managed->major != 1)
      wrong_value(fmt::format("{} speaks DLPack {}; versions 0 and 1 are read", name, managed->major));
    out.read_only = (managed->flags & dlpack::kReadOnly) != 0;
    tensor = &managed->tensor;
  } else if (PyCapsule_IsValid(capsule, "dltensor") != 0) {
    tensor = &static_cast<dlpack::Unversioned*>(PyCapsule_GetPointer(capsule, "dltensor"))->tensor;
  } else {
    wrong_type(fmt::format("{}: its __dlpack__ gives no DLPack capsule", name));
  }
  const int code = tensor->code, bits = tensor->bits, lanes = tensor->lanes;
  if (lanes == 1 && code == dlpack::kBfloat && bits == 16) {
    out.view.dtype = DType::bf16;
  } else if (lanes == 1 && code == dlpack::kFloat && (bits == 16 || bits == 32)) {
    out.view.dtype = bits == 32 ? DType::f32 : DType::f16;
  } else {
    wrong_dtype(name, nb::hasattr(array, "dtype")
                          ? text_of(array.attr("dtype"))
                          : fmt::format("of DLPack type {} with {} bits", code, bits));
  }
  out.view.device = device_of(name, tensor->device_type, tensor->device_id);
  out.view.data =
      tensor->data == nullptr ? nullptr : static_cast<unsigned char*>(tensor->data) + tensor->byte_offset;
  Axes axes = row_major({tensor->shape, tensor->shape + tensor->ndim});
  if (tensor->strides != nullptr) axes.strides.assign(tensor->strides, tensor->strides + tensor->ndim);
  set_axes(name, axes, out.view);
  return out;
}

}  // namespace

Array array_of(const char* name, nb::handle array, std::uintptr_t stream) {
  if (PyTuple_Check(array.ptr())) return from_description(name, array);
  const nb::object interface = nb::getattr(array, "__array_interface__", nb::none());
  if (nb::isinstance<nb::dict>(interface))
    return from_interface(name, array, nb::borrow<nb::dict>(interface));
  if (nb::hasattr(array, "__dlpack__")) return from_dlpack(name, array, stream);
  wrong_type(fmt::format("{} is {}, no array: it has neither __dlpack__ nor __array_interface__", name,
                         nb::type_name(array.type()).c_str()));
}

}  // namespace samebits::python
