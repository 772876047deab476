/* SPDX-License-Identifier: Apache-2.0 */
/* One write for each change, after which the cursor stands at the beginning of the line below the
 * block: whatever ends the program leaves the terminal usable. */
#include "live.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "log.h"
#include "util/printable.h"

#define LINE_BYTES 768
#define BLOCK_BYTES (64 * LINE_BYTES)
#define COLUMNS_DEFAULT 80
#define ROWS_DEFAULT 24

static struct {
  pthread_mutex_t lock;
  bool has_colour, has_blocks; /* the encoding is UTF-8 */
  char block[BLOCK_BYTES];     /* as it was written last */
  size_t length;
  uint32_t rows, widest;
} live = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void live_write(const char *bytes, size_t length)
{
  ssize_t written = write(STDERR_FILENO, bytes, length);
  (void)written; /* nobody is left to tell */
}

static void live_size(uint32_t *columns, uint32_t *rows)
{
  struct winsize size = {0};

  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0)
    size.ws_col = size.ws_row = 0;
  *columns = size.ws_col > 0 ? size.ws_col : COLUMNS_DEFAULT;
  *rows = size.ws_row > 0 ? size.ws_row : ROWS_DEFAULT;
}

/* How to get to the beginning of the block and clear it; "": where the terminal has become narrower
 * than the block its lines may be broken, so that a new one begins below. */
static int live_back(char *to, size_t size)
{
  uint32_t columns, rows;

  live_size(&columns, &rows);
  if (live.rows == 0 || live.widest > columns || live.rows >= rows)
    return snprintf(to, size, "\r\033[J");
  return snprintf(to, size, "\r\033[%uA\033[J", live.rows);
}

/* A line of the log: the block goes, and comes again below it. */
static void live_around(bool is_before)
{
  char back[32];

  if (is_before) {
    pthread_mutex_lock(&live.lock);
    if (live.rows > 0)
      live_write(back, (size_t)live_back(back, sizeof(back)));
    return;
  }
  live_write(live.block, live.length);
  pthread_mutex_unlock(&live.lock);
}

static bool live_is_utf8(void)
{
  static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    const char *value = getenv(names[i]);
    if (value && value[0] != '\0')
      return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
  }
  return false;
}

bool app_live_open(void)
{
  const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");

  if (!isatty(STDERR_FILENO) || !term || term[0] == '\0' || strcmp(term, "dumb") == 0)
    return false;
  live.has_colour = !no_colour || no_colour[0] == '\0';
  live.has_blocks = live_is_utf8();
  app_log_around(live_around);
  return true;
}

/* ---- Drawing ----------------------------------------------------------------- */

static size_t live_sparkline(const struct live_line *line, char *to, size_t size)
{
  static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static const char *const plain[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
  double most = 0;
  size_t used = 0;

  for (uint32_t i = 0; i < line->rate_count; i++)
    most = line->rates[i] > most ? line->rates[i] : most;
  if (live.has_colour)
    used += (size_t)snprintf(to, size, "\033[%dm", line->has_loss ? 31 : 32);
  for (uint32_t i = 0; i < line->rate_count; i++) {
    int level = most > 0 ? (int)(line->rates[i] / most * 7.999) : 0;
    used += (size_t)snprintf(to + used, size - used, "%s",
                             (live.has_blocks ? blocks : plain)[level < 0 ? 0 : level]);
  }
  return used + (size_t)snprintf(to + used, size - used, "%s ", live.has_colour ? "\033[0m" : "");
}

/* As many whole characters of `text` as fit in `columns`, one column each; how many bytes. */
static size_t live_fit(const char *text, size_t length, uint32_t *columns)
{
  size_t at = 0;
  uint32_t code;

  while (at<length && * columns> 0) {
    size_t n = pst_utf8_decode(text + at, length - at, &code);
    at += n > 0 ? n : 1;
    (*columns)--;
  }
  return at;
}

/* Appends the line to the block, cut to the columns. */
static void live_draw(const struct live_line *line, uint32_t columns)
{
  char sparkline[LIVE_SAMPLES * 3 + 32];
  size_t length = strlen(line->text);
  size_t head = line->insert_at < length ? line->insert_at : length;
  uint32_t left = columns - 1; /* in the last one some terminals begin a new line */

  if (live.length + LINE_BYTES > sizeof(live.block) || length > LINE_BYTES / 2)
    return;
  size_t n = live_fit(line->text, head, &left);
  memcpy(live.block + live.length, line->text, n);
  live.length += n;
  if (line->rate_count > 0 && left > line->rate_count + 1) {
    n = live_sparkline(line, sparkline, sizeof(sparkline));
    memcpy(live.block + live.length, sparkline, n);
    live.length += n;
    left -= line->rate_count + 1;
  }
  n = live_fit(line->text + head, length - head, &left);
  memcpy(live.block + live.length, line->text + head, n);
  live.length += n;
  live.block[live.length++] = '\n';
  live.rows++;
  if (columns - left > live.widest)
    live.widest = columns - left;
}

void app_live_show(const struct live_line *lines, uint32_t count)
{
  char back[32], more[64], *all = malloc(BLOCK_BYTES + sizeof(back));
  uint32_t columns, rows;

  pthread_mutex_lock(&live.lock);
  size_t used = (size_t)live_back(back, sizeof(back));
  live_size(&columns, &rows);
  live.length = live.rows = live.widest = 0;
  uint32_t shown = rows < 4 ? 1 : rows - 2;
  if (shown > BLOCK_BYTES / LINE_BYTES - 1)
    shown = BLOCK_BYTES / LINE_BYTES - 1;
  for (uint32_t i = 0; i < count && i < shown && columns > 1; i++)
    live_draw(&lines[i], columns);
  if (count > shown && columns > 1) {
    snprintf(more, sizeof(more), "and %u more", count - shown);
    live_draw(&(const struct live_line){.text = more}, columns);
  }
  if (all) {
    memcpy(all, back, used);
    memcpy(all + used, live.block, live.length);
    live_write(all, used + live.length);
  }
  pthread_mutex_unlock(&live.lock);
  free(all);
}

void app_live_close(void)
{
  app_log_around(NULL);
  pthread_mutex_lock(&live.lock);
  live.rows = 0;
  live.length = 0;
  pthread_mutex_unlock(&live.lock);
}
