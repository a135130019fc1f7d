use keeper::ProcessIdentity;

use super::*;
use crate::scan::{Folders, PidFile, Start};

fn node(pid: i32) -> JavaNode {
    JavaNode {
        process: ProcessIdentity { pid, start_time: 1 },
        user: 1000,
        conf: Some("/conf".into()),
        environment: Some(BTreeMap::from([(
            "HADOOP_LOG_DIR".to_owned(),
            "/log".to_owned(),
        )])),
        is_of_scripts: true,
    }
}

/// A machine with one Java node that Hadoop's scripts started.
fn found() -> Scan {
    let pid_file = PidFile {
        folder: "/run".into(),
        ident: "yarn".to_owned(),
    };
    Scan {
        conf: "/conf".into(),
        folders: Folders {
            local_dirs: vec!["/d1/yarn".into(), "/d2/yarn".into()],
            log_dirs: vec!["/d1/logs".into()],
            recovery: Some("/recovery".into()),
            port: 8041,
        },
        nodes: vec![node(7)],
        start: Some(Start {
            by: StartedBy::Daemon,
            pid_file: Some(pid_file),
            foreign: None,
        }),
        ..Scan::default()
    }
}

fn intent() -> Intent {
    Intent {
        user: 1000,
        names_conf: false,
        yarn: Some("/hadoop/bin/yarn".into()),
        program: PACKAGED_PROGRAM.into(),
        profile: "/profile.sh".into(),
        profile_exists: true,
        names_socket: false,
        loses_containers: false,
        agent_answers: false,
        has_site: false,
        has_profile: false,
        has_profiles: false,
        unwritable: None,
    }
}

fn refusals(change: impl FnOnce(&mut Scan, &mut Intent)) -> Vec<Refusal> {
    let (mut scan, mut intent) = (found(), intent());
    change(&mut scan, &mut intent);
    plan(scan, &Findings::default(), &intent).refusals
}

#[test]
fn the_agent_gets_caches_of_its_own_and_a_socket_that_its_user_can_make() {
    let plan = plan(found(), &Findings::default(), &intent());
    assert_eq!(plan.refusals, []);
    let Adoption {
        site,
        agent_local_dirs,
        variables,
        emptied_logs,
        ..
    } = plan.adoption;
    let own = ["/d1/yarn/nm-agent", "/d2/yarn/nm-agent"].map(PathBuf::from);
    assert_eq!(agent_local_dirs, own);
    assert!(
        site.contains("<value>/d1/yarn/nm-agent,/d2/yarn/nm-agent</value>"),
        "{site}"
    );
    assert!(
        site.contains("<value>/d1/yarn/nm-agent/admin.sock</value>"),
        "{site}"
    );
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(
        variables,
        [
            "HADOOP_IDENT_STRING=yarn",
            "HADOOP_LOG_DIR=/log",
            "HADOOP_PID_DIR=/run"
        ]
    );
    assert!(emptied_logs.is_empty());
}

#[test]
fn a_java_node_without_recovery_has_its_logs_kept_from_it() {
    let mut scan = found();
    scan.folders.recovery = None;
    let plan = plan(scan, &Findings::default(), &intent());
    assert_eq!(plan.adoption.emptied_logs, [PathBuf::from("/d1/logs")]);
    let mut text = Vec::new();
    plan.write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("the Java node empties its own caches"),
        "{text}"
    );
    assert!(text.contains("with the logs set aside"), "{text}");
}

