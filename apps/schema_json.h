/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON Schema of configuration files, made from the tables that check them. */
#ifndef APP_SCHEMA_JSON_H
#define APP_SCHEMA_JSON_H

struct json_object;

/* `$defs` has each mapping by its path without brackets ("file", "streams.sender") and each
 * plugin's options by kind and name ("transport-udp"). Keywords of JSON Schema check; x-type,
 * x-values and x-default say in words what a key takes. x-map names the definition of a mapping or
 * list, and x-options the kind of the plugin whose options stand there.
 * json_object_put() it. */
struct json_object *app_schema_json(void);

#endif
