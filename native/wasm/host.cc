// All that the module asks of its host, in place of a C++ runtime and an operating system: where an exception ends, and
// the time.
//
// The C++ library that Debian has for WebAssembly is built without exceptions, so nothing is unwound: what is thrown
// goes straight to the host, which throws in its turn, past all frames of the module. Their destructors do not run, so
// the instance is not to be used again. The host has one for each network, and a broken file ends no other.
#include <time.h>

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <typeinfo>

#include "engine/model.h"
#include "include/ftbnn.h"

extern "C" {
// Does not return: `code` of ftbnn.h, and one line of text.
[[noreturn]] __attribute__((import_module("host"), import_name("thrown"))) void host_thrown(int code, const char* what);
// Milliseconds since any moment.
__attribute__((import_module("host"), import_name("now"))) double host_now();
}

namespace {

int code_of(const std::type_info& type) {
  if (type == typeid(ftbnn::FormatError)) return FTBNN_FORMAT;
  if (type == typeid(std::invalid_argument)) return FTBNN_ARGUMENT;
  if (type == typeid(std::bad_alloc)) return FTBNN_MEMORY;
  return FTBNN_OTHER;
}

}  // namespace

extern "C" {

void* __cxa_allocate_exception(std::size_t size) noexcept {
  alignas(16) static char room[256];  // there is only ever one
  if (size > sizeof room) std::abort();
  return room;
}

void __cxa_free_exception(void*) noexcept {}

// All that the engine throws is, at its start, a std::exception.
[[noreturn]] void __cxa_throw(void* thrown, std::type_info* type, void (*)(void*)) {
  const int code = code_of(*type);
  host_thrown(code, code == FTBNN_MEMORY ? "there is not enough memory" : static_cast<std::exception*>(thrown)->what());
}

int clock_gettime(clockid_t, struct timespec* now) {
  const double ms = host_now();
  const auto seconds = static_cast<time_t>(ms / 1e3);
  now->tv_sec = seconds;
  now->tv_nsec = static_cast<long>((ms - 1e3 * static_cast<double>(seconds)) * 1e6);
  return 0;
}

char* getenv(const char*) { return nullptr; }

// Where libc++ and its ABI library would print why they end: there is nobody to read it.
[[noreturn]] void abort_message(const char*, ...) { std::abort(); }
}

[[noreturn]] void std::__libcpp_verbose_abort(const char*, ...) { std::abort(); }

void* operator new(std::size_t size) {
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}

void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(unit, (size + unit - 1) / unit * unit)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
