/* SPDX-License-Identifier: Apache-2.0 */
/* Takes names of hosts and users, and addresses, out of a report. */
#include "redact.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <json-c/json.h>
#include <pthread.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/types.h>
#include <unistd.h>

#define NAME_LEAST 2 /* bytes: a letter is a word of any sentence */
#define WORD_MAX 256
#define NAME_BYTES 256

enum kind { HOST, USER, HOME, IPV4, IPV6, LINK_LOCAL, MAC, GUID, UUID, SERIAL, KINDS };

static const char *const kind_names[KINDS] = {
    [HOST] = "host",     [USER] = "user", [HOME] = "~",
    [IPV4] = "ipv4",     [IPV6] = "ipv6", [LINK_LOCAL] = "link-local",
    [MAC] = "mac",       [GUID] = "guid", [UUID] = "uuid",
    [SERIAL] = "serial",
};

/* Such a name tells nobody which host or user it is, and a report is full of these words: words of
 * sentences, verdicts, names of plugins. */
static const char *const common[] = {
    "admin",   "client",   "cuda",  "debian",   "device",    "ethernet",  "failed", "fault",
    "gpu",     "host",     "igpu",  "linux",    "localhost", "loopback",  "memory", "node",
    "ok",      "penstock", "root",  "server",   "skipped",   "transport", "ucx",    "udp",
    "unknown", "user",     "verbs", "verbs_dc", "verbs_rc"};

struct entry {
  struct entry *next;
  enum kind kind;
  unsigned number;
  char what[NAME_BYTES]; /* in one form, so that one thing has one label */
};

struct redact {
  pthread_mutex_t lock;
  struct entry *known;
  unsigned counts[KINDS];
};

/* Output that is being written. */
struct writing {
  FILE *to;
  struct redact *redact;
};

/* ---- Labels --------------------------------------------------------------------------------- */

static struct entry *redact_entry_of(struct redact *redact, enum kind kind, const char *what)
{
  struct entry **at = &redact->known;

  for (; *at != NULL; at = &(*at)->next)
    if ((*at)->kind == kind && strcasecmp((*at)->what, what) == 0)
      return *at;
  struct entry *made = calloc(1, sizeof(*made));
  if (!made)
    return NULL;
  made->kind = kind;
  made->number = ++redact->counts[kind];
  snprintf(made->what, sizeof(made->what), "%s", what);
  return *at = made;
}

static void redact_put_label(const struct writing *writing, enum kind kind, const char *what)
{
  const struct entry *entry = redact_entry_of(writing->redact, kind, what);

  if (kind == HOME)
    fputs("~", writing->to);
  else if (!entry) /* one for all, rather than the thing itself */
    fprintf(writing->to, "%s-?", kind_names[kind]);
  else
    fprintf(writing->to, "%s-%u", kind_names[kind], entry->number);
}

/* ---- Names ---------------------------------------------------------------------------------- */

static bool redact_is_common(const char *name)
{
  for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
    if (strcasecmp(name, common[i]) == 0)
      return true;
  return strlen(name) < NAME_LEAST;
}

