//! `nm-agent quickstart`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use time::UtcOffset;

use quickstart::{NODES, NODES_DEFAULT, Options, Surroundings};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// How many nodes, from 3 to 16
    #[arg(long, value_name = "N", default_value_t = NODES_DEFAULT, value_parser = nodes)]
    nodes: u16,
    /// End with the story instead of staying until Ctrl-C
    #[arg(long)]
    once: bool,
    /// Serve the ResourceManager's page on this port and the nodes' on those that follow [default:
    /// free ports]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
}

fn nodes(text: &str) -> Result<u16, String> {
    let nodes: u16 = text.parse().map_err(|_| "no whole number".to_owned())?;
    if nodes < *NODES.start() {
        Err(format!(
            "at least {} are needed: of fewer queues none is ever longer than the mean by a standard deviation, so \
             nothing would be shed",
            NODES.start()
        ))
    } else if nodes > *NODES.end() {
        Err(format!(
            "at most {}: each node runs up to six processes at a time, and more would show nothing new",
            NODES.end()
        ))
    } else {
        Ok(nodes)
    }
}

pub(super) fn run(
    arguments: &Arguments,
    environment: BTreeMap<String, String>,
    started: SystemTime,
) -> ExitCode {
    let Arguments { nodes, once, port } = *arguments;
    if port.is_some_and(|port| port.checked_add(nodes).is_none()) {
        let last = u16::MAX - nodes;
        eprintln!(
            "nm-agent quickstart: the pages of {nodes} nodes do not fit above this port. Choose a --port of {last} or less."
        );
        return ExitCode::from(super::EXIT_BAD_CONFIGURATION);
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => {
            eprintln!(
                "nm-agent quickstart: cannot tell where this program is, which also runs its jobs: {error}"
            );
            return ExitCode::FAILURE;
        }
    };
    let surroundings = Surroundings {
        started,
        environment,
        // Asked before there are threads: the C library's answer is not safe beside a thread that
        // sets variables.
        utc_offset: UtcOffset::current_local_offset().unwrap_or(UtcOffset::UTC),
        program,
    };
    ::quickstart::run(&Options { nodes, once, port }, &surroundings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_nodes_there_may_be_is_refused_with_its_reason() {
        assert_eq!(nodes("3"), Ok(3));
        assert_eq!(nodes("16"), Ok(16));
        assert!(nodes("2").unwrap_err().contains("nothing would be shed"));
        assert!(nodes("17").unwrap_err().contains("six processes"));
        for text in ["", "-1", "many", "70000"] {
            assert!(nodes(text).is_err(), "{text}");
        }
    }
}
