/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a configuration as YAML. */
#include "tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORIGIN_COLUMN 44

struct printer {
  FILE *out;
  bool origins;
  int column;
};

static void yaml_put(struct printer *printer, const char *text)
{
  fputs(text, printer->out);
  printer->column += (int)strlen(text);
}

static void yaml_indent(struct printer *printer, int depth)
{
  printer->column = 0;
  for (int i = 0; i < depth; i++)
    yaml_put(printer, "  ");
}

static void yaml_end_line(struct printer *printer, const struct place *place)
{
  if (printer->origins && place) {
    fprintf(printer->out, "%*s# %s",
            printer->column < ORIGIN_COLUMN ? ORIGIN_COLUMN - printer->column : 1, "",
            place->source);
    if (place->line)
      fprintf(printer->out, ":%u:%u", place->line, place->column);
  }
  fputc('\n', printer->out);
  printer->column = 0;
}

/* Would every YAML reader take it for this very text without quotes? */
static bool yaml_is_plain(const char *text)
{
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/.";
  static const char further[] = "+-";
  static const char *const words[] = {"null", "true", "false", "yes", "no", "on", "off"};
  size_t length = strspn(text, letters);
  if (length == 0)
    return false;
  while (text[length] && (strchr(letters, text[length]) || strchr(further, text[length])))
    length++;
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
    if (strcmp(text, words[i]) == 0)
      return false;
  return text[length] == '\0';
}

/* Between double quotes. Texts are UTF-8 without control characters; a few others
 * would not survive as they are. */
static void yaml_put_quoted(struct printer *printer, const char *text)
{
  yaml_put(printer, "\"");
  for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
    char raw[8];
    if (*c == '"' || *c == '\\')
      snprintf(raw, sizeof(raw), "\\%c", *c);
    else if (c[0] == 0xc2 && (c[1] == 0x85 || c[1] == 0xa0))
      snprintf(raw, sizeof(raw), "\\%c", *++c == 0x85 ? 'N' : '_');
    else if (c[0] == 0xe2 && c[1] == 0x80 && (c[2] == 0xa8 || c[2] == 0xa9))
      snprintf(raw, sizeof(raw), "\\%c", *(c += 2) == 0xa8 ? 'L' : 'P');
    else
      snprintf(raw, sizeof(raw), "%c", *c);
    yaml_put(printer, raw);
  }
  yaml_put(printer, "\"");
}

static void yaml_put_scalar(struct printer *printer, const struct node *node)
{
  if (node->quantity || yaml_is_plain(node->text))
    yaml_put(printer, node->text);
  else
    yaml_put_quoted(printer, node->text);
}

static void yaml_put_flow(struct printer *printer, const struct node *list)
{
  yaml_put(printer, "[");
  for (const struct node *item = list->first; item; item = item->next) {
    yaml_put_scalar(printer, item);
    if (item->next)
      yaml_put(printer, ", ");
  }
  yaml_put(printer, "]");
}

static void yaml_print_map(struct printer *printer, const struct node *map, int depth,
                           bool first_inline);

static void yaml_print_value(struct printer *printer, const struct node *node, int depth)
{
  if (node->type == NODE_SCALAR) {
    yaml_put(printer, " ");
    yaml_put_scalar(printer, node);
    yaml_end_line(printer, &node->place);
  } else if (node->type == NODE_MAP && node->first) {
    yaml_end_line(printer, NULL);
    yaml_print_map(printer, node, depth + 1, false);
  } else if (node->type == NODE_MAP) {
    yaml_put(printer, " {}");
    yaml_end_line(printer, &node->place);
  } else if (!node->first || node->first->type == NODE_SCALAR) {
    yaml_put(printer, " ");
    yaml_put_flow(printer, node);
    yaml_end_line(printer, &node->place);
  } else {
    yaml_end_line(printer, NULL);
    for (const struct node *item = node->first; item; item = item->next) {
      yaml_indent(printer, depth + 1);
      yaml_put(printer, "- ");
      yaml_print_map(printer, item, depth + 2, true);
    }
  }
}

static void yaml_print_map(struct printer *printer, const struct node *map, int depth,
                           bool first_inline)
{
  for (const struct node *child = map->first; child; child = child->next) {
    if (!first_inline || child != map->first)
      yaml_indent(printer, depth);
    yaml_put(printer, child->key);
    yaml_put(printer, ":");
    yaml_print_value(printer, child, depth);
  }
}

int print_tree(const struct node *root, bool origins, char **text)
{
  char *made = NULL;
  size_t size = 0;
  struct printer printer = {.out = open_memstream(&made, &size), .origins = origins};
  if (!printer.out)
    return -ENOMEM;
  yaml_print_map(&printer, root, 0, false);
  bool failed = ferror(printer.out) != 0;
  if (fclose(printer.out) != 0 || failed) {
    free(made);
    return -ENOMEM;
  }
  *text = made;
  return 0;
}
