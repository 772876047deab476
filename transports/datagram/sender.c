/* SPDX-License-Identifier: Apache-2.0 */
/* A sender's headers, as its options begin them. */
#include "sender.h"

#include <openssl/crypto.h>
#include <sys/random.h>

int dg_sender_open(struct dg_sender *sender, const struct dg_device *device,
                   const struct pst_options *options)
{
  const struct pst_host *host = device->host;
  uint64_t type = host->option_uint(options, "payload_type");
  int rc = 0;
  struct {
    uint32_t ssrc, initial, timestamp;
    uint64_t nonce;
    uint8_t key[DG_TAG_KEY_BYTES];
  } random;

  if (getrandom(&random, sizeof(random), 0) != sizeof(random))
    return PST_REFUSE(host, -errno, "no random numbers: %s; see getrandom(2)", strerror(errno));
  *sender = (struct dg_sender){
      .framing = device->framing,
      .sums = device->framing == DG_FRAMING_SEQUENCE && !device->authenticates &&
              host->option_uint(options, "checksum"),
      .header = {.ssrc = (uint32_t)host->option_uint(options, "ssrc"),
                 .nonce = random.nonce,
                 .payload_type = type > 127 ? 96 : (uint8_t)type},
      .clock_rate = device->clock_rate,
      .frame = (uint32_t)host->option_uint(options, "frame"),
      .started_ns = host->clock_ns(host),
  };
  if (device->framing == DG_FRAMING_RTP) { /* RFC 3550, 5.1: random beginnings */
    sender->header.ssrc = sender->header.ssrc ? sender->header.ssrc : random.ssrc;
    sender->header.sequence = random.initial & 0xffff;
    sender->header.timestamp = random.timestamp;
  }
  if (device->authenticates) {
    memcpy(sender->key, random.key, sizeof(sender->key));
    rc = dg_tag_open(sender->key, false, &sender->tag);
  }
  OPENSSL_cleanse(&random, sizeof(random));
  return rc < 0 ? PST_REFUSE(host, rc, "authenticate: %s", dg_tag_reason(rc)) : 0;
}

void dg_sender_close(struct dg_sender *sender)
{
  dg_tag_close(sender->tag);
  sender->tag = NULL;
  OPENSSL_cleanse(sender->key, sizeof(sender->key));
}
