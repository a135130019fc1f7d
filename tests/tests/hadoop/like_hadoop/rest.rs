//! REST resources of a node, `/ws/v1/node`.

use serde_json::Value;
use test_support::LaunchContext;
use tests::{http, require};
use wire::proto::hadoop_yarn::ContainerSubStateProto;

use super::servlets;
use super::twins::{Twin, Twins, once};

/// Copy of the launch script in the log folder.
const SCRIPT: &str = "launch_container.sh";
/// Listing of the work folder in the log folder. The agent writes no names of users.
const LISTING: &str = "directory.info";

/// Paths that are asked of a node with containers of three kinds. A name in angle brackets stands
/// for an id. The list of logs of a queued or a foreign container is missing: Hadoop answers 503
/// there, upon which clients try again, and the agent 404.
const PATHS: [&str; 38] = [
    "/info",
    "/apps",
    "/apps?state=RUNNING",
    "/apps?state=FINISHED",
    "/apps?state=NOSUCH",
    "/apps?user=nobody",
    "/apps?user=",
    "/apps/<app>",
    "/apps/application_1_0001",
    "/apps/application_x",
    "/apps/nonsense",
    "/containers",
    "/containers/<ended>",
    "/containers/<running>",
    "/containers/<queued>",
    "/containers/<unknown>",
    "/containers/nonsense",
    "/containers/<ended>/logs",
    "/containers/<running>/logs",
    "/containers/<unknown>/logs",
    "/containers/nonsense/logs",
    "/containers/<running>/logs/stdout",
    "/containers/<running>/logs/stdout?size=0",
    "/containers/<running>/logs/stdout?size=2",
    "/containers/<running>/logs/stdout?size=-2",
    "/containers/<running>/logs/stdout?format=octet-stream",
    "/containers/<running>/logs/stdout?format=x",
    "/containers/<running>/logs/empty",
    "/containers/<running>/logs/missing",
    "/containers/<queued>/logs/stdout",
    "/containers/<unknown>/logs/stdout",
    "/containers/container_1_0001_01_000001/logs/stdout",
    "/containers/<ended>/logs/stdout",
    "/containers/<ended>/logs/empty",
    "/containerlogs/<running>/stdout",
    "/containerlogs/<ended>/missing",
    "/resources/memory",
    "/auxiliaryservices",
];

/// Paths that are also asked for in XML. Of what is unknown Hadoop tells only by 500.
const XML_PATHS: [&str; 9] = [
    "/info",
    "/apps",
    "/apps?state=FINISHED",
    "/apps?state=NOSUCH",
    "/apps?user=",
    "/apps/<app>",
    "/containers/<running>",
    "/containers/nonsense",
    "/auxiliaryservices",
];

#[test]
fn rest_answers_are_hadoops() {
    require!(java, hadoop);
    let mut twins = Twins::start(|site| {
        site.set("yarn.nodemanager.pmem-check-enabled", true)
            .set("yarn.nodemanager.vmem-check-enabled", true)
            .set(servlets::SECRET, "hunter2");
    });
    for path in ["", "/info", "/apps", "/containers"] {
        twins.compare(&format!("idle {path}"), |twin| rest(twin, path));
    }
    let output = "echo out > <LOG_DIR>/stdout; : > <LOG_DIR>/empty";
    twins.each(|twin| {
        let command = format!("{output}; exit 3");
        let ended = twin.start_number(2, LaunchContext::command(&command));
        twin.rm.wait_completed(ended);
    });
    twins.compare("an application with no container", |twin| {
        rest(twin, "/apps")
    });
    twins.each(|twin| {
        let command = twin.gate("running").then("true");
        let mut running = twin.allocation(3);
        running.resource.memory_mb = 1024;
        let context = LaunchContext::command(&format!("{output}; touch written; {command}"));
        let id = twin.am.try_start(&running, context).unwrap();
        twin.wait_work_file(id, "written");
        let queued = twin.allocation(4).opportunistic();
        let context = LaunchContext::command("true");
        let id = twin.am.try_start(&queued, context).unwrap();
        twin.rm
            .wait_sub_state(id, ContainerSubStateProto::CssScheduled);
    });
    for path in PATHS {
        twins.compare(path, |twin| rest(twin, &with_ids(twin, path)));
    }
    for path in XML_PATHS {
        let scenario = format!("{path} as XML");
        twins.compare(&scenario, |twin| xml(twin, &with_ids(twin, path)));
    }
    servlets::compare(&mut twins);
    twins.each(|twin| twin.gate("running").open());
}

