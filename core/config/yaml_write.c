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

static void put(struct printer *printer, const char *text)
{
  fputs(text, printer->out);
  printer->column += (int)strlen(text);
}

static void indent(struct printer *printer, int depth)
{
  printer->column = 0;
  for (int i = 0; i < depth; i++)
    put(printer, "  ");
}

static void end_line(struct printer *printer, const struct place *place)
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
static bool is_plain(const char *text)
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
static void put_quoted(struct printer *printer, const char *text)
{
  put(printer, "\"");
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
    put(printer, raw);
  }
  put(printer, "\"");
}

static void put_scalar(struct printer *printer, const struct node *node)
{
  if (node->quantity || is_plain(node->text))
    put(printer, node->text);
  else
    put_quoted(printer, node->text);
}

static void put_flow(struct printer *printer, const struct node *list)
{
  put(printer, "[");
  for (const struct node *item = list->first; item; item = item->next) {
    put_scalar(printer, item);
    if (item->next)
      put(printer, ", ");
  }
  put(printer, "]");
}

static void print_map(struct printer *printer, const struct node *map, int depth,
                      bool first_inline);

static void print_value(struct printer *printer, const struct node *node, int depth)
{
  if (node->type == NODE_SCALAR) {
    put(printer, " ");
    put_scalar(printer, node);
    end_line(printer, &node->place);
  } else if (node->type == NODE_MAP && node->first) {
    end_line(printer, NULL);
    print_map(printer, node, depth + 1, false);
  } else if (node->type == NODE_MAP) {
    put(printer, " {}");
    end_line(printer, &node->place);
  } else if (!node->first || node->first->type == NODE_SCALAR) {
    put(printer, " ");
    put_flow(printer, node);
    end_line(printer, &node->place);
  } else {
    end_line(printer, NULL);
    for (const struct node *item = node->first; item; item = item->next) {
      indent(printer, depth + 1);
      put(printer, "- ");
      print_map(printer, item, depth + 2, true);
    }
  }
}

static void print_map(struct printer *printer, const struct node *map, int depth, bool first_inline)
{
  for (const struct node *child = map->first; child; child = child->next) {
    if (!first_inline || child != map->first)
      indent(printer, depth);
    put(printer, child->key);
    put(printer, ":");
    print_value(printer, child, depth);
  }
}

int print_tree(const struct node *root, bool origins, char **text)
{
  char *made = NULL;
  size_t size = 0;
  struct printer printer = {.out = open_memstream(&made, &size), .origins = origins};
  if (!printer.out)
    return -ENOMEM;
  print_map(&printer, root, 0, false);
  bool failed = ferror(printer.out) != 0;
  if (fclose(printer.out) != 0 || failed) {
    free(made);
    return -ENOMEM;
  }
  *text = made;
  return 0;
}
