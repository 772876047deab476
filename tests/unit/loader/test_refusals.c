/* SPDX-License-Identifier: Apache-2.0 */
/* Each way to be refused, and the very line that says it. */
#include "support.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/elf_check.h"
#include "loader/loader.h"
#include "loader/reason.h"
#include "loader/search.h"
#include "loader/trust.h"
#include "util/log.h"

struct row {
  const char *name;
  uint32_t kind;
  int code;
  const char *line; /* behind "path: " */
};

#define T PST_KIND_TRANSPORT
#define M PST_KIND_MEMORY

static const struct row rows[] = {
    {"major2", T, -EPROTONOSUPPORT,
     "built for ABI 2, this host speaks 1; build it with this host's headers"},
    {"no_symbol", T, -ELIBBAD,
     "has no symbol pst_plugin_v1: not a plugin; PST_PLUGIN() and PST_DESCRIPTION() make it"},
    {"borrowed", T, -ELIBBAD,
     "has no symbol pst_plugin_v1: not a plugin; PST_PLUGIN() and PST_DESCRIPTION() make it"},
    {"missing_library", T, -ELIBACC,
     "needs the library libfixture_absent.so.1, which cannot be opened here: No such file or "
     "directory; install the package that has it"},
    {"undefined_symbol", T, -ELIBBAD,
     "undefined symbol fixture_nowhere; link the library that has it, in the version it was built "
     "with"},
    {"short_plugin", T, -EPROTO,
     "its pst_plugin has 16 bytes, this host's has 32; build it with this host's headers"},
    {"short_description", T, -EPROTO,
     "its pst_description has 40 bytes, this host's has 96; build it with this host's headers"},
    {"undescribed", T, -EPROTO, "has no description; add PST_DESCRIPTION() in options.c"},
    {"no_description", T, -EPROTO, "has no description; add PST_DESCRIPTION() in options.c"},
    {"wrong_kind", T, -EPROTO,
     "describes itself as a memory, its file name says transport; rename one of them"},
    {"wrong_name", T, -EPROTO,
     "describes itself as 'right_name', its file name says 'wrong_name'; rename one of them"},
    {"no_version", T, -EPROTO, "its description has no version; \"\" says none"},
    {"no_probe", T, -EPROTO, "the mandatory call probe is NULL"},
    {"no_ops", T, -EPROTO, "has no struct pst_transport_ops"},
    {"short_ops", M, -EPROTO,
     "its pst_memory_ops has 8 bytes, this host's has 200; build it with this host's headers"},
    {"no_post", T, -EPROTO, "the mandatory op post is NULL"},
    {"short_table", T, -EPROTO,
     "its pst_transport_ops has 208 bytes, this host's has 216; build it with this host's headers"},
    {"long_table", T, -EPROTO,
     "its pst_transport_ops has 224 bytes, this host's has 216; build it with this host's headers"},
    {"no_arm", T, -EPROTO, "announces WAKEUP but its op arm is NULL"},
    {"no_ring", T, -EPROTO, "announces SEND but its op ring_open is NULL"},
    {"no_remote", T, -EPROTO, "announces READ but its op mr_pack is NULL"},
    {"no_copy", M, -EPROTO, "announces COPY but its op queue_open is NULL"},
    {"no_fence", M, -EPROTO, "announces FENCE but its op fence_record is NULL"},
    {"bad_default", T, -EPROTO, "option 'depth': its default '8 apples' does not parse"},
    {"twice", T, -EPROTO, "option 'device': is in the table twice"},
    {"no_scope", T, -EPROTO, "option 'depth': has no scope"},
    {"no_type", T, -EPROTO,
     "option 'depth': its type is unknown to ABI 1; build it with this host's headers, or install "
     "a newer host"},
    {"later_scope", T, -EPROTO,
     "option 'depth': its scope is unknown to ABI 1; build it with this host's headers, or "
     "install a newer host"},
    {"later_flags", T, -EPROTO,
     "option 'depth': its set of flags is unknown to ABI 1; build it with this host's headers, or "
     "install a newer host"},
    {"no_help", T, -EPROTO, "option 'depth': has no help text"},
    {"min_over_max", T, -EPROTO, "option 'depth': its min is above its max"},
    {"required_default", T, -EPROTO, "option 'depth': is required, and has a default"},
    {"pairs_no_list", T, -EPROTO, "option 'depth': has pairs and is no LIST"},
    {"rule_unknown", T, -EPROTO,
     "rule 0: it names an option that is not in the table, or one option twice"},
    {"rule_itself", T, -EPROTO,
     "rule 0: it names an option that is not in the table, or one option twice"},
    {"rule_list", T, -EPROTO, "rule 0: an option of it is a LIST, which has no one value"},
    {"rule_value", T, -EPROTO, "rule 0: one of its values is not valid for its option"},
    {"rule_flags", T, -EPROTO,
     "rule 0: its set of flags is unknown to ABI 1; build it with this host's headers, or install "
     "a newer host"},
    {"rule_reserved", T, -EPROTO,
     "rule 0: its set of flags is unknown to ABI 1; build it with this host's headers, or install "
     "a newer host"},
    {"rule_defaults", T, -EPROTO, "rule 0: the defaults break it"},
    {"many_rules", T, -EPROTO, "claims 65 rules but 64 is the most"},
    {"no_rules", T, -EPROTO, "claims 1 rules but has none"},
    {"many_options", T, -EPROTO, "claims 257 options but 256 is the most"},
    {"no_choices", T, -EPROTO, "option 'depth': choices belong to an ENUM, and an ENUM has some"},
    {"environment_alone", T, -EPROTO,
     "it needs other environment variables than the description beside it, which are set before a "
     "plugin is opened; "
     "install " PST_FIXTURES "/transport-environment_alone.desc.so of the same build"},
    {"environment_stale", T, -EPROTO,
     "it needs other environment variables than the description beside it, which are set before a "
     "plugin is opened; "
     "install " PST_FIXTURES "/transport-environment_stale.desc.so of the same build"},
    {"environment_unopened", T, -ELIBBAD,
     "undefined symbol fixture_nowhere; link the library that has it, in the version it was built "
     "with"},
    {"bad_variable", T, -EPROTO,
     "its environment has 'FIXTURE_MODE'; write NAME=value, the name of at most 63 letters, digits "
     "and '_'"},
    {"many_variables", T, -EPROTO,
     "names over 64 environment variables; or does NULL not end the list?"},
    {"bad_wire", T, -EPROTO,
     "its wire form is 'Verbs_RC'; write at most 31 lower-case letters, digits and '-', a letter "
     "first"},
    {"wired", M, -EPROTO, "its description has a wire form, which only a transport has"},
    {"bad_option_name", T, -EPROTO,
     "option 1: its name is not valid: write lower case, digits and '_'"},
};

