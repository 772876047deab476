/* SPDX-License-Identifier: Apache-2.0 */
/* The size of each public struct, and where its last member stands. A line that
 * fails has found a struct that grew, or one whose members moved: every plugin and
 * application is then built anew, and the number is changed here in the same commit. */
#include <penstock/memory.h>
#include <penstock/penstock.h>
#include <penstock/transport.h>

#define SIZE(struct_, size_, last_, offset_)                                                       \
  PST_STATIC_ASSERT(sizeof(struct struct_) == (size_), #struct_ " has another size");              \
  PST_STATIC_ASSERT(offsetof(struct struct_, last_) == (offset_),                                  \
                    #struct_ "." #last_ " stands elsewhere")

/* plugin.h */
SIZE(pst_option_rule, 64, reserved, 44);
SIZE(pst_description, 96, wire, 88);
SIZE(pst_described, 16, description, 8);
SIZE(pst_check, 64, report, 56);
SIZE(pst_facts, 232, equals_option, 224);
SIZE(pst_host, 104, region_release, 96);
SIZE(pst_probe, 536, remedy, 280);
SIZE(pst_plugin, 32, ops, 24);

/* memory.h */
SIZE(pst_region, 160, handle, 152);
SIZE(pst_alloc_params, 48, lower, 40);
SIZE(pst_adopt_params, 48, label, 40);
SIZE(pst_export, 160, handle, 96);
SIZE(pst_queue_params, 16, reserved, 12);
SIZE(pst_memory_params, 16, options, 8);
SIZE(pst_memory_info, 160, free_bytes, 152);
SIZE(pst_copy_row, 48, reserved, 44);
SIZE(pst_payload_row, 40, reserved, 36);
SIZE(pst_memory_ops, 200, adopt_region, 192);

/* transport.h */
SIZE(pst_plan, 64, reserved2, 60);
SIZE(pst_open_params, 64, tell_link, 56);
SIZE(pst_limits, 240, endpoints_reason, 112);
SIZE(pst_mr_params, 56, send_max, 48);
SIZE(pst_blob, 40, fds, 24);
SIZE(pst_ring_params, 56, endpoint_slots, 52);
SIZE(pst_endpoint_params, 88, reserved, 84);
SIZE(pst_piece, 32, reserved, 24);
SIZE(pst_request, 64, u, 40);
SIZE(pst_completion, 64, u, 16);
SIZE(pst_counter, 32, flags, 24);
SIZE(pst_transport_ops, 216, endpoint_close, 208);

/* types.h */
SIZE(pst_error, 2064, text, 16);
SIZE(pst_setting, 16, value, 8);
SIZE(pst_option, 64, reserved, 60);
SIZE(pst_path_info, 264, reason, 104);
SIZE(pst_verify_result, 48, pad, 42);
SIZE(pst_range, 32, length, 24);

/* config.h */
SIZE(pst_side_params, 24, reserved, 20);
SIZE(pst_origins, 40, insecure, 32);
SIZE(pst_stream_params, 112, origins, 104);
SIZE(pst_tls_params, 56, psk, 48);
SIZE(pst_config_params, 40, tls, 32);
SIZE(pst_plugin_info, 136, description, 128);
SIZE(pst_config_map, 64, only_foreign, 60);
SIZE(pst_config_stream, 48, report, 40);
SIZE(pst_config_program, 24, check, 16);
SIZE(pst_config_key, 104, reserved, 100);

/* stream.h */
SIZE(pst_session_params, 24, reserved, 20);
SIZE(pst_slot, 64, reserved, 40);
SIZE(pst_view, 64, reserved, 56);
SIZE(pst_batch, 32, ready, 24);
SIZE(pst_frame, 128, reserved, 104);
SIZE(pst_frame_batch, 32, ready, 24);

/* stats.h */
SIZE(pst_drop, 40, messages, 32);
SIZE(pst_stats, 1992, ring_slots, 1988);

/* node.h */
SIZE(pst_filter_params, 24, reserved, 20);
SIZE(pst_node_params, 120, tls, 112);
SIZE(pst_node_event, 64, text, 56);
SIZE(pst_peer_info, 152, remote, 80);
SIZE(pst_area_params, 56, reserved, 52);
SIZE(pst_area_pattern, 32, reserved, 24);
SIZE(pst_area_piece, 32, reserved, 24);
SIZE(pst_operation, 80, reserved, 72);
