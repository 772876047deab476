/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protocol between `penstock share` and the transport plugin `share` on one host.
 *
 * A client connects to the router's Unix socket (SOCK_SEQPACKET). Each packet of the client is a
 * pst_share_request, `length` bytes and descriptors; the router answers each by one
 * pst_share_reply. A connection is one device. The calls are those of transport.h.
 *
 * Each worker has a memfd, which the router makes and seals: a pst_share_page, then the submission
 * ring, then the completion ring. Positions run freely; an entry lies at position % entries. The
 * writer publishes its tail with release order; the reader loads it with acquire order. A side
 * that goes to sleep sets its word, and looks at the ring once more. If the word is set, the other
 * side wakes it by pst_share_wake() of the sleeping side's event descriptor, a timerfd.
 *
 * The router trusts nothing in this memory: it copies an entry once, and checks the copy. A client
 * that breaks a rule is disconnected.
 *
 * Both sides have the same PST_SHARE_VERSION, or the router refuses the client.
 */
#ifndef PENSTOCK_SHARE_PROTOCOL_H
#define PENSTOCK_SHARE_PROTOCOL_H

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "transport.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PST_SHARE_VERSION 1u
#define PST_SHARE_BYTES 16384u /* behind a request or reply, at most */
#define PST_SHARE_FDS 4u       /* descriptors with a request or reply, at most */
#define PST_SHARE_ENTRIES 4096u
#define PST_SHARE_ENDPOINTS 1024u /* of one worker, at most */
#define PST_SHARE_REQUESTS 65536u /* of one endpoint, at most */
#define PST_SHARE_PIECES 32u      /* of one request, at most */
#define PST_SHARE_TOKEN 64u       /* bytes of a token, NUL included */
#define PST_SHARE_TOKEN_MIN 16u   /* without NUL */

enum pst_share_call {
  PST_SHARE_OPEN = 1, /* the first of a connection */
  PST_SHARE_START,
  PST_SHARE_MR_REGISTER, /* the memory's descriptor comes along */
  PST_SHARE_MR_DEREGISTER,
  PST_SHARE_MR_PACK,
  PST_SHARE_WORKER_OPEN, /* descriptors of the reply: the memfd, the router's event, the client's */
  PST_SHARE_WORKER_CLOSE,
  PST_SHARE_RING_OPEN,
  PST_SHARE_RING_CLOSE,
  PST_SHARE_ENDPOINT_OPEN,
  PST_SHARE_ENDPOINT_ADDRESS,
  PST_SHARE_ENDPOINT_CONNECT, /* `flag`: there is an address */
  PST_SHARE_ENDPOINT_PATH,
  PST_SHARE_ENDPOINT_CLOSE,
  PST_SHARE_REMOTE_OPEN,
  PST_SHARE_REMOTE_CLOSE,
  PST_SHARE_COUNTERS, /* `flag`: enum pst_share_counted; the reply has pst_counter_value */
  PST_SHARE_DESCRIBE,
};

enum pst_share_counted {
  PST_SHARE_OF_DEVICE = 0,
  PST_SHARE_OF_WORKER = 1,
  PST_SHARE_OF_ENDPOINT = 2,
};

struct pst_share_mr {
  uint64_t length; /* of the registered range, which begins at from.offset */
  uint64_t domain;
  uint64_t send_max;
  uint32_t access;
  uint32_t reserved;
  struct pst_export from; /* FD, DMABUF, VENDOR_FD; fd means nothing here */
};

struct pst_share_ring {
  uint64_t base, stride, payload_max;
  uint32_t slots, mr;
  uint32_t headroom, tailroom;
  uint32_t endpoints, endpoint_slots;
};

struct pst_share_endpoint {
  uint64_t message_max, timeout_ns, domain;
  uint32_t roles, ring; /* `ring` 0: none */
  uint32_t requests, pieces;
  uint32_t mr; /* 0: none */
  uint32_t is_foreign;
  char label[64];
};

struct pst_share_request {
  uint32_t version; /* PST_SHARE_VERSION */
  uint32_t call;    /* enum pst_share_call */
  uint32_t worker;  /* numbers that replies have given */
  uint32_t object;  /* mr, ring, endpoint */
  uint32_t remote;
  uint32_t flag;
  uint32_t length; /* bytes behind this struct */
  uint32_t reserved;
  union {
    struct {
      struct pst_plan plan;
      char local_address[64];
      char token[PST_SHARE_TOKEN]; /* a text, zeros behind it */
    } open;
    struct pst_share_mr mr;
    struct pst_share_ring ring;
    struct pst_share_endpoint endpoint;
    struct {
      uint64_t deadline_ns;
      uint32_t mode;
      uint32_t reserved;
    } close;
  } u;
};

