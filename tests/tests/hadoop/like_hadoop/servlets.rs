//! What every daemon of Hadoop serves: `/conf`; `beans` has `/jmx`.

use serde_json::Value;
use tests::http;

use super::twins::{Twin, Twins};

/// A property whose value must not be shown; one of the paths below.
pub(super) const SECRET: &str = "like.hadoop.password";

/// Compares both nodes, which run containers; [`SECRET`] is set.
pub(super) fn compare(twins: &mut Twins) {
    for path in [
        "/conf?name=yarn.nodemanager.pmem-check-enabled",
        "/conf?name=yarn.nodemanager.vmem-pmem-ratio",
        "/conf?name=hadoop.http.authentication.type",
        "/conf?name=like.hadoop.password",
    ] {
        twins.compare(path, |twin| {
            let answer = answer(twin, path, "application/json");
            let json: Value = serde_json::from_str(&answer.body).unwrap();
            format!("{}\n{json:#}", answer.status)
        });
    }
    twins.compare("/conf", |twin| {
        let known = answer(twin, "/conf?name=yarn.nodemanager.vmem-pmem-ratio", "*/*");
        let (_declaration, body) = known.body.split_once("?>").unwrap();
        let unknown = answer(twin, "/conf?name=nosuch", "*/*");
        format!("{body}\n{}", unknown.status)
    });
}

fn answer(twin: &Twin, path: &str, accept: &str) -> http::Answer {
    let url = format!("http://localhost:{}{path}", twin.web_port);
    http::get_accepting(&url, accept).unwrap_or_else(|error| panic!("{error}"))
}
