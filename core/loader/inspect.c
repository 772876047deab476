/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a candidate before dlopen() sees it: dlopen runs its constructors, maps a
 * file that is cut short and dies of SIGBUS in it, and says little. Structures are
 * those of the System V gABI, chapters 4 and 5. */
#include "internal.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/limit_remedy.h"

struct elf {
  int fd;
  uint64_t size;
  Elf64_Ehdr head;
  Elf64_Shdr *sections;
  const char *path;
  struct loader_reason *why;
};

static int cut_short(struct elf *elf, uint64_t wanted)
{
  return loader_reject(elf->why, -ENOEXEC, elf->path,
                       "cut short: has %llu bytes, its headers speak of %llu; install it again",
                       (unsigned long long)elf->size, (unsigned long long)wanted);
}

/* length bytes at offset, with a NUL behind them; NULL with *why set. */
static void *read_part(struct elf *elf, uint64_t offset, uint64_t length)
{
  char *part;

  if (offset > elf->size || length > elf->size - offset) {
    cut_short(elf, length > UINT64_MAX - offset ? UINT64_MAX : offset + length);
    return NULL;
  }
  part = malloc(length + 1);
  if (!part) {
    loader_reject(elf->why, -ENOMEM, elf->path, "no memory to read it");
    return NULL;
  }
  for (uint64_t done = 0; done < length;) {
    ssize_t n = pread(elf->fd, part + done, length - done, (off_t)(offset + done));

    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0) {
      loader_reject(elf->why, n < 0 ? -errno : -EIO, elf->path, "cannot be read: %s",
                    n < 0 ? strerror(errno) : "it shrank meanwhile");
      free(part);
      return NULL;
    }
    done += (uint64_t)n;
  }
  part[length] = '\0';
  return part;
}

static const char *machine_name(unsigned machine, char number[32])
{
  switch (machine) {
  case EM_386:
    return "x86";
  case EM_X86_64:
    return "x86-64";
  case EM_ARM:
    return "32-bit Arm";
  case EM_AARCH64:
    return "AArch64";
  case EM_PPC64:
    return "POWER";
  case EM_RISCV:
    return "RISC-V";
  case EM_S390:
    return "S/390";
  default:
    snprintf(number, 32, "ELF machine %u", machine);
    return number;
  }
}

/* This process's own header says what a plugin must be built for. */
static bool own_header(Elf64_Ehdr *own)
{
  int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, own, sizeof *own);

  if (fd >= 0)
    close(fd);
  return n == (ssize_t)sizeof *own && memcmp(own->e_ident, ELFMAG, SELFMAG) == 0;
}

static int check_header(struct elf *elf)
{
  unsigned char ident[EI_NIDENT] = {0};
  ssize_t n = pread(elf->fd, ident, sizeof ident, 0);
  char a[32], b[32];
  Elf64_Ehdr own, *head;

  if (n < 0)
    return loader_reject(elf->why, -errno, elf->path, "cannot be read: %s", strerror(errno));
  if (memcmp(ident, ELFMAG, SELFMAG) != 0)
    return loader_reject(elf->why, -ENOEXEC, elf->path, "not an ELF file; install it again");
  if (ident[EI_CLASS] != ELFCLASS64)
    return loader_reject(elf->why, -ENOEXEC, elf->path,
                         "built for a 32-bit machine; build it for this one");
  head = read_part(elf, 0, sizeof *head);
  if (!head)
    return elf->why->code;
  elf->head = *head;
  free(head);
  if (own_header(&own) &&
      (own.e_machine != elf->head.e_machine || own.e_ident[EI_DATA] != ident[EI_DATA]))
    return loader_reject(elf->why, -ENOEXEC, elf->path,
                         "built for %s, this machine is %s%s; build it for this one",
                         machine_name(elf->head.e_machine, a), machine_name(own.e_machine, b),
                         own.e_ident[EI_DATA] != ident[EI_DATA] ? " of another byte order" : "");
  if (elf->head.e_type != ET_DYN)
    return loader_reject(elf->why, -ENOEXEC, elf->path,
                         "not a shared object; link it with -shared");
  return 0;
}

/* A segment behind the end of the file is what SIGBUS in dlopen comes from. */
static int check_segments(struct elf *elf)
{
  uint64_t count = elf->head.e_phnum;
  Elf64_Phdr *segments;
  int loads = 0, rc = 0;

  if (count == 0 || elf->head.e_phentsize != sizeof *segments)
    return loader_reject(elf->why, -ENOEXEC, elf->path,
                         "not a shared object that can be loaded; install it again");
  segments = read_part(elf, elf->head.e_phoff, count * sizeof *segments);
  if (!segments)
    return elf->why->code;
  for (uint64_t i = 0; i < count && rc == 0; i++) {
    uint64_t offset = segments[i].p_offset, length = segments[i].p_filesz;

    if (segments[i].p_type != PT_LOAD)
      continue;
    loads++;
    if (offset > elf->size || length > elf->size - offset)
      rc = cut_short(elf, length > UINT64_MAX - offset ? UINT64_MAX : offset + length);
  }
  if (rc == 0 && loads == 0)
    rc = loader_reject(elf->why, -ENOEXEC, elf->path,
                       "not a shared object that can be loaded; install it again");
  free(segments);
  return rc;
}

