/* A plugin of qemu-user that says on stderr how many instructions a program executed:
 *   cc -shared -fPIC count.c -o count.so && qemu-aarch64 -plugin ./count.so PROGRAM
 * Debian's packages have no qemu-plugin.h, so the few declarations of QEMU's interface that are needed stand here. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#define API __attribute__((visibility("default")))

typedef uint64_t Id;
struct qemu_plugin_tb;
typedef void (*OnBlock)(Id, struct qemu_plugin_tb*);
typedef void (*OnRun)(unsigned vcpu, void* data);
typedef void (*OnExit)(Id, void* data);
enum { NO_REGISTERS = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(Id, OnBlock);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb*, OnRun, int flags, void* data);
void qemu_plugin_register_atexit_cb(Id, OnExit, void* data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);

API int qemu_plugin_version = 1; /* of the interface: QEMU 7 */

static uint64_t executed; /* programs that are counted have one thread */

static void ran(unsigned vcpu, void* data) {
  (void)vcpu;
  executed += (uintptr_t)data;
}

static void translated(Id id, struct qemu_plugin_tb* block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_cb(block, ran, NO_REGISTERS, (void*)qemu_plugin_tb_n_insns(block));
}

static void ended(Id id, void* data) {
  (void)id;
  (void)data;
  fprintf(stderr, "instructions %" PRIu64 "\n", executed);
}

API int qemu_plugin_install(Id id, const void* info, int argc, char** argv) {
  (void)info;
  (void)argc;
  (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, ended, NULL);
  return 0;
}
