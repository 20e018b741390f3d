#!/usr/bin/env bash
# What launch/tpu_pod.sh runs on each host of a TPU slice:
#   bash launch/tpu_host.sh train|stop [ARGUMENTS of mmgen.main]
#
# `train` starts the run apart from the connection, with its output in main.log, shows that log until
# the run ends, and returns its status: a link that drops ends the showing alone. Where a run with
# the same arguments goes on already it is shown again; one with others is refused with status 2.
# `stop` tells the run to save and to end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    echo "launch/tpu_host.sh: $1 on $(hostname)" >&2
    exit 2
}
what=${1:-}
if (($#)); then shift; fi

case $what in
train)
    arguments=$(printf '%q ' "$@")
    from=+1
    # The run inherits the lock and holds it to its end.
    exec 9>>main.lock
    if flock -n 9; then
        rm -f main.pid main.status
        echo "$arguments" >main.arguments
        : >main.log
        nohup setsid bash launch/tpu_host.sh run "$@" >>main.log 2>&1 </dev/null &
        until [[ -s main.pid ]]; do sleep 0.1; done
    else
        until [[ -s main.pid ]]; do sleep 0.1; done # started this very moment
        [[ $arguments == "$(<main.arguments)" ]] ||
            fail "another run goes on ($(<main.arguments)); stop it first, or wait for its end"
        echo "launch/tpu_host.sh: the run goes on; its last lines and what follows" >&2
        from=-20
    fi
    exec 9>&-
    tail -n "$from" --pid="$(<main.pid)" -f main.log
    # The status is there as soon as the lock is free, unless something has killed all of it.
    flock main.lock true
    [[ -s main.status ]] || exit 1
    exit "$(<main.status)"
    ;;
run)
    # Not meant for people: the part of `train` that stays.
    MMGEN_COORDINATOR=auto .venv/bin/python -m mmgen.main "$@" &
    echo "$!" >main.pid
    status=0
    wait "$!" || status=$?
    echo "$status" >main.status
    ;;
stop)
    if [[ ! -s main.pid ]] || flock -n main.lock true; then fail "no run goes on"; fi
    kill -s TERM "$(<main.pid)"
    ;;
*) fail "say train or stop" ;;
esac
