/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin fault, and its description. */
#include <penstock/memory.h>
#include <penstock/plugin.h>

/* A number is from `least` to `most`; 0: of any size. */
#define NUMBER(name_, least, most, value, what)                                                    \
  {                                                                                                \
    .name = name_, .help = what, .default_value = value, .min = least, .max = most,                \
    .type = PST_OPTION_UINT, .scope = PST_SCOPE_DEVICE, .flags = PST_OPTION_TESTING                \
  }
#define RATE(name_, what) NUMBER(name_, 0, 1000000, "0", what " Messages per million: 10000 is 1%.")
#define TIME(name_, value, what)                                                                   \
  {                                                                                                \
    .name = name_, .help = what, .default_value = value, .max = UINT64_C(3600000000000),           \
    .type = PST_OPTION_DURATION, .scope = PST_SCOPE_DEVICE, .flags = PST_OPTION_TESTING            \
  }

static const struct pst_option options[] = {
    NUMBER("seed", 0, 0, "1",
           "The seed of the faults. A seed and the sequence number of a message decide "
           "the message's fault, so that the same seed gives the same faults."),
    RATE("drop_ppm", "How many messages are not sent, though the sender sees them end as sent."),
    RATE("duplicate_ppm", "How many messages are sent twice."),
    RATE("reorder_ppm", "How many messages are held back and sent after later ones."),
    RATE("corrupt_ppm", "How many messages have one bit of their payload changed, in a copy. The "
                        "sender's memory must be one that the CPU can touch."),
    RATE("delay_ppm",
         "How many messages are held back for `delay_time`, so that later ones overtake "
         "them."),
    NUMBER("distance", 1, 1024, "8",
           "A reordered message is sent after 1 to this many later messages, but at most "
           "half of those that the sender can have outstanding."),
    TIME("reorder_time", "1 s",
         "How long a message that is to be reordered waits for later messages. If none "
         "come, the message is sent in order."),
    TIME("delay_time", "1 ms", "How long a delayed message is held back."),
    NUMBER("stall_at", 0, 0, NULL,
           "The sender stops for `stall_time` before the message of this number, counted "
           "from 0. Without this option the sender does not stop."),
    TIME("stall_time", "1 s", "How long the sender stops at stall_at."),
    NUMBER("kill_at", 0, 0, NULL,
           "Cut the connection off on both sides before the message of this number, "
           "counted from 0. Without this option it is not cut off."),
    NUMBER("ledger", 0, 65536, "32",
           "The number of faults of each sender that are kept with their sequence "
           "numbers. All faults are counted."),
};

static void fault_options_check(const struct pst_check *check, struct pst_facts *facts)
{
  static const char *const rates[] = {"drop_ppm", "duplicate_ppm", "reorder_ppm", "corrupt_ppm",
                                      "delay_ppm"};
  uint64_t sum = 0, rate;

  for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
    rate = check->option_uint(check->options, rates[i]);
    sum += rate;
    if (sum > 1000000 && sum - rate <= 1000000)
      check->report(check, rates[i],
                    "with it the rates add up to more than 1000000 per million, and a message has "
                    "one fault at most; lower some of drop_ppm, duplicate_ppm, reorder_ppm, "
                    "corrupt_ppm, delay_ppm");
  }
  /* A payload is corrupted by the CPU. */
  if (check->side == PST_SCOPE_SENDER && check->option_uint(check->options, "corrupt_ppm"))
    facts->direct_needs = PST_NEED_CPU_ACCESS;
}

static const struct pst_description description = {
    .kind = PST_KIND_FILTER,
    .name = "fault",
    .version = "0.1.0",
    .summary = "Injects faults on the sending side of any transport, by seed and rate",
    .rung = "hardware: any machine; it wraps whatever transport there is",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .check = fault_options_check,
};
PST_DESCRIPTION(description);