fn with_ids(twin: &Twin, path: &str) -> String {
    let attempt = twin.am.attempt();
    path.replace("<app>", &attempt.application_id.to_string())
        .replace("<ended>", &attempt.container(2).to_string())
        .replace("<running>", &attempt.container(3).to_string())
        .replace("<queued>", &attempt.container(4).to_string())
        .replace("<unknown>", &attempt.container(9).to_string())
}

/// Returns the elements of a document in XML, a line each and sorted, without what differs on
/// purpose: Hadoop writes them in the order of a class's fields, which no reader may rely on.
pub(super) fn xml(twin: &Twin, path: &str) -> String {
    let url = format!("http://localhost:{}/ws/v1/node{path}", twin.web_port);
    let answer = http::get_accepting(&url, "application/xml").unwrap();
    let (_declaration, body) = answer.body.split_once("?>").unwrap_or(("", &answer.body));
    let body = body.replace("><", ">\n<");
    let differs = |line: &str| {
        line.contains(SCRIPT) || line.contains("BuildVersion>") || line.contains("BuiltOn>")
    };
    let mut lines: Vec<_> = body.lines().filter(|line| !differs(line)).collect();
    lines.sort_unstable();
    format!("{}\n{}", answer.status, once(&lines.join("\n")))
}

/// Returns the answer without what differs on purpose.
pub(super) fn rest(twin: &Twin, path: &str) -> String {
    let (status, mut body) = twin.rest(path);
    // The source and the builder of the agent are its own, and it has one time of building.
    for (field, end) in [
        ("hadoopBuildVersion", ' '),
        ("nodeManagerBuildVersion", ' '),
        ("hadoopVersionBuiltOn", 'T'),
        ("nodeManagerVersionBuiltOn", 'T'),
    ] {
        if let Some(text) = body.pointer_mut(&format!("/nodeInfo/{field}")) {
            let start = text.as_str().unwrap_or_default().split(end).next();
            *text = start.unwrap_or_default().into();
        }
    }
    mask_differences(&mut body);
    match body {
        Value::String(text) => format!("{status}\n{text}"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            format!("{status}\n{body:#}")
        }
    }
}

/// Sorts lists whose order is by chance in Java, masks the size of the
/// listing, and removes the launch script, which may hold passwords and is not served by the agent.
fn mask_differences(value: &mut Value) {
    let Some(members) = value.as_object_mut() else {
        for item in value.as_array_mut().into_iter().flatten() {
            mask_differences(item);
        }
        return;
    };
    for (name, member) in members {
        match (name.as_str(), member.as_array_mut()) {
            ("containerLogFiles", Some(files)) => {
                files.retain(|file| file != SCRIPT);
                files.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
            }
            ("containerLogInfo", Some(files)) => {
                files.retain(|file| file["fileName"] != SCRIPT);
                files.sort_by(|a, b| a["fileName"].as_str().cmp(&b["fileName"].as_str()));
                let listing = files.iter_mut().find(|file| file["fileName"] == LISTING);
                if let Some(listing) = listing {
                    listing["fileSize"] = "<size>".into();
                }
            }
            ("containerids", Some(ids)) => ids.sort_by(|a, b| a.as_str().cmp(&b.as_str())),
            ("diagnostics", None) => {
                let text = once(member.as_str().unwrap_or_default());
                *member = text.into();
            }
            _ => mask_differences(member),
        }
    }
}
