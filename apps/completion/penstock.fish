# SPDX-License-Identifier: Apache-2.0
# Completion of penstock for fish: commands, options with their help, files, streams, plugins.

function __penstock_commands
    penstock --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\)  *\(.*  \)\{0,1\}\([^ ].*\)/\1\t\3/p'
    printf 'help\tprint help of a command or key\n'
end

# Options of the command on the line, each with its help.
function __penstock_options
    set -l command (commandline -opc)[2]
    penstock $command --help 2>/dev/null |
        sed -n 's/^  \(-[a-z], \|    \)\(--[a-z0-9-]*\)\( [^ ]*\)\{0,1\}  *\(.*\)$/\2\t\4/p'
end

# Whether the word before the cursor is one of these options.
function __penstock_after
    contains -- (commandline -opc)[-1] $argv
end

function __penstock_streams
    set -l file (string match -r '.*\.ya?ml$' -- (commandline -opc))[1]
    test -f "$file"; or return
    sed -n 's/^[[:space:]]*-[[:space:]]*{\{0,1\}[[:space:]]*name:[[:space:]]*\([^,}#[:space:]]*\).*/\1/p' $file
end

# Of one kind, or of all.
function __penstock_plugins
    set -l kind 'transport\|memory\|filter'
    set -q argv[1]; and set kind $argv[1]
    penstock plugins 2>/dev/null | sed -n "s/^\($kind\)[[:space:]]\{1,\}\([^[:space:]]*\).*/\2/p"
end

complete -c penstock -n __fish_use_subcommand -f -a '(__penstock_commands)'
complete -c penstock -n 'not __fish_use_subcommand; and string match -q -- "-*" (commandline -ct)' -f -a '(__penstock_options)'
complete -c penstock -n '__fish_seen_subcommand_from plugins help' -f -a '(__penstock_plugins)'
complete -c penstock -n '__fish_seen_subcommand_from request' -f -a 'write read'
complete -c penstock -n '__penstock_after --stream' -f -a '(__penstock_streams)'
complete -c penstock -n '__penstock_after --transport' -f -a '(__penstock_plugins transport)'
complete -c penstock -n '__penstock_after --memory' -f -a '(__penstock_plugins memory)'
complete -c penstock -n '__penstock_after --for; and not __fish_seen_subcommand_from doctor' -f -a 'run send receive'
complete -c penstock -n '__penstock_after --area' -f -a 'host adapter gpu pair dpdk ucx igpu time'
complete -c penstock -n '__penstock_after --path' -f -a 'auto direct mapped staged'
