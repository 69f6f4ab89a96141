# A compiler for another CPU, from PyPI (ziglang). FTBNN_ZIG is the program, FTBNN_ZIG_CXX one that calls it as a compiler
# for FTBNN_CPU, because compiler caches want a program without verbs.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES FTBNN_ZIG FTBNN_ZIG_CXX FTBNN_CPU)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${FTBNN_CPU})
set(CMAKE_CXX_COMPILER ${FTBNN_ZIG_CXX})
set(CMAKE_CXX_ARCHIVE_CREATE "${FTBNN_ZIG} ar qc <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "${FTBNN_ZIG} ranlib <TARGET>")
