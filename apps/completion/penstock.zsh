#compdef penstock
# SPDX-License-Identifier: Apache-2.0
# Completion of penstock for zsh: commands, options with their help, files, streams, plugins.

# A line of `penstock COMMAND --help` for each option becomes a specification of _arguments.
_penstock_specs() {
  local line name value words action
  specs=()
  for line in ${(f)"$($program $1 --help 2>/dev/null | sed -n '/^Options:/,$p')"}; do
    [[ $line =~ '^  (-([a-z]), |    )--([a-z0-9-]+)( ([^ ]+))?( +(.*))?$' ]] || continue
    name=$match[3] value=$match[5] words=${${match[7]}//[][:]/ }
    case $name in
      json | to | csv | output) action=_files ;;
      plugin-path | root) action='_files -/' ;;
      stream) action=_penstock_streams ;;
      transport | memory) action="_penstock_plugins $name" ;;
      for) [[ $1 == doctor ]] && action=_files || action='(run send receive)' ;;
      area) action='(host adapter gpu pair dpdk ucx igpu time)' ;;
      path) action='(auto direct mapped staged)' ;;
      touch) action='(yes no)' ;;
      *) action=' ' ;;
    esac
    specs+=("*--$name${value:+=}[${words:-$name}]${value:+:$value:$action}")
    [[ -n $match[2] ]] && specs+=("-$match[2][${words:-$name}]")
  done
}

# Behind its own argument each of these has those of compadd, from _arguments.
_penstock_streams() {
  local file=${words[(r)*.y(a|)ml]}
  [[ -f $file ]] || return
  compadd "$@" -- ${(f)"$(sed -n 's/^[[:space:]]*-[[:space:]]*{\{0,1\}[[:space:]]*name:[[:space:]]*\([^,}#[:space:]]*\).*/\1/p' $file)"}
}

# Of one kind, or of all.
_penstock_plugins() {
  local kind='transport\|memory\|filter'
  [[ $1 == (transport|memory) ]] && kind=$1 && shift
  compadd "$@" -- ${(f)"$($program plugins 2>/dev/null | sed -n "s/^\($kind\)[[:space:]]\{1,\}\([^[:space:]]*\).*/\2/p")"}
}

_penstock_commands() {
  local -a commands
  commands=(${(f)"$($program --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\)  *\(.*  \)\{0,1\}\([^ ].*\)/\1:\3/p')"}
    'help:print help of a command or key')
  _describe command commands
}

_penstock() {
  local program=$words[1] command=$words[2] operand=_files
  local -a specs

  if (( CURRENT == 2 )); then
    _penstock_commands
    return
  fi
  _penstock_specs $command
  case $command in
    run | send | receive | check) operand='_files -g "*.y(a|)ml"' ;;
    plugins | help) operand=_penstock_plugins ;;
    bench | hardware-check | serve | get) operand=_hosts ;;
    request) operand='(write read)' ;;
  esac
  shift words
  (( CURRENT-- ))
  _arguments $specs "*:operand:$operand"
}

_penstock "$@"
