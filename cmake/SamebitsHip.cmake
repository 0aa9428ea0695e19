# HIP for gfx942, where it is found: AUTO takes it or leaves it, ON insists, OFF does without. Sets SAMEBITS_HAS_HIP, and
# samebits_hip_sources(TARGET source...) compiles kernels (*.hip) into a target.
#   ROCm 6 or 7: CMake's own language HIP, with ROCm's compiler.
#   else: clang-19, lld-19 and HIP's headers and library as Debian packages them (scripts/packages.sh).
set(SAMEBITS_HIP AUTO CACHE STRING "The HIP engine: AUTO, ON or OFF")
set_property(CACHE SAMEBITS_HIP PROPERTY STRINGS AUTO ON OFF)
set(SAMEBITS_HAS_HIP OFF)
set(SAMEBITS_HIP_FLAGS -ffp-contract=off -fno-fast-math -Wall -Wextra)
if(SAMEBITS_WERROR)
  list(APPEND SAMEBITS_HIP_FLAGS -Werror)
endif()

if(SAMEBITS_HIP STREQUAL "AUTO" OR SAMEBITS_HIP)
  find_path(SAMEBITS_ROCM_ROOT include/hip/hip_runtime_api.h HINTS $ENV{ROCM_PATH} /opt/rocm NO_DEFAULT_PATH)
  find_program(SAMEBITS_CLANG_HIP clang++-19)
  find_path(SAMEBITS_HIP_INCLUDE hip/hip_runtime_api.h)
  find_library(SAMEBITS_AMDHIP amdhip64)
  find_path(SAMEBITS_DEVICE_LIBS ocml.bc PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/amdgcn/bitcode)
  if(SAMEBITS_ROCM_ROOT)
    set(CMAKE_HIP_ARCHITECTURES gfx942)
    list(APPEND CMAKE_PREFIX_PATH ${SAMEBITS_ROCM_ROOT})
    enable_language(HIP)
    find_package(hip REQUIRED)
    set(CMAKE_HIP_STANDARD 20)
    set(CMAKE_HIP_STANDARD_REQUIRED ON)
    set(CMAKE_HIP_EXTENSIONS OFF)
    set(CMAKE_HIP_VISIBILITY_PRESET hidden)
    set(SAMEBITS_HIP_LIBRARY hip::host)
    set(SAMEBITS_HAS_HIP ON)
  elseif(SAMEBITS_CLANG_HIP AND SAMEBITS_HIP_INCLUDE AND SAMEBITS_AMDHIP AND SAMEBITS_DEVICE_LIBS)
    set(SAMEBITS_HIP_LIBRARY ${SAMEBITS_AMDHIP})
    set(SAMEBITS_HAS_HIP ON)
  elseif(NOT SAMEBITS_HIP STREQUAL "AUTO")
    message(FATAL_ERROR "SAMEBITS_HIP is ON, and neither ROCm (ROCM_PATH or /opt/rocm) nor clang++-19 with libamdhip64 and "
                        "the device libraries was found")
  endif()
endif()

if(SAMEBITS_HAS_HIP AND SAMEBITS_ROCM_ROOT)
  function(samebits_hip_sources target)
    foreach(source ${ARGN})
      set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES LANGUAGE HIP)
      target_sources(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    endforeach()
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:HIP>:${SAMEBITS_HIP_FLAGS}>")
  endfunction()
elseif(SAMEBITS_HAS_HIP)
  # The device libraries of the package stop short of gfx942: beside links to them stands the one file that names it.
  set(SAMEBITS_HIP_BITCODE ${PROJECT_BINARY_DIR}/hip-device-libs)
  file(MAKE_DIRECTORY ${SAMEBITS_HIP_BITCODE})
  file(GLOB bitcode ${SAMEBITS_DEVICE_LIBS}/*.bc)
  foreach(file ${bitcode})
    get_filename_component(name ${file} NAME)
    file(CREATE_LINK ${file} ${SAMEBITS_HIP_BITCODE}/${name} SYMBOLIC)
  endforeach()
  set(isa ${SAMEBITS_HIP_BITCODE}/oclc_isa_version_942.bc)
  if(NOT EXISTS ${isa})
    file(WRITE ${SAMEBITS_HIP_BITCODE}/isa_942.cl "const __constant int __oclc_ISA_version = 9402;\n")
    execute_process(
      COMMAND ${SAMEBITS_CLANG_HIP} -x cl -Xclang -finclude-default-header -target amdgcn-amd-amdhsa -nogpulib -emit-llvm -c
              ${SAMEBITS_HIP_BITCODE}/isa_942.cl -o ${isa}
      COMMAND_ERROR_IS_FATAL ANY)
  endif()

  function(samebits_hip_sources target)
    foreach(source ${ARGN})
      set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
      set(input ${CMAKE_CURRENT_SOURCE_DIR}/${source})
      add_custom_command(
        OUTPUT ${object}
        COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${SAMEBITS_CLANG_HIP} -x hip --offload-arch=gfx942
                --rocm-device-lib-path=${SAMEBITS_HIP_BITCODE} -std=c++20 -O3 -DNDEBUG -fPIC -fvisibility=hidden
                ${SAMEBITS_HIP_FLAGS} -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/include -MD -MF ${object}.d -c ${input} -o
                ${object}
        DEPENDS ${input} DEPFILE ${object}.d
        COMMENT "Building HIP object ${source}" VERBATIM)
      list(APPEND objects ${object})
    endforeach()
    # An object library hands on what it compiles, and nothing else: these travel with what links it.
    add_custom_target(samebits_hip_kernels DEPENDS ${objects})
    add_dependencies(${target} samebits_hip_kernels)
    set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    set(SAMEBITS_HIP_OBJECTS ${objects} CACHE INTERNAL "")
    target_link_libraries(${target} INTERFACE ${objects})
  endfunction()
endif()
if(NOT SAMEBITS_HAS_HIP OR SAMEBITS_ROCM_ROOT)
  set(SAMEBITS_HIP_OBJECTS "" CACHE INTERNAL "")
endif()
message(STATUS "samebits: HIP engine ${SAMEBITS_HAS_HIP}")
