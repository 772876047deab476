/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands between the two ends of a control channel and changes what verbs_rc's addresses say, so
 * that a key, an address or a number of slots is wrong that no words of the program can make so.
 *
 *     forger LISTEN-ADDRESS LISTEN-PORT TO-ADDRESS TO-PORT FIELD...
 *
 * FIELD: rkey, another key; address, another place; slots, each slot given twice. One connection.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../transports/verbs_rc/connection.h"

#define ROOM 131072u

static char **fields;

static int fail(const char *what)
{
  fprintf(stderr, "forger: %s: %s\n", what, strerror(errno));
  return 1;
}

static struct sockaddr_in address_of(const char *host, const char *port)
{
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)strtoul(port, NULL, 10))};

  inet_pton(AF_INET, host, &address.sin_addr);
  return address;
}

static void change(struct rc_blob *blob)
{
  for (char **field = fields; *field; field++) {
    if (strcmp(*field, "rkey") == 0)
      blob->rkey ^= 0x5500;
    else if (strcmp(*field, "address") == 0)
      blob->address += blob->stride * blob->slots;
    else if (strcmp(*field, "slots") == 0) {
      blob->runs[1] = blob->runs[0];
      blob->run_count = 2;
      blob->slots = blob->share = 2 * blob->slots;
    }
  }
}

/* A receiver's address among the bytes, which is whole: a frame is sent by one call. */
static void forge(uint8_t *bytes, size_t length)
{
  struct rc_blob blob;

  for (size_t i = 0; i + RC_BLOB_BYTES <= length; i++)
    if (rc_blob_read(bytes + i, RC_BLOB_BYTES, &blob) && blob.is_receiver) {
      change(&blob);
      rc_blob_write(&blob, bytes + i);
      fprintf(stderr, "forger: changed an address\n");
    }
}

/* Passes bytes from one end to the other. False: it has come to its end. */
static int pass_on(int from, int to)
{
  static uint8_t bytes[ROOM];
  ssize_t n = recv(from, bytes, sizeof(bytes), 0);

  if (n <= 0)
    return 0;
  forge(bytes, (size_t)n);
  for (ssize_t sent = 0, more; sent < n; sent += more)
    if ((more = send(to, bytes + sent, (size_t)(n - sent), MSG_NOSIGNAL)) < 0)
      return 0;
  return 1;
}

int main(int argc, char **argv)
{
  int on = 1;

  if (argc < 6) {
    fprintf(stderr, "usage: forger LISTEN-ADDRESS LISTEN-PORT TO-ADDRESS TO-PORT FIELD...\n");
    return 2;
  }
  struct sockaddr_in near = address_of(argv[1], argv[2]), far = address_of(argv[3], argv[4]);
  fields = argv + 5;
  int listener = socket(AF_INET, SOCK_STREAM, 0), other = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener, (struct sockaddr *)&near, sizeof(near)) < 0 || listen(listener, 1) < 0)
    return fail(argv[2]);
  int one = accept(listener, NULL, NULL);
  close(listener);
  if (one < 0 || connect(other, (struct sockaddr *)&far, sizeof(far)) < 0)
    return fail(argv[4]);
  struct pollfd ends[2] = {{.fd = one, .events = POLLIN}, {.fd = other, .events = POLLIN}};
  while (poll(ends, 2, -1) > 0)
    for (int i = 0; i < 2; i++)
      if (ends[i].revents && !pass_on(ends[i].fd, ends[1 - i].fd))
        return 0;
  return fail("poll");
}