struct pst_share_reply {
  int32_t status;  /* 0, a count, or -errno */
  uint32_t object; /* the number of what was opened; at least 1 */
  uint32_t length; /* bytes behind this struct */
  uint32_t reserved;
  union {
    struct pst_limits limits;
    struct pst_path_info path;
  } u;
  char text[512]; /* with an error: what the router's plugin has logged */
};

/* ---- Packets ------------------------------------------------------------------------------- */

union pst_share_control {
  char bytes[CMSG_SPACE(sizeof(int) * PST_SHARE_FDS)];
  struct cmsghdr align;
};

/* Sends a packet, with at most PST_SHARE_FDS descriptors, which stay the caller's. 0 or -errno;
 * -EAGAIN: the socket's SO_SNDTIMEO is over. */
PST_INLINE int pst_share_send(int socket, const void *packet, size_t length, const int *fds,
                              uint32_t fd_count)
{
  union pst_share_control control;
  const size_t bytes = sizeof(int) * fd_count;
  struct iovec part;
  struct msghdr message;

  memset(&message, 0, sizeof(message));
  part.iov_base = (void *)(uintptr_t)packet;
  part.iov_len = length;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd_count > PST_SHARE_FDS)
    return -E2BIG;
  if (fd_count) {
    memset(&control, 0, sizeof(control));
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(bytes);
    control.align.cmsg_level = SOL_SOCKET;
    control.align.cmsg_type = SCM_RIGHTS;
    control.align.cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(&control.align), fds, bytes);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Receives a packet of at most `room` bytes, and its descriptors. Returns its bytes; 0: the other
 * side has hung up; -errno; -EMSGSIZE: there was more than fits; -EAGAIN: the socket's SO_RCVTIMEO
 * is over. In any case *fd_count descriptors, close-on-exec, are the caller's. */
PST_INLINE int64_t pst_share_receive(int socket, void *packet, size_t room, int fds[PST_SHARE_FDS],
                                     uint32_t *fd_count)
{
  union pst_share_control control;
  struct iovec part;
  struct msghdr message;
  struct cmsghdr *header;
  ssize_t got;

  memset(&message, 0, sizeof(message));
  part.iov_base = packet;
  part.iov_len = room;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  *fd_count = 0;
  do
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0)
    return -errno;
  header = CMSG_FIRSTHDR(&message); /* the only one: no other kind is asked for */
  if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    *fd_count = (uint32_t)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(fds, CMSG_DATA(header), *fd_count * sizeof(int));
  }
  return message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -EMSGSIZE : got;
}

/* Reads a token, the first line of a file; zeros follow it. 0; -errno: the file cannot be read;
 * -EPERM: others may read it; -EINVAL: too short or too long. */
PST_INLINE int pst_share_read_token(const char *path, char token[PST_SHARE_TOKEN])
{
  const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  char text[PST_SHARE_TOKEN + 1];
  struct stat file;
  ssize_t got;
  size_t length;
  int rc = fd < 0 ? -errno : 0;

  if (rc < 0)
    return rc;
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || fstat(fd, &file) != 0)
    rc = -errno;
  else if (!S_ISREG(file.st_mode) || (file.st_mode & (S_IRWXG | S_IRWXO)))
    rc = -EPERM;
  got = rc == 0 ? read(fd, text, sizeof(text)) : 0;
  if (got < 0)
    rc = -errno;
  close(fd);
  for (length = 0; length < (size_t)(got > 0 ? got : 0) && text[length] != '\n'; length++)
    ;
  if (rc == 0 && (length < PST_SHARE_TOKEN_MIN || length >= PST_SHARE_TOKEN ||
                  memchr(text, '\0', length) != NULL))
    rc = -EINVAL;
  if (rc < 0)
    return rc;
  memset(token, 0, PST_SHARE_TOKEN);
  memcpy(token, text, length);
  return 0;
}

/* Returns the meaning of an error of pst_share_read_token(), and its remedy. */
PST_INLINE const char *pst_share_token_problem(int code)
{
  return code == -EPERM    ? "it is a secret that others may read, or no file; chmod 600"
         : code == -EINVAL ? "its first line does not have 16 to 63 bytes; `openssl rand -hex 24` "
                             "makes a token"
                           : strerror(-code);
}

