//! The host of auxiliary services with real Java: what services learn, over deaths of the host and
//! of the agent, and what becomes of classes that misbehave.

#![expect(
    clippy::unwrap_used,
    reason = "bodies of tests are tests too: a panic is a failed test"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use aux_host::{
    AuxHost, ContainerFacts, Folders, HostConfig, HostError, HostHealth, HostThread, HostedService,
    Patience, StartedHost, Watch,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use records::{ApplicationAttemptId, ApplicationId, ContainerId};
use tempfile::TempDir;
use tests::{require, wait};

/// Deadline for what a JVM does, on a machine that is busy building.
const DEADLINE: Duration = Duration::from_secs(60);

const APPLICATION: ApplicationId = ApplicationId {
    cluster_timestamp: 1_700_000_000_000,
    id: 9,
};

/// A folder with the jar of the test's service, and what services write.
struct Bench {
    folder: TempDir,
    jar: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let jar = tests::aux_host::test_service(folder.path());
        Self { folder, jar }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a service of the test's jar, which has a class loader of its own.
    fn service(&self, name: &str, class: &str) -> HostedService {
        HostedService {
            name: name.to_owned(),
            class: class.to_owned(),
            class_path: self.jar.display().to_string(),
            system_classes: Vec::new(),
            recovery_folder: Some(self.file("state")),
        }
    }

    /// Returns a host of these services, all of which do this.
    fn config(&self, services: Vec<HostedService>, does: &str) -> HostConfig {
        let home = tests::java::home().unwrap();
        let mut class_path = tests::aux_host::jar().as_os_str().to_owned();
        class_path.push(format!(":{}/*", tests::hadoop::jars().display()));
        let options = ["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
        let properties = [
            ("test.service.does", does.to_owned()),
            ("test.service.file", self.file("told").display().to_string()),
        ];
        HostConfig {
            java: home.join("bin/java"),
            options: options.map(Into::into).to_vec(),
            class_path,
            environment: Vec::new(),
            properties: properties
                .map(|(name, value)| (name.to_owned(), value))
                .to_vec(),
            services,
            group: None,
            patience: Patience {
                hello: DEADLINE,
                ..Patience::default()
            },
        }
    }

    fn start(&self, does: &str) -> StartedHost {
        let service = self.service("mine", "TestService");
        StartedHost::start(self.config(vec![service], does)).unwrap()
    }

    fn refusal(&self, class: &str, does: &str) -> HostError {
        let service = self.service("mine", class);
        StartedHost::start(self.config(vec![service], does)).expect_err("no service")
    }

    /// Returns the lines that services have written.
    fn told(&self) -> Vec<String> {
        let text = fs::read_to_string(self.file("told")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until services have written a line, for the time of this number.
    #[track_caller]
    fn wait_told(&self, line: &str, times: usize) {
        wait::until("a line of the service", DEADLINE, || {
            let told = self.told();
            let found = told.iter().filter(|it| it.starts_with(line)).count();
            wait::check(found >= times, format!("{line} is not among {told:?}"))
        });
    }

    /// Returns the number of the last host's process.
    fn pid(&self) -> Pid {
        let told = self.told();
        let mut pids = told.iter().filter_map(|line| line.strip_prefix("pid "));
        Pid::from_raw(pids.next_back().unwrap().parse().unwrap())
    }
}

fn supervise(host: StartedHost) -> (AuxHost, HostThread, mpsc::Receiver<HostHealth>) {
    let (sender, health) = mpsc::channel();
    let watch = Watch {
        folders: Box::new(Folders::default),
        health: Box::new(move |found| sender.send(found).unwrap()),
    };
    let (host, thread) = host.supervise(watch).unwrap();
    (host, thread, health)
}

fn container(n: i64, is_master: bool) -> ContainerFacts {
    ContainerFacts {
        id: ContainerId {
            attempt: ApplicationAttemptId {
                application_id: APPLICATION,
                attempt_id: 1,
            },
            id: n,
        },
        user: "joe".into(),
        memory_mb: 1_024,
        vcores: 1,
        is_master,
    }
}

const CONTAINER: &str = "container_1700000000000_0009_01_000002";

#[test]
fn a_service_learns_of_everything_in_order_and_over_a_killed_host() {
    require!(java, hadoop);
    let bench = Bench::new();
    let host = bench.start("refuse");
    assert_eq!(host.metadata(), [Some(vec![1, 2, 3])]);
    let (host, thread, health) = supervise(host);
    let user: Arc<str> = "joe".into();
    host.container_begins(container(1, true));
    host.container_begins(container(2, false));
    host.application_begins(0, APPLICATION, &user, b"secret")
        .unwrap();
    // What ends before the host has begun to tell is not told.
    bench.wait_told("application application_1700000000000_0009", 1);
    host.container_ends(container(1, true));
    bench.wait_told("end of container_1700000000000_0009_01_000001", 1);
    let told = bench.told();
    assert_eq!(
        told[1..],
        [
            format!(
                "init in ApplicationClassLoader, state in {}, input -1, variables 0",
                bench.file("state").display()
            ),
            "container container_1700000000000_0009_01_000001 of joe: 1024 APPLICATION_MASTER"
                .to_owned(),
            format!("container {CONTAINER} of joe: 1024 TASK"),
            "application application_1700000000000_0009 of joe: secret".to_owned(),
            "end of container_1700000000000_0009_01_000001".to_owned(),
        ]
    );
    kill(bench.pid(), Signal::SIGKILL).unwrap();
    // What runs is told again, and what has ended is not.
    bench.wait_told(
        "application application_1700000000000_0009 of joe: secret",
        2,
    );
    assert_eq!(host.lives(), 2);
    host.application_ends(APPLICATION);
    bench.wait_told("end of application_1700000000000_0009", 1);
    thread.stop();
    let told = bench.told();
    assert_eq!(told.last().unwrap(), "stop");
    let of = |line: &str| told.iter().filter(|it| it.starts_with(line)).count();
    assert_eq!(of(&format!("container {CONTAINER}")), 2, "{told:?}");
    assert_eq!(of("container container_1700000000000_0009_01_000001"), 1);
    assert!(
        health.try_recv().is_err(),
        "one death is none of the node's"
    );
}

#[test]
fn a_class_that_cannot_be_a_service_is_named_with_the_reason() {
    require!(java, hadoop);
    let bench = Bench::new();
    for (class, does, parts) in [
        ("org.example.Missing", "", &["ClassNotFoundException"][..]),
        (
            "TestService$WithoutConstructor",
            "",
            &["NoSuchMethodException"],
        ),
        ("java.lang.String", "", &["is no AuxiliaryService"]),
        ("TestService", "throw", &["words of the service"]),
        (
            "TestService",
            "exit",
            &["exit status 7", "while mine was starting"],
        ),
    ] {
        let error = records::error_chain(&bench.refusal(class, does));
        for part in parts.iter().chain(&["mine"]) {
            assert!(error.contains(part), "{class}, {does}: {part}: {error}");
        }
    }
}

#[test]
fn a_service_without_metadata_is_as_if_it_were_not_there() {
    require!(java, hadoop);
    let bench = Bench::new();
    let host = bench.start("no-metadata");
    assert_eq!(host.metadata(), [None]);
    let (_host, thread, _health) = supervise(host);
    thread.stop();
    assert_eq!(bench.told().last().unwrap(), "stop");
}

#[test]
fn a_service_that_hangs_delays_no_other_and_not_the_stop() {
    require!(java, hadoop);
    let bench = Bench::new();
    let services = ["first", "second"].map(|name| bench.service(name, "TestService"));
    let mut config = bench.config(services.to_vec(), "hang");
    config.patience.stop = Duration::from_millis(500);
    config.patience.terminate = Duration::from_millis(500);
    let (host, thread, _health) = supervise(StartedHost::start(config).unwrap());
    let user: Arc<str> = "joe".into();
    host.application_begins(1, APPLICATION, &user, b"of the second")
        .unwrap();
    bench.wait_told("application application_1700000000000_0009", 1);
    // Both hang at the first container, and the JVM still reads.
    host.container_begins(container(2, false));
    bench.wait_told(&format!("container {CONTAINER}"), 2);
    for n in 3..2_000 {
        host.container_begins(container(n, false));
    }
    thread.stop();
    assert_eq!(host.lives(), 1);
}

#[test]
fn a_service_that_dies_or_hangs_at_its_stop_is_ended() {
    require!(java, hadoop);
    let bench = Bench::new();
    for does in ["exit-at-stop", "hang-at-stop"] {
        let service = bench.service("mine", "TestService");
        let mut config = bench.config(vec![service], does);
        config.patience.stop = Duration::from_millis(500);
        config.patience.terminate = Duration::from_millis(500);
        let (_host, thread, _health) = supervise(StartedHost::start(config).unwrap());
        thread.stop();
        let pid = bench.pid();
        assert!(
            !Path::new(&format!("/proc/{pid}")).exists(),
            "{does}: {pid} runs"
        );
    }
}
