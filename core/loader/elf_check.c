/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a candidate before dlopen() sees it: dlopen runs its constructors, maps a
 * file that is cut short and dies of SIGBUS in it, and says little. Structures are
 * those of the System V gABI, chapters 4 and 5. */
#include "elf_check.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reason.h"
#include "util/limit_remedy.h"

struct elf {
  int fd;
  uint64_t size;
  const Elf64_Ehdr *head;
  struct loader_reason *why;
  struct arena *arena; /* of all that is read, until the file has been judged */
};

/* Do length bytes at offset lie in the file? */
static int check_within(struct elf *elf, uint64_t offset, uint64_t length)
{
  uint64_t wanted = length > UINT64_MAX - offset ? UINT64_MAX : offset + length;

  if (offset <= elf->size && length <= elf->size - offset)
    return 0;
  return loader_reject(elf->why, -ENOEXEC,
                       "cut short: has %llu bytes, its headers speak of %llu; install it again",
                       (unsigned long long)elf->size, (unsigned long long)wanted);
}

/* length bytes at offset, with a NUL behind them; NULL with *why set. */
static void *elf_read_part(struct elf *elf, uint64_t offset, uint64_t length)
{
  char *part;

  if (check_within(elf, offset, length) < 0)
    return NULL;
  part = arena_alloc(elf->arena, length + 1);
  if (!part) {
    loader_reject(elf->why, -ENOMEM, "no memory to read it");
    return NULL;
  }
  for (uint64_t done = 0; done < length;) {
    ssize_t n = pread(elf->fd, part + done, length - done, (off_t)(offset + done));

    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0) {
      loader_reject(elf->why, n < 0 ? -errno : -EIO, "cannot be read: %s",
                    n < 0 ? strerror(errno) : "it shrank meanwhile");
      return NULL;
    }
    done += (uint64_t)n;
  }
  return part;
}

static const char *elf_machine_name(unsigned machine, char number[32])
{
  static const struct {
    unsigned machine;
    const char *name;
  } names[] = {{EM_386, "x86"},         {EM_X86_64, "x86-64"}, {EM_ARM, "32-bit Arm"},
               {EM_AARCH64, "AArch64"}, {EM_PPC64, "POWER"},   {EM_RISCV, "RISC-V"},
               {EM_S390, "S/390"}};

  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if (names[i].machine == machine)
      return names[i].name;
  snprintf(number, 32, "ELF machine %u", machine);
  return number;
}

/* This process's own header says what a plugin must be built for. */
static bool elf_own_header(Elf64_Ehdr *own)
{
  int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, own, sizeof(*own));

  if (fd >= 0)
    close(fd);
  return n == (ssize_t)sizeof(*own) && memcmp(own->e_ident, ELFMAG, SELFMAG) == 0;
}

static int check_header(struct elf *elf)
{
  unsigned char ident[EI_NIDENT] = {0};
  ssize_t n = pread(elf->fd, ident, sizeof(ident), 0);
  char a[32], b[32];
  Elf64_Ehdr own;

  if (n < 0)
    return loader_reject(elf->why, -errno, "cannot be read: %s", strerror(errno));
  if (memcmp(ident, ELFMAG, SELFMAG) != 0)
    return loader_reject(elf->why, -ENOEXEC, "not an ELF file; install it again");
  if (ident[EI_CLASS] != ELFCLASS64)
    return loader_reject(elf->why, -ENOEXEC, "built for a 32-bit machine; build it for this one");
  elf->head = elf_read_part(elf, 0, sizeof(*elf->head));
  if (!elf->head)
    return elf->why->code;
  if (elf_own_header(&own) &&
      (own.e_machine != elf->head->e_machine || own.e_ident[EI_DATA] != ident[EI_DATA]))
    return loader_reject(
        elf->why, -ENOEXEC, "built for %s, this machine is %s%s; build it for this one",
        elf_machine_name(elf->head->e_machine, a), elf_machine_name(own.e_machine, b),
        own.e_ident[EI_DATA] != ident[EI_DATA] ? " of another byte order" : "");
  if (elf->head->e_type != ET_DYN)
    return loader_reject(elf->why, -ENOEXEC, "not a shared object; link it with -shared");
  return 0;
}

/* A segment behind the end of the file is what SIGBUS in dlopen comes from. */
static int check_segments(struct elf *elf)
{
  uint64_t count = elf->head->e_phnum;
  Elf64_Phdr *segments;
  int loads = 0, rc = 0;

  if (count == 0 || elf->head->e_phentsize != sizeof(*segments))
    return loader_reject(elf->why, -ENOEXEC,
                         "not a shared object that can be loaded; install it again");
  segments = elf_read_part(elf, elf->head->e_phoff, count * sizeof(*segments));
  if (!segments)
    return elf->why->code;
  for (uint64_t i = 0; i < count && rc == 0; i++) {
    if (segments[i].p_type != PT_LOAD)
      continue;
    loads++;
    rc = check_within(elf, segments[i].p_offset, segments[i].p_filesz);
  }
  if (rc == 0 && loads == 0)
    rc = loader_reject(elf->why, -ENOEXEC,
                       "not a shared object that can be loaded; install it again");
  return rc;
}

