# What there is of CUDA. Nothing here is needed to build the rest.
#
#   SLUICE_CUDA_HEADERS   NVIDIA's headers: enough for the tests that emulate a GPU
#   SLUICE_CUDA_BUILDS    nvcc and the libraries too: the parts for GPUs are compiled
#   SLUICE_COMMAND_HAS_GPUS  the command is linked with them: where there is a driver, or with ON.
#                         NVIDIA's libraries cost every start of a program 0.2 s and 200 MB

set(SLUICE_CUDA_HEADERS FALSE)
set(SLUICE_CUDA_BUILDS FALSE)
if(NOT SLUICE_CUDA STREQUAL "OFF")
  set(hints HINTS $ENV{CUDA_PATH}/include $ENV{CUDA_HOME}/include /usr/local/cuda/include)
  find_path(SLUICE_CUDA_INCLUDE cuda_runtime.h ${hints})
  find_path(SLUICE_CUBLAS_INCLUDE cublasLt.h ${hints})
  find_path(SLUICE_NCCL_INCLUDE nccl.h ${hints})
  if(SLUICE_CUDA_INCLUDE AND SLUICE_CUBLAS_INCLUDE AND SLUICE_NCCL_INCLUDE)
    set(SLUICE_CUDA_HEADERS TRUE)
    add_library(sluice_cuda_headers INTERFACE)
    add_library(Sluice::cuda_headers ALIAS sluice_cuda_headers)
    target_include_directories(sluice_cuda_headers SYSTEM INTERFACE ${SLUICE_CUDA_INCLUDE}
      ${SLUICE_CUBLAS_INCLUDE} ${SLUICE_NCCL_INCLUDE})
  elseif(SLUICE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SLUICE_CUDA=ON, but these headers were not all found: cuda_runtime.h, "
      "cublasLt.h, nccl.h. CMAKE_PREFIX_PATH or CUDA_PATH may say where they are.")
  endif()
endif()

# nvcc, and the libraries that a GPU needs. Under sanitizers GPUs are left to the emulation.
if(SLUICE_CUDA_HEADERS AND NOT SLUICE_SANITIZE)
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80) # for the compiler's test only
  endif()
  check_language(CUDA)
  find_package(CUDAToolkit QUIET)
  find_library(SLUICE_CUBLASLT_LIBRARY cublasLt HINTS ${CUDAToolkit_LIBRARY_DIR}
    /usr/local/cuda/lib64)
  find_library(SLUICE_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} /usr/local/cuda/lib64)
  if(CMAKE_CUDA_COMPILER AND TARGET CUDA::cudart AND SLUICE_CUBLASLT_LIBRARY
      AND SLUICE_NCCL_LIBRARY)
    enable_language(CUDA)
    set(SLUICE_CUDA_BUILDS TRUE)
    if(SLUICE_CCACHE)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${SLUICE_CCACHE})
    endif()
  elseif(SLUICE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SLUICE_CUDA=ON, but nvcc, the CUDA runtime, cuBLASLt or NCCL is missing. "
      "CMAKE_CUDA_COMPILER may say where nvcc is.")
  endif()
endif()
set(SLUICE_COMMAND_HAS_GPUS FALSE)
if(SLUICE_CUDA_BUILDS AND (SLUICE_CUDA STREQUAL "ON" OR EXISTS /proc/driver/nvidia/version))
  set(SLUICE_COMMAND_HAS_GPUS TRUE)
endif()
if(SLUICE_CUDA_BUILDS)
  message(STATUS "Sluice: GPUs by CUDA ${CUDAToolkit_VERSION}, for ${SLUICE_CUDA_ARCHITECTURES}")
elseif(SLUICE_CUDA_HEADERS)
  message(STATUS "Sluice: no GPUs, but tests with emulated ones")
else()
  message(STATUS "Sluice: no GPUs")
endif()

# Fibers change stacks in x86-64 assembly; sanitizers hear of it (tests/emulation/fiber.cpp).
set(SLUICE_CAN_EMULATE FALSE)
if(SLUICE_CUDA_HEADERS AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(SLUICE_CAN_EMULATE TRUE)
endif()

# sluice_emulate_cuda(name SOURCES a.cu b.cpp LINK ...): the sources for the emulation, .cu by the
# C++ compiler. Kernels read elements through wider types, as nvcc lets them.
function(sluice_emulate_cuda name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  sluice_add_component(${name} SOURCES ${arg_SOURCES} LINK Sluice::cuda_emulation ${arg_LINK})
  foreach(source IN LISTS arg_SOURCES)
    if(source MATCHES "\\.cu$")
      set(options -xc++ -fno-strict-aliasing -Wno-pedantic -Wno-unknown-pragmas
        -include ${PROJECT_SOURCE_DIR}/tests/emulation/device_code.hpp)
      set_source_files_properties(${source} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "${options}")
    endif()
  endforeach()
endfunction()
