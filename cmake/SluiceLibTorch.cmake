# LibTorch as the target Sluice::libtorch. Used by Sluice's own build and by the installed package,
# so that the latter is bound to no machine's folders.
#
# It is a pip-installed torch or an unpacked LibTorch, built for CUDA or not. Only libtorch_cpu and
# libc10 are linked; find_package(Torch) would demand CUDA's toolkit for a CUDA build, and those two
# libraries refer to CUDA's only where a GPU is used.

# sluice_find_libtorch([version]): looks into SLUICE_TORCH_ROOT, the folder with include/ and lib/
# (.../site-packages/torch), or where that is empty asks Python. Sets
#   sluice_libtorch_problem   why it cannot be used; empty: it can
#   sluice_libtorch_root, sluice_libtorch_version
macro(sluice_find_libtorch)
  set(sluice_libtorch_wanted "${ARGN}")
  set(sluice_libtorch_problem "")
  set(sluice_libtorch_root "${SLUICE_TORCH_ROOT}")
  if(NOT sluice_libtorch_root)
    find_package(Python3 QUIET COMPONENTS Interpreter)
    if(Python3_Interpreter_FOUND)
      execute_process(COMMAND ${Python3_EXECUTABLE} -c "import importlib.util as u, os
s = u.find_spec('torch')
print(os.path.dirname(s.origin) if s else '', end='')"
        OUTPUT_VARIABLE sluice_libtorch_root ERROR_QUIET)
    endif()
  endif()
  if(sluice_libtorch_root)
    sluice_check_libtorch()
  else()
    set(sluice_libtorch_problem "Python has no torch; give its folder with SLUICE_TORCH_ROOT")
  endif()
  if(NOT sluice_libtorch_problem AND NOT TARGET Sluice::libtorch)
    foreach(name c10 torch_cpu)
      add_library(Sluice::${name} SHARED IMPORTED GLOBAL)
      set_target_properties(Sluice::${name} PROPERTIES
        IMPORTED_LOCATION ${sluice_libtorch_root}/lib/lib${name}.so)
    endforeach()
    add_library(Sluice::libtorch INTERFACE IMPORTED GLOBAL)
    target_include_directories(Sluice::libtorch SYSTEM INTERFACE ${sluice_libtorch_root}/include
      ${sluice_libtorch_root}/include/torch/csrc/api/include)
    target_link_libraries(Sluice::libtorch INTERFACE Sluice::torch_cpu Sluice::c10)
    target_link_options(Sluice::libtorch INTERFACE -Wl,--allow-shlib-undefined)
  endif()
endmacro()

# Whether the folder holds one that can be linked, and of the version that is wanted.
function(sluice_check_libtorch)
  set(root "${sluice_libtorch_root}")
  set(api include/torch/csrc/api/include/torch)
  set(version_header include/torch/headeronly/version.h) # in older ones beside torch.h
  if(NOT EXISTS ${root}/${version_header})
    set(version_header ${api}/version.h)
  endif()
  foreach(file ${api}/torch.h ${version_header} lib/libtorch_cpu.so lib/libc10.so)
    if(NOT EXISTS ${root}/${file})
      set(sluice_libtorch_problem "${root} holds no ${file}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  # Debian's libraries, and so everything else here, have the C++11 strings.
  file(STRINGS ${root}/lib/libc10.so new_abi REGEX "c105ErrorC.*__cxx11" LIMIT_COUNT 1)
  if(NOT new_abi)
    set(sluice_libtorch_problem "the torch in ${root} was built with the C++ ABI from before C++11 \
(_GLIBCXX_USE_CXX11_ABI=0), which cannot be linked with this system's libraries: take torch 2.7 or \
later, or LibTorch's cxx11-abi archive" PARENT_SCOPE)
    return()
  endif()
  file(STRINGS ${root}/${version_header} numbers REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  list(TRANSFORM numbers REPLACE ".* " "")
  list(JOIN numbers "." version)
  set(sluice_libtorch_version "${version}" PARENT_SCOPE)
  set(wanted "${sluice_libtorch_wanted}")
  if(wanted AND NOT version VERSION_EQUAL wanted)
    set(sluice_libtorch_problem "${root} holds LibTorch ${version}, but this Sluice was built with \
${wanted}, and LibTorch's C++ ABI changes from release to release: give the folder of a ${wanted} \
with SLUICE_TORCH_ROOT, or build Sluice with this one" PARENT_SCOPE)
  endif()
endfunction()
