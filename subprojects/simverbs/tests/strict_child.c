/* SPDX-License-Identifier: Apache-2.0 */
/* A program that strict mode has nothing (kept, later), or something (changed) to say of. */
#include "rig.h"

#include <string.h>

/* A race is what this is about. */
__attribute__((no_sanitize("thread"))) static void change(struct rig_end *end)
{
  end->bytes[63] ^= 1;
}

int main(int argc, char **argv)
{
  struct rig rig;
  const char *mode = argc == 2 ? argv[1] : "";
  rig_open(&rig, &(struct rig_how){.from = "mlx5_0", .to = "mlx5_0"});
  rig_post_recv(&rig.b, 1, 64);
  rig_post_send(&rig.a, 2, 64);
  if (!strcmp(mode, "changed"))
    change(&rig.a);
  assert_int_equal(rig_wait(&rig.a).status, IBV_WC_SUCCESS);
  if (!strcmp(mode, "later"))
    change(&rig.a);
  assert_int_equal(rig_wait(&rig.b).status, IBV_WC_SUCCESS);
  rig_close(&rig);
  return 0;
}
