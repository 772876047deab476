/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock`: finds the command and runs it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "commands.h"
#include "help.h"
#include "log.h"
#include "result_file.h"
#include "schema.h"
#include "signals.h"
#include "standard_output.h"

static const struct command *const commands[] = {
    &app_command_run,     &app_command_send,
    &app_command_receive, &app_command_check,
    &app_command_schema,  &app_command_plugins,
    &app_command_bench,   &app_command_serve,
    &app_command_request, &app_command_get,
    &app_command_put,     &app_command_share,
    &app_command_report,  &app_command_hardware_check,
    &app_command_doctor,  &app_command_topo,
    &app_command_init,    &app_command_keys,
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* The text of `penstock --help`. */
static void main_print_help(void)
{
  printf("Usage: penstock COMMAND [options]\n"
         "\n"
         "Streams data over fast networks into GPU and host memory, and accounts for every byte.\n"
         "A YAML file says what is streamed, over which transport, into which memory.\n"
         "\n"
         "Commands:\n");
  for (size_t i = 0; i < COMMANDS; i++)
    printf("  %-14s  %s\n", commands[i]->name, commands[i]->summary);
  printf(
      "\n"
      "  penstock COMMAND --help   arguments, options and examples of a command\n"
      "  penstock help KEY         explains a key of the YAML file, or an option of a plugin\n"
      "  penstock --version        the version of the library\n"
      "\n"
      "Examples:\n"
      "  penstock run config/loopback.yaml --duration 3\n"
      "  penstock plugins\n"
      "  penstock bench --transport loopback --memory host\n"
      "  penstock help streams.ring\n"
      "\n"
      "Exit status:\n"
      "  0    every message is accounted for\n"
      "  1    the run failed, or ^C ended it before it was complete\n"
      "  2    the command line or the configuration is wrong\n"
      "  3    something is not available on this machine: a plugin, a device, a privilege\n"
      "  4    an `expect` of the configuration was not met\n"
      "  130  a second ^C ended it at once\n"
      "\n"
      "Environment:\n"
      "  PENSTOCK_LOG          which log lines are printed: error, warn, info (the default), debug\n"
      "  PENSTOCK_PLUGIN_PATH  folders with plugins, DIR[:DIR]..., searched after --plugin-path\n"
      "  PENSTOCK_SANDBOX      the mode if --sandbox is not given: auto, require, off\n");
}

static size_t main_command_names(const char *names[COMMANDS])
{
  for (size_t i = 0; i < COMMANDS; i++)
    names[i] = commands[i]->name;
  return COMMANDS;
}

static int main_unknown_command(const char *word)
{
  const char *names[COMMANDS];
  char meant[ARGUMENTS_MEANT_BYTES];

  app_log(PST_LOG_ERROR, "there is no command '%s'%s; `penstock --help` lists them", word,
          app_arguments_meant(word, names, main_command_names(names), ", did you mean '", meant));
  return PST_EXIT_USAGE;
}

static const struct command *main_find_command(const char *name)
{
  for (size_t i = 0; i < COMMANDS; i++) {
    if (strcmp(commands[i]->name, name) == 0)
      return commands[i];
  }
  return NULL;
}

/* `is_wrong`: the command line is, and has been reported. */
static int main_run_with_result(const struct command *command, const struct arguments *arguments,
                                bool is_wrong)
{
  /* From the start, so that a signal ends no command without its result. */
  if ((command->options & OPTION_JSON) != 0 && app_signals_open(-1) < 0)
    return PST_EXIT_FAILED;
  int code = arguments->json ? app_result_begin(command, arguments) : 0;
  if (code < 0)
    return code == -ENOMEM ? PST_EXIT_FAILED : PST_EXIT_USAGE;
  int status = is_wrong ? PST_EXIT_USAGE : command->run(command, arguments);
  if (app_result_end(status) < 0)
    status = app_finding_worse(status, PST_EXIT_FAILED);
  return status;
}

static int main_run_command(const struct command *command, int argc, char **argv)
{
  struct arguments arguments;
  enum arguments_result parsed = app_arguments_parse(command, argc, argv, &arguments);
  int status = PST_EXIT_OK;

  if (parsed != ARGUMENTS_HELP && command->is_silent && command->is_silent(&arguments))
    arguments.json = NULL;
  if (parsed == ARGUMENTS_HELP)
    app_arguments_help(command);
  else
    status = main_run_with_result(command, &arguments, parsed == ARGUMENTS_WRONG);
  app_arguments_free(&arguments);
  return status;
}

/* Takes the numbers of standard streams that the program was started without: a file that is opened
 * later would get such a number, and the program's lines would go into a sink's data. Standard
 * output was asked for: to write to a closed one fails, also by /dev/stdout. */
static int main_hold_standard_streams(void)
{
  for (int held = STDIN_FILENO; held <= STDERR_FILENO; held++) {
    if (fcntl(held, F_GETFD) >= 0)
      continue;
    if ((held == STDOUT_FILENO ? open("/", O_PATH) : open("/dev/null", O_RDWR)) < 0)
      return -errno;
  }
  return 0;
}

/* A stream between processes takes some ten descriptors, and 1024 are soon gone. */
static void main_raise_descriptor_limit(void)
{
  struct rlimit limit;

  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

static int main_chosen(int argc, char **argv)
{
  const char *word = argc > 1 ? argv[1] : NULL;

  if (!word) {
    app_log(PST_LOG_ERROR, "a command is missing; `penstock --help` lists them");
    return PST_EXIT_USAGE;
  }
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
    const struct command *command = argc > 2 ? main_find_command(argv[2]) : NULL;
    if (argc > 2 && !command) {
      const char *names[COMMANDS];
      return app_help_key(argv[2], names, main_command_names(names));
    }
    if (command)
      app_arguments_help(command);
    else
      main_print_help();
    return PST_EXIT_OK;
  }
  if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0 || strcmp(word, "version") == 0) {
    printf("penstock %s\n", pst_version());
    return PST_EXIT_OK;
  }
  const struct command *command = main_find_command(word);
  return command ? main_run_command(command, argc - 1, argv + 1) : main_unknown_command(word);
}

int main(int argc, char **argv)
{
  if (main_hold_standard_streams() < 0)
    return PST_EXIT_FAILED;
  main_raise_descriptor_limit();
  if (pst_config_program(&app_schema_program) < 0)
    return PST_EXIT_FAILED;
  return app_standard_output_end(main_chosen(argc, argv));
}
