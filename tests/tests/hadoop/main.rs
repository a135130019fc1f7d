//! Unmodified Hadoop on the other side: ResourceManager, NodeManager, clients and
//! ApplicationMasters. Needs Java 11 or later with its compiler, and Hadoop's jars in the cache or
//! Maven to download them.
//!
//! | Module | Subject |
//! |---|---|
//! | [`aggregated_logs`] | the format of aggregated logs, written and read by Hadoop |
//! | [`archives`] | archives of many tools, unpacked by the agent, Hadoop, GNU tar and unzip |
//! | [`aux_host`] | auxiliary services that are Java classes, good ones and bad ones |
//! | [`descriptors`] | messages, enums and methods, name by name and number by number |
//! | [`harness_jars`] and the two `…_java_nm` | the harness: a failure is not the agent's |
//! | [`hdfs`] | a real HDFS as the file system of resources and role histories |
//! | [`interop`] | jobs on an agent's node under Hadoop's ResourceManager and under `nm-agent rm` |
//! | [`like_hadoop`] | what scripts and people read, beside Hadoop's NodeManager |
//! | [`map_reduce`] | MapReduce on HDFS with a history server: examples, failures, logs |
//! | [`mini_rm`] | `nm-agent rm` with Hadoop's NodeManager |
//! | [`node_names`] | the name that a node registers with, on machines of many names |
//! | [`proxy_interop`] | the AMRMProxy among real components |
//! | [`secure_hdfs`] | HDFS with Kerberos: clients with tokens and keytabs, and jobs on it |
//! | [`spark`] | a real Spark on the agent's nodes |
//! | [`spark_shuffle`] | a real Spark whose blocks outlive its executors |
//! | [`watched`] | two nodes as tools in use watch them: Zabbix, Grafana, exporters |
//! | [`yarn_default`] | values of properties that `yarn-default.xml` describes |

mod aggregated_logs;
mod archives;
mod aux_host;
mod descriptors;
mod harness_jars;
mod harness_java_nm;
mod hdfs;
mod indexed_logs;
mod interop;
mod like_hadoop;
mod map_reduce;
mod mini_rm;
mod node_names;
mod proxy_interop;
mod scripted_java_nm;
mod secure_hdfs;
mod spark;
mod spark_shuffle;
mod watched;
mod yarn_default;

/// The program under test, with all its commands.
const AGENT: &str = env!("CARGO_BIN_EXE_agent-under-test");
