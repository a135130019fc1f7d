# Describes the bash that reads this file, and its process. No subshell comes before the first line:
# it would change what `$_` and `$?` are.
_described=("?$?" "-$-" "0$0" "#$#" "*$*" "_$_")
{
    printf '%q\n' "${_described[@]}" "$BASH_EXECUTION_STRING" "$PPID $BASH_SUBSHELL $((BASHPID == $$))"
    declare -p; declare -f; alias; trap -p; umask; ulimit -a; shopt; set -o; hash; dirs; export -p
    for _file in environ cmdline; do mapfile -d '' -t _all <"/proc/$$/$_file"; printf '%q\n' "${_all[@]}"; done
    read -ra _all <"/proc/$$/stat"; echo "${_all[@]:3:5}"
    env -0
    readlink /proc/$$/{fd/*,cwd,exe,root,ns/*}
    head -n 2 /proc/$$/fdinfo/*
    # Read by bash itself: while another program reads, it may be asleep, with a signal blocked.
    mapfile _all <"/proc/$$/status"
    printf '%s' "${_all[@]}"
    cat /proc/$$/{comm,limits,cgroup,oom_score_adj,personality,timerslack_ns,loginuid}
} >>"${LOG_DIRS}/described" 2>&1
true