static bool redact_is_address(const char *name)
{
  unsigned char bytes[16];

  return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

static void redact_know(struct redact *redact, enum kind kind, const char *name)
{
  if (!redact_is_common(name) && !redact_is_address(name) && strlen(name) < NAME_BYTES)
    redact_entry_of(redact, kind, name);
}

void app_redact_host(struct redact *redact, const char *name)
{
  char first[NAME_BYTES];

  if (!redact)
    return;
  pthread_mutex_lock(&redact->lock);
  redact_know(redact, HOST, name);
  snprintf(first, sizeof(first), "%.*s", (int)strcspn(name, "."), name);
  if (!redact_is_address(name))
    redact_know(redact, HOST, first);
  pthread_mutex_unlock(&redact->lock);
}

static void redact_know_user(struct redact *redact)
{
  const struct passwd *user = getpwuid(getuid());
  const char *home = getenv("HOME");

  if (user)
    redact_know(redact, USER, user->pw_name);
  if (!home && user)
    home = user->pw_dir;
  /* No folder of system accounts, such as "/". */
  if (home && home[0] == '/' && strlen(home) > 2)
    redact_know(redact, HOME, home);
}

struct redact *app_redact_open(void)
{
  struct redact *redact = calloc(1, sizeof(*redact));
  char name[NAME_BYTES] = "";

  if (!redact)
    return NULL;
  pthread_mutex_init(&redact->lock, NULL);
  redact_know_user(redact);
  if (gethostname(name, sizeof(name) - 1) == 0)
    app_redact_host(redact, name);
  return redact;
}

void app_redact_close(struct redact *redact)
{
  if (!redact)
    return;
  while (redact->known) {
    struct entry *entry = redact->known;
    redact->known = entry->next;
    free(entry);
  }
  pthread_mutex_destroy(&redact->lock);
  free(redact);
}

static bool redact_is_word(char c)
{
  return isalnum((unsigned char)c) || c == '_';
}

/* The longest known name that `at` begins with, and how long it is. */
static const struct entry *redact_name_at(const struct redact *redact, const char *at,
                                          size_t *length)
{
  const struct entry *found = NULL;

  *length = 0;
  for (const struct entry *entry = redact->known; entry != NULL; entry = entry->next) {
    const size_t bytes = strlen(entry->what);
    if (entry->kind > HOME || bytes <= *length || redact_is_word(at[strnlen(at, bytes)]) ||
        (entry->kind != HOME && redact_is_common(entry->what)))
      continue;
    if ((entry->kind == HOME ? strncmp : strncasecmp)(at, entry->what, bytes) == 0) {
      found = entry;
      *length = bytes;
    }
  }
  return found;
}

/* ---- Addresses and numbers ------------------------------------------------------------------- */

/* The length of the text at `at` that has `form`: groups of as many hex digits as `form` has x's,
 * with the same separators. 0: `at` does not have it, or goes on. */
static size_t redact_match_form(const char *at, const char *form)
{
  size_t i = 0;

  for (; form[i] != '\0'; i++)
    if (form[i] == 'x' ? !isxdigit((unsigned char)at[i]) : at[i] != form[i])
      return 0;
  return redact_is_word(at[i]) || (at[i] == ':' && isxdigit((unsigned char)at[i + 1])) ? 0 : i;
}

/* Whether an address of hardware begins at `at`: writes its stand-in, and sets *length to the bytes
 * that it replaces. */
static bool redact_in_forms(const struct writing *writing, const char *at, size_t *length)
{
  static const struct {
    const char *lead, *form;
    enum kind kind;
  } forms[] = {
      {"", "xx:xx:xx:xx:xx:xx", MAC},
      {"", "xx-xx-xx-xx-xx-xx", MAC},
      {"", "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", UUID},
      {"", "xxxx:xxxx:xxxx:xxxx", GUID},
      {"0x", "xxxxxxxxxxxxxxxx", GUID},
  };
  char digits[64];

  for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
    const size_t lead = strlen(forms[i].lead);
    const size_t bytes =
        strncmp(at, forms[i].lead, lead) == 0 ? redact_match_form(at + lead, forms[i].form) : 0;
    if (bytes == 0)
      continue;
    size_t used = 0;
    for (const char *c = at + lead; c < at + lead + bytes; c++)
      if (isxdigit((unsigned char)*c))
        digits[used++] = *c;
    digits[used] = '\0';
    redact_put_label(writing, forms[i].kind, digits);
    *length = lead + bytes;
    return true;
  }
  return false;
}

/* enx001122334455: a netdev that is called by its MAC address (systemd.net-naming-scheme(7)). */
static bool redact_in_netdev(const struct writing *writing, const char *at, size_t *length)
{
  const size_t bytes = strncmp(at, "enx", 3) == 0 ? redact_match_form(at + 3, "xxxxxxxxxxxx") : 0;
  char what[16];

  if (bytes == 0)
    return false;
  snprintf(what, sizeof(what), "%.12s", at + 3);
  fputs("enx-", writing->to);
  redact_put_label(writing, MAC, what);
  *length = bytes + 3;
  return true;
}

/* MT2112X01234, as adapters of NVIDIA have it in their vital product data: the year, the week, one
 * or two letters, digits. */
