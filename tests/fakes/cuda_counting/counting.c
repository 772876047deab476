/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's driver's library, and one that stands before it: counts what copies.
 * PENSTOCK_CUDA_LIBRARY is the path of the library behind; PENSTOCK_CUDA_COPIES the file that gets
 * the number at the process's end.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))
#define UNKNOWN 999 /* CUDA_ERROR_UNKNOWN */

typedef int get_address(const char *name, void **address, int version, uint64_t flags);

static int (*copy)(uint64_t to, uint64_t from, size_t length, void *stream);
static int (*copy_2d)(const void *copy, void *stream);
static int (*get_function)(void **function, void *module, const char *name);
static int (*launch)(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                     unsigned int block_x, unsigned int block_y, unsigned int block_z,
                     unsigned int shared, void *stream, void **params, void **extra);
static void *_Atomic gather; /* the kernel that copies; one plugin has one for each device */
static atomic_ulong copies;

EXPORTED int cuDriverGetVersion(int *version);
EXPORTED get_address cuGetProcAddress;

static void *behind(const char *name)
{
  static void *library;
  const char *path = getenv("PENSTOCK_CUDA_LIBRARY");

  if (!library && path)
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return library ? dlsym(library, name) : NULL;
}

static int count_copy(uint64_t to, uint64_t from, size_t length, void *stream)
{
  atomic_fetch_add(&copies, 1);
  return copy(to, from, length, stream);
}

static int count_copy_2d(const void *what, void *stream)
{
  atomic_fetch_add(&copies, 1);
  return copy_2d(what, stream);
}

static int see_function(void **function, void *module, const char *name)
{
  const int status = get_function(function, module, name);

  if (status == 0 && strcmp(name, "pst_gather") == 0)
    atomic_store(&gather, *function);
  return status;
}

static int count_launch(void *function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared, void *stream, void **params,
                        void **extra)
{
  if (function == atomic_load(&gather))
    atomic_fetch_add(&copies, 1);
  return launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, params,
                extra);
}

int cuDriverGetVersion(int *version)
{
  int (*real)(int *) = NULL;
  void *found = behind("cuDriverGetVersion");

  memcpy(&real, &found, sizeof(real));
  return real ? real(version) : UNKNOWN;
}

#define STANDS_BEFORE(name, real, own)                                                             \
  {                                                                                                \
    name, (void *)&(real), (void (*)(void))(own)                                                   \
  }

int cuGetProcAddress(const char *name, void **address, int version, uint64_t flags)
{
  static const struct {
    const char *name;
    void *real;
    void (*own)(void);
  } counted[] = {
      STANDS_BEFORE("cuMemcpyAsync", copy, count_copy),
      STANDS_BEFORE("cuMemcpy2DAsync", copy_2d, count_copy_2d),
      STANDS_BEFORE("cuModuleGetFunction", get_function, see_function),
      STANDS_BEFORE("cuLaunchKernel", launch, count_launch),
  };
  get_address *real = NULL;
  void *found = behind("cuGetProcAddress");

  memcpy(&real, &found, sizeof(real));
  const int status = real ? real(name, address, version, flags) : UNKNOWN;
  for (size_t i = 0; status == 0 && i < sizeof(counted) / sizeof(counted[0]); i++)
    if (strcmp(counted[i].name, name) == 0) {
      memcpy(counted[i].real, address, sizeof(*address));
      memcpy(address, &counted[i].own, sizeof(*address));
    }
  return status;
}

__attribute__((destructor)) static void write_count(void)
{
  const char *path = getenv("PENSTOCK_CUDA_COPIES");
  FILE *file = path ? fopen(path, "w") : NULL;

  if (!file)
    return;
  fprintf(file, "%lu\n", atomic_load(&copies));
  fclose(file);
}
