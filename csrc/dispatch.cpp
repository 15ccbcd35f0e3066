// What Python asks before it picks a variant of the kernels.
#include <cstdint>

extern "C" {

// Raised whenever a kernel's arguments change; native.py refuses another number.
__attribute__((visibility("default"))) int longhop_abi_version() { return 2; }

// 1 when this machine can run the AVX2+FMA build and the library holds it.
__attribute__((visibility("default"))) int longhop_has_avx2() {
#if LONGHOP_HAVE_AVX2
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#else
  return 0;
#endif
}
}
