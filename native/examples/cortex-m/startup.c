/* The least that a Cortex-M needs before main: a vector table, variables, the FPU where there is one. */
#include <stdint.h>
#include <string.h>

extern uint32_t stack_top[], data_from[], data_start[], data_end[], bss_start[], bss_end[];
extern void initialise_monitor_handles(void); /* newlib's: standard output goes through the debugger (semihosting) */
extern int main(void);
extern void exit(int) __attribute__((noreturn));

__attribute__((noreturn)) static void reset(void) {
#if defined(__ARM_FP)
  *(volatile uint32_t*)0xe000ed88 |= 0xfu << 20; /* CPACR: coprocessors 10 and 11 */
#endif
  memcpy(data_start, data_from, (size_t)((char*)data_end - (char*)data_start));
  memset(bss_start, 0, (size_t)((char*)bss_end - (char*)bss_start));
  initialise_monitor_handles();
  exit(main());
}

__attribute__((noreturn)) static void fault(void) {
  for (;;) {
  }
}

__attribute__((section(".vectors"), used)) const struct {
  const void* stack;
  void (*handlers[3])(void); /* reset, NMI, hard fault */
} vectors = {stack_top, {reset, fault, fault}};
