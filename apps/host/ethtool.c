/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a network device's settings by ethtool's and DCB's netlink. */
#include <json-c/json.h>
#include <linux/dcbnl.h>
#include <linux/ethtool_netlink.h>
#include <linux/rtnetlink.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>
#include <stdio.h>
#include <string.h>

#include "json_put.h"
#include "sources.h"

/* ---- Generic netlink --------------------------------------------------------------------------
 */

static int ethtool_take_pause(struct nl_msg *message, void *link)
{
  struct nlattr *values[ETHTOOL_A_PAUSE_MAX + 1];
  struct json_object *pause;

  if (genlmsg_parse(nlmsg_hdr(message), 0, values, ETHTOOL_A_PAUSE_MAX, NULL) < 0)
    return NL_SKIP;
  pause = json_object_new_object();
  app_json_put_bool(pause, "negotiated",
                    values[ETHTOOL_A_PAUSE_AUTONEG] && nla_get_u8(values[ETHTOOL_A_PAUSE_AUTONEG]));
  app_json_put_bool(pause, "rx",
                    values[ETHTOOL_A_PAUSE_RX] && nla_get_u8(values[ETHTOOL_A_PAUSE_RX]));
  app_json_put_bool(pause, "tx",
                    values[ETHTOOL_A_PAUSE_TX] && nla_get_u8(values[ETHTOOL_A_PAUSE_TX]));
  json_object_object_add(link, "pause", pause);
  return NL_OK;
}

static int ethtool_take_times(struct nl_msg *message, void *link)
{
  struct nlattr *values[ETHTOOL_A_TSINFO_MAX + 1];

  if (genlmsg_parse(nlmsg_hdr(message), 0, values, ETHTOOL_A_TSINFO_MAX, NULL) == 0 &&
      values[ETHTOOL_A_TSINFO_PHC_INDEX])
    app_json_put_uint(link, "phc", nla_get_u32(values[ETHTOOL_A_TSINFO_PHC_INDEX]));
  return NL_OK;
}

/* Asks for one message of the family; a device that has nothing to say answers with an error. */
static void ethtool_ask(struct nl_sock *socket, int family, uint8_t command, int header,
                        struct json_object *link, const char *name, nl_recvmsg_msg_cb_t take)
{
  struct nl_msg *message = nlmsg_alloc();
  struct nlattr *nest;

  if (!message)
    return;
  genlmsg_put(message, NL_AUTO_PORT, NL_AUTO_SEQ, family, 0, NLM_F_REQUEST | NLM_F_ACK, command, 1);
  nest = nla_nest_start(message, header);
  nla_put_string(message, ETHTOOL_A_HEADER_DEV_NAME, name);
  nla_nest_end(message, nest);
  nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, take, link);
  if (nl_send_auto(socket, message) >= 0)
    nl_wait_for_ack(socket);
  nlmsg_free(message);
}

static void ethtool_add_generic(struct json_object *link, const char *name)
{
  struct nl_sock *socket = nl_socket_alloc();

  if (socket && genl_connect(socket) == 0) {
    const int family = genl_ctrl_resolve(socket, ETHTOOL_GENL_NAME);
    if (family >= 0) {
      ethtool_ask(socket, family, ETHTOOL_MSG_PAUSE_GET, ETHTOOL_A_PAUSE_HEADER, link, name,
                  ethtool_take_pause);
      ethtool_ask(socket, family, ETHTOOL_MSG_TSINFO_GET, ETHTOOL_A_TSINFO_HEADER, link, name,
                  ethtool_take_times);
    }
  }
  nl_socket_free(socket);
}

/* ---- DCB: priority flow control ---------------------------------------------------------------
 */

/* Priorities by DSCP: {"26": 3}. Drivers list them where the port trusts the DSCP of packets. */
static void ethtool_take_dscp(struct nlattr *table, struct json_object *link)
{
  struct json_object *all = json_object_new_object();
  struct nlattr *entry;
  char key[16];
  int left;

  nla_for_each_nested(entry, table, left)
  {
    const struct dcb_app *app = nla_data(entry);
    if (nla_type(entry) != DCB_ATTR_IEEE_APP || nla_len(entry) < (int)sizeof(*app) ||
        app->selector != IEEE_8021QAZ_APP_SEL_DSCP)
      continue;
    snprintf(key, sizeof(key), "%u", app->protocol);
    app_json_put_uint(all, key, app->priority);
  }
  json_object_object_add(link, "dscp", all);
}

static int ethtool_take_dcb(struct nl_msg *message, void *link)
{
  struct nlattr *top[DCB_ATTR_MAX + 1], *ieee[DCB_ATTR_IEEE_MAX + 1];

  if (nlmsg_parse(nlmsg_hdr(message), sizeof(struct dcbmsg), top, DCB_ATTR_MAX, NULL) < 0 ||
      !top[DCB_ATTR_IEEE] ||
      nla_parse_nested(ieee, DCB_ATTR_IEEE_MAX, top[DCB_ATTR_IEEE], NULL) < 0)
    return NL_SKIP;
  if (ieee[DCB_ATTR_IEEE_PFC] && nla_len(ieee[DCB_ATTR_IEEE_PFC]) >= (int)sizeof(struct ieee_pfc)) {
    const struct ieee_pfc *pfc = nla_data(ieee[DCB_ATTR_IEEE_PFC]);
    app_json_put_uint(link, "pfc", pfc->pfc_en);
  }
  if (ieee[DCB_ATTR_IEEE_APP_TABLE])
    ethtool_take_dscp(ieee[DCB_ATTR_IEEE_APP_TABLE], link);
  return NL_OK;
}

static void ethtool_add_dcb(struct json_object *link, const char *name)
{
  struct nl_sock *socket = nl_socket_alloc();
  struct nl_msg *message = nlmsg_alloc_simple(RTM_GETDCB, NLM_F_REQUEST | NLM_F_ACK);
  struct dcbmsg header = {.dcb_family = AF_UNSPEC, .cmd = DCB_CMD_IEEE_GET};

  if (socket && message && nl_connect(socket, NETLINK_ROUTE) == 0 &&
      nlmsg_append(message, &header, sizeof(header), NLMSG_ALIGNTO) == 0 &&
      nla_put_string(message, DCB_ATTR_IFNAME, name) == 0) {
    nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, ethtool_take_dcb, link);
    if (nl_send_auto(socket, message) >= 0)
      nl_wait_for_ack(socket);
  }
  nlmsg_free(message);
  nl_socket_free(socket);
}

void host_add_ethtool(struct json_object *link, const char *name)
{
  if (strcmp(name, "lo") == 0)
    return;
  ethtool_add_generic(link, name);
  ethtool_add_dcb(link, name);
}
