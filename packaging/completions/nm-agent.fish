# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_nm_agent_global_optspecs
    string join \n h/help V/version
end

function __fish_nm_agent_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_nm_agent_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_nm_agent_using_subcommand
    set -l cmd (__fish_nm_agent_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c nm-agent -n "__fish_nm_agent_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nm-agent -n "__fish_nm_agent_needs_command" -s V -l version -d 'Print version'
complete -c nm-agent -n "__fish_nm_agent_needs_command" -f -a "run" -d 'Run the NodeManager until it is told to stop'
complete -c nm-agent -n "__fish_nm_agent_needs_command" -f -a "check" -d 'Print each effective configuration value and where it came from; report what is wrong'
complete -c nm-agent -n "__fish_nm_agent_needs_command" -f -a "adopt" -d 'Take the place of a Java NodeManager on this machine, or give it back'
complete -c nm-agent -n "__fish_nm_agent_needs_command" -f -a "status" -d 'Print what the running node does now'
complete -c nm-agent -n "__fish_nm_agent_needs_command" -f -a "queue" -d 'List the waiting containers of the running node, with their waits so far and estimated'
complete -c nm-agent -n "__fish_nm_agent_needs_command" -f -a "top" -d 'Watch the running node in a terminal: its numbers, what runs and what waits'
complete -c nm-agent -n "__fish_nm_agent_needs_command" -f -a "explain" -d 'Tell what the running node has decided about a container, and why'
complete -c nm-agent -n "__fish_nm_agent_needs_command" -f -a "logs" -d 'Print the end of what a container of this node has printed, or follow it'
complete -c nm-agent -n "__fish_nm_agent_needs_command" -f -a "drain" -d 'Take the running node out of service, or put it back with --cancel'
complete -c nm-agent -n "__fish_nm_agent_needs_command" -f -a "reload" -d 'Have the running node read its configuration again'
complete -c nm-agent -n "__fish_nm_agent_needs_command" -f -a "rm" -d 'Run a small ResourceManager until it is told to stop, on Hadoop\'s ports or those of the configuration'
complete -c nm-agent -n "__fish_nm_agent_needs_command" -f -a "shell" -d 'Run a command in many containers of a cluster and wait for their end'
complete -c nm-agent -n "__fish_nm_agent_needs_command" -f -a "history" -d 'Look into the role histories of services: which nodes their containers ran on'
complete -c nm-agent -n "__fish_nm_agent_needs_command" -f -a "simulate" -d 'Simulate a whole cluster: how long jobs take under one policy or another'
complete -c nm-agent -n "__fish_nm_agent_needs_command" -f -a "quickstart" -d 'Show what opportunistic containers do: a ResourceManager, some nodes and two jobs, all on this machine'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand run" -l conf -d 'Folder with core-site.xml and yarn-site.xml [default: $HADOOP_CONF_DIR, $YARN_CONF_DIR, $HADOOP_HOME/etc/hadoop, else /etc/hadoop/conf]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand run" -s V -l version -d 'Print version'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand check" -l conf -d 'Folder with core-site.xml and yarn-site.xml [default: $HADOOP_CONF_DIR, $YARN_CONF_DIR, $HADOOP_HOME/etc/hadoop, else /etc/hadoop/conf]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand check" -l all -d 'Print Hadoop\'s defaults as well'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand check" -l json -d 'Print a JSON object, with the defaults'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand check" -l strict -d 'Take warnings and missing features for problems'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand check" -l connect -d 'Also try the ResourceManager, the default file system, and the ports that an agent would listen on. Those of an agent that runs are taken'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand check" -s V -l version -d 'Print version'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand adopt" -l conf -d 'Folder with core-site.xml and yarn-site.xml [default: $HADOOP_CONF_DIR, $YARN_CONF_DIR, $HADOOP_HOME/etc/hadoop, else /etc/hadoop/conf]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand adopt" -l yarn -d 'Hadoop\'s script [default: $HADOOP_YARN_HOME/bin/yarn, $HADOOP_HOME/bin/yarn, else yarn of $PATH]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand adopt" -l profile -d 'Shell profile by which Hadoop\'s scripts start the agent' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand adopt" -l wait-s -d 'Time in seconds for a node to register' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand adopt" -l go -d 'Do what is printed without it; an interrupted --go goes on'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand adopt" -l back -d 'Undo what --go has done, or has begun to do'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand adopt" -l lose-containers -d 'Let containers that run be lost'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand adopt" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand adopt" -s V -l version -d 'Print version'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand status" -l conf -d 'Folder with core-site.xml and yarn-site.xml [default: $HADOOP_CONF_DIR, $YARN_CONF_DIR, $HADOOP_HOME/etc/hadoop, else /etc/hadoop/conf]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand status" -l socket -d 'Admin socket of the agent [default: yarn.nodemanager.agent.admin.socket]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand status" -l json -d 'Print the answer as JSON, for programs'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand status" -s V -l version -d 'Print version'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand queue" -l conf -d 'Folder with core-site.xml and yarn-site.xml [default: $HADOOP_CONF_DIR, $YARN_CONF_DIR, $HADOOP_HOME/etc/hadoop, else /etc/hadoop/conf]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand queue" -l socket -d 'Admin socket of the agent [default: yarn.nodemanager.agent.admin.socket]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand queue" -l first -d 'Containers to list from the head of the queue' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand queue" -l json -d 'Print the answer as JSON, for programs'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand queue" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand queue" -s V -l version -d 'Print version'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand top" -l conf -d 'Folder with core-site.xml and yarn-site.xml [default: $HADOOP_CONF_DIR, $YARN_CONF_DIR, $HADOOP_HOME/etc/hadoop, else /etc/hadoop/conf]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand top" -l socket -d 'Admin socket of the agent [default: yarn.nodemanager.agent.admin.socket]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand top" -l interval -d 'Seconds between two looks' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand top" -s V -l version -d 'Print version'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand explain" -l conf -d 'Folder with core-site.xml and yarn-site.xml [default: $HADOOP_CONF_DIR, $YARN_CONF_DIR, $HADOOP_HOME/etc/hadoop, else /etc/hadoop/conf]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand explain" -l socket -d 'Admin socket of the agent [default: yarn.nodemanager.agent.admin.socket]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand explain" -l json -d 'Print the answer as JSON, for programs'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand explain" -s f -l follow -d 'Print further steps as they come, until the container has ended'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand explain" -s V -l version -d 'Print version'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand logs" -l conf -d 'Folder with core-site.xml and yarn-site.xml [default: $HADOOP_CONF_DIR, $YARN_CONF_DIR, $HADOOP_HOME/etc/hadoop, else /etc/hadoop/conf]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand logs" -l socket -d 'Admin socket of the agent [default: yarn.nodemanager.agent.admin.socket]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand logs" -l tail -d 'Bytes of each file to begin with, at most 1048576' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand logs" -s f -l follow -d 'Print what is added, until the container has ended'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand logs" -l raw -d 'Print the bytes as they are, which may steer the terminal'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand logs" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand logs" -s V -l version -d 'Print version'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand drain" -l conf -d 'Folder with core-site.xml and yarn-site.xml [default: $HADOOP_CONF_DIR, $YARN_CONF_DIR, $HADOOP_HOME/etc/hadoop, else /etc/hadoop/conf]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand drain" -l socket -d 'Admin socket of the agent [default: yarn.nodemanager.agent.admin.socket]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand drain" -l mode -d 'Containers to end [default: graceful]' -r -f -a "graceful\t'End no running container'
quick\t'End the opportunistic containers'
fast\t'End all containers'"
complete -c nm-agent -n "__fish_nm_agent_using_subcommand drain" -l within -d 'Time that they have to end by themselves, such as 30s, 10m or 2h; with fast the node stays healthy for so long [default: none]' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand drain" -l reason -d 'Reason for people: on pages, in the health report of `yarn node -status` and in the log' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand drain" -l timeout -d 'Longest wait, such as 30s, 10m or 2h [default: none]' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand drain" -l cancel -d 'Put the node back into service'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand drain" -l wait -d 'Wait until no opportunistic container is left, and with fast none at all. Alone, on a node that is being drained already, it waits for that drain and changes nothing'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand drain" -l json -d 'Print the answer as JSON, for programs'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand drain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand drain" -s V -l version -d 'Print version'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand reload" -l conf -d 'Folder with core-site.xml and yarn-site.xml [default: $HADOOP_CONF_DIR, $YARN_CONF_DIR, $HADOOP_HOME/etc/hadoop, else /etc/hadoop/conf]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand reload" -l socket -d 'Admin socket of the agent [default: yarn.nodemanager.agent.admin.socket]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand reload" -l json -d 'Print the answer as JSON, for programs'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand reload" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand reload" -s V -l version -d 'Print version'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand rm" -l conf -d 'Folder with core-site.xml and yarn-site.xml [default: $HADOOP_CONF_DIR, $YARN_CONF_DIR, $HADOOP_HOME/etc/hadoop, else /etc/hadoop/conf]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand rm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand rm" -s V -l version -d 'Print version'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand shell" -s n -l number -d 'How many containers' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand shell" -l type -d 'Execution type of the containers; mix is some of each' -r -f -a "guaranteed\t''
opportunistic\t''
mix\t''"
complete -c nm-agent -n "__fish_nm_agent_using_subcommand shell" -l guaranteed -d 'How many of a mix are guaranteed [default: half]' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand shell" -l memory -d 'Memory of each container, in MiB' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand shell" -l vcores -d 'Virtual cores of each container' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand shell" -l retries -d 'How often each container is asked for again after it was evicted, shed, preempted or lost' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand shell" -l promote-after -d 'Have opportunistic containers promoted that have waited on their node for so many milliseconds' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand shell" -l role-history -d 'Keep a role history of this name, so that opportunistic containers of the next run with the name go back to the nodes of this one. The configuration has to name the AMRMProxy of the nodes as yarn.resourcemanager.scheduler.address' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand shell" -l role-history-policy -d 'Placement policies of the history\'s roles, such as `*=timeout:10` or `*=strict`. A node that cannot read them keeps to the defaults' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand shell" -l env -d 'A variable of the command\'s environment; may be given again' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand shell" -l name -d 'Name of the job on the ResourceManager\'s pages' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand shell" -l queue -d 'The queue to submit to' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand shell" -l master-memory -d 'Memory of the job\'s ApplicationMaster, in MiB' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand shell" -l conf -d 'Folder with core-site.xml and yarn-site.xml [default: $HADOOP_CONF_DIR, $YARN_CONF_DIR, $HADOOP_HOME/etc/hadoop, else /etc/hadoop/conf]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand shell" -l role-history-guaranteed -d 'Bring guaranteed containers back, too. An ask waits for such a node until a timeout, 30 s unless the node sets another, and then accepts any node'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand shell" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand shell" -s V -l version -d 'Print version'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand history; and not __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand history; and not __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand history; and not __fish_seen_subcommand_from show" -f -a "show" -d 'Print a history as a table, or what is wrong with it'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand history; and __fish_seen_subcommand_from show" -l conf -d 'Folder with core-site.xml and yarn-site.xml [default: $HADOOP_CONF_DIR, $YARN_CONF_DIR, $HADOOP_HOME/etc/hadoop, else /etc/hadoop/conf]' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand history; and __fish_seen_subcommand_from show" -l check -d 'Say only what is wrong with the file'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand history; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand history; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand simulate" -l out -d 'Folder for the results; it is created if it is missing' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand simulate" -l conf -d 'Simulate the settings of this Hadoop configuration as well' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand simulate" -l trace -d 'Take the jobs from this trace in place of the scenario\'s; `-`: from standard input' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand simulate" -l format -d 'Format of the trace: csv, sls, rumen, synth, dynoyarn, tr, swim or alibaba [default: by the end of the file\'s name]' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand simulate" -l write-trace -d 'Write the jobs of the first seed as a trace in CSV, and end; `-`: to standard output' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand simulate" -l replay -d 'Play the records of a node\'s scheduler in this directory again (`yarn.nodemanager.agent.event-record.dir`), as they are and with other settings, and end' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand simulate" -l queue-length -d 'Opportunistic containers that may wait on the node' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand simulate" -l victims -d 'What happens to opportunistic containers that make room' -r -f -a "freeze\t''
kill\t''"
complete -c nm-agent -n "__fish_nm_agent_using_subcommand simulate" -l pause-max-ms -d 'Milliseconds that a container may stay frozen' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand simulate" -l limit-length -d 'Queue length that the ResourceManager allows' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand simulate" -l capture -d 'Write the jobs that the records in this directory tell, or those in folders of it, one for each node, as a trace without names (`--write-trace`), and end' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand simulate" -l applications -d 'Take the times of submission from this answer of the ResourceManager to `/ws/v1/cluster/apps`; `-`: from standard input' -r -F
complete -c nm-agent -n "__fish_nm_agent_using_subcommand simulate" -l seeds -d 'Number of seeds, in place of the scenario\'s' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand simulate" -l threads -d 'Threads that simulate [default: one for each processor]' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand simulate" -l list -d 'Print the scenarios that come with the program, and end'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand simulate" -l check -d 'Print what would be simulated, and end'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand simulate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand simulate" -s V -l version -d 'Print version'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand quickstart" -l nodes -d 'How many nodes, from 3 to 16' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand quickstart" -l port -d 'Serve the ResourceManager\'s page on this port and the nodes\' on those that follow [default: free ports]' -r
complete -c nm-agent -n "__fish_nm_agent_using_subcommand quickstart" -l once -d 'End with the story instead of staying until Ctrl-C'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand quickstart" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nm-agent -n "__fish_nm_agent_using_subcommand quickstart" -s V -l version -d 'Print version'
