/* SPDX-License-Identifier: Apache-2.0 */
/* statuses [-d DEVICE] [-g GID_INDEX] [FAMILY]...: prints a line for each case. */
#include "statuses.h"

#include <unistd.h>

static const struct {
  const char *name;
  void (*run)(void);
} families[] = {
    {"success", family_success}, {"remote", family_remote}, {"local", family_local},
    {"receive", family_receive}, {"path", family_path},     {"post", family_post},
    {"modify", family_modify},   {"range", family_range},   {"create", family_create},
    {"destroy", family_destroy}, {"event", family_event},   {"flush", family_flush},
};

static bool is_wanted(const char *name, char *const *names)
{
  for (char *const *wanted = names; *wanted; wanted++) {
    if (strcmp(*wanted, name) == 0)
      return true;
  }
  return !*names;
}

int main(int argc, char **argv)
{
  const char *name = NULL;
  int gid_index = -1;
  for (int option; (option = getopt(argc, argv, "d:g:")) != -1;) {
    if (option == 'd') {
      name = optarg;
    } else if (option == 'g') {
      gid_index = atoi(optarg);
    } else {
      fprintf(stderr, "usage: statuses [-d DEVICE] [-g GID_INDEX] [FAMILY]...\n");
      return 2;
    }
  }
  device_open(name, gid_index);
  for (size_t i = 0; i < COUNT_OF(families); i++) {
    if (is_wanted(families[i].name, argv + optind))
      families[i].run();
  }
  require("ibv_close_device", ibv_close_device(device.context) == 0);
  return 0;
}