static char *first_line(const char *text)
{
  return strndup(text, strcspn(text, "\n"));
}

/* Refused for that reason; said once in the log and first in the report, which goes
 * on with where was looked. */
static void expect_refused(uint32_t kind, const char *name, const char *path, int code,
                           const char *reason)
{
  const char *kind_name = kind == PST_KIND_MEMORY ? "memory" : "transport";
  const struct loader_plugin *plugin = (const void *)&rows;
  struct pst_error error = PST_ERROR_INIT;
  char expected[4096], *line, head[128];
  const char *logged;

  log_capture();
  assert_int_equal(loader_load(kind, name, &plugin, &error), code);
  assert_ptr_equal(plugin, &rows);
  snprintf(expected, sizeof(expected), "%s: %s", path, reason);
  line = first_line(error.text);
  assert_string_equal(line, expected);
  assert_int_equal(error.code, code);
  assert_int_equal(error.exit_status, PST_EXIT_UNAVAILABLE);
  snprintf(head, sizeof(head), "%s '%s' cannot be loaded; looked in: ", kind_name, name);
  assert_non_null(strstr(error.text, head));
  assert_non_null(strstr(strstr(error.text, head), PST_FIXTURES));
  /* Alone but for its environment, where it names one. */
  strcpy(head, " in the environment\n");
  logged = strstr(log_text(), head);
  logged = logged ? logged + strlen(head) : log_text();
  assert_memory_equal(logged, error.text, strlen(error.text));
  assert_string_equal(logged + strlen(error.text), "\n");
  free(line);
}

