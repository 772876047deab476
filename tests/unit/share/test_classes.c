/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of clients: what the file says, and which class a client has. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN "0123456789abcdef"

static char folder[] = "/tmp/share-classes-XXXXXX", file[64], why[SHARE_WHY_BYTES];
static const char *group; /* of each client; NULL: not known */
static struct pst_error error;

int __wrap_share_cgroup_of(int fd, pid_t pid, char *path, size_t size);

int __wrap_share_cgroup_of(int fd, pid_t pid, char *path, size_t size)
{
  (void)fd, (void)pid;
  if (!group)
    return -ESRCH;
  snprintf(path, size, "%s", group);
  return 0;
}

static void write_file(const char *name, const char *text, mode_t mode)
{
  snprintf(file, sizeof(file), "%s/%s", folder, name);
  FILE *to = fopen(file, "we");

  assert_non_null(to);
  fputs(text, to);
  fclose(to);
  assert_int_equal(chmod(file, mode), 0);
}

/* Reads classes from this text; returns 0 or -errno and what is wrong. */
static int read_classes(const char *text)
{
  write_file("limits.yaml", text, 0644);
  router.params.limits = file;
  router.class_count = 0;
  error = (struct pst_error)PST_ERROR_INIT;
  return share_classes_read(&router, &error);
}

/* Returns the name of the client's class, "full", or "none". */
static const char *class_of(struct share_client *client, uid_t uid, const char *cgroup,
                            const char *token)
{
  char shown[PST_SHARE_TOKEN] = "";

  snprintf(shown, sizeof(shown), "%s", token);
  group = cgroup;
  *client = (struct share_client){.share = &router, .uid = uid};
  const int rc = share_classes_join(client, shown, why, sizeof(why));
  return rc == 0 ? client->class->name : rc == -ENOSPC ? "full" : "none";
}

static void a_limit_that_a_class_leaves_out_is_the_option_s(void **state)
{
  (void)state;
  assert_int_equal(read_classes("classes:\n"
                                "  - {name: a, regions: 7, endpoints: 8, workers: 9, clients: 10, "
                                "bytes: 11 KiB, rate: 80 bps}\n"
                                "  - {name: b}\n"),
                   0);
  assert_int_equal(router.class_count, 2);
  const struct share_class *a = &router.classes[0], *b = &router.classes[1];
  assert_int_equal(a->regions, 7);
  assert_int_equal(a->endpoints, 8);
  assert_int_equal(a->workers, 9);
  assert_int_equal(a->clients, 10);
  assert_int_equal(a->bytes, 11 << 10);
  assert_int_equal(a->rate, 10); /* bytes per second */
  assert_int_equal(b->regions, REGIONS);
  assert_int_equal(b->endpoints, ENDPOINTS);
  assert_int_equal(b->workers, WORKERS);
  assert_int_equal(b->clients, 0);
  assert_int_equal(b->bytes, BYTES);
  assert_int_equal(b->rate, 0);
}

static void each_mistake_has_its_place_and_words(void **state)
{
  static const struct {
    const char *text, *words;
  } wrong[] = {
      {"classes: []\n", "write a list of 1 to 256 classes"},
      {"classes: 5\n", "write a list of 1 to 256 classes"},
      {"class: []\n", "class: no such key; write classes:"},
      {"classes:\n  - 7\n", ":2:5: a class has no name"},
      {"classes:\n  - {uid: 1}\n", "a class has no name"},
      {"classes:\n  - {name: a, colour: red}\n", ":2:15: colour: no such key; a class has name"},
      {"classes:\n  - {name: a, regions: 0}\n", "regions: "},
      {"classes:\n  - {name: a, regions: 65537}\n", "regions: "},
      {"classes:\n  - {name: a, regions: [1]}\n", "regions: "},
      {"classes:\n  - {name: a, workers: 257}\n", "workers: "},
      {"classes:\n  - {name: a, rate: 7 bps}\n", "rate: "},
      {"classes:\n  - {name: a, bytes: -1}\n", "bytes: "},
      {"classes:\n  - {name: a, uid: []}\n", "uid: no user is in it"},
      {"classes:\n  - {name: a, uid: [1, -2]}\n", "uid: "},
      {"classes:\n  - {name: a, uid: 4294967295}\n", "uid: "},
      {"classes:\n  - {name: a, cgroup: batch}\n", "'batch' is no path"},
      {"classes:\n  - {name: a, cgroup: /batch/}\n", "ends with a slash"},
      {"classes:\n  - {name: a, cgroup: [/a]}\n", "cgroup: write a text"},
      {"classes:\n  - {name: ''}\n", "name: write a text"},
      {"classes:\n  - {name: a, token: none}\n", "/none: No such file"},
      {"classes:\n  - {name: a, token: open}\n", "/open: it is a secret that others may read"},
      {"classes: [\n", ":"},
  };

  (void)state;
  write_file("open", TOKEN "\n", 0644);
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    assert_int_not_equal(read_classes(wrong[i].text), 0);
    assert_int_equal(error.exit_status, PST_EXIT_USAGE);
    if (!strstr(error.text, wrong[i].words))
      fail_msg("%s: \"%s\" is not in \"%s\"", wrong[i].text, wrong[i].words, error.text);
  }
}