static void note_symbol(const char *name, bool is_defined, const char *stem, struct inspect *found)
{
  size_t head = strlen(stem);
  unsigned long major;
  char *end;

  if (!is_defined || strncmp(name, stem, head) != 0 || name[head] < '0' || name[head] > '9')
    return;
  major = strtoul(name + head, &end, 10);
  if (*end != '\0' || major > UINT32_MAX)
    return;
  if (major == PST_ABI_MAJOR)
    found->is_defined = true;
  else
    found->other_major = (uint32_t)major;
}

static const char *string_at(const char *strings, uint64_t size, uint64_t at)
{
  return at < size ? strings + at : "";
}

static int read_symbols(struct elf *elf, const Elf64_Shdr *section, const char *strings,
                        uint64_t strings_size, const char *stem, struct inspect *found)
{
  uint64_t count = section->sh_size / sizeof(Elf64_Sym);
  Elf64_Sym *symbols = read_part(elf, section->sh_offset, section->sh_size);

  if (!symbols)
    return elf->why->code;
  for (uint64_t i = 0; i < count; i++)
    note_symbol(string_at(strings, strings_size, symbols[i].st_name),
                symbols[i].st_shndx != SHN_UNDEF, stem, found);
  found->is_listed = true;
  free(symbols);
  return 0;
}

static int read_needed(struct elf *elf, const Elf64_Shdr *section, const char *strings,
                       uint64_t strings_size, struct inspect *found)
{
  uint64_t count = section->sh_size / sizeof(Elf64_Dyn), n = 0;
  Elf64_Dyn *entries;
  int rc = 0;

  if (found->needed)
    return 0;
  entries = read_part(elf, section->sh_offset, section->sh_size);
  if (!entries)
    return elf->why->code;
  found->needed = calloc(count + 1, sizeof *found->needed);
  for (uint64_t i = 0; found->needed && rc == 0 && i < count && entries[i].d_tag != DT_NULL; i++) {
    if (entries[i].d_tag != DT_NEEDED)
      continue;
    found->needed[n] = strdup(string_at(strings, strings_size, entries[i].d_un.d_val));
    if (!found->needed[n++])
      rc = -ENOMEM;
  }
  if (!found->needed || rc < 0)
    rc = loader_reject(elf->why, -ENOMEM, elf->path, "no memory to read it");
  free(entries);
  return rc;
}

/* Without section headers (sstrip) nothing is known; dlsym() decides then. */
static int read_sections(struct elf *elf, const char *stem, struct inspect *found)
{
  uint64_t count = elf->head.e_shnum;
  int rc = 0;

  if (count == 0 || elf->head.e_shentsize != sizeof *elf->sections)
    return 0;
  elf->sections = read_part(elf, elf->head.e_shoff, count * sizeof *elf->sections);
  if (!elf->sections)
    return elf->why->code;
  for (uint64_t i = 0; i < count && rc == 0; i++) {
    const Elf64_Shdr *section = &elf->sections[i], *link;
    char *strings;

    if ((section->sh_type != SHT_DYNSYM && section->sh_type != SHT_DYNAMIC) ||
        section->sh_link >= count)
      continue;
    link = &elf->sections[section->sh_link];
    strings = read_part(elf, link->sh_offset, link->sh_size);
    if (!strings)
      rc = elf->why->code;
    else if (section->sh_type == SHT_DYNSYM)
      rc = read_symbols(elf, section, strings, link->sh_size, stem, found);
    else
      rc = read_needed(elf, section, strings, link->sh_size, found);
    free(strings);
  }
  return rc;
}

/* Found before dlopen() runs constructors of a file that is none of ours. */
static int check_symbols(const char *path, const char *stem, const struct inspect *found,
                         struct loader_reason *why)
{
  if (!found->is_listed || found->is_defined)
    return 0;
  if (found->other_major)
    return loader_reject(why, -EPROTONOSUPPORT, path,
                         "built for ABI %u, this host speaks %u; build it with this host's headers",
                         found->other_major, PST_ABI_MAJOR);
  return inspect_no_symbol(path, stem, why);
}

int inspect_no_symbol(const char *path, const char *stem, struct loader_reason *why)
{
  return loader_reject(why, -ELIBBAD, path,
                       "has no symbol %s%u: not a plugin; PST_PLUGIN() and PST_DESCRIPTION() "
                       "make it",
                       stem, PST_ABI_MAJOR);
}

int inspect_file(const char *path, const char *real, const char *stem, struct inspect *found,
                 struct loader_reason *why)
{
  struct elf elf = {.fd = -1, .path = path, .why = why};
  struct stat st;
  int rc;

  memset(found, 0, sizeof *found);
  elf.fd = open(real, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (elf.fd < 0 || fstat(elf.fd, &st) < 0) {
    rc = loader_reject(why, -errno, path, "cannot be opened: %s%s", strerror(errno),
                       limit_remedy(-errno));
    goto out;
  }
  elf.size = (uint64_t)st.st_size;
  rc = check_header(&elf);
  if (rc == 0)
    rc = check_segments(&elf);
  if (rc == 0)
    rc = read_sections(&elf, stem, found);
  if (rc == 0)
    rc = check_symbols(path, stem, found, why);
out:
  if (rc < 0)
    inspect_free(found);
  free(elf.sections);
  if (elf.fd >= 0)
    close(elf.fd);
  return rc;
}

void inspect_free(struct inspect *found)
{
  for (char **n = found->needed; n && *n; n++)
    free(*n);
  free(found->needed);
  found->needed = NULL;
}