static void test_fixture(void **state)
{
  const struct row *row = *state;
  char path[4096];

  snprintf(path, sizeof(path), "%s/%s-%s.so", PST_FIXTURES, row->kind == M ? "memory" : "transport",
           row->name);
  expect_refused(row->kind, row->name, path, row->code, row->line);
}

/* ---- Files made on the spot -------------------------------------------------- */

static char *folder;

static int folder_setup(void **state)
{
  (void)state;
  folder = scratch_new();
  return pst_plugin_path_add(folder);
}

static int folder_teardown(void **state)
{
  (void)state;
  scratch_free(folder);
  return 0;
}

static void test_text_file(void **state)
{
  char path[4096];
  FILE *file;

  (void)state;
  snprintf(path, sizeof(path), "%s/transport-text.so", folder);
  file = fopen(path, "we");
  fputs("INPUT(libtext.so.1)\n", file);
  fclose(file);
  expect_refused(T, "text", path, -ENOEXEC, "not an ELF file; install it again");
}

static void test_empty_file(void **state)
{
  char path[4096];

  (void)state;
  snprintf(path, sizeof(path), "%s/transport-empty.so", folder);
  fclose(fopen(path, "we"));
  expect_refused(T, "empty", path, -ENOEXEC, "not an ELF file; install it again");
}

/* dlopen() itself dies of SIGBUS in such a file. */
static void test_truncated(void **state)
{
  static const size_t lengths[] = {20, 63, 64, 200, 4096};

  (void)state;
  for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
    const char *path =
        scratch_copy(folder, "transport-cut.so", "transport-good.so", lengths[i], -1, 0);
    const struct loader_plugin *plugin;
    struct pst_error error = PST_ERROR_INIT;
    char expected[4096];

    log_capture();
    assert_int_equal(loader_load(T, "cut", &plugin, &error), -ENOEXEC);
    snprintf(expected, sizeof(expected), "%s: cut short: has %zu bytes, its headers speak of ",
             path, lengths[i]);
    assert_memory_equal(error.text, expected, strlen(expected));
  }
}

/* However a header lies, reading it stays within the file; what matters is noticed. */
static void test_damaged_headers(void **state)
{
  static const size_t decisive[] = {
      offsetof(Elf64_Ehdr, e_type),      offsetof(Elf64_Ehdr, e_machine),
      offsetof(Elf64_Ehdr, e_phoff) + 7, offsetof(Elf64_Ehdr, e_phentsize),
      offsetof(Elf64_Ehdr, e_shoff) + 7,
  };
  size_t refused[sizeof(Elf64_Ehdr)] = {0};

  (void)state;
  for (size_t at = 0; at < sizeof(Elf64_Ehdr); at++) {
    const char *path = scratch_copy(folder, "damaged.so", "transport-good.so", 0, (long)at, 0xff);
    struct loader_reason why = {.path = path};
    struct elf_check found;

    if (elf_check_file(path, "pst_plugin_v", &found, &why) == 0) {
      elf_check_free(&found);
      continue;
    }
    refused[at] = 1;
    assert_int_equal(why.code, -ENOEXEC);
    assert_memory_equal(why.line, path, strlen(path));
  }
  for (size_t i = 0; i < sizeof(decisive) / sizeof(decisive[0]); i++)
    assert_true(refused[decisive[i]]);
}

