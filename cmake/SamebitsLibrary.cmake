# The library that other projects link, made of the objects of samebits_objects, and its installation.
include(CMakePackageConfigHelpers)
include(CheckLinkerFlag)
include(GNUInstallDirs)

# samebits_add_library(TARGET [STATIC|SHARED]): as BUILD_SHARED_LIBS says where no type is given.
function(samebits_add_library target)
  add_library(${target} ${ARGN} $<TARGET_OBJECTS:samebits_objects> ${SAMEBITS_HIP_OBJECTS})
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${samebits_SOURCE_DIR}/include>)
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_link_libraries(${target} PRIVATE ${SAMEBITS_DEPENDENCIES})
  if(SAMEBITS_SANITIZE)
    target_link_options(${target} PUBLIC $<BUILD_INTERFACE:-fsanitize=${SAMEBITS_SANITIZE}>)
  endif()
  # Before 1.0 a minor version may break the binary interface.
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME samebits EXPORT_NAME samebits LINKER_LANGUAGE CXX
    VERSION ${samebits_VERSION} SOVERSION ${samebits_VERSION_MAJOR}.${samebits_VERSION_MINOR})

  get_target_property(type ${target} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    set(map ${samebits_SOURCE_DIR}/cmake/samebits.map)
    check_linker_flag(CXX -Wl,--version-script=${map} SAMEBITS_HAS_VERSION_SCRIPT)
    if(SAMEBITS_HAS_VERSION_SCRIPT)
      target_link_options(${target} PRIVATE -Wl,--version-script=${map})
      set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
    endif()
  endif()
endfunction()

# samebits_install_library(TARGET EXPORT [COMPONENT NAME] [EXCLUDE_FROM_ALL]): headers, library and package files.
function(samebits_install_library target export)
  set(placement ${ARGN})
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/samebits)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/${export})
  get_target_property(samebits_type ${target} TYPE)

  configure_package_config_file(${samebits_SOURCE_DIR}/cmake/samebitsConfig.cmake.in ${generated}/samebitsConfig.cmake
                                INSTALL_DESTINATION ${package})
  write_basic_package_version_file(${generated}/samebitsConfigVersion.cmake
                                   VERSION ${samebits_VERSION} COMPATIBILITY SameMinorVersion)

  install(TARGETS ${target} EXPORT ${export}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ${placement}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} ${placement}
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(DIRECTORY ${samebits_SOURCE_DIR}/include/samebits DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${placement}
          FILES_MATCHING PATTERN "*.hpp")
  install(EXPORT ${export} FILE samebitsTargets.cmake NAMESPACE samebits:: DESTINATION ${package} ${placement})
  install(FILES ${generated}/samebitsConfig.cmake ${generated}/samebitsConfigVersion.cmake
          DESTINATION ${package} ${placement})
endfunction()
