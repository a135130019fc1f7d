//! Filters of web pages: what a browser is refused, and what answers say of frames and origins.

use std::fmt::Write as _;
use std::process::Command;

use tests::require;

use super::twins::{Twin, Twins};

/// Headers whose values are compared.
const HEADERS: [&str; 6] = [
    "x-frame-options",
    "access-control-allow-origin",
    "access-control-allow-credentials",
    "access-control-allow-methods",
    "access-control-allow-headers",
    "access-control-max-age",
];

/// Headers of requests, between semicolons.
const REQUESTS: [&str; 14] = [
    "",
    "User-Agent: Mozilla/5.0",
    "User-Agent: Mozilla/5.0;X-Own: 1",
    "User-Agent: mozilla/5.0",
    "User-Agent: a Mozilla/5.0",
    "User-Agent: Opera",
    "User-Agent: Lynx/2",
    "Origin: https://a.example",
    "Origin: https://a.example ",
    "Origin: https://b.example:8",
    "Origin: https://a-example",
    "Origin: https://x https://a.example",
    "Origin: https://a.example;Access-Control-Request-Method: PUT",
    "Origin: https://a.example;Access-Control-Request-Headers: accept, X-Own",
];

#[test]
fn filters_are_hadoops() {
    require!(java, hadoop);
    let mut twins = Twins::start(|site| {
        let initializer = "org.apache.hadoop.security.HttpCrossOriginFilterInitializer";
        let origin = "hadoop.http.cross-origin";
        let csrf = "yarn.nodemanager.webapp.rest-csrf";
        site.set("hadoop.http.filter.initializers", initializer)
            .set("yarn.nodemanager.webapp.cross-origin.enabled", true)
            .set(
                format!("{origin}.allowed-origins"),
                r"https://a.example, regex:https://[bc]\.example(:\d+)?",
            )
            .set(format!("{origin}.allowed-headers"), "Accept , X-Own")
            .set(format!("{origin}.max-age"), 60)
            .set(format!("{csrf}.enabled"), true)
            .set(format!("{csrf}.custom-header"), "X-Own")
            .set(format!("{csrf}.methods-to-ignore"), "OPTIONS, HEAD")
            .set(
                format!("{csrf}.browser-useragents-regex"),
                "^Mozilla.*,^Opera.*,Lynx",
            )
            .set("yarn.nodemanager.webapp.xfs-filter.xframe-options", "DENY");
    });
    // Hadoop's pages are for GET alone, and ours for HEAD, too. `/jmx` is not compared: Hadoop lets
    // scripts of every origin read it, whatever the filter says (`JMXJsonServlet`).
    for (path, methods) in [
        ("/ws/v1/node/info", &["GET", "HEAD"][..]),
        ("/node/allApplications", &["GET"]),
    ] {
        for request in REQUESTS {
            for method in methods {
                twins.compare(&format!("{method} {path} {request}"), |twin| {
                    told(twin, method, path, request)
                });
            }
        }
    }
}

/// Returns the status of an answer and what it says in [`HEADERS`].
fn told(twin: &Twin, method: &str, path: &str, request: &str) -> String {
    let mut command = Command::new("curl");
    command.args(["--silent", "--include", "--max-time", "60"]);
    command.args(["--header", "User-Agent:"]);
    if method == "HEAD" {
        command.arg("--head");
    }
    for header in request.split(';').filter(|header| !header.is_empty()) {
        command.args(["--header", header]);
    }
    let url = format!("http://localhost:{}{path}", twin.web_port);
    let output = command.arg(url).output().unwrap();
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    let (head, _) = answer.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let mut told = format!("{status}\n");
    for name in HEADERS {
        for line in head.lines() {
            if line.to_ascii_lowercase().starts_with(&format!("{name}:")) {
                let (_, value) = line.split_once(':').unwrap();
                writeln!(told, "{name}: {}", value.trim()).unwrap();
            }
        }
    }
    told
}
