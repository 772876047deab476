/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of `penstock`. */
#ifndef APP_COMMANDS_H
#define APP_COMMANDS_H

#include "arguments.h"

extern const struct command app_command_run;
extern const struct command app_command_send;
extern const struct command app_command_receive;
extern const struct command app_command_check;
extern const struct command app_command_schema;
extern const struct command app_command_plugins;
extern const struct command app_command_bench;
extern const struct command app_command_hardware_check;
extern const struct command app_command_topo;
extern const struct command app_command_init;
extern const struct command app_command_keys;
extern const struct command app_command_doctor;
extern const struct command app_command_serve;
extern const struct command app_command_request;
extern const struct command app_command_get;
extern const struct command app_command_put;
extern const struct command app_command_report;
extern const struct command app_command_share;

#endif
