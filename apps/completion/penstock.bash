# SPDX-License-Identifier: Apache-2.0
# Completion of penstock for bash: commands, options, files, streams, plugins.

_penstock_file() {
  local word
  for word in "${COMP_WORDS[@]:2}"; do
    [[ $word != -* && -f $word ]] && printf '%s' "$word" && return
  done
}

_penstock_streams() {
  local file
  file=$(_penstock_file)
  [[ -n $file ]] || return
  sed -n 's/^[[:space:]]*-[[:space:]]*{\{0,1\}[[:space:]]*name:[[:space:]]*\([^,}#[:space:]]*\).*/\1/p' \
    "$file" | tr -d "\"'"
}

# Of one kind, or of all.
_penstock_plugins() {
  "${COMP_WORDS[0]}" plugins 2>/dev/null |
    sed -n "s/^\(${1:-transport\|memory\|filter}\)[[:space:]]\{1,\}\([^[:space:]]*\).*/\2/p"
}

_penstock_commands() {
  "${COMP_WORDS[0]}" --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p'
}

# Options of a command; with a second argument those alone that take a value.
_penstock_options() {
  "${COMP_WORDS[0]}" "$1" --help 2>/dev/null |
    sed -n "s/^  \(-[a-z], \|    \)\(--[a-z0-9-]*\)${2:+ [^ ]}.*/\2/p"
}

_penstock() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command=${COMP_WORDS[1]}
  COMPREPLY=()

  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$(_penstock_commands) help --help --version" -- "$current")
    return
  fi
  case $previous in
    --for)
      [[ $command == doctor ]] && compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "$current") && return
      mapfile -t COMPREPLY < <(compgen -W 'run send receive' -- "$current")
      return ;;
    --stream)
      mapfile -t COMPREPLY < <(compgen -W "$(_penstock_streams)" -- "$current")
      return ;;
    --plugin-path)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -d -- "$current")
      return ;;
    --json | --csv | --svg | --output | -o)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      return ;;
    --transport | --memory)
      mapfile -t COMPREPLY < <(compgen -W "$(_penstock_plugins "${previous#--}")" -- "$current")
      return ;;
    --op)
      mapfile -t COMPREPLY < <(compgen -W 'send write read all' -- "$current")
      return ;;
    --path)
      mapfile -t COMPREPLY < <(compgen -W 'auto direct mapped staged' -- "$current")
      return ;;
    --touch)
      mapfile -t COMPREPLY < <(compgen -W 'yes no' -- "$current")
      return ;;
    --area)
      mapfile -t COMPREPLY < <(compgen -W 'host adapter gpu pair dpdk ucx igpu time' -- "$current")
      return ;;
    --root | --record)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -d -- "$current")
      return ;;
    --to)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      return ;;
    --set)
      compopt -o nospace
      mapfile -t COMPREPLY < <(compgen -W "$(_penstock_streams | sed 's/.*/streams.&./')" -- "$current")
      return ;;
  esac
  # Of the value of any other option nothing is known.
  [[ $previous == --* && $(_penstock_options "$command" value) =~ (^|$'\n')$previous($|$'\n') ]] && return
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_penstock_options "$command")" -- "$current")
  elif [[ $command == help ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_penstock_commands) $(_penstock_plugins)" -- "$current")
  elif [[ $command == request ]] && ((COMP_CWORD == 2)); then
    mapfile -t COMPREPLY < <(compgen -W 'write read' -- "$current")
  elif [[ $command == put ]] && ((COMP_CWORD > 2)); then
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  elif [[ $command == bench || $command == hardware-check || $command == serve || $command == request || $command == get || $command == put ]]; then
    mapfile -t COMPREPLY < <(compgen -A hostname -- "$current")
  elif [[ $command == report ]]; then
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -X '!*.json' -- "$current"; compgen -d -- "$current")
  elif [[ $command == plugins ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_penstock_plugins)" -- "$current")
  else
    compopt -o filenames
    mapfile -t COMPREPLY < <(
      compgen -f -X '!*.yaml' -- "$current"
      compgen -f -X '!*.yml' -- "$current"
      compgen -d -- "$current"
    )
  fi
}

complete -F _penstock penstock