/* Counters that a reply can carry. */
#define PST_SHARE_COUNTERS_MAX (PST_SHARE_BYTES / (uint32_t)sizeof(struct pst_counter_value))

/* ---- A worker's memory --------------------------------------------------------------------- */

/* Each word is alone on its cache line, or with words of the same writer. */
struct pst_share_page {
  uint32_t submit_tail; /* the client's */
  uint32_t pad0[15];
  uint32_t submit_head; /* the router's */
  uint32_t pad1[15];
  uint32_t complete_tail; /* the router's */
  uint32_t pad2[15];
  uint32_t complete_head; /* the client's */
  uint32_t pad3[15];
  uint32_t router_sleeps;
  uint32_t pad4[15];
  uint32_t client_sleeps;
  uint32_t pad5[15];
  uint8_t waits[PST_SHARE_ENDPOINTS]; /* the router's: enum pst_wait, by the endpoint's place */
};

enum pst_share_entry_kind {
  PST_SHARE_REQUEST = 1, /* (piece_count + 1) / 2 entries of pieces follow */
  PST_SHARE_RELEASE = 2,
};

struct pst_share_one_piece {
  uint64_t offset, length;
  uint32_t mr;
  uint32_t reserved;
  uint64_t reserved2;
};

struct pst_share_entry {
  uint8_t kind; /* enum pst_share_entry_kind */
  uint8_t opcode;
  uint8_t flags;
  uint8_t tokens; /* RELEASE: how many, 1 to 7 */
  uint16_t piece_count;
  uint16_t reserved;
  union {
    struct {
      uint32_t endpoint;
      uint32_t mr; /* 0: none */
      uint64_t offset;
      uint64_t arg; /* length, or what to compare with */
      union {
        struct {
          uint64_t sequence, meta, departure_ns;
        } send;
        struct {
          uint32_t remote; /* 0: none */
          uint32_t reserved;
          uint64_t offset, operand;
        } rma;
      } u;
      uint64_t reserved;
    } request;
    uint64_t tokens[7];
  } u;
};
PST_STATIC_ASSERT(sizeof(struct pst_share_entry) == 64, "a cache line");
PST_STATIC_ASSERT(2 * sizeof(struct pst_share_one_piece) == 64, "two an entry");

#define PST_SHARE_SUBMIT_AT 4096u /* offset of the submission ring */
#define PST_SHARE_COMPLETE_AT                                                                      \
  (PST_SHARE_SUBMIT_AT + PST_SHARE_ENTRIES * (uint32_t)sizeof(struct pst_share_entry))
#define PST_SHARE_MEMORY                                                                           \
  (PST_SHARE_COMPLETE_AT + PST_SHARE_ENTRIES * (uint32_t)sizeof(struct pst_completion))
PST_STATIC_ASSERT(sizeof(struct pst_share_page) <= PST_SHARE_SUBMIT_AT, "fits");

PST_INLINE uint32_t pst_share_load(const uint32_t *word)
{
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

PST_INLINE void pst_share_store(uint32_t *word, uint32_t value)
{
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* Has the other side gone to sleep? Everything that this side published before is visible to the
 * other. */
PST_INLINE int pst_share_must_wake(uint32_t *sleeps)
{
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  return __atomic_load_n(sleeps, __ATOMIC_RELAXED) &&
         __atomic_exchange_n(sleeps, 0, __ATOMIC_RELAXED);
}

#ifndef TFD_IOC_SET_TICKS /* of <linux/timerfd.h>, which clashes with <fcntl.h> */
#define TFD_IOC_SET_TICKS _IOW('T', 0, uint64_t)
#endif

/* Makes this timerfd readable. Both sides share the file and its flags, O_NONBLOCK among them; this
 * never waits, whatever the other side does to it. Kernels without CONFIG_CHECKPOINT_RESTORE cannot
 * set ticks: there a timer is started that expires a moment later. */
PST_INLINE void pst_share_wake(int fd)
{
  const uint64_t once = 1;
  struct itimerspec past = {{0, 0}, {0, 1}};

  if (ioctl(fd, TFD_IOC_SET_TICKS, &once) != 0)
    timerfd_settime(fd, TFD_TIMER_ABSTIME, &past, NULL);
}

/* This side goes to sleep, if what it looks at next shows no work. */
PST_INLINE void pst_share_sleep(uint32_t *sleeps)
{
  __atomic_store_n(sleeps, 1, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#ifdef __cplusplus
}
#endif
#endif
