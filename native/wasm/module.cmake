# ftbnn.wasm: the C API for JavaScript (web/). No runtime is needed beside it: what it asks of its host is in host.cc.
#   cmake -S . -B build/wasm --toolchain native/wasm/toolchain.cmake && cmake --build build/wasm
# Browsers with relaxed SIMD take the module of -DFTBNN_RELAXED=ON, which is half as fast again and gives the same bits.
file(STRINGS native/wasm/exports.txt exports REGEX "^[a-z]")
list(TRANSFORM exports PREPEND -Wl,--export=)
add_executable(ftbnn native/capi/ftbnn.cc native/wasm/host.cc)
set_target_properties(ftbnn PROPERTIES SUFFIX .wasm)
target_compile_definitions(ftbnn PRIVATE FTBNN_VERSION="${PROJECT_VERSION}")
target_compile_options(ftbnn PRIVATE -O2 -Wall -Wextra -Wpedantic)
target_link_libraries(ftbnn PRIVATE ftbnn_engine ftbnn_kernels ftbnn_base)
target_link_options(ftbnn PRIVATE -mexec-model=reactor -L/usr/lib/llvm-16/lib/wasm32-wasi -Wl,--gc-sections -Wl,--strip-all
                    -O0  # or clang would run whatever wasm-opt it finds
                    -Wl,--max-memory=4294967296 -Wl,-z,stack-size=262144 ${exports})
