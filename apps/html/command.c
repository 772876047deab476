/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock report`: results as a page. */
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "atomic_file.h"
#include "commands.h"
#include "log.h"
#include "sections.h"

#define RESULT_MAX (64 << 20) /* bytes */

static const char html_head[] =
    "<!DOCTYPE html>\n<!-- penstock report -->\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\"><title>Penstock report</title>\n<style>\n"
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1c2430;--dim:#5c6675;--line:#d9dee5;"
    "--good:#1a7f37;--bad:#c4291c;--warn:#8a5a00;--mark:#fff3cd;--c0:#1f6fc9;--c1:#d9730d;"
    "--c2:#2a9d4a;--c3:#c22f6c;--c4:#7a52c7;--c5:#0f8f9c;--c6:#8a6d1f;--c7:#5b6472}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#14181e;--fg:#e3e8ee;--dim:#98a3b1;"
    "--line:#323a45;--good:#56c271;--bad:#ff7b6e;--warn:#e3b341;--mark:#3d3414;--c0:#5aa2f0;"
    "--c1:#f39c4a;--c2:#5fce7f;--c3:#f06ba0;--c4:#b195f2;--c5:#4cc7d3;--c6:#d0b05a;--c7:#a7b0bd}}\n"
    "body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;margin:2rem auto;"
    "max-width:60rem;padding:0 1rem}\nh1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}\n"
    "section{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem}"
    "th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line);"
    "vertical-align:top}th{color:var(--dim);font-weight:600}td.n{text-align:right;"
    "font-variant-numeric:tabular-nums;white-space:nowrap}code{font-size:.8rem;"
    "overflow-wrap:anywhere}\n.good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}"
    "tr.differs{background:var(--mark)}ul.errors{padding-left:1.2rem}\n"
    "figure{margin:1.2rem 0}figcaption{font-weight:600;margin-bottom:.3rem}"
    "svg{width:100%;height:auto}svg text{fill:var(--dim);font:12px system-ui,sans-serif}"
    "svg .label{fill:var(--fg)}.grid{stroke:var(--line)}.axis{fill:none;stroke:var(--dim)}\n"
    "svg g path{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}"
    "svg circle,svg rect{fill:currentColor}.dashed path{stroke-dasharray:6 4}\n"
    ".legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;padding:0;"
    "margin:.2rem 0;font-size:.85rem}.key{display:inline-block;width:1.1rem;height:.6rem;"
    "background:currentColor;margin-right:.4rem}.key.dashed{opacity:.55}\n"
    ".c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}"
    ".c4{color:var(--c4)}.c5{color:var(--c5)}.c6{color:var(--c6)}.c7{color:var(--c7)}\n"
    "</style></head><body><h1>Penstock report</h1>\n";

/* Reads a result that may come from another person: its size and depth are bounded, and nothing
 * else is relied on. NULL: reported. */
static struct json_object *command_read(const char *path)
{
  struct json_object *root = NULL;
  struct stat st;
  char *text = NULL;
  ssize_t got = -1;
  /* O_NONBLOCK: a FIFO without a writer is refused, not waited for. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const bool is_regular = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);

  if (is_regular && st.st_size <= RESULT_MAX) {
    text = malloc((size_t)st.st_size + 1);
    got = text ? read(fd, text, (size_t)st.st_size) : -1;
  }
  int code = fd < 0 || got < 0 ? errno : 0;
  if (fd >= 0)
    close(fd);
  if (got >= 0) {
    struct json_tokener *tokener = json_tokener_new();
    root = tokener ? json_tokener_parse_ex(tokener, text, (int)got) : NULL;
    if (tokener)
      json_tokener_free(tokener);
  }
  free(text);
  if (html_text_of(root, "penstock")[0] != '\0' && html_text_of(root, "command")[0] != '\0')
    return root;
  json_object_put(root);
  if (fd < 0)
    app_log(PST_LOG_ERROR, "report: cannot read %s: %s", path, strerror(code));
  else if (!is_regular)
    app_log(PST_LOG_ERROR, "report: %s is not a regular file; save the result in a file first",
            path);
  else
    app_log(PST_LOG_ERROR,
            "report: %s is not the result of a command; --json FILE of run, bench or request "
            "writes one",
            path);
  return NULL;
}

/* Replaces a page of an earlier call, and nothing else. */
static const char *command_why_not(int fd)
{
  char start[64] = "";
  const char *of_page = "<!DOCTYPE html>\n<!-- penstock report -->";

  if (fd == -ENOENT || (fd >= 0 && pread(fd, start, sizeof(start) - 1, 0) == 0) ||
      strncmp(start, of_page, strlen(of_page)) == 0)
    return NULL;
  return "exists and is not a page of `penstock report`";
}

static int command_write_all(int fd, const char *bytes, size_t length)
{
  while (length > 0) {
    ssize_t put = write(fd, bytes, length);
    if (put < 0)
      return -errno;
    bytes += put;
    length -= (size_t)put;
  }
  return 0;
}

static int command_write(const struct html *html, const char *path)
{
  struct atomic_file output = ATOMIC_FILE_INIT;
  const bool is_standard = strcmp(path, "-") == 0;
  int rc = is_standard ? 0
                       : app_atomic_file_open_over(&output, "--output", path,
                                                   ATOMIC_FILE_OVERWRITE | ATOMIC_FILE_WHOLE,
                                                   command_why_not, NULL);

  if (rc < 0)
    return rc;
  rc = command_write_all(is_standard ? STDOUT_FILENO : output.fd, html->bytes, html->length);
  if (rc < 0)
    app_log(PST_LOG_ERROR, "report: cannot write %s: %s", path, strerror(-rc));
  else if (!is_standard)
    rc = app_atomic_file_commit(&output, "--output", NULL);
  app_atomic_file_discard(&output);
  return rc;
}

/* Reads all results, makes the page, and writes it. Returns the exit status. */
static int command_run(const struct command *command, const struct arguments *arguments)
{
  struct html_result results[HTML_RESULTS];
  struct html html = {.length = 0};
  size_t count = 0;
  int status = PST_EXIT_OK;

  if (!arguments->topo[INIT_OUTPUT]) {
    app_arguments_wrong(command, "--output FILE is missing; - is standard output");
    return PST_EXIT_USAGE;
  }
  for (; count < arguments->operand_count && status == PST_EXIT_OK; count++) {
    const char *path = arguments->operands[count], *slash = strrchr(path, '/');
    results[count] = (struct html_result){slash ? slash + 1 : path, command_read(path)};
    if (!results[count].root)
      status = PST_EXIT_USAGE;
  }
  if (status == PST_EXIT_OK) {
    html_put_plain(&html, html_head);
    html_sections(&html, results, count);
    html_put(&html, "</body></html>\n");
    if (html.failed)
      app_log(PST_LOG_ERROR, "report: out of memory");
    if (html.failed || command_write(&html, arguments->topo[INIT_OUTPUT]) < 0)
      status = PST_EXIT_FAILED;
  }
  for (size_t i = 0; i < count; i++)
    json_object_put(results[i].root);
  free(html.bytes);
  return status;
}

const struct command app_command_report = {
    .name = "report",
    .operand = "RESULT...",
    .operands_least = 1,
    .operands_most = HTML_RESULTS,
    .options = OPTION_REPORT,
    .summary = "make a page with plots of one or more results",
    .help =
        "Makes one HTML page of results that --json has written. It shows streams, errors and machines\n"
        "side by side, with plots of rates, losses, stages and latency, and of sweeps of penstock bench.\n"
        "The page is one file that loads nothing else. Rates over time need results of `run --series`.\n"
        "\n"
        "Examples:\n"
        "  penstock report r.json --output report.html\n"
        "      Makes a page of one run.\n"
        "  penstock report before.json after.json -o report.html\n"
        "      Compares two runs.",
    .run = command_run,
};
