#include "base/pages.h"

#include <algorithm>

#if defined(_WIN32)
#include <windows.h>
#else
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#endif

namespace ftbnn {

#if defined(_WIN32)

std::size_t page_size() {
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  return info.dwPageSize;
}

std::size_t most_addresses() {
  MEMORYSTATUSEX status;
  status.dwLength = sizeof status;
  return GlobalMemoryStatusEx(&status) ? 2 * static_cast<std::size_t>(status.ullTotalPhys) : 0;
}

char* reserve_pages(std::size_t size) {
  return static_cast<char*>(VirtualAlloc(nullptr, size, MEM_RESERVE, PAGE_NOACCESS));
}

bool fill_pages(char* start, std::size_t size) {
  return VirtualAlloc(start, size, MEM_COMMIT, PAGE_READWRITE) != nullptr;
}

void forget_pages(char* start, std::size_t size) { VirtualAlloc(start, size, MEM_RESET, PAGE_READWRITE); }
void free_pages(char* start, std::size_t) { VirtualFree(start, 0, MEM_RELEASE); }

#else

std::size_t page_size() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }  // 4 KiB, on some systems 16 or 64

std::size_t most_addresses() {
  const std::size_t size = 2 * static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page_size();
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return size;
  return std::min<std::size_t>(size, limit.rlim_cur / 4);
}

char* reserve_pages(std::size_t size) {
  void* mapped = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
#if defined(MADV_HUGEPAGE)
  madvise(mapped, size, MADV_HUGEPAGE);  // a wish: refused, it is as good as before
#endif
  return static_cast<char*>(mapped);
}

bool fill_pages(char* start, std::size_t size) { return mprotect(start, size, PROT_READ | PROT_WRITE) == 0; }
void forget_pages(char* start, std::size_t size) { madvise(start, size, MADV_DONTNEED); }
void free_pages(char* start, std::size_t size) { munmap(start, size); }

#endif

}  // namespace ftbnn
