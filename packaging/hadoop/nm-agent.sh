# Hadoop shell profile that starts nm-agent where Hadoop's scripts start a NodeManager:
#
#     yarn --daemon start|stop|status nodemanager, yarn-daemon.sh, start-yarn.sh, stop-yarn.sh
#
# Takes effect by a link to this file in shellprofile.d below the folder of Hadoop's configuration, which no
# upgrade of Hadoop's packages replaces:
#
#     mkdir -p /etc/hadoop/conf/shellprofile.d
#     ln -s /usr/lib/nm-agent/shellprofile.d/nm-agent.sh /etc/hadoop/conf/shellprofile.d/
#
# Without the link the Java NodeManager starts again. Needs Hadoop 3. Functions that begin with hadoop_ are
# Hadoop's; the three defined here are those that its Unix Shell Guide lets a profile add or replace. All else
# stays Hadoop's: environment files, users (YARN_NODEMANAGER_USER), files of process ids, output and its rotation,
# niceness, the wait of a stop (HADOOP_STOP_TIMEOUT).
#
# NM_AGENT, in the environment or hadoop-env.sh, names another program than /usr/bin/nm-agent.

# The subcommand is the first word after the options. Other commands are none of this file's business.
if [[ "${HADOOP_SHELL_EXECNAME}" = yarn &&
      "${HADOOP_USER_PARAMS[${HADOOP_PARSE_COUNTER:-0}]}" = nodemanager ]]; then

  # Says what a machine without Java lacks. Hadoop's function ends the script there.
  function hadoop_java_setup
  {
    if [[ "${HADOOP_DAEMON_MODE}" =~ ^st(op|atus)$ ]]; then return; fi
    if [[ -z "${JAVA_HOME}" || ! -x "${JAVA_HOME}/bin/java" ]]; then
      hadoop_error "WARNING: there is no Java at JAVA_HOME (${JAVA_HOME:-not set}): containers of MapReduce," \
        "Spark and other programs in Java will fail on this node."
    fi
  }

  # Makes the subcommand a daemon, as Hadoop's own does, whose class is this program.
  function yarn_subcommand_nodemanager
  {
    NM_AGENT=${NM_AGENT:-/usr/bin/nm-agent}
    if [[ ! -x "${NM_AGENT}" ]]; then
      hadoop_error "ERROR: ${NM_AGENT} is not a program: install nm-agent, or remove ${BASH_SOURCE[0]}"
      exit 1
    fi
    # shellcheck disable=SC2034
    HADOOP_SUBCMD_SUPPORTDAEMONIZATION="true"
    # shellcheck disable=SC2034
    HADOOP_CLASSNAME="${NM_AGENT}"
    export HADOOP_CONF_DIR HADOOP_LOG_DIR
    # Beside the file of standard output, where the Java NodeManager's log is.
    if [[ "${HADOOP_DAEMON_MODE}" = start ]]; then
      export NM_AGENT_LOG_FILE="${NM_AGENT_LOG_FILE:-${HADOOP_LOG_DIR}/hadoop-${HADOOP_IDENT_STRING}-nodemanager-${HOSTNAME}.log}"
    fi
  }

  # Writes the process id and becomes the agent. Hadoop knows a daemon again by -Dproc_ and its name in the list
  # of processes. The id is that of this subshell: $$ is that of the script above it, which writes the id as well,
  # and either may be the last.
  function hadoop_start_daemon
  {
    local command=$1
    local program=$2
    local pidfile=$3

    if ! echo "${BASHPID}" >"${pidfile}"; then
      hadoop_error "ERROR: Cannot write ${command} pid ${pidfile}."
    fi
    exec -a "nm-agent -Dproc_${command}" "${program}" run --conf "${HADOOP_CONF_DIR}"
  }
fi
