# The LibTorch adapter, where there is a LibTorch (SluiceLibTorch.cmake).
#
#   SLUICE_TORCH        AUTO (use it where it is found), ON (an error if it is not), OFF
#   SLUICE_TORCH_ROOT   the folder with include/ and lib/: .../site-packages/torch

set(SLUICE_TORCH AUTO CACHE STRING "Build the LibTorch adapter: AUTO, ON or OFF")
set(SLUICE_TORCH_ROOT "" CACHE PATH "LibTorch's folder; empty: that of Python's torch")
set(SLUICE_TORCH_FOUND FALSE)

if(NOT SLUICE_TORCH STREQUAL "OFF")
  include(SluiceLibTorch)
  sluice_find_libtorch()
  if(NOT sluice_libtorch_problem)
    message(STATUS "Sluice: LibTorch ${sluice_libtorch_version} in ${sluice_libtorch_root}")
    set(SLUICE_TORCH_FOUND TRUE)
  elseif(SLUICE_TORCH STREQUAL "ON")
    message(FATAL_ERROR "Sluice: ${sluice_libtorch_problem}")
  else()
    message(STATUS "Sluice: no LibTorch adapter: ${sluice_libtorch_problem}")
  endif()
endif()
