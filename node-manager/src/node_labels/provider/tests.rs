//! Claims about providers, with real scripts.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use test_support::{replace_file, write_program};

use super::super::value::{NodeAttributes, NodeLabels};
use super::*;

/// Time within which a provider does what it should, on a machine that is busy building.
const DEADLINE: Duration = Duration::from_secs(60);

/// Time limit that no script of a test reaches unless it hangs.
const LONG: Duration = Duration::from_secs(600);

fn environment() -> Arc<BTreeMap<String, String>> {
    let path = std::env::var("PATH").unwrap();
    Arc::new(BTreeMap::from([("PATH".to_owned(), path)]))
}

fn labels(name: &str) -> NodeLabels {
    NodeLabels::from_property(name).unwrap()
}

/// Returns a script of `/bin/sh`.
fn script(text: &str, timeout: Duration) -> ProviderSource {
    ProviderSource::Script(Script {
        path: "/bin/sh".into(),
        arguments: vec!["-c".to_owned(), text.to_owned()],
        timeout,
    })
}

fn config(source: ProviderSource) -> ProviderConfig {
    ProviderConfig {
        source,
        fetch_interval: Some(Duration::from_millis(20)),
        resync_interval: LONG,
    }
}

/// Work of a thread without the thread, and the newest value.
fn work(
    source: ProviderSource,
) -> (
    Work<NodeLabels>,
    watch::Receiver<Option<NodeLabels>>,
    Sender<()>,
) {
    let (newest, reported) = watch::channel(None);
    let (stop, stopping) = mpsc::channel();
    let work = Work {
        source,
        interval: None,
        environment: environment(),
        reread: None,
        newest,
        stopping,
    };
    (work, reported, stop)
}

fn error_of(text: &str, timeout: Duration) -> FetchError {
    let (work, _reported, _stop) = work(script(text, timeout));
    work.fetch().unwrap_err()
}

/// Waits until a report has this for a heartbeat that is always due.
#[track_caller]
fn wait_value<T: Described>(report: &mut Report<T>, expected: &T) {
    let begin = Instant::now();
    loop {
        let now = tokio::time::Instant::now();
        let seen = report.for_heartbeat(now);
        if seen.as_ref() == Some(expected) {
            return;
        }
        assert!(begin.elapsed() < DEADLINE, "{seen:?} instead of {expected}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_a_script_prints_is_reported_and_followed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("labels");
    replace_file(&file, "NODE_PARTITION:a\n");
    let config = NodeLabelsConfig {
        labels: Some(config(script(&format!("cat {}", file.display()), LONG))),
        attributes: Some(config(script("echo NODE_ATTRIBUTE:os,STRING,x", LONG))),
    };
    let (providers, mut reports) = Providers::start(&config, &environment(), None).unwrap();
    let report = reports.labels.as_mut().unwrap();
    wait_value(report, &labels("a"));
    replace_file(&file, "NODE_PARTITION:b\n");
    wait_value(report, &labels("b"));
    // Neither a failure nor garbage changes it; what comes next does.
    fs::remove_file(&file).unwrap();
    replace_file(&file, "NODE_PARTITION:$(rm)\n");
    wait_value(report, &labels("b"));
    replace_file(&file, "nothing\n");
    wait_value(report, &labels(""));
    let os = NodeAttributes::from_property("os,STRING,x").unwrap();
    wait_value(reports.attributes.as_mut().unwrap(), &os);
    providers.stop();
}

#[test]
fn failures_of_scripts_say_what_is_wrong() {
    let failed = error_of("echo first >&2; echo last >&2; exit 3", LONG);
    assert_eq!(
        failed.to_string(),
        "the script ended with exit status: 3: last"
    );
    let endless = error_of("yes NODE_PARTITION:a | head -c 1000000", LONG);
    assert!(matches!(endless, FetchError::TooMuch), "{endless}");
    let hung = error_of("sleep 600", Duration::from_millis(50));
    assert_eq!(hung.to_string(), "/bin/sh did not end within 50 ms");
    let garbage = error_of(
        "head -c 3000 /dev/urandom; echo; echo NODE_PARTITION:a b",
        LONG,
    );
    assert!(matches!(garbage, FetchError::Value(_)), "{garbage}");
}

#[test]
fn a_stop_ends_a_script_that_runs() {
    let config = NodeLabelsConfig {
        labels: Some(config(script("sleep 600", LONG))),
        attributes: None,
    };
    let begin = Instant::now();
    let (providers, reports) = Providers::start(&config, &environment(), None).unwrap();
    providers.stop();
    assert!(begin.elapsed() < DEADLINE);
    assert_eq!(*reports.labels.unwrap().newest().borrow(), None);
}

#[test]
fn a_property_is_there_at_once_and_read_again() {
    let value = Arc::new(Mutex::new(Some("b".to_owned())));
    let reread: Reread = {
        let value = Arc::clone(&value);
        Arc::new(move |name| {
            assert_eq!(name, "the.property");
            value.lock().unwrap().clone()
        })
    };
    let source = ProviderSource::Property {
        name: "the.property",
        configured: "a".to_owned(),
    };
    let (mut work, reported, _stop) = work(source.clone());
    let only = NodeLabelsConfig {
        labels: Some(ProviderConfig {
            fetch_interval: None,
            ..config(source)
        }),
        attributes: None,
    };
    let (providers, reports) = Providers::start(&only, &environment(), Some(&reread)).unwrap();
    assert_eq!(
        *reports.labels.unwrap().newest().borrow(),
        Some(labels("a"))
    );
    providers.stop();

    work.reread = Some(reread);
    work.fetch_and_publish();
    assert_eq!(*reported.borrow(), Some(labels("b")));
    for bad in [None, Some("-".to_owned())] {
        *value.lock().unwrap() = bad;
        work.fetch_and_publish();
        assert_eq!(*reported.borrow(), Some(labels("b")));
    }
}

#[test]
fn a_script_that_cannot_be_executed_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("script");
    let config = NodeLabelsConfig {
        labels: None,
        attributes: Some(config(ProviderSource::Script(Script {
            path: path.clone(),
            arguments: Vec::new(),
            timeout: LONG,
        }))),
    };
    let error = Providers::start(&config, &environment(), None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the script of the node attributes cannot be run"
    );
    fs::write(&path, "#!/bin/sh\n").unwrap();
    assert!(Providers::start(&config, &environment(), None).is_err());
    fs::remove_file(&path).unwrap();
    write_program(&path, "#!/bin/sh\n");
    Providers::start(&config, &environment(), None)
        .unwrap()
        .0
        .stop();
}
