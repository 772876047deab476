/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of `penstock`. */
#ifndef APP_COMMANDS_H
#define APP_COMMANDS_H

#include "arguments.h"

extern const struct command command_run;
extern const struct command command_send;
extern const struct command command_receive;
extern const struct command command_check;
extern const struct command command_schema;
extern const struct command command_plugins;
extern const struct command command_bench;
extern const struct command command_hardware_check;
extern const struct command command_serve;
extern const struct command command_request;
extern const struct command command_get;
extern const struct command command_put;

#endif