static void test_other_class(void **state)
{
  const char *path;

  (void)state;
  path = scratch_copy(folder, "transport-narrow.so", "transport-good.so", 0, EI_CLASS, ELFCLASS32);
  expect_refused(T, "narrow", path, -ENOEXEC, "built for a 32-bit machine; build it for this one");
}

static void test_no_shared_object(void **state)
{
  const char *path;

  (void)state;
  path = scratch_copy(folder, "transport-program.so", "transport-good.so", 0,
                      offsetof(Elf64_Ehdr, e_type), ET_EXEC);
  expect_refused(T, "program", path, -ENOEXEC, "not a shared object; link it with -shared");
  path = scratch_copy(folder, "transport-hollow.so", "transport-good.so", 0,
                      offsetof(Elf64_Ehdr, e_phnum), 0);
  expect_refused(T, "hollow", path, -ENOEXEC,
                 "not a shared object that can be loaded; install it again");
}

static void test_other_machine(void **state)
{
  struct pst_error error = PST_ERROR_INIT;
  const struct loader_plugin *plugin;
  const char *path;
  char expected[4096];

  (void)state;
  path = scratch_copy(folder, "transport-foreign.so", "transport-good.so", 0,
                      offsetof(Elf64_Ehdr, e_machine), EM_S390);
  log_capture();
  assert_int_equal(loader_load(T, "foreign", &plugin, &error), -ENOEXEC);
  snprintf(expected, sizeof(expected), "%s: built for S/390, this machine is ", path);
  assert_memory_equal(error.text, expected, strlen(expected));
}

static void test_writable_file(void **state)
{
  char reason[8192];
  const char *path;

  (void)state;
  path = scratch_copy(folder, "transport-good_but.so", "transport-good.so", 0, -1, 0);
  chmod(path, 0757);
  snprintf(reason, sizeof(reason),
           "world-writable, so anybody could put code into it; chmod o-w %s", path);
  expect_refused(T, "good_but", path, -EPERM, reason);
}

static void test_writable_folder(void **state)
{
  char *open = scratch_new(), reason[8192], *path;

  (void)state;
  path = strdup(scratch_copy(open, "transport-exposed.so", "transport-good.so", 0, -1, 0));
  chmod(open, 01777);
  assert_int_equal(pst_plugin_path_add(open), 0);
  snprintf(reason, sizeof(reason),
           "its folder %s is world-writable, so anybody could put code there; chmod o-w %s", open,
           open);
  expect_refused(T, "exposed", path, -EPERM, reason);
  free(path);
  scratch_free(open);
}

/* The folder that counts is the one the file really lies in. */
static void test_link_into_writable_folder(void **state)
{
  char *open = scratch_new(), reason[8192], link[4096], target[4096];

  (void)state;
  snprintf(target, sizeof(target), "%s",
           scratch_copy(open, "transport-through.so", "transport-good.so", 0, -1, 0));
  chmod(open, 0777);
  snprintf(link, sizeof(link), "%s/transport-through.so", folder);
  assert_int_equal(symlink(target, link), 0);
  snprintf(reason, sizeof(reason),
           "its folder %s is world-writable, so anybody could put code there; chmod o-w %s", open,
           open);
  expect_refused(T, "through", link, -EPERM, reason);
  scratch_free(open);
}

/* No constructor of such a file runs: a plugin that was opened stays. */
static void test_no_symbol_is_not_opened(void **state)
{
  const char *path = scratch_copy(folder, "transport-none.so", "transport-no_symbol.so", 0, -1, 0);
  const char *line = "has no symbol pst_plugin_v1: not a plugin; PST_PLUGIN() and "
                     "PST_DESCRIPTION() make it";

  (void)state;
  expect_refused(T, "none", path, -ELIBBAD, line);
  assert_null(dlopen(path, RTLD_LAZY | RTLD_NOLOAD));
}

