# libftbnn, for programs without Python:
#   cmake -S . -B build -DFTBNN_C=ON && cmake --build build && cmake --install build --prefix DIR
# then, in a project of yours, find_package(ftbnn 0.2) and link ftbnn::ftbnn, or `pkg-config --cflags --libs ftbnn`.
# A static library: -DBUILD_SHARED_LIBS=OFF.
option(BUILD_SHARED_LIBS "A shared library, not a static one" ON)
enable_language(C)
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# A static library holds all that is below it: what is linked is one file.
add_library(ftbnn native/capi/ftbnn.cc)
if(BUILD_SHARED_LIBS)
  target_link_libraries(ftbnn PRIVATE ftbnn_engine)
  if(UNIX AND NOT APPLE)  # the header's functions are all that is to be seen
    target_link_options(ftbnn PRIVATE -Wl,--exclude-libs,ALL
                        -Wl,--version-script,${PROJECT_SOURCE_DIR}/native/capi/symbols.map)
  elseif(MINGW)
    target_compile_definitions(ftbnn PRIVATE FTBNN_EXPORTS)
    target_link_options(ftbnn PRIVATE -static)  # of GCC's own libraries: one DLL is all that a program needs
  endif()
else()
  foreach(part ftbnn_base ftbnn_kernels ftbnn_engine)
    get_target_property(files ${part} SOURCES)
    foreach(file ${files})
      get_filename_component(file ${file} ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
      target_sources(ftbnn PRIVATE ${file})
    endforeach()
  endforeach()
  target_include_directories(ftbnn PRIVATE native)
  target_compile_options(ftbnn PRIVATE -O3 -fno-math-errno -ffp-contract=off)
  # What is inside is C++: a program in C alone has to be told of its runtime.
  set(runtime stdc++)
  if("c++" IN_LIST CMAKE_CXX_IMPLICIT_LINK_LIBRARIES)
    set(runtime c++)
  endif()
  target_link_libraries(ftbnn INTERFACE ${runtime} m)
  set(pc_libs " -l${runtime} -lm -pthread")
endif()
target_link_libraries(ftbnn PUBLIC Threads::Threads)
target_compile_definitions(ftbnn PRIVATE FTBNN_VERSION="${PROJECT_VERSION}")
target_compile_options(ftbnn PRIVATE -Wall -Wextra -Wpedantic)
set_target_properties(ftbnn PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                      PUBLIC_HEADER native/include/ftbnn.h)
target_include_directories(ftbnn PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/native/include>
                                        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

add_executable(classify native/examples/classify.c)
target_compile_options(classify PRIVATE -std=c99 -Wall -Wextra -Wpedantic)
target_link_libraries(classify PRIVATE ftbnn)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ftbnn)
install(TARGETS ftbnn EXPORT ftbnn-targets PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT ftbnn-targets NAMESPACE ftbnn:: DESTINATION ${config_dir})
configure_package_config_file(native/capi/ftbnn-config.cmake.in ${PROJECT_BINARY_DIR}/ftbnn-config.cmake
                              INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ftbnn-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ftbnn-config.cmake ${PROJECT_BINARY_DIR}/ftbnn-config-version.cmake
        DESTINATION ${config_dir})
# From where ftbnn.pc lies: `cmake --install --prefix` may put it anywhere.
file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(native/capi/ftbnn.pc.in ${PROJECT_BINARY_DIR}/ftbnn.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ftbnn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
