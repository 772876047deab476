/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces what identifies a host, a person or a single device by labels, of which each stands for
 * one thing wherever that is written: "ipv4-1". Any thread. */
#ifndef APP_REDACT_H
#define APP_REDACT_H

struct json_object;
struct redact;

/* NULL: out of memory. Knows this host's name, this user's, and the home folder. */
struct redact *app_redact_open(void);
void app_redact_close(struct redact *redact);

/* A host's name, to be hidden wherever it is a word; "node1.example.org" hides "node1", too. */
void app_redact_host(struct redact *redact, const char *name);

/* A copy of `text` with its labels; where there is no memory for it, NULL. */
char *app_redact_text(struct redact *redact, const char *text);

/* Replaces each string in `value` by its copy with labels; a member "hostname" is a host's name
 * whatever it is. A string that there is no memory for becomes "?". */
void app_redact_json(struct redact *redact, struct json_object *value);

#endif
