//! Where logs are that this node no longer has: links to the log server. Pure.
//!
//! Whatever a client sent is parsed or encoded before it stands in a link, so that a link always
//! leads to the configured server.

use records::{ContainerName, NodeId};

use super::html::path_segment;
use super::logs::LogName;
use super::target::Target;

/// The page of `yarn.log.server.url` that shows a container's logs, or one of its files (Hadoop:
/// `NMWebAppFilter`).
pub(super) fn log_page(
    server: &str,
    node: &NodeId,
    container: &ContainerName,
    user: &str,
    file: Option<&LogName>,
    target: &Target,
) -> String {
    let server = server.trim_end_matches('/');
    let mut url = format!(
        "{server}/{node}/{container}/{container}/{}",
        path_segment(user)
    );
    if let Some(file) = file {
        url.push('/');
        url.push_str(&path_segment(file.as_str()));
    }
    if !target.raw_query.is_empty() {
        url.push('?');
        url.push_str(&target.raw_query);
    }
    url
}

/// The resource of `yarn.log.server.web-service.url` that describes a container's logs, or gives
/// one of its files (Hadoop: `NMWebServices.createRedirectResponse`). The server is informed that
/// it need not send the client back here.
pub(super) fn log_service(
    server: &str,
    container: &ContainerName,
    file: Option<&LogName>,
    target: &Target,
) -> String {
    let server = server.trim_end_matches('/');
    let mut url = format!("{server}/containers/{container}/logs");
    if let Some(file) = file {
        url.push('/');
        url.push_str(&path_segment(file.as_str()));
    }
    url.push('?');
    for pair in target.raw_query.split('&') {
        if !pair.is_empty() && pair != "nm.id" && !pair.starts_with("nm.id=") {
            url.push_str(pair);
            url.push('&');
        }
    }
    url.push_str("redirected_from_node=true");
    url
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    const ID: &str = "container_1700000000000_0007_01_000001";

    fn target(text: &str) -> Target {
        Target::parse(&text.parse().unwrap()).unwrap()
    }

    #[test]
    fn a_page_link_names_node_container_and_user_and_keeps_the_query() {
        let node = fixture::node();
        let id = fixture::container_id(1).name();
        let target = target("/x?start=-4096&end=0");
        let file = LogName::new("std out").unwrap();
        let url = log_page(
            "http://logs:19888/jobhistory/logs/",
            &node.about.node_id,
            &id,
            "a/b",
            Some(&file),
            &target,
        );
        assert_eq!(
            url,
            format!(
                "http://logs:19888/jobhistory/logs/node-1.example:8041/{ID}/{ID}/a%2Fb/std%20out?start=-4096&end=0"
            )
        );
    }

    #[test]
    fn a_service_link_drops_the_node_and_says_where_it_comes_from() {
        let id = fixture::container_id(1).name();
        let asked = target("/x?size=5&nm.id=other:1&format=text");
        assert_eq!(
            log_service("http://logs", &id, None, &asked),
            format!(
                "http://logs/containers/{ID}/logs?size=5&format=text&redirected_from_node=true"
            )
        );
        let asked = target("/x");
        assert_eq!(
            log_service("http://logs", &id, None, &asked),
            format!("http://logs/containers/{ID}/logs?redirected_from_node=true")
        );
    }
}
