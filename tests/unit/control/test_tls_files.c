/* SPDX-License-Identifier: Apache-2.0 */
/* Files and parameters of TLS: what is refused, and why; no connection is made. */
#include "harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/tls.h"
#include "credentials.h"

static struct ca *ours;

static int set_up(void **state)
{
  (void)state;
  credentials_begin();
  ours = ca_new("ours");
  ca_sign(ours, &(struct leaf){.name = "here", .san = "DNS:localhost"});
  ca_sign(ours, &(struct leaf){.name = "node", .san = "DNS:node.example"});
  credential_write("psk", "alice:" KEY_A "\n", 0600);
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  ca_free(ours);
  credentials_end();
  return 0;
}

/* A read that failed for want of a descriptor is tried again, with one line in the log. */
static void test_rotation_without_descriptors(void **state)
{
  struct pst_tls_params here = credentials_of("here", "ours");
  struct pst_error error = PST_ERROR_INIT;
  struct tls_context *context;
  struct rlimit limit;

  (void)state;
  ca_revoke(ours, "changing", 0, 1);
  here.crl = credential("changing.crl");
  assert_int_equal(tls_context_open(&here, &context, &error), 0);
  ca_revoke(ours, "changing", 1, 1);
  log_clear();
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  assert_int_equal(
      setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max}), 0);
  for (int i = 0; i < 2; i++)
    tls_session_free(tls_session_new(context, NULL));
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
  assert_int_equal(log_count("Too many open files"), 1);
  assert_false(log_has("read changed credentials"));
  for (int i = 0; i < 2; i++)
    tls_session_free(tls_session_new(context, NULL));
  assert_int_equal(log_count("read changed credentials"), 1);
  tls_context_close(context);
}

static void test_files(void **state)
{
  static const struct {
    const char *leaf, *psk, *text;
    unsigned mode;
    int code;
    const char *why;
  } cases[] = {
      {"here", NULL, "", 0, -EACCES, "key: tls-"},
      {NULL, "absent", NULL, 0, -ENOENT, "No such file"},
      {NULL, "made", "a:" KEY_A "\n", 0640, -EACCES, "is a secret that others may read; chmod 600"},
      {NULL, "made", "a:" KEY_A "\n", 0604, -EACCES, "is a secret that others may read; chmod 600"},
      {NULL, "made", "", 0600, -EBADMSG, "has no line NAME:HEX"},
      {NULL, "made", "a\n", 0600, -EBADMSG, "line 1 is not NAME:HEX"},
      {NULL, "made", "a:" KEY_A "\r\n\r\nb\r\n", 0600, -EBADMSG, "line 3 is not NAME:HEX"},
      {NULL, "made", "\na:00\n", 0600, -EBADMSG, "line 2 has no key of 16 to 64 bytes"},
      {NULL, "made", "a:" KEY_A "x0\n", 0600, -EBADMSG, "line 1 has no key of 16"},
      {NULL, "made", "a:" KEY_A "\na:" KEY_B "\n", 0600, -EBADMSG,
       "line 2 has a name that an earlier line has"},
  };

  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct pst_tls_params params =
        cases[i].leaf ? credentials_of(cases[i].leaf, "ours") : credentials_of_psk(cases[i].psk);
    struct pst_error error = PST_ERROR_INIT;
    struct tls_context *context = NULL;
    if (cases[i].leaf)
      assert_int_equal(chmod(params.key, 0644), 0);
    else if (cases[i].text)
      credential_write(cases[i].psk, cases[i].text, cases[i].mode);
    assert_int_equal(tls_context_open(&params, &context, &error), cases[i].code);
    if (cases[i].leaf)
      assert_int_equal(chmod(params.key, 0600), 0);
    if (!strstr(error.text, cases[i].why))
      fail_msg("%zu: %s", i, error.text);
    assert_int_equal(error.exit_status, PST_EXIT_USAGE);
    assert_null(context);
  }
}

/* A secret of another user is refused, and is taken once it is this user's. */
static void test_owner_of_a_secret(void **state)
{
  const struct pst_tls_params params = credentials_of_psk("owned");
  struct pst_error error = PST_ERROR_INIT;
  struct tls_context *context = NULL;

  (void)state;
  if (geteuid() != 0)
    skip();
  credential_write("owned", "a:" KEY_A "\n", 0600);
  assert_int_equal(chown(params.psk, 65534, (gid_t)-1), 0);
  assert_int_equal(tls_context_open(&params, &context, &error), -EACCES);
  assert_non_null(strstr(error.text, "belongs to another user"));
  assert_null(context);
  assert_int_equal(chown(params.psk, 0, (gid_t)-1), 0);
  assert_int_equal(tls_context_open(&params, &context, &error), 0);
  tls_context_close(context);
}

static void test_params(void **state)
{
  const struct pst_tls_params here = credentials_of("here", "ours");
  struct pst_tls_params both = here, mixed = credentials_of("node", "ours"),
                        psk = credentials_of_psk("psk");
  struct tls_context *context = NULL;
  struct pst_error error = PST_ERROR_INIT;
  struct end *end = end_new();

  (void)state;
  both.psk = psk.psk;
  assert_int_equal(tls_context_open(&both, &context, &error), -EINVAL);
  both = here;
  both.ca = NULL;
  assert_int_equal(tls_context_open(&both, &context, &error), -EINVAL);
  psk.peers = (const char *const[]){"a"};
  psk.peer_count = 1;
  assert_int_equal(tls_context_open(&psk, &context, &error), -EINVAL);
  for (unsigned i = 0; i < 2; i++) {
    both = here;
    both.peers = (const char *const[]){i ? "::1" : "127.0.0.1"};
    both.peer_count = 1;
    assert_int_equal(tls_context_open(&both, &context, &error), -EINVAL);
    assert_non_null(strstr(error.text, "has an IP address among its `peers`"));
  }
  mixed.key = here.key;
  assert_int_equal(tls_context_open(&mixed, &context, &error), -EBADMSG);
  assert_non_null(strstr(error.text, "is not the key of `certificate`"));
  end_stream(end, "a", false, NULL);
  end->params.tls = &here;
  end->params.insecure = true;
  assert_int_equal(end_listen(end), -EINVAL);
  assert_non_null(strstr(end->error.text, "remove one"));
  end_close(end);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rotation_without_descriptors),
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_owner_of_a_secret),
      cmocka_unit_test(test_params),
  };

  log_watch();
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
