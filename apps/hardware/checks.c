/* SPDX-License-Identifier: Apache-2.0 */
/* The checks: docs/operations/hardware-check.md says what each shows. */
#include <stdbool.h>
#include <stddef.h>

#include "checks.h"

#define RATE "--op send --size 1462 --bandwidth"
#define CONSUMER RATE " --verify --hold 50us"
#define PIECES "--size 64KiB --count 100 --pieces "
#define MESSAGES "--size 1462 --count 100 --depth 4"
#define ENDLESS "--size 64KiB --depth 4"
#define BLOCKS "--op send,write --size 64KiB --bandwidth"

const struct hardware_check hardware_checks[HARDWARE_CHECKS] = {
    {
        .name = "address",
        .title = "the addresses that both ports take by themselves, and a connection between them",
        .remedy = "see the addresses of both ports (`rdma link`, `ip addr`); `--device ADDRESS` "
                  "chooses one, as the transport's options `device` and `gid_index` do",
        .tells_address = true,
        .steps = {{.name = "by default", .words = "--op send --size 64 --bandwidth"}},
    },
    {
        .name = "rings",
        .title = "queues for 4096, 8192 and 16384 messages, for 1024 WRITEs and READs, and for "
                 "transfers of 16 and 30 pieces",
        .remedy = "see max_qp_wr, max_sge and max_cqe (`ibv_devinfo -v`), and the locked-memory "
                  "limit (`ulimit -l`); a smaller `ring` may do",
        .steps = {{.name = "4096 slots", .words = RATE " --verify --ring 4096"},
                  {.name = "8192 slots", .words = RATE " --verify --ring 8192"},
                  {.name = "16384 slots", .words = RATE " --verify --ring 16384"},
                  {.name = "1024 transfers",
                   .words = "--op write,read --size 64 --bandwidth --depth 1024"},
                  {.name = "16 pieces",
                   .program = RUN_REQUEST,
                   .words = PIECES "16",
                   .serving = "--clients 1 --pieces 16"},
                  {.name = "30 pieces",
                   .program = RUN_REQUEST,
                   .words = PIECES "30",
                   .serving = "--clients 1 --pieces 30"}},
    },
    {
        .name = "messages",
        .title = "messages of 1462 B a second, over 1, 2 and 4 queue pairs and by SEND",
        .remedy = "see the line above; `ibv_devinfo -v` says what the adapter can do",
        .steps = {{.name = "1 queue pair", .words = RATE},
                  {.name = "2 queue pairs", .options = "qps=2", .words = RATE},
                  {.name = "4 queue pairs", .options = "qps=4", .words = RATE},
                  {.name = "by SEND", .options = "operation=send", .words = RATE},
                  {.name = "ib_write_bw --write_with_imm",
                   .program = RUN_PERFTEST,
                   .needs = NEED_PERFTEST | NEED_PERFTEST_RUNS,
                   .tool = "ib_write_bw",
                   .words = "-s 1462 -l 32 --write_with_imm"},
                  {.name = "ib_send_bw",
                   .program = RUN_PERFTEST,
                   .needs = NEED_PERFTEST | NEED_PERFTEST_SENDS,
                   .tool = "ib_send_bw",
                   .words = "-s 1462 -l 32 -t 512 -r 512"}},
    },
    {
        .name = "ordering",
        .title = "PCIe relaxed ordering: by default, off and on",
        .remedy = "`relaxed_ordering: false` does without; the adapter's firmware or the platform "
                  "may not know the other",
        .steps = {{.name = "by default", .words = BLOCKS},
                  {.name = "off", .options = "relaxed_ordering=false", .words = BLOCKS},
                  {.name = "on", .options = "relaxed_ordering=true", .words = BLOCKS},
                  {.name = "ib_write_bw",
                   .program = RUN_PERFTEST,
                   .needs = NEED_PERFTEST,
                   .tool = "ib_write_bw",
                   .words = "-s 65536"},
                  {.name = "ib_write_bw --disable_pcie_relaxed",
                   .program = RUN_PERFTEST,
                   .needs = NEED_PERFTEST,
                   .tool = "ib_write_bw",
                   .words = "-s 65536 --disable_pcie_relaxed"}},
    },
    {
        .name = "one-thread",
        .title = "each queue is used by one thread: libmlx5 without its locks",
        .remedy = "\"multithreading violation\" is a fault of Penstock's: send this report",
        .steps = {{.name = "MLX5_SINGLE_THREADED=1",
                   .words = "--op send,write,read --size 1462 --bandwidth --verify",
                   .environment = "MLX5_SINGLE_THREADED=1"}},
    },
    {
        .name = "contract",
        .title = "what a transport promises: streams both ways, departures, READ, WRITE, atomics",
        .remedy = "the line above says what was called and what came back: send this report",
        .needs = NEED_CONTRACT,
        .steps = {{.name = "between both ends",
                   .program = RUN_CONTRACT,
                   .words = "--messages 2000"}},
    },
    {
        .name = "scale",
        .title = "one server of 1, 16 and 64 clients at a time",
        .remedy =
            "see the server's lines in the report, `rdma resource`, and the locked-memory limit "
            "(`ulimit -l`)",
        .steps = {{.name = "1 client",
                   .program = RUN_REQUEST,
                   .words = MESSAGES,
                   .serving = "--clients 64"},
                  {.name = "16 clients",
                   .program = RUN_REQUEST,
                   .words = MESSAGES,
                   .serving = "--clients 64",
                   .clients = 16},
                  {.name = "64 clients",
                   .program = RUN_REQUEST,
                   .words = MESSAGES,
                   .serving = "--clients 64",
                   .clients = HARDWARE_CLIENTS}},
    },
    {
        .name = "recovery",
        .title = "clients that are killed beside others, which go on",
        .remedy = "see the server's lines in the report; `timeout` and `retry_cnt` say how long a "
                  "peer that is gone is tried",
        .steps = {{.name = "1 of 4",
                   .program = RUN_REQUEST,
                   .words = ENDLESS,
                   .serving = "--clients 4",
                   .times = 10,
                   .clients = 4,
                   .killed = 1},
                  {.name = "4 of 8, by 2 send queues",
                   .program = RUN_REQUEST,
                   .options = "initiators=2",
                   .words = ENDLESS,
                   .serving = "--clients 8",
                   .times = 10,
                   .clients = 8,
                   .killed = 4}},
    },
    {
        .name = "cycles",
        .title = "what a message of 1462 B costs the CPU, in user space",
        .remedy = "see the line above",
        .needs = NEED_COUNTERS,
        .steps = {{.name = "1 queue pair", .words = RATE}},
    },
    {
        .name = "gpu-send",
        .title = "SENDs into GPU memory, those included that adapters put into the completion",
        .remedy = "a receiver that dies here has copied to a GPU by the CPU, which is a fault of "
                  "Penstock's: send this report; `operation: write` does without",
        .needs = NEED_GPU,
        .steps = {{.name = "operation: send",
                   .options = "operation=send",
                   .words = "--op send --size 1,20,32,33,64,1462 --bandwidth --verify"}},
    },
    {
        .name = "gpu",
        .title = "messages into each GPU, verified there, and with a consumer of 50 us",
        .remedy = "see the path's reason above, `nvidia-smi topo -m`, and whether nvidia-peermem "
                  "or dma-buf is there",
        .needs = NEED_GPU,
        .each_gpu = true,
        .steps = {{.name = "verified there",
                   .words = "--op send --size 1462,64KiB --bandwidth --verify"},
                  {.name = "a consumer of 50 us", .words = CONSUMER},
                  {.name = "a consumer of 50 us, 4096 slots", .words = CONSUMER " --ring 4096"}},
    },
    {
        .name = "outage",
        .title = "a link that is away for a while",
        .remedy =
            "`timeout` and `retry_cnt` say how long a connection is tried; `reconnect` brings "
            "one back",
        .needs = NEED_OUTAGE,
        .steps = {{.name = "--outage", .words = RATE " --verify", .times = 6}},
    },
    {
        .name = "readdress",
        .title = "a server whose port gets another address",
        .remedy = "see the server's lines in the report; restart it, as a last resort",
        .needs = NEED_READDRESS,
        .steps = {{.name = "--readdress",
                   .program = RUN_REQUEST,
                   .words = "--size 65536 --count 100 --depth 4"}},
    },
};
const uint32_t hardware_check_count = HARDWARE_CHECKS;

const struct hardware_step *hardware_step_of(const struct hardware_check *check, uint32_t index)
{
  return index < HARDWARE_STEPS && check->steps[index].name ? &check->steps[index] : NULL;
}
