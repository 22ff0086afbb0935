# cmake --install: libraries, headers, the package for find_package and pkg-config, the command; and
# the Debian package that CPack makes of them.

include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Sluice)
foreach(component ${SLUICE_INSTALLED})
  install(TARGETS sluice_${component} EXPORT Sluice-${component}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT Sluice-${component} NAMESPACE Sluice:: DESTINATION ${package_dir})
endforeach()
install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" \"-DSOURCE=${PROJECT_SOURCE_DIR}\"
  \"-DGENERATED=${SLUICE_INCLUDE_DIR}/sluice\"
  \"-DTO=\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/sluice\"
  -DTORCH=${SLUICE_TORCH_FOUND} -P \"${PROJECT_SOURCE_DIR}/cmake/install_headers.cmake\"
  COMMAND_ERROR_IS_FATAL ANY)")
if(SLUICE_BUILD_COMMAND)
  install(TARGETS sluice RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# A CAF that was built for this checkout goes along; one that was installed stays where it is.
cmake_path(IS_PREFIX PROJECT_SOURCE_DIR "${CAF_DIR}" NORMALIZE caf_is_ours)
cmake_path(SET caf_prefix NORMALIZE "${CAF_DIR}/../../..")
if(caf_is_ours)
  set(SLUICE_CAF_DIR ${CMAKE_INSTALL_LIBDIR}/sluice/caf)
  set(pc_caf_prefix "\${libdir}/sluice/caf/")
  install(DIRECTORY ${caf_prefix} DESTINATION ${SLUICE_CAF_DIR})
else()
  set(SLUICE_CAF_DIR ${CAF_DIR})
  set(pc_caf_prefix ${caf_prefix})
endif()
if(TARGET CAF::openssl)
  set(caf_tls "-lcaf_openssl ")
endif()
set(SLUICE_PC_CAF_CFLAGS "-isystem ${pc_caf_prefix}include")
set(SLUICE_PC_CAF_LIBS "-L${pc_caf_prefix}lib ${caf_tls}-lcaf_io -lcaf_core")

# Shared libraries are found from where each of them is, as is CAF where it goes along; other
# people's, a CAF or a LibTorch in a folder of its own, where they were found.
if(BUILD_SHARED_LIBS)
  set(rpath $ORIGIN)
  if(caf_is_ours)
    list(APPEND rpath $ORIGIN/sluice/caf/lib)
    string(APPEND SLUICE_PC_CAF_LIBS " -Wl,-rpath,${pc_caf_prefix}lib")
  endif()
  list(TRANSFORM SLUICE_INSTALLED PREPEND sluice_ OUTPUT_VARIABLE installed)
  set_target_properties(${installed} PROPERTIES INSTALL_RPATH "${rpath}")
  if(SLUICE_BUILD_COMMAND)
    file(RELATIVE_PATH to_lib /x/${CMAKE_INSTALL_BINDIR} /x/${CMAKE_INSTALL_LIBDIR})
    list(TRANSFORM rpath REPLACE "ORIGIN" "ORIGIN/${to_lib}")
    set_target_properties(sluice PROPERTIES INSTALL_RPATH "${rpath}")
    list(APPEND installed sluice)
  endif()
  set_target_properties(${installed} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
endif()

configure_package_config_file(cmake/SluiceConfig.cmake.in SluiceConfig.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS SLUICE_CAF_DIR)
write_basic_package_version_file(SluiceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/SluiceConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/SluiceConfigVersion.cmake cmake/SluiceProducts.cmake
  cmake/SluiceLibTorch.cmake DESTINATION ${package_dir})

# So that the file works wherever the prefix is moved.
file(RELATIVE_PATH SLUICE_PC_PREFIX /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
if(SLUICE_PRODUCTS STREQUAL onednn)
  set(SLUICE_PC_PRODUCTS "-ldnnl")
  if(OpenMP_CXX_FOUND)
    string(APPEND SLUICE_PC_PRODUCTS " -lgomp")
  endif()
else()
  set(SLUICE_PC_PRODUCTS "-lopenblas")
endif()
configure_file(cmake/sluice.pc.in sluice.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sluice.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# cpack -G DEB
set(CPACK_PACKAGE_NAME sluice)
set(CPACK_PACKAGE_CONTACT "The Sluice authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libboost-dev, libfmt-dev, libssl-dev, libdnnl-dev")
include(CPack)
