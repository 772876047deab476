/* SPDX-License-Identifier: Apache-2.0 */
/* Rules between the options of one plugin (struct pst_option_rule), that the loader has
 * found sound. */
#ifndef PST_CONFIG_RULES_H
#define PST_CONFIG_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/plugin.h>

bool rules_equal(const struct pst_description *a, const struct pst_description *b);

/* Whether both options have one of the scope's bits, and so are at one end. */
bool rule_applies(const struct pst_option_rule *rule, const struct pst_description *description,
                  uint32_t scope);
/* Whether the values of both options keep the rule. */
bool rule_holds(const struct pst_option_rule *rule, const struct pst_options *options);
/* Writes what is wrong and what would be right, for a rule that does not hold. */
void rule_words(const struct pst_option_rule *rule, const struct pst_options *options, char *words,
                size_t size);
/* The rule itself, as a sentence without its full stop. */
void rule_sentence(const struct pst_option_rule *rule, char *words, size_t size);

#endif
