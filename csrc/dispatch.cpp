// What Python asks before it picks a variant of the kernels.
#include <cstdint>

extern "C" {

// Raised whenever a kernel's arguments change; native.py refuses another number.
__attribute__((visibility("default"))) int longhop_abi_version() { return 3; }

// The best variant that this machine can run and the library holds: 0 baseline, 1 avx2, 2 avx512.
__attribute__((visibility("default"))) int longhop_best_variant() {
#if LONGHOP_HAVE_X86
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2")) return 0;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  return wide ? 2 : 1;
#else
  return 0;
#endif
}
}
