# One way to add a component, one target with the flags.

# What Sluice itself is compiled with, programs and tests included. Whoever uses Sluice gets none of
# it, so components link it privately.
add_library(sluice_flags INTERFACE)
target_compile_features(sluice_flags INTERFACE cxx_std_20)
target_link_libraries(sluice_flags INTERFACE Threads::Threads)
target_compile_options(sluice_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${SLUICE_WARNINGS_AS_ERRORS}>>:-Werror>)

set(march "${SLUICE_INSTRUCTION_SET}")
if(NOT march AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(march x86-64-v3)
endif()
if(march)
  target_compile_options(sluice_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=${march}>)
endif()
if(SLUICE_SANITIZE)
  target_compile_options(sluice_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:
    -fsanitize=${SLUICE_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer;-g1>)
  target_link_options(sluice_flags INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
find_program(SLUICE_CCACHE ccache)
if(SLUICE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SLUICE_CCACHE})
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})

# What is installed. These are shared libraries where BUILD_SHARED_LIBS is on; all else is static.
set(SLUICE_INSTALLED kernels plan net actors)
if(SLUICE_TORCH_FOUND)
  list(APPEND SLUICE_INSTALLED torch)
endif()

# A shared library shows namespace sluice by a linker script, so that no header needs a macro, and
# nothing of what is inlined into it from other libraries. Within it calls stay direct.
function(sluice_make_shared target)
  set(exports ${PROJECT_SOURCE_DIR}/cmake/exports.map)
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>)
  target_link_options(${target} PRIVATE -Wl,--version-script=${exports} -Wl,-Bsymbolic-functions)
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET default
    LINK_DEPENDS ${exports}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endfunction()

# sluice_add_component(kernels SOURCES a.cpp ... LINK fmt::fmt ... [PRIVATE_LINK ...]
#   [HEADER_ONLY_LINK ...])
# HEADER_ONLY_LINK: what the sources need and nobody after them, so that an installed Sluice does
# without it. In the build tree <sluice/net/edge.hpp> and "net/edge.hpp" are both found.
function(sluice_add_component name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK;PRIVATE_LINK;HEADER_ONLY_LINK" ${ARGN})
  list(TRANSFORM arg_HEADER_ONLY_LINK REPLACE "(.+)" "$<BUILD_INTERFACE:\\1>")
  set(kind STATIC)
  if(BUILD_SHARED_LIBS AND name IN_LIST SLUICE_INSTALLED)
    set(kind SHARED)
  endif()
  add_library(sluice_${name} ${kind} ${arg_SOURCES})
  add_library(Sluice::${name} ALIAS sluice_${name})
  target_link_libraries(sluice_${name} PUBLIC Threads::Threads ${arg_LINK}
    PRIVATE $<BUILD_INTERFACE:sluice_flags> ${arg_PRIVATE_LINK} ${arg_HEADER_ONLY_LINK})
  target_compile_features(sluice_${name} PUBLIC cxx_std_20)
  target_include_directories(sluice_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<BUILD_INTERFACE:${SLUICE_INCLUDE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(sluice_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON EXPORT_NAME ${name}
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  if(kind STREQUAL SHARED)
    sluice_make_shared(sluice_${name})
  endif()
endfunction()

# What a test under a sanitizer finds in its environment. ThreadSanitizer sees nothing of what
# happens inside GNU's OpenMP and oneDNN, so it would take the barriers of the one (hence one
# thread) and the shared cache of the other for races. Suppressions are for other people's code
# alone: they hide real ones.
set(sanitizers ${PROJECT_SOURCE_DIR}/tests/sanitizers)
set(SLUICE_TEST_TIMEOUT 300) # seconds
set(deadline SLUICE_TEST_DEADLINE=600)
if(SLUICE_SANITIZE)
  set(SLUICE_TEST_TIMEOUT 1800)
endif()
if(SLUICE_SANITIZE MATCHES "thread")
  set(SLUICE_TEST_ENVIRONMENT ${deadline} OMP_NUM_THREADS=1 ONEDNN_PRIMITIVE_CACHE_CAPACITY=0
    TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=${sanitizers}/races.txt)
elseif(SLUICE_SANITIZE)
  set(SLUICE_TEST_ENVIRONMENT ${deadline} ASAN_OPTIONS=detect_stack_use_after_return=1
    UBSAN_OPTIONS=print_stacktrace=1
    LSAN_OPTIONS=suppressions=${sanitizers}/leaks.txt:print_suppressions=0)
endif()

# What CI builds and runs under the sanitizers: the tests marked SANITIZED.
add_custom_target(sanitized_tests)

# sluice_add_test(plan LABEL unit SOURCES ... LINK Sluice::plan [SANITIZED] [TIMEOUT seconds]): one
# doctest program. LABEL: unit, integration, gpu, or stress for what takes long and runs only when
# asked for. A program that ends with 77 counts as skipped (no GPU here).
function(sluice_add_test name)
  cmake_parse_arguments(arg "SANITIZED" "LABEL;TIMEOUT" "SOURCES;LINK" ${ARGN})
  add_executable(${name}_tests ${arg_SOURCES})
  target_link_libraries(${name}_tests PRIVATE sluice_flags sluice_test_main ${arg_LINK})
  set_target_properties(${name}_tests PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name}_tests)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT ${SLUICE_TEST_TIMEOUT})
  endif()
  set(labels ${arg_LABEL})
  if(arg_SANITIZED)
    list(APPEND labels sanitized)
    add_dependencies(sanitized_tests ${name}_tests)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${arg_TIMEOUT}
    SKIP_RETURN_CODE 77 ENVIRONMENT "${SLUICE_TEST_ENVIRONMENT}")
endfunction()
