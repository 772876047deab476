/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of node: between. */
#include "between.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

void between_listen(struct between *between)
{
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof(address);

  memset(between, 0, sizeof(*between));
  between->most = UINT32_MAX;
  between->up.from = between->up.to = between->down.from = between->down.to = -1;
  between->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  assert_int_equal(bind(between->listener, (struct sockaddr *)&address, sizeof(address)), 0);
  assert_int_equal(listen(between->listener, 4), 0);
  assert_int_equal(getsockname(between->listener, (struct sockaddr *)&address, &length), 0);
  snprintf(between->address, sizeof(between->address), "127.0.0.1:%u", ntohs(address.sin_port));
}

void between_hang_up(struct between *between)
{
  if (between->up.from >= 0)
    close(between->up.from);
  if (between->up.to >= 0)
    close(between->up.to);
  between->up.from = between->up.to = between->down.from = between->down.to = -1;
}

static void take_caller(struct between *between, uint16_t port)
{
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int client = accept4(between->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

  if (client < 0)
    return;
  int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(server, (struct sockaddr *)&address, sizeof(address)), 0);
  fcntl(server, F_SETFL, O_NONBLOCK);
  between->up.from = between->down.to = client;
  between->up.to = between->down.from = server;
}

static void overhear(struct between *between, const uint8_t *frame, size_t length)
{
  static struct wire_message heard;
  char why[WIRE_WHY_MAX];

  if (wire_decode(frame + WIRE_HEADER_BYTES, length - WIRE_HEADER_BYTES, &heard, why) < 0 ||
      heard.type != WIRE_REGION || heard.blob_length > sizeof(between->key))
    return;
  memcpy(between->key, heard.blob, heard.blob_length);
  between->key_bytes = heard.blob_length;
  between->key_length = heard.region_length;
}

static void pass(struct between *between, struct way *way)
{
  if (way->from < 0)
    return;
  ssize_t got = recv(way->from, way->bytes + way->length, sizeof(way->bytes) - way->length, 0);
  if (got == 0) {
    between_hang_up(between);
    return;
  }
  way->length += got > 0 ? (size_t)got : 0;
  while (way->length >= WIRE_HEADER_BYTES) {
    const uint8_t *b = way->bytes;
    size_t whole = WIRE_HEADER_BYTES + ((size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3]);
    if (way->length < whole)
      return;
    if (between->up.frames + between->down.frames == between->most ||
        send(way->to, b, whole, MSG_NOSIGNAL) != (ssize_t)whole) {
      between_hang_up(between);
      return;
    }
    if (way == &between->up)
      overhear(between, b, whole);
    way->frames++;
    way->length -= whole;
    memmove(way->bytes, way->bytes + whole, way->length);
  }
}

void between_pass(struct between *between, uint16_t port)
{
  if (between->up.from < 0)
    take_caller(between, port);
  pass(between, &between->up);
  pass(between, &between->down);
}

void between_add(struct between *between, const struct wire_message *said)
{
  static uint8_t frame[WIRE_FRAME_MAX];
  size_t length;

  assert_int_equal(wire_encode(said, frame, sizeof(frame), &length), 0);
  assert_int_equal(send(between->up.to, frame, length, MSG_NOSIGNAL), length);
}