static bool redact_in_serial(const struct writing *writing, const char *at, size_t *length)
{
  const size_t bytes = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
  char what[32];

  if (strncmp(at, "MT", 2) != 0 || bytes < 11 || bytes >= sizeof(what) ||
      redact_is_word(at[bytes]) || strspn(at + 2, "0123456789") != 4)
    return false;
  const size_t letters = strspn(at + 6, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
  if (letters < 1 || letters > 2 || 6 + letters + strspn(at + 6 + letters, "0123456789") != bytes)
    return false;
  snprintf(what, sizeof(what), "%.*s", (int)bytes, at);
  redact_put_label(writing, SERIAL, what);
  *length = bytes;
  return true;
}

static void redact_put_ipv4(const struct writing *writing, const unsigned char bytes[4],
                            const char *as)
{
  char what[INET_ADDRSTRLEN];

  inet_ntop(AF_INET, bytes, what, sizeof(what));
  if (bytes[0] == 127 || strcmp(what, "0.0.0.0") == 0)
    fputs(as, writing->to);
  else
    redact_put_label(writing, IPV4, what);
}

static void redact_put_ipv6(const struct writing *writing, const unsigned char bytes[16],
                            const char *as)
{
  static const unsigned char none[16], own[16] = {[15] = 1},
                                       mapped[12] = {[10] = 0xff, [11] = 0xff};
  char what[INET6_ADDRSTRLEN];

  inet_ntop(AF_INET6, bytes, what, sizeof(what));
  if (memcmp(bytes, none, sizeof(none)) == 0 || memcmp(bytes, own, sizeof(own)) == 0)
    fputs(as, writing->to);
  else if (memcmp(bytes, mapped, sizeof(mapped)) == 0)
    redact_put_ipv4(writing, bytes + 12, as);
  else
    redact_put_label(writing, bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80 ? LINK_LOCAL : IPV6,
                     what);
}

/* The longest beginning of `at` that is an address; what ends a sentence is none of it. */
static bool redact_in_addresses(const struct writing *writing, const char *at, size_t *length)
{
  size_t bytes = strspn(at, "0123456789abcdefABCDEF:.");
  char word[INET6_ADDRSTRLEN + 1];
  unsigned char raw[16];

  if (bytes >= sizeof(word))
    bytes = sizeof(word) - 1;
  for (; bytes > 0; bytes--) {
    snprintf(word, sizeof(word), "%.*s", (int)bytes, at);
    *length = bytes;
    if (redact_is_word(at[bytes]))
      continue;
    if (strchr(word, ':') && inet_pton(AF_INET6, word, raw) == 1) {
      redact_put_ipv6(writing, raw, word);
      return true;
    }
    if (inet_pton(AF_INET, word, raw) == 1 &&
        !(at[bytes] == '.' && isdigit((unsigned char)at[bytes + 1]))) {
      redact_put_ipv4(writing, raw, word);
      return true;
    }
  }
  return false;
}

/* ---- Texts ------------------------------------------------------------------------------------
 */

/* Writes the replacement of the hidden text at `at`, which begins a word. False: nothing that is
 * hidden. */
static bool redact_put_hidden(const struct writing *writing, const char *at, size_t *length)
{
  const struct entry *name = redact_name_at(writing->redact, at, length);

  if (name) {
    redact_put_label(writing, name->kind, name->what);
    return true;
  }
  return redact_in_forms(writing, at, length) || redact_in_netdev(writing, at, length) ||
         redact_in_serial(writing, at, length) || redact_in_addresses(writing, at, length);
}

static void redact_put_text(const struct writing *writing, const char *text)
{
  size_t length;

  for (const char *at = text; *at != '\0'; at += length) {
    const bool begins =
        at == text || (!redact_is_word(at[-1]) && (at[-1] != '.' || !isdigit((unsigned char)*at)));
    if (begins && redact_put_hidden(writing, at, &length))
      continue;
    length = 1;
    while (redact_is_word(at[0]) && redact_is_word(at[length]))
      length++;
    fwrite(at, 1, length, writing->to);
  }
}

char *app_redact_text(struct redact *redact, const char *text)
{
  struct writing writing = {.redact = redact};
  char *made = NULL;
  size_t size = 0;

  if (!redact || !(writing.to = open_memstream(&made, &size)))
    return NULL;
  pthread_mutex_lock(&redact->lock);
  redact_put_text(&writing, text);
  pthread_mutex_unlock(&redact->lock);
  if (fclose(writing.to) != 0) {
    free(made);
    return NULL;
  }
  return made;
}

static void redact_hide_hostname(struct redact *redact, struct json_object *value)
{
  char label[64];

  pthread_mutex_lock(&redact->lock);
  const char *name = json_object_get_string(value);
  const struct entry *entry =
      strncmp(name, "host-", 5) == 0 ? NULL : redact_entry_of(redact, HOST, name);
  snprintf(label, sizeof(label), "host-%u", entry ? entry->number : 0);
  pthread_mutex_unlock(&redact->lock);
  if (entry)
    json_object_set_string(value, label);
}

static void redact_members(struct redact *redact, struct json_object *object)
{
  json_object_object_foreach(object, key, member)
  {
    if (strcmp(key, "hostname") == 0 && redact && json_object_is_type(member, json_type_string))
      redact_hide_hostname(redact, member);
    else
      app_redact_json(redact, member);
  }
}

void app_redact_json(struct redact *redact, struct json_object *value)
{
  switch (json_object_get_type(value)) {
  case json_type_object:
    redact_members(redact, value);
    break;
  case json_type_array:
    for (size_t i = 0; i < json_object_array_length(value); i++)
      app_redact_json(redact, json_object_array_get_idx(value, i));
    break;
  case json_type_string: {
    char *made = app_redact_text(redact, json_object_get_string(value));
    json_object_set_string(value, made ? made : "?");
    free(made);
    break;
  }
  default:
    break;
  }
}
