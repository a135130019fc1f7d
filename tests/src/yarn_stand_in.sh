#!/bin/bash
# Stand-in for the `yarn` command of Hadoop 3: what its documentation promises to shell profiles (Unix Shell
# Guide: shell profiles, dynamic subcommands, replaceable functions, daemons) and to whoever manages daemons.
#
#     yarn_stand_in.sh [--config DIR] [--daemon start|stop|status] COMMAND
#
# The command `sleeper` is one that no profile replaces: a daemon that needs Java. Without a profile `nodemanager` is
# Hadoop's own, from the jars of CLASSPATH.

HADOOP_SHELL_EXECNAME=yarn
HADOOP_USER_PARAMS=("$@")
HADOOP_PARSE_COUNTER=0
HADOOP_DAEMON_MODE=default
while [[ $1 == --* ]]; do
  case $1 in
    --config) export HADOOP_CONF_DIR=$2 ;;
    --daemon) HADOOP_DAEMON_MODE=$2 ;;
  esac
  shift 2
  ((HADOOP_PARSE_COUNTER += 2))
done
HADOOP_SUBCMD=$1

hadoop_error() { echo "$*" >&2; }

hadoop_java_setup() {
  if [[ -z ${JAVA_HOME} ]]; then
    hadoop_error "ERROR: JAVA_HOME is not set and could not be found."
    exit 1
  fi
}

# Becomes the program of a daemon.
hadoop_start_daemon() {
  echo "${BASHPID}" >"$3"
  if [[ $2 = org.example.Sleeper ]]; then exec -a "java -Dproc_$1" sleep 1000000; fi
  # shellcheck disable=SC2086
  exec "${JAVA_HOME}/bin/java" "-Dproc_$1" "-Dyarn.log.dir=${HADOOP_LOG_DIR}" ${HADOOP_OPTS} "$2"
}

if [[ -f ${HADOOP_CONF_DIR}/hadoop-env.sh ]]; then . "${HADOOP_CONF_DIR}/hadoop-env.sh"; fi
for profile in "${HADOOP_CONF_DIR}"/shellprofile.d/*.sh; do
  if [[ -f ${profile} ]]; then . "${profile}"; fi
done
hadoop_java_setup
HADOOP_IDENT_STRING=${HADOOP_IDENT_STRING:-somebody}

if declare -f "yarn_subcommand_${HADOOP_SUBCMD}" >/dev/null; then
  "yarn_subcommand_${HADOOP_SUBCMD}"
else
  HADOOP_SUBCMD_SUPPORTDAEMONIZATION=true
  HADOOP_CLASSNAME=org.example.Sleeper
  if [[ ${HADOOP_SUBCMD} = nodemanager ]]; then
    HADOOP_CLASSNAME=org.apache.hadoop.yarn.server.nodemanager.NodeManager
  fi
fi
if [[ ${HADOOP_SUBCMD_SUPPORTDAEMONIZATION} != true ]]; then exit 9; fi

pidfile=${HADOOP_PID_DIR}/hadoop-${HADOOP_IDENT_STRING}-${HADOOP_SUBCMD}.pid
outfile=${HADOOP_LOG_DIR}/hadoop-${HADOOP_IDENT_STRING}-${HADOOP_SUBCMD}.out

# 0: runs, 1: the file is of a process that is gone or another, 3: does not run.
status() {
  if [[ ! -f ${pidfile} ]]; then return 3; fi
  [[ $(ps -o args= -p "$(cat "${pidfile}")") =~ -Dproc_${HADOOP_SUBCMD} ]] || return 1
}

case ${HADOOP_DAEMON_MODE} in
  status)
    status
    exit
    ;;
  stop)
    status || exit 0
    pid=$(cat "${pidfile}")
    kill "${pid}"
    if ! timeout "${HADOOP_STOP_TIMEOUT:-5}" tail --pid="${pid}" -f /dev/null; then
      hadoop_error "WARNING: ${HADOOP_SUBCMD} did not stop gracefully: Trying to kill with kill -9"
      kill -9 "${pid}"
      tail --pid="${pid}" -f /dev/null
    fi
    rm -f "${pidfile}"
    ;;
  start)
    if status; then
      hadoop_error "${HADOOP_SUBCMD} is running as process $(cat "${pidfile}").  Stop it first."
      exit 1
    fi
    rm -f "${pidfile}"
    # Both this shell and its child write the file. Here the child is the last, as it may be in Hadoop.
    (
      until [[ -s ${pidfile} ]]; do sleep 0.01; done
      hadoop_start_daemon "${HADOOP_SUBCMD}" "${HADOOP_CLASSNAME}" "${pidfile}"
    ) >"${outfile}" 2>&1 </dev/null &
    echo $! >"${pidfile}"
    disown
    ;;
  default)
    hadoop_start_daemon "${HADOOP_SUBCMD}" "${HADOOP_CLASSNAME}" "${pidfile}"
    ;;
esac
