//! The agent as a process of its own: as a node, as a ResourceManager, as a client. Needs nothing
//! installed.
//!
//! | Module | Subject |
//! |---|---|
//! | [`after_restart`] | what an agent that was killed has left goes on: logs, deletions, retries |
//! | [`bad_input`] | what peers, users and operators get wrong |
//! | [`churn`] | hours of starts, kills, sheds and restarts, plotted |
//! | [`contract`] | what a ResourceManager, an ApplicationMaster and dashboards may rely on |
//! | [`hadoop_scripts`] | the agent where Hadoop's scripts start a NodeManager |
//! | [`many_masters`] | hundreds of masters on one node's AMRMProxy |
//! | [`mini_rm`] | `nm-agent rm` with simulated nodes and masters |
//! | [`operate`] | the commands of operators: `nm-agent status` and its like |
//! | [`pages_over_tls`] | pages of a node with `yarn.http.policy` = `HTTPS_ONLY` |
//! | [`quickstart`] | `nm-agent quickstart` |
//! | [`restart`] | the agent killed beside many containers, and how soon it serves again |
//! | [`shell`] | `nm-agent shell` |
//! | [`users`] | containers that run as their users |
//!
//! Most of [`bad_input`] and [`contract`] also runs against Hadoop's NodeManager with
//! `NM_AGENT_TEST_NODE=java`.

mod after_restart;
mod bad_input;
mod churn;
mod contract;
mod hadoop_scripts;
mod kerberos_pages;
mod many_masters;
mod mini_rm;
mod operate;
mod pages_over_tls;
mod quickstart;
mod restart;
mod shell;
mod users;

/// The program under test, with all its commands.
const AGENT: &str = env!("CARGO_BIN_EXE_agent-under-test");