static void elf_note_symbol(const char *name, bool is_defined, const char *stem,
                            struct elf_check *found)
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

static const char *elf_string_at(const char *strings, uint64_t size, uint64_t at)
{
  return at < size ? strings + at : "";
}

static int elf_read_symbols(struct elf *elf, const Elf64_Shdr *section, const char *strings,
                            uint64_t strings_size, const char *stem, struct elf_check *found)
{
  uint64_t count = section->sh_size / sizeof(Elf64_Sym);
  const Elf64_Sym *symbols = elf_read_part(elf, section->sh_offset, section->sh_size);

  if (!symbols)
    return elf->why->code;
  for (uint64_t i = 0; i < count; i++)
    elf_note_symbol(elf_string_at(strings, strings_size, symbols[i].st_name),
                    symbols[i].st_shndx != SHN_UNDEF, stem, found);
  found->is_listed = true;
  return 0;
}

static int elf_read_needed(struct elf *elf, const Elf64_Shdr *section, const char *strings,
                           uint64_t strings_size, struct elf_check *found)
{
  uint64_t count = section->sh_size / sizeof(Elf64_Dyn), n = 0;
  const Elf64_Dyn *entries = elf_read_part(elf, section->sh_offset, section->sh_size);

  if (!entries)
    return elf->why->code;
  found->needed = arena_alloc(&found->arena, (count + 1) * sizeof(*found->needed));
  if (!found->needed)
    return loader_reject(elf->why, -ENOMEM, "no memory to read it");
  for (uint64_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++)
    if (entries[i].d_tag == DT_NEEDED)
      found->needed[n++] = elf_string_at(strings, strings_size, entries[i].d_un.d_val);
  return 0;
}

/* Without section headers (sstrip) nothing is known; dlsym() decides then. A file has
 * one section of each type. */
static int elf_read_sections(struct elf *elf, const char *stem, struct elf_check *found)
{
  uint64_t count = elf->head->e_shnum;
  const Elf64_Shdr *sections, *link;
  int rc = 0;

  if (count == 0 || elf->head->e_shentsize != sizeof(*sections))
    return 0;
  sections = elf_read_part(elf, elf->head->e_shoff, count * sizeof(*sections));
  if (!sections)
    return elf->why->code;
  for (const Elf64_Shdr *section = sections; section < sections + count && rc == 0; section++) {
    bool lists = section->sh_type == SHT_DYNSYM && !found->is_listed;
    bool needs = section->sh_type == SHT_DYNAMIC && !found->needed;
    const char *strings;

    if ((!lists && !needs) || section->sh_link >= count)
      continue;
    link = &sections[section->sh_link];
    strings = elf_read_part(elf, link->sh_offset, link->sh_size);
    if (!strings)
      rc = elf->why->code;
    else if (lists)
      rc = elf_read_symbols(elf, section, strings, link->sh_size, stem, found);
    else
      rc = elf_read_needed(elf, section, strings, link->sh_size, found);
  }
  return rc;
}

/* Found before dlopen() runs constructors of a file that is none of ours. */
static int check_symbols(const char *stem, const struct elf_check *found, struct loader_reason *why)
{
  if (!found->is_listed || found->is_defined)
    return 0;
  if (found->other_major)
    return loader_reject(why, -EPROTONOSUPPORT,
                         "built for ABI %u, this host speaks %u; build it with this host's headers",
                         found->other_major, PST_ABI_MAJOR);
  return elf_check_no_symbol(stem, why);
}

int elf_check_no_symbol(const char *stem, struct loader_reason *why)
{
  return loader_reject(why, -ELIBBAD,
                       "has no symbol %s%u: not a plugin; PST_PLUGIN() and PST_DESCRIPTION() "
                       "make it",
                       stem, PST_ABI_MAJOR);
}

int elf_check_file(const char *real, const char *stem, struct elf_check *found,
                   struct loader_reason *why)
{
  struct elf elf = {.why = why, .arena = &found->arena};
  struct stat st;
  int rc;

  memset(found, 0, sizeof(*found));
  elf.fd = open(real, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (elf.fd < 0 || fstat(elf.fd, &st) < 0) {
    rc =
        loader_reject(why, -errno, "cannot be opened: %s%s", strerror(errno), limit_remedy(-errno));
    goto out;
  }
  elf.size = (uint64_t)st.st_size;
  rc = check_header(&elf);
  if (rc == 0)
    rc = check_segments(&elf);
  if (rc == 0)
    rc = elf_read_sections(&elf, stem, found);
  if (rc == 0)
    rc = check_symbols(stem, found, why);
out:
  if (rc < 0)
    elf_check_free(found);
  if (elf.fd >= 0)
    close(elf.fd);
  return rc;
}

void elf_check_free(struct elf_check *found)
{
  arena_free(&found->arena);
}