static void a_group_has_those_below_it(void **state)
{
  struct share_client client;

  (void)state;
  assert_int_equal(read_classes("classes:\n"
                                "  - {name: batch, cgroup: /batch}\n"
                                "  - {name: all, cgroup: /}\n"),
                   0);
  assert_string_equal(class_of(&client, 1, "/batch", ""), "batch");
  assert_string_equal(class_of(&client, 1, "/batch/job", ""), "batch");
  assert_string_equal(class_of(&client, 1, "/batchx", ""), "all");
  assert_string_equal(class_of(&client, 1, "/bat", ""), "all");
  assert_string_equal(class_of(&client, 1, "/a/batch", ""), "all");
}

static void an_unknown_group_ends_the_search(void **state)
{
  struct share_client client;

  (void)state;
  write_file("secret", TOKEN "\n", 0600);
  assert_int_equal(read_classes("classes:\n"
                                "  - {name: known, token: secret}\n"
                                "  - {name: mine, cgroup: /batch, uid: 5}\n"
                                "  - {name: others}\n"),
                   0);
  assert_string_equal(class_of(&client, 5, NULL, TOKEN), "known");
  assert_string_equal(class_of(&client, 5, NULL, ""), "none");
  assert_non_null(strstr(why, "is not known"));
  assert_non_null(strstr(why, "class mine"));
  assert_string_equal(class_of(&client, 6, NULL, ""), "others"); /* its user decides */
}

static void a_token_is_compared_whole(void **state)
{
  struct share_client client;

  (void)state;
  write_file("secret", TOKEN "\n", 0600);
  assert_int_equal(read_classes("classes:\n  - {name: known, token: secret}\n"), 0);
  assert_string_equal(class_of(&client, 1, "/", TOKEN), "known");
  assert_string_equal(class_of(&client, 1, "/", TOKEN "0"), "none");
  assert_non_null(strstr(why, "with a token"));
  assert_string_equal(class_of(&client, 1, "/", "0123456789abcde"), "none");
  assert_string_equal(class_of(&client, 1, "/", "1123456789abcdef"), "none");
  assert_string_equal(class_of(&client, 1, "/", ""), "none");
  assert_non_null(strstr(why, "without a token"));
}

static void a_class_has_users_and_a_number_of_clients(void **state)
{
  struct share_client first, second;

  (void)state;
  assert_int_equal(read_classes("classes:\n  - {name: two, uid: [1, 2], clients: 1}\n"), 0);
  assert_true(share_classes_have_user(&router, 2));
  assert_false(share_classes_have_user(&router, 3));
  assert_string_equal(class_of(&second, 3, "/", ""), "none");
  assert_string_equal(class_of(&first, 1, "/", ""), "two");
  assert_string_equal(class_of(&second, 2, "/", ""), "full");
  assert_non_null(strstr(why, "raise `clients` of class two in"));
  share_classes_leave(&second); /* it has none */
  assert_string_equal(class_of(&second, 2, "/", ""), "full");
  share_classes_leave(&first);
  assert_string_equal(class_of(&second, 2, "/", ""), "two");
}

static int begin(void **state)
{
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int end(void **state)
{
  static const char *const names[] = {"limits.yaml", "open", "secret"};

  (void)state;
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    snprintf(file, sizeof(file), "%s/%s", folder, names[i]);
    unlink(file);
  }
  return rmdir(folder);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, router_begin, router_end)
  const struct CMUnitTest cases[] = {
      CASE(a_limit_that_a_class_leaves_out_is_the_option_s),
      CASE(each_mistake_has_its_place_and_words),
      CASE(a_group_has_those_below_it),
      CASE(an_unknown_group_ends_the_search),
      CASE(a_token_is_compared_whole),
      CASE(a_class_has_users_and_a_number_of_clients),
  };
  return cmocka_run_group_tests(cases, begin, end);
}
