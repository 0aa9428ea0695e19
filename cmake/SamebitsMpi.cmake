# MPI, where it is found: AUTO takes it or leaves it, ON insists, OFF does without. Sets SAMEBITS_HAS_MPI.
set(SAMEBITS_MPI AUTO CACHE STRING "The MPI transport: AUTO, ON or OFF")
set_property(CACHE SAMEBITS_MPI PROPERTY STRINGS AUTO ON OFF)
set(SAMEBITS_HAS_MPI OFF)

if(SAMEBITS_MPI STREQUAL "AUTO" OR SAMEBITS_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)  # the C interface is all that is used
  find_package(MPI COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(SAMEBITS_HAS_MPI ON)
  elseif(NOT SAMEBITS_MPI STREQUAL "AUTO")
    message(FATAL_ERROR "SAMEBITS_MPI is ON and no MPI was found: on Debian, libopenmpi-dev and openmpi-bin")
  endif()
endif()
message(STATUS "samebits: MPI transport ${SAMEBITS_HAS_MPI}")
