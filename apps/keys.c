/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock keys`: a CA, certificates and a pre-shared key for a test of TLS. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "log.h"

#define HERE "localhost,127.0.0.1,::1"
#define DAYS 365
#define KEY_BYTES 32
#define NAME_BYTES 64
#define NAMES_BYTES 1024
#define FILE_NAME_BYTES (NAME_BYTES + 16)

struct keys_file {
  struct keys_file *next;
  char name[FILE_NAME_BYTES];
};

struct keys {
  int folder;
  const char *path;
  EVP_PKEY *ca_key;
  X509 *ca;
  struct keys_file *made; /* by this run */
  struct pst_error error;
};

static int keys_fail(struct keys *keys, int code, const char *what, const char *why)
{
  return app_log_fail(&keys->error, code == -ENOMEM ? PST_EXIT_FAILED : PST_EXIT_USAGE, code,
                      "keys: %s/%s: %s", keys->path, what, why);
}

/* A file that was not there, which only this user reads; NULL: reported. */
static FILE *keys_create(struct keys *keys, const char *name)
{
  struct keys_file *made = malloc(sizeof(*made));

  if (!made) {
    keys_fail(keys, -ENOMEM, name, "out of memory");
    return NULL;
  }
  int fd = openat(keys->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) {
    keys_fail(keys, -errno, name,
              errno == EEXIST ? "is there already; name another folder" : strerror(errno));
    free(made);
    return NULL;
  }
  snprintf(made->name, sizeof(made->name), "%s", name);
  made->next = keys->made;
  keys->made = made;
  FILE *file = fdopen(fd, "w");
  if (!file) {
    close(fd);
    keys_fail(keys, -ENOMEM, name, "out of memory");
  }
  return file;
}

/* After a failure nothing of this run is left: it would be in the way of the next. */
static void keys_forget(struct keys *keys, bool are_removed)
{
  struct keys_file *next;

  for (struct keys_file *file = keys->made; file; file = next) {
    next = file->next;
    if (are_removed)
      unlinkat(keys->folder, file->name, 0);
    free(file);
  }
}

static int keys_close(struct keys *keys, FILE *file, const char *name, bool is_written)
{
  if (fclose(file) == 0 && is_written)
    return 0;
  return keys_fail(keys, -EIO, name, "cannot be written");
}

static int keys_write(struct keys *keys, const char *stem, X509 *certificate, EVP_PKEY *key)
{
  char name[FILE_NAME_BYTES];

  snprintf(name, sizeof(name), "%s-key.pem", stem);
  FILE *file = keys_create(keys, name);
  int rc = file ? keys_close(keys, file, name,
                             PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL))
                : -EEXIST;
  if (rc < 0)
    return rc;
  snprintf(name, sizeof(name), "%s.pem", stem);
  file = keys_create(keys, name);
  return file ? keys_close(keys, file, name, PEM_write_X509(file, certificate)) : -EEXIST;
}

static bool keys_extend(X509 *certificate, X509 *issuer, int id, const char *value)
{
  X509V3_CTX context;

  X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
  X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, id, value);
  const bool is_added = extension && X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
  return is_added;
}

/* Valid from an hour ago, since clocks differ. NULL: out of memory. */
static X509 *keys_new_certificate(const char *name, EVP_PKEY *key)
{
  X509 *made = X509_new();
  uint64_t serial = 0;

  if (made && RAND_bytes((unsigned char *)&serial, sizeof(serial)) == 1 &&
      X509_set_version(made, X509_VERSION_3) &&
      ASN1_INTEGER_set_uint64(X509_get_serialNumber(made), serial >> 1) &&
      X509_gmtime_adj(X509_getm_notBefore(made), -3600) &&
      X509_time_adj_ex(X509_getm_notAfter(made), DAYS, 0, NULL) &&
      X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_UTF8,
                                 (const unsigned char *)name, -1, -1, 0) &&
      X509_set_pubkey(made, key))
    return made;
  X509_free(made);
  return NULL;
}

static int keys_make_ca(struct keys *keys)
{
  keys->ca_key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
  keys->ca = keys->ca_key ? keys_new_certificate("Penstock test CA", keys->ca_key) : NULL;
  if (!keys->ca || !X509_set_issuer_name(keys->ca, X509_get_subject_name(keys->ca)) ||
      !keys_extend(keys->ca, keys->ca, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !keys_extend(keys->ca, keys->ca, NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !keys_extend(keys->ca, keys->ca, NID_subject_key_identifier, "hash") ||
      !X509_sign(keys->ca, keys->ca_key, NULL))
    return keys_fail(keys, -ENOMEM, "ca.pem", "libcrypto cannot make it");
  return keys_write(keys, "ca", keys->ca, keys->ca_key);
}

/* "a,10.0.0.1" as OpenSSL writes alternative names; `stem` is the first. False: it is no such
 * list. */
static bool keys_read_host(const char *words, char stem[NAME_BYTES], char names[NAMES_BYTES])
{
  struct in6_addr address;
  char one[NAME_BYTES];
  size_t used = 0;

  for (const char *at = words; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    const size_t length = strcspn(at, ",");
    if (length == 0 || length >= sizeof(one) || at[0] == '.' || at[0] == '-')
      return false;
    snprintf(one, sizeof(one), "%.*s", (int)length, at);
    const bool is_address =
        inet_pton(AF_INET, one, &address) == 1 || inet_pton(AF_INET6, one, &address) == 1;
    if (!is_address && strspn(one, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "-._") != length)
      return false;
    if (used == 0)
      memcpy(stem, one, sizeof(one));
    used += (size_t)snprintf(names + used, NAMES_BYTES - used, "%s%s:%s", used ? "," : "",
                             is_address ? "IP" : "DNS", one);
    if (used >= NAMES_BYTES)
      return false;
  }
  return true;
}

/* Whether NAME.pem or NAME-key.pem of one host is a file of the other's. */
static bool keys_files_clash(const char *one, const char *other)
{
  char names[NAMES_BYTES], a[NAME_BYTES], b[NAME_BYTES];

  keys_read_host(one, a, names);
  keys_read_host(other, b, names);
  const size_t length = strlen(a) < strlen(b) ? strlen(a) : strlen(b);
  return strncmp(a, b, length) == 0 &&
         (strcmp(a + length, b + length) == 0 || strcmp(a + length, "-key") == 0 ||
          strcmp(b + length, "-key") == 0);
}

static int keys_make_host(struct keys *keys, const char *stem, const char *names)
{
  EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
  X509 *made = key ? keys_new_certificate(stem, key) : NULL;
  int rc = -ENOMEM;

  if (made && X509_set_issuer_name(made, X509_get_subject_name(keys->ca)) &&
      keys_extend(made, keys->ca, NID_basic_constraints, "critical,CA:FALSE") &&
      keys_extend(made, keys->ca, NID_key_usage, "critical,digitalSignature") &&
      keys_extend(made, keys->ca, NID_ext_key_usage, "serverAuth,clientAuth") &&
      keys_extend(made, keys->ca, NID_authority_key_identifier, "keyid") &&
      keys_extend(made, keys->ca, NID_subject_alt_name, names) &&
      X509_sign(made, keys->ca_key, NULL))
    rc = keys_write(keys, stem, made, key);
  else
    keys_fail(keys, rc, stem, "libcrypto cannot make it");
  X509_free(made);
  EVP_PKEY_free(key);
  return rc;
}

static int keys_make_psk(struct keys *keys)
{
  unsigned char key[KEY_BYTES];

  if (RAND_bytes(key, sizeof(key)) != 1)
    return keys_fail(keys, -ENOMEM, "keys.psk", "libcrypto has no random numbers");
  FILE *file = keys_create(keys, "keys.psk");
  if (!file)
    return -EEXIST;
  fputs("penstock:", file);
  for (size_t i = 0; i < sizeof(key); i++)
    fprintf(file, "%02x", key[i]);
  const bool is_written = fputc('\n', file) != EOF;
  OPENSSL_cleanse(key, sizeof(key));
  return keys_close(keys, file, "keys.psk", is_written);
}

static void keys_print(const struct keys *keys, const char *stem)
{
  printf("# on %s; on the command line: --tls-certificate %s/%s.pem --tls-key %s/%s-key.pem "
         "--tls-ca %s/ca.pem\n"
         "control:\n"
         "  tls: {certificate: %s/%s.pem, key: %s/%s-key.pem, ca: %s/ca.pem}\n",
         stem, keys->path, stem, keys->path, stem, keys->path, keys->path, stem, keys->path, stem,
         keys->path);
}

/* Makes all files, and prints what both ends write; stops at the first that cannot be made. */
static int keys_make(struct keys *keys, const struct arguments *arguments)
{
  static const char *here[] = {HERE};
  const char **hosts = arguments->host_count ? arguments->hosts : here;
  const size_t count = arguments->host_count ? arguments->host_count : 1;
  char stem[NAME_BYTES], names[NAMES_BYTES];
  int rc = 0;

  for (size_t i = 0; i < count; i++)
    if (!keys_read_host(hosts[i], stem, names) || strcmp(stem, "ca") == 0 ||
        strcmp(stem, "ca-key") == 0)
      return app_log_fail(&keys->error, PST_EXIT_USAGE, -EINVAL,
                          "keys: --host '%.100s' is not NAME or NAME,NAME of DNS names and "
                          "addresses, as in node1.example,192.0.2.1",
                          hosts[i]);
  for (size_t i = 1; i < count; i++)
    for (size_t k = 0; k < i; k++)
      if (keys_files_clash(hosts[i], hosts[k]))
        return app_log_fail(
            &keys->error, PST_EXIT_USAGE, -EINVAL,
            "keys: --host '%.100s' and --host '%.100s' would share a file: name each "
            "host once, and none NAME-key of another",
            hosts[k], hosts[i]);
  if (mkdir(keys->path, 0700) < 0 && errno != EEXIST)
    rc = -errno;
  keys->folder = rc == 0 ? open(keys->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (keys->folder < 0)
    return keys_fail(keys, rc < 0 ? rc : -errno, "", strerror(rc < 0 ? -rc : errno));
  rc = keys_make_ca(keys);
  for (size_t i = 0; rc == 0 && i < count; i++) {
    keys_read_host(hosts[i], stem, names);
    rc = keys_make_host(keys, stem, names);
  }
  if (rc == 0)
    rc = keys_make_psk(keys);
  for (size_t i = 0; rc == 0 && i < count; i++) {
    keys_read_host(hosts[i], stem, names);
    keys_print(keys, stem);
  }
  if (rc == 0)
    printf("# or at all ends the same key; on the command line: --tls-psk %s/keys.psk\n"
           "control:\n"
           "  tls: {psk: %s/keys.psk}\n",
           keys->path, keys->path);
  return rc;
}

static int keys_run(const struct command *command, const struct arguments *arguments)
{
  struct keys keys = {.folder = -1, .path = arguments->operand, .error = PST_ERROR_INIT};
  int rc = keys_make(&keys, arguments);

  (void)command;
  keys_forget(&keys, rc < 0);
  X509_free(keys.ca);
  EVP_PKEY_free(keys.ca_key);
  if (keys.folder >= 0)
    close(keys.folder);
  if (rc < 0)
    return keys.error.exit_status ? keys.error.exit_status : PST_EXIT_FAILED;
  return PST_EXIT_OK;
}

const struct command app_command_keys = {
    .name = "keys",
    .operand = "DIR",
    .options = OPTION_KEYS,
    .summary = "make a CA, certificates and a pre-shared key to test TLS with",
    .help =
        "Writes into DIR a CA (ca.pem, ca-key.pem), a certificate of each --host (NAME.pem,\n"
        "NAME-key.pem) and a pre-shared key (keys.psk). Prints what to write into the configuration\n"
        "of each end. Files have mode 0600, and an existing file is never replaced. Certificates\n"
        "are valid for a year. In production, use certificates of your own CA.\n"
        "\n"
        "Examples:\n"
        "  penstock keys tls\n"
        "      Makes a certificate for both ends on this machine.\n"
        "  penstock keys hosts --host node1.example,192.0.2.1 --host node2.example,192.0.2.2\n"
        "      Makes a certificate for each of two hosts, with its name and its address.",
    .run = keys_run,
};
