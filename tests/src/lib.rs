//! Starts real Hadoop and real agents for tests, one helper per component.
//!
//! A test takes a [`lab::Lab`] (folder, ports, configuration, and the right to run a cluster) or a
//! whole [`cluster::Cluster`], and starts what it needs ([`rm`], [`java_nm`], [`agent`],
//! [`distributed_shell`], [`map_reduce`], [`spark`], [`native_shell`]). Or it starts one node
//! between fakes: a [`scripted_cluster::ScriptedCluster`], a [`proxy_cluster::ProxyCluster`].
//! Containers wait for a [`gate::Gate`]; tests wait for conditions with a deadline ([`wait`]) and
//! check what the ResourceManager, the node and the logs report. Dropping a handle kills what it
//! started, also in a panic.
//!
//! | Variable | Effect |
//! |---|---|
//! | `NM_AGENT_TEST_CACHE` | folder for Hadoop's jars and locks, or `~/.cache/nm-agent-tests` |
//! | `NM_AGENT_REQUIRE_ALL` | `1`: a test that lacks a program fails; `kernel`: or an interface |
//! | `NM_AGENT_KILLS` | for `hadoop killed_often`: how often the node is killed |
//! | `NM_AGENT_SCREENSHOTS` | for `tools`: a folder for pictures of the live page |
//! | `NM_AGENT_TEST_NODE` | `java` runs tests on Hadoop's NodeManager, a path on that agent |
//!
//! The helpers panic instead of returning errors: a cluster that does not come up fails the test,
//! and the panic makes each process print the tail of its log.

pub mod accounts;
pub mod agent;
pub mod aux_host;
pub mod bench;
pub mod browser;
pub mod cgroups;
pub mod client;
pub mod cluster;
pub mod conf;
pub mod distributed_shell;
pub mod files;
pub mod gate;
pub mod guest;
pub mod hadoop;
pub mod hdfs;
pub mod history_server;
pub mod hostile_hdfs;
pub mod http;
pub mod java;
pub mod java_nm;
pub mod jmx_exporter;
pub mod job_client;
pub mod lab;
pub mod loopback;
pub mod map_reduce;
pub mod maven;
pub mod names;
pub mod native_shell;
pub mod network;
pub mod node;
pub mod node_logs;
pub mod node_process;
pub mod ports;
pub mod proc;
pub mod process;
pub mod prometheus;
pub mod proxy_cluster;
pub mod requirements;
pub mod rm;
pub mod rm_pair;
pub mod samples;
pub mod scripted_cluster;
pub mod spark;
pub mod wait;
pub mod yarn_cli;
pub mod yarn_daemon;
pub mod yarn_logs;

pub use test_support::skip;
