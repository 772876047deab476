/* SPDX-License-Identifier: Apache-2.0 */
/* Stages of a link's relation to its peer, and of UCX's objects for the link. */
#ifndef UCX_STAGE_H
#define UCX_STAGE_H

#include <stdbool.h>
#include <stdint.h>

struct ucx_link;

/* Two greetings, then a good-bye; README.md draws it. */
enum ucx_stage_name {
  UCX_NEW,        /* has no peer */
  UCX_CONNECTING, /* the peer's HELLO has not come */
  UCX_JOINED,     /* it has */
  UCX_LEFT,       /* the peer's BYE has come; requests under way may still end */
  UCX_DRAINED,    /* no request is under way any more; messages may still come */
  UCX_LEAVING,    /* our endpoint is closed, and the peer must be sent BYE */
  UCX_LOST,       /* the connection is no more; requests are to be ended */
  UCX_GONE,       /* they have been */
  UCX_OVER,       /* our endpoint is closed, and nothing is waited for: the link is to be freed */
};

/* A word that an end has to say. */
enum ucx_word {
  UCX_NO_WORD,
  UCX_OWED,
  UCX_SAID,  /* UCX has it */
  UCX_HEARD, /* the peer has answered */
};

struct ucx_leaving {
  uint64_t sent;             /* SENDs of ours, ever */
  uint64_t until_ns;         /* for the peer to answer */
  bool is_aborted;           /* not all that was posted was sent */
  enum ucx_word bye, answer; /* ours, and the one to the peer's */
};

struct ucx_stage {
  enum ucx_stage_name name;
  union {
    struct {
      enum ucx_word hello, answer; /* ours, and the one to the peer's */
    } greeting;                    /* of UCX_CONNECTING, UCX_JOINED */
    struct {
      uint64_t total;    /* SENDs of the peer's, ever */
      uint64_t until_ns; /* what is fetched has so long */
      bool is_aborted;   /* not all that the peer posted was sent */
      bool was_joined;
    } left; /* of UCX_LEFT, UCX_DRAINED */
    struct {
      int32_t status;           /* -errno */
    } lost;                     /* of UCX_LOST, UCX_GONE */
    struct ucx_leaving leaving; /* of UCX_LEAVING */
  };
};

/* UCX's objects for a link. */
enum ucx_line {
  UCX_LINE_IDLE,   /* a ucp_worker, that nothing comes to */
  UCX_LINE_OPEN,   /* and a ucp_ep */
  UCX_LINE_CUT,    /* nothing: UCX has ended all that was under way */
  UCX_LINE_HERALD, /* another ucp_worker and ucp_ep, which send BYE alone */
};

/* To a stage that may follow the one it is in. */
void ucx_enter(struct ucx_link *link, struct ucx_stage stage);
/* To a line that may follow. A line that is open, or a herald's, has its ucp_worker and ucp_ep by
 * then. */
void ucx_enter_line(struct ucx_link *link, enum ucx_line line);

#endif
