# LibTorch, where there is one: from a pip-installed torch or an unpacked LibTorch, built for CUDA
# or not. Only libtorch_cpu and libc10 are linked; find_package(Torch) would demand CUDA's toolkit
# for a CUDA build, and those two libraries refer to CUDA's only where a GPU is used.
#
#   SLUICE_TORCH        AUTO (use it where it is found), ON (an error if it is not), OFF
#   SLUICE_TORCH_ROOT   the folder with include/ and lib/: .../site-packages/torch

set(SLUICE_TORCH AUTO CACHE STRING "Build the LibTorch adapter: AUTO, ON or OFF")
set(SLUICE_TORCH_ROOT "" CACHE PATH "LibTorch's folder; empty: that of Python's torch")
set(SLUICE_TORCH_FOUND FALSE)

# Says why LibTorch cannot be used.
function(sluice_no_torch why)
  if(SLUICE_TORCH STREQUAL "ON")
    message(FATAL_ERROR "Sluice: ${why}")
  endif()
  message(STATUS "Sluice: no LibTorch adapter: ${why}")
endfunction()

function(sluice_find_torch)
  set(root "${SLUICE_TORCH_ROOT}")
  if(NOT root)
    find_package(Python3 QUIET COMPONENTS Interpreter)
    if(Python3_Interpreter_FOUND)
      execute_process(COMMAND ${Python3_EXECUTABLE} -c "import importlib.util as u, os
s = u.find_spec('torch')
print(os.path.dirname(s.origin) if s else '', end='')" OUTPUT_VARIABLE root ERROR_QUIET)
    endif()
  endif()
  if(NOT root)
    sluice_no_torch("Python has no torch; give its folder with SLUICE_TORCH_ROOT")
    return()
  endif()
  foreach(file include/torch/csrc/api/include/torch/torch.h lib/libtorch_cpu.so lib/libc10.so)
    if(NOT EXISTS ${root}/${file})
      sluice_no_torch("${root} holds no ${file}")
      return()
    endif()
  endforeach()
  # Debian's libraries, and so everything else here, have the C++11 strings.
  file(STRINGS ${root}/lib/libc10.so new_abi REGEX "c105ErrorC.*__cxx11" LIMIT_COUNT 1)
  if(NOT new_abi)
    sluice_no_torch("the torch in ${root} was built with the C++ ABI from before C++11 \
(_GLIBCXX_USE_CXX11_ABI=0), which cannot be linked with this system's libraries: take torch 2.7 or \
later, or LibTorch's cxx11-abi archive")
    return()
  endif()
  foreach(name c10 torch_cpu)
    add_library(Sluice::${name} SHARED IMPORTED GLOBAL)
    set_target_properties(Sluice::${name} PROPERTIES IMPORTED_LOCATION ${root}/lib/lib${name}.so)
  endforeach()
  add_library(Sluice::libtorch INTERFACE IMPORTED GLOBAL)
  target_include_directories(Sluice::libtorch SYSTEM INTERFACE ${root}/include
    ${root}/include/torch/csrc/api/include)
  target_link_libraries(Sluice::libtorch INTERFACE Sluice::torch_cpu Sluice::c10)
  target_link_options(Sluice::libtorch INTERFACE -Wl,--allow-shlib-undefined)
  message(STATUS "Sluice: LibTorch in ${root}")
  set(SLUICE_TORCH_FOUND TRUE PARENT_SCOPE)
endfunction()

if(NOT SLUICE_TORCH STREQUAL "OFF")
  sluice_find_torch()
endif()
