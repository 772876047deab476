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
#define STREAM "--op send --bandwidth --verify --size "
#define SWEEP "--op send --bandwidth --size "

const struct hardware_check hardware_checks[HARDWARE_CHECKS] = {
    {
        .name = "address",
        .title = "the addresses that both ends take by themselves, and a connection between them",
        .remedy = "see the addresses of both ports (`rdma link`, `ip addr`); `--device ADDRESS` "
                  "chooses one, as the transport's options `device` and `gid_index` do",
        .tells_address = true,
        .steps = {{.name = "by default", .words = "--op send --size 64 --bandwidth"}},
    },
    {
        .name = "memory",
        .scope = SCOPE_MEMORY,
        .title = "what a memory promises: fill and verify, copies, fences, regions, exports",
        .remedy = "the line above says what was called and what came back: send this report",
        .needs = NEED_CONTRACT,
        .steps = {{.name = "its contract",
                   .program = RUN_CONTRACT_ALONE,
                   .words = "--deadline 60"}},
    },
    {
        .name = "contract",
        .scope = SCOPE_TRANSPORT,
        .title = "what a transport promises: streams both ways, departures, READ, WRITE, atomics",
        .remedy = "the line above says what was called and what came back: send this report",
        .needs = NEED_CONTRACT,
        .steps = {{.name = "between both ends",
                   .program = RUN_CONTRACT,
                   .words = "--messages 2000"},
                  {.name = "within one process",
                   .program = RUN_CONTRACT_ALONE,
                   .needs = NEED_ONE_HOST,
                   .words = "--within",
                   .instead = true}},
    },
    {
        .name = "contract-whole",
        .scope = SCOPE_TRANSPORT,
        .title = "all that a transport promises, with peers that are killed; takes minutes",
        .remedy = "the line above says what was called and what came back: send this report",
        .needs = NEED_CONTRACT | NEED_ONE_HOST,
        .only_named = true,
        /* A peer that was killed is noticed after 0.23 s then, not 5.3 s, and a hello that came
         * too early is repeated after 17 ms, not 0.54 s. */
        .steps = {{.name = "of an adapter",
                   .program = RUN_CONTRACT_ALONE,
                   .options = "timeout=12,keepalive=100ms",
                   .words = "--deadline 60",
                   .optional = true,
                   .seconds = 540},
                  {.name = "on this host",
                   .program = RUN_CONTRACT_ALONE,
                   .words = "--deadline 60",
                   .instead = true,
                   .seconds = 540}},
    },
    {
        .name = "stream",
        .scope = SCOPE_PAIR,
        .title = "streams into and out of the memory, verified, and the path that they take",
        .remedy =
            "see the path's reason above; for a GPU, `nvidia-smi topo -m`, and whether "
            "nvidia-peermem or dma-buf is there; a receiver that crashes in the step `by "
            "SEND into it` has written to GPU memory by the CPU, which `operation: write` avoids",
        .takes_path = true,
        .steps = {{.name = "into it", .words = STREAM "1462,60000"},
                  {.name = "out of it",
                   .words = STREAM "1462,60000",
                   .memory_at = AT_CLIENT,
                   .not_host = true},
                  {.name = "by SEND into it",
                   .options = "operation=send",
                   .words = STREAM "1,20,32,33,64,1462",
                   .optional = true}},
    },
    {
        .name = "one-sided",
        .scope = SCOPE_PAIR,
        .title = "WRITE into and READ out of the memory, verified, and requests to a server",
        .remedy = "the line above says which transfer failed and why",
        .steps = {{.name = "WRITE and READ",
                   .words = "--op write,read --size 1462,64KiB --bandwidth --verify",
                   .memory_at = AT_BOTH,
                   .optional = true},
                  {.name = "written by a server",
                   .program = RUN_REQUEST,
                   .words = "--size 64KiB --count 100 --depth 4",
                   .serving = "--clients 1",
                   .memory_at = AT_BOTH,
                   .optional = true},
                  {.name = "read by a server",
                   .program = RUN_REQUEST,
                   .words = "--size 64KiB --count 100 --depth 4",
                   .serving = "--clients 1",
                   .tool = "read",
                   .memory_at = AT_BOTH,
                   .optional = true}},
    },
    {
        .name = "bench",
        .scope = SCOPE_PAIR,
        .title = "rates of messages, WRITEs and READs of three sizes",
        .remedy = "see the line above",
        .steps = {{.name = "1462 B", .words = SWEEP "1462"},
                  {.name = "64 KiB", .words = SWEEP "64KiB", .optional = true},
                  {.name = "1 MiB", .words = SWEEP "1MiB", .optional = true},
                  {.name = "transfers",
                   .words = "--op write,read --bandwidth --size 1462,64KiB,1MiB",
                   .memory_at = AT_BOTH,
                   .optional = true}},
    },
    {
        .name = "rings",
        .scope = SCOPE_VERBS,
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
        .scope = SCOPE_VERBS,
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
        .scope = SCOPE_VERBS,
        .title = "PCIe relaxed ordering: by default, off and on",
        .remedy = "`relaxed_ordering: false` turns it off; the adapter's firmware or the platform "
                  "may not support it",
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
        .scope = SCOPE_VERBS,
        .title = "each queue is used by one thread: libmlx5 without its locks",
        .remedy = "\"multithreading violation\" is a fault of Penstock's: send this report",
        .steps = {{.name = "MLX5_SINGLE_THREADED=1",
                   .words = "--op send,write,read --size 1462 --bandwidth --verify",
                   .environment = "MLX5_SINGLE_THREADED=1"}},
    },
    {
        .name = "scale",
        .scope = SCOPE_VERBS,
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
        .scope = SCOPE_VERBS,
        .title = "clients that are killed beside others, which go on",
        .remedy = "see the server's lines in the report; `timeout` and `retry_cnt` set how long "
                  "the device retries a peer that is gone",
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
        .scope = SCOPE_VERBS,
        .title = "what a message of 1462 B costs the CPU, in user space",
        .remedy = "see the line above",
        .needs = NEED_COUNTERS,
        .steps = {{.name = "1 queue pair", .words = RATE}},
    },
    {
        .name = "gpu",
        .scope = SCOPE_GPU,
        .title = "messages into a GPU that a consumer keeps for 50 us each",
        .remedy = "see the path's reason above, `nvidia-smi topo -m`, and whether nvidia-peermem "
                  "or dma-buf is there",
        .steps = {{.name = "a consumer of 50 us", .words = CONSUMER},
                  {.name = "a consumer of 50 us, 4096 slots", .words = CONSUMER " --ring 4096"}},
    },
    {
        .name = "outage",
        .scope = SCOPE_VERBS,
        .title = "a link that is away for a while",
        .remedy =
            "`timeout` and `retry_cnt` set how long the device retries before a connection fails; "
            "`reconnect` re-establishes it",
        .needs = NEED_OUTAGE,
        .steps = {{.name = "--outage", .words = RATE " --verify", .times = 6}},
    },
    {
        .name = "readdress",
        .scope = SCOPE_VERBS,
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

bool hardware_check_has_memory(const struct hardware_check *check)
{
  return check->scope >= SCOPE_MEMORY;
}