/* Without section headers (sstrip) dlsym() decides. */
static void test_borrowed_symbol(void **state)
{
  const char *path;
  char reason[8192];

  (void)state;
  scratch_copy(folder, "libfixture_lender.so", "libfixture_lender.so", 0, -1, 0);
  path = scratch_copy(folder, "transport-bare.so", "transport-borrowed.so", 0,
                      offsetof(Elf64_Ehdr, e_shnum), 0);
  snprintf(reason, sizeof(reason),
           "its pst_plugin_v1 is that of %s/libfixture_lender.so; export one of its own, and link "
           "no other plugin",
           folder);
  expect_refused(T, "bare", path, -ELIBBAD, reason);
}

/* Everybody can replace this very program: there is nothing to protect. */
static bool is_exposed(void)
{
  char path[4096], *slash;
  struct stat st;

  assert_true(search_own_file(path));
  while ((slash = strrchr(path, '/'))) {
    *slash = '\0';
    if (stat(*path ? path : "/", &st) == 0 && (st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
      return true;
  }
  return false;
}

static void test_writable_ancestor(void **state)
{
  char reason[8192], box[4096], *path;

  (void)state;
  if (is_exposed())
    skip();
  snprintf(box, sizeof(box), "%s/box", folder);
  assert_int_equal(mkdir(box, 0755), 0);
  path = strdup(scratch_copy(box, "transport-below.so", "transport-good.so", 0, -1, 0));
  assert_int_equal(pst_plugin_path_add(box), 0);
  chmod(folder, 0777);
  snprintf(reason, sizeof(reason),
           "its folder %s is world-writable, so anybody could put code there; chmod o-w %s", folder,
           folder);
  expect_refused(T, "below", path, -EPERM, reason);
  chmod(folder, 0700);
  unlink(path);
  rmdir(box);
  free(path);
}

enum { OTHER = 64321 }; /* a user, and a group, that owns nothing here */

static void test_other_owner(void **state)
{
  char reason[16384], link[4096];
  const char *path;

  (void)state;
  if (geteuid() != 0)
    skip();
  path = scratch_copy(folder, "transport-owned.so", "transport-good.so", 0, -1, 0);
  assert_int_equal(chown(path, OTHER, 0), 0);
  snprintf(reason, sizeof(reason),
           "belongs to user %d, who could put code into it; copy it, or chown 0 %s", OTHER, path);
  expect_refused(T, "owned", path, -EPERM, reason);
  snprintf(link, sizeof(link), "%s/transport-led.so", folder);
  assert_int_equal(symlink(PST_FIXTURES "/transport-good.so", link), 0);
  assert_int_equal(lchown(link, OTHER, 0), 0);
  snprintf(reason, sizeof(reason),
           "the link %s belongs to user %d, who could put code there; copy the file, or chown -h 0 "
           "%s",
           link, OTHER, link);
  expect_refused(T, "led", link, -EPERM, reason);
  assert_int_equal(chown(folder, OTHER, 0), 0);
  snprintf(reason, sizeof(reason),
           "its folder %s belongs to user %d, who could put code there; copy the file, or chown -h "
           "0 %s",
           folder, OTHER, folder);
  expect_refused(T, "led", link, -EPERM, reason);
  assert_int_equal(chown(folder, 0, 0), 0);
}

static void test_group(void **state)
{
  char reason[8192], real[4096];
  struct loader_reason why;
  const char *path;
  int rc;

  (void)state;
  if (geteuid() != 0)
    skip();
  path = scratch_copy(folder, "transport-shared.so", "transport-good.so", 0, -1, 0);
  assert_int_equal(chown(path, 0, OTHER), 0);
  assert_int_equal(chmod(path, 0775), 0);
  snprintf(reason, sizeof(reason),
           "writable by group %d, whose members could put code into it; chmod g-w %s", OTHER, path);
  expect_refused(T, "shared", path, -EPERM, reason);
  assert_int_equal(chown(path, OTHER, OTHER), 0); /* that user's private group */
  assert_int_equal(chown(folder, OTHER, OTHER), 0);
  assert_int_equal(seteuid(OTHER), 0);
  rc = trust_file(path, real, &why);
  assert_int_equal(seteuid(0), 0);
  assert_int_equal(chown(folder, 0, 0), 0);
  assert_true(rc == 0 || rc == -EACCES); /* TMPDIR may be root's alone */
}

/* Links and ".." on the way are followed as the kernel does, to the same path. */
static void test_way(void **state)
{
  char path[4096], link[4096], real[4096], file[4096];
  struct loader_reason why;

  (void)state;
  snprintf(file, sizeof(file), "%s",
           scratch_copy(folder, "transport-way.so", "transport-good.so", 0, -1, 0));
  snprintf(link, sizeof(link), "%s/way", folder);
  assert_int_equal(symlink("./..//", link), 0);
  snprintf(path, sizeof(path), "%s/./way/%s/transport-way.so", folder, strrchr(folder, '/') + 1);
  assert_int_equal(trust_file(path, real, &why), 0);
  assert_string_equal(real, file);
  snprintf(path, sizeof(path), "%s/transport-way.so/more", folder);
  assert_int_equal(trust_file(path, real, &why), -ENOTDIR);
  unlink(link);
  assert_int_equal(symlink("way", link), 0);
  snprintf(path, sizeof(path), "%s/way/transport-way.so", folder);
  assert_int_equal(trust_file(path, real, &why), -ELOOP);
}

static void test_dangling_link(void **state)
{
  char link[4096];

  (void)state;
  snprintf(link, sizeof(link), "%s/transport-dangling.so", folder);
  assert_int_equal(symlink("/nowhere/transport-dangling.so", link), 0);
  expect_refused(T, "dangling", link, -ENOENT, "leads nowhere: No such file or directory");
}

static void test_folder_named_as_plugin(void **state)
{
  char path[4096];

  (void)state;
  snprintf(path, sizeof(path), "%s/transport-box.so", folder);
  assert_int_equal(mkdir(path, 0755), 0);
  expect_refused(T, "box", path, -ENOEXEC, "not a file; remove it or rename it");
  rmdir(path);
}

int main(void)
{
  enum { FIXTURES = sizeof(rows) / sizeof(rows[0]) };
  const struct CMUnitTest made[] = {
      cmocka_unit_test(test_text_file),
      cmocka_unit_test(test_empty_file),
      cmocka_unit_test(test_truncated),
      cmocka_unit_test(test_damaged_headers),
      cmocka_unit_test(test_other_class),
      cmocka_unit_test(test_no_shared_object),
      cmocka_unit_test(test_other_machine),
      cmocka_unit_test(test_writable_file),
      cmocka_unit_test(test_writable_folder),
      cmocka_unit_test(test_link_into_writable_folder),
      cmocka_unit_test(test_no_symbol_is_not_opened),
      cmocka_unit_test(test_borrowed_symbol),
      cmocka_unit_test(test_writable_ancestor),
      cmocka_unit_test(test_other_owner),
      cmocka_unit_test(test_group),
      cmocka_unit_test(test_way),
      cmocka_unit_test(test_dangling_link),
      cmocka_unit_test(test_folder_named_as_plugin),
  };
  struct CMUnitTest fixtures[FIXTURES];
  int failed;

  for (size_t i = 0; i < FIXTURES; i++)
    fixtures[i] = (struct CMUnitTest){
        .name = rows[i].name, .test_func = test_fixture, .initial_state = (void *)&rows[i]};
  failed = cmocka_run_group_tests_name("fixtures", fixtures, NULL, NULL);
  failed += cmocka_run_group_tests_name("files", made, folder_setup, folder_teardown);
  return failed ? 1 : 0;
}