#[test]
fn whatever_is_not_as_it_should_be_is_refused_with_its_reason() {
    let only = |expected: &str, change: fn(&mut Scan, &mut Intent)| {
        let found = refusals(change);
        let [refusal] = &found[..] else {
            panic!("{expected}: {found:?}");
        };
        assert!(refusal.to_string().contains(expected), "{refusal}");
    };
    only("be root or that user", |_, it| it.user = 1001);
    only("processes 7, 8", |it, _| {
        it.nodes.push(node(8));
        it.start = None;
    });
    only("name it with --conf /o\\u{1b}", |it, _| {
        let conf = Some("/o\x1b".into());
        it.others = vec![JavaNode { conf, ..node(8) }];
        it.nodes.clear();
        it.start = None;
    });
    only("everybody", |_, it| {
        it.unwritable = Some("everybody".to_owned())
    });
    only("--yarn", |_, it| it.yarn = None);
    only("--profile", |_, it| it.profile_exists = false);
    only("move its properties", |_, it| it.has_site = true);
    only("shellprofile.d/nm-agent.sh", |_, it| it.has_profile = true);
    only("runs already", |_, it| it.agent_answers = true);
    only("containers run here (2)", |it, _| it.containers = 2);
    only("without Hadoop's scripts", |it, _| {
        it.nodes[0].is_of_scripts = false
    });
    only("supervisord runs the Java node as hadoop:nm", |it, _| {
        let start = it.start.as_mut().unwrap();
        start.by = StartedBy::Hand;
        start.pid_file = None;
        let node = &mut it.nodes[0];
        node.is_of_scripts = false;
        let environment = node.environment.as_mut().unwrap();
        for (name, value) in [("PROCESS", "nm"), ("GROUP", "hadoop")] {
            environment.insert(format!("SUPERVISOR_{name}_NAME"), value.to_owned());
        }
    });
    only("of another process that runs, 9", |it, _| {
        let start = it.start.as_mut().unwrap();
        start.by = StartedBy::Hand;
        start.pid_file = None;
        start.foreign = Some(("/run/x.pid".into(), 9));
    });
    only("be root", |it, _| {
        it.start.as_mut().unwrap().by = StartedBy::Unit("nm.service".to_owned());
    });
}

#[test]
fn paths_that_would_be_others_in_a_file_are_refused() {
    for bad in ["/a\nb", "/a,b", "/a\x1b"] {
        let found = refusals(|it, _| it.folders.local_dirs = vec![bad.into()]);
        assert!(
            matches!(found[..], [Refusal::Path(_)]),
            "{bad:?}: {found:?}"
        );
    }
    let long = PathBuf::from(format!("/{}", "x".repeat(100)));
    let found = refusals(|it, _| it.folders.local_dirs = vec![long]);
    assert!(matches!(found[..], [Refusal::Socket(_)]), "{found:?}");
}

#[test]
fn containers_may_be_lost_when_that_is_said_and_problems_of_a_check_may_not() {
    let found = refusals(|scan, intent| {
        scan.containers = 2;
        intent.loses_containers = true;
    });
    assert_eq!(found, []);
    let problems = vec!["yarn.nodemanager.x: \x1b[2J".to_owned()];
    let findings = Findings {
        problems,
        missing: vec!["spark_shuffle".to_owned()],
    };
    let plan = plan(super::tests::found(), &findings, &intent());
    let [Refusal::Unusable(text)] = &plan.refusals[..] else {
        panic!("{:?}", plan.refusals);
    };
    assert_eq!(text, "yarn.nodemanager.x: \\u{1b}[2J");
    assert_eq!(plan.missing, ["spark_shuffle"]);
}

#[test]
fn nothing_that_a_process_says_of_itself_moves_the_cursor_and_no_value_is_printed() {
    let mut scan = found();
    let variable = ("HADOOP_\x1b[2J".to_owned(), "a secret".to_owned());
    scan.nodes[0].environment = Some(BTreeMap::from([variable]));
    let start = scan.start.as_mut().unwrap();
    start.pid_file.as_mut().unwrap().folder = "/run\x07".into();
    let plan = plan(scan, &Findings::default(), &intent());
    let mut text = Vec::new();
    plan.write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let controls = text.chars().filter(|c| c.is_control() && *c != '\n');
    assert_eq!(controls.count(), 0, "{text:?}");
    assert!(text.contains("HADOOP_\\u{1b}[2J"), "{text}");
    assert!(!text.contains("a secret"), "{text}");
}
