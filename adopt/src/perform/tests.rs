use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::machine::{AgentState, AgentView};
use crate::record::JavaProcess;
use crate::record::tests::adoption;

const JAVA: i32 = 7;

const LIMITS: Limits = Limits {
    register: Duration::ZERO,
    tell: Duration::ZERO,
    listen: Duration::ZERO,
    stop: Duration::ZERO,
};

/// A machine whose node is whatever Hadoop's scripts would start: the agent where the profile is
/// linked, else the Java node. It may fail at a step.
struct Simulated {
    folder: TempDir,
    node: Cell<Option<Node>>,
    agent_registers: bool,
    java_stops: bool,
    java_starts: bool,
    /// Answers about the Java node's registration; the last one stays.
    java_registers: RefCell<Vec<Result<bool, String>>>,
    site_counts: bool,
    /// Steps of the record at each order, to see that it came first.
    stages: RefCell<Vec<Stage>>,
    starts: Cell<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Java(i32),
    Agent,
}

impl Simulated {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            node: Cell::new(Some(Node::Java(JAVA))),
            agent_registers: true,
            java_stops: true,
            java_starts: true,
            java_registers: RefCell::new(vec![Ok(true)]),
            site_counts: true,
            stages: RefCell::default(),
            starts: Cell::new(0),
        }
    }

    fn conf(&self) -> ConfFolder {
        ConfFolder::open(self.folder.path()).unwrap()
    }

    fn go(&self, stage: Stage) -> Result<(), PerformError> {
        let record = Record::new(stage, adoption());
        self.go_on(&record)
    }

    fn back(&self) -> Result<(), PerformError> {
        let record = self.conf().record().unwrap().unwrap();
        self.back_saying(&record, &mut |_| {})
    }

    fn go_on(&self, record: &Record) -> Result<(), PerformError> {
        self.run(&self.conf(), &mut |_| {}).go(record)
    }

    fn back_saying(
        &self,
        record: &Record,
        say: &mut dyn FnMut(fmt::Arguments<'_>),
    ) -> Result<(), PerformError> {
        self.run(&self.conf(), say).back(record)
    }

    fn run<'a>(
        &'a self,
        folder: &'a ConfFolder,
        say: &'a mut dyn FnMut(fmt::Arguments<'_>),
    ) -> Run<'a> {
        Run {
            folder,
            machine: self,
            limits: LIMITS,
            say,
        }
    }

    fn stage(&self) -> Option<Stage> {
        self.conf().record().unwrap().map(|record| record.stage)
    }

    /// Names in the folder of the configuration.
    fn is_as_before(&self) -> bool {
        fs::read_dir(self.folder.path()).unwrap().count() == 0
    }
}

impl Machine for Simulated {
    fn order(&self, _: &Adoption, order: Order) -> Result<(), String> {
        self.stages.borrow_mut().extend(self.stage());
        match order {
            Order::Start if self.conf().has_profile() => self.node.set(Some(Node::Agent)),
            Order::Start if self.java_starts => {
                self.starts.set(self.starts.get() + 1);
                self.node.set(Some(Node::Java(JAVA + self.starts.get())));
            }
            Order::Start => return Err("no java".to_owned()),
            Order::Stop if matches!(self.node.get(), Some(Node::Java(_))) && !self.java_stops => {}
            Order::Stop => self.node.set(None),
            Order::Status if self.node.get().is_none() => return Err("stopped".to_owned()),
            Order::Status => {}
        }
        Ok(())
    }

    fn terminate(&self, process: ProcessIdentity) {
        assert_eq!(process.pid, JAVA);
        self.node.set(None);
    }

    fn lives(&self, process: ProcessIdentity) -> bool {
        self.node.get() == Some(Node::Java(process.pid))
    }

    fn java_node(&self, _: &Adoption) -> Option<ProcessIdentity> {
        match self.node.get() {
            Some(Node::Java(pid)) => Some(ProcessIdentity { pid, start_time: 1 }),
            Some(Node::Agent) | None => None,
        }
    }

    fn agent(&self) -> &dyn AgentView {
        self
    }

    fn wait(&self, _: Duration, is_there: &mut dyn FnMut() -> bool) -> bool {
        (0..20).any(|_| is_there())
    }
}

impl AgentView for Simulated {
    fn state(&self) -> Result<AgentState, String> {
        if self.node.get() != Some(Node::Agent) {
            return Err("no agent answers".to_owned());
        }
        Ok(AgentState {
            // No process has this id.
            pid: i32::MAX,
            contact: "registering".to_owned(),
            is_registered: self.agent_registers,
            containers: 0,
        })
    }

    fn local_dirs(&self) -> Result<Vec<PathBuf>, String> {
        let own = adoption().agent_local_dirs;
        Ok(if self.site_counts {
            own
        } else {
            vec!["/local".into()]
        })
    }

    fn java_is_registered(&self) -> Result<bool, String> {
        let mut answers = self.java_registers.borrow_mut();
        match answers.len() {
            1 => answers[0].clone(),
            _ => answers.remove(0),
        }
    }

    fn listener(&self, _: u16) -> Option<i32> {
        match self.node.get() {
            Some(Node::Java(pid)) => Some(pid),
            Some(Node::Agent) | None => None,
        }
    }
}

#[test]
fn the_place_is_taken_and_given_back() {
    let machine = Simulated::new();
    machine.go(Stage::Going(Step::WriteSite)).unwrap();
    assert_eq!(machine.node.get(), Some(Node::Agent));
    assert_eq!(machine.stage(), Some(Stage::Done));
    assert!(machine.conf().has_site());
    machine.back().unwrap();
    assert_eq!(machine.node.get(), Some(Node::Java(JAVA + 1)));
    assert!(machine.is_as_before());
    let Some(first) = machine.stages.borrow().first().copied() else {
        panic!("nothing was ordered");
    };
    assert_eq!(first, Stage::Going(Step::StopJava));
}

#[test]
fn a_step_that_fails_undoes_all_before_it() {
    type Fault = fn(&mut Simulated);
    let failing: [(&str, Fault, i32); 3] = [
        (
            "has not registered",
            |it| it.agent_registers = false,
            JAVA + 1,
        ),
        ("has not ended", |it| it.java_stops = false, JAVA),
        (
            "is yarn.nodemanager.local-dirs final?",
            |it| it.site_counts = false,
            JAVA,
        ),
    ];
    for (expected, fail, java) in failing {
        let mut machine = Simulated::new();
        fail(&mut machine);
        let error = machine.go(Stage::Going(Step::WriteSite)).unwrap_err();
        assert!(matches!(error, PerformError::WentBack(_)), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(machine.node.get(), Some(Node::Java(java)), "{expected}");
        assert!(machine.is_as_before(), "{expected}");
    }
}

#[test]
fn a_java_node_that_does_not_start_again_leaves_the_record_for_another_try() {
    let mut machine = Simulated::new();
    machine.agent_registers = false;
    machine.java_starts = false;
    let error = machine.go(Stage::Going(Step::WriteSite)).unwrap_err();
    assert!(matches!(error, PerformError::Stuck { .. }), "{error}");
    assert_eq!(machine.stage(), Some(Stage::Returning(Step::StopJava)));
    machine.back().unwrap_err();
    machine.java_starts = true;
    machine.back().unwrap();
    assert_eq!(machine.node.get(), Some(Node::Java(JAVA + 1)));
    assert!(machine.is_as_before());
}

#[test]
fn the_way_back_waits_for_the_java_nodes_registration_as_far_as_it_can_be_told() {
    let unknown = || Err("status 401".to_owned());
    // Told at once, after some looks, after some without an answer, and never.
    for (answers, expected) in [
        (vec![Ok(true)], Ok(None)),
        (vec![Ok(false), Ok(false), Ok(true)], Ok(None)),
        (vec![unknown(), unknown(), Ok(false), Ok(true)], Ok(None)),
        (vec![unknown()], Ok(Some("cannot be told (status 401)"))),
        (vec![Ok(false)], Err("the Java node has not registered")),
    ] {
        let machine = Simulated::new();
        machine.go(Stage::Going(Step::WriteSite)).unwrap();
        machine.java_registers.replace(answers.clone());
        let record = machine.conf().record().unwrap().unwrap();
        let mut said = String::new();
        let result = machine.back_saying(&record, &mut |line| said += &format!("{line}\n"));
        match expected {
            Ok(words) => {
                result.unwrap();
                let told = said.contains("cannot be told");
                assert_eq!(told, words.is_some(), "{answers:?}: {said}");
                assert!(said.contains(words.unwrap_or_default()), "{said}");
            }
            Err(words) => {
                let error = result.unwrap_err().to_string();
                assert!(error.contains(words), "{error}");
                machine.java_registers.replace(vec![Ok(true)]);
                machine.back().unwrap();
            }
        }
        assert!(machine.is_as_before(), "{answers:?}");
    }
}

/// Kills a run at each place: after the record of a step, with and without the step itself.
#[test]
fn a_run_that_is_killed_anywhere_is_gone_on_with_or_undone() {
    for begun in Step::ALL {
        for is_done in [false, true] {
            for goes_on in [false, true] {
                let machine = Simulated::new();
                let conf = machine.conf();
                let last = Step::ALL.into_iter().filter(|step| *step <= begun);
                for step in last {
                    let stage = Stage::Going(step);
                    conf.store(&Record::new(stage, adoption())).unwrap();
                    let mut run = Run {
                        folder: &conf,
                        machine: &machine,
                        limits: LIMITS,
                        say: &mut |_| {},
                    };
                    if step < begun || is_done {
                        run.step(step, &adoption()).unwrap();
                    }
                }
                let case = format!("{begun:?}, done: {is_done}, goes on: {goes_on}");
                if goes_on {
                    machine.go(machine.stage().unwrap()).unwrap();
                    assert_eq!(machine.node.get(), Some(Node::Agent), "{case}");
                }
                machine.back().unwrap();
                let node = machine.node.get();
                assert!(matches!(node, Some(Node::Java(_))), "{case}: {node:?}");
                assert!(machine.is_as_before(), "{case}");
            }
        }
    }
}

#[test]
fn a_way_back_that_is_killed_anywhere_is_gone_on_with() {
    for begun in Step::ALL {
        let machine = Simulated::new();
        machine.go(Stage::Going(Step::WriteSite)).unwrap();
        let conf = machine.conf();
        let undone = Step::ALL.into_iter().rev().filter(|step| *step > begun);
        for step in undone {
            let mut run = Run {
                folder: &conf,
                machine: &machine,
                limits: LIMITS,
                say: &mut |_| {},
            };
            match step {
                Step::StartAgent => run.stop_agent(&adoption()).unwrap(),
                Step::LinkProfile => run.unlink_profile(&adoption()).unwrap(),
                Step::StopJava => run.start_java(&adoption()).unwrap(),
                Step::WriteSite => run.remove_site(&adoption()).unwrap(),
            }
        }
        let record = Record::new(Stage::Returning(begun), adoption());
        conf.store(&record).unwrap();
        machine.back().unwrap();
        let node = machine.node.get();
        // The node is started once.
        assert_eq!(node, Some(Node::Java(JAVA + 1)), "{begun:?}");
        assert!(machine.is_as_before(), "{begun:?}");
    }
}

#[test]
fn a_node_that_did_not_run_is_not_started_on_the_way_back() {
    let machine = Simulated::new();
    machine.node.set(None);
    let adoption = Adoption {
        java: None,
        ..adoption()
    };
    let record = Record::new(Stage::Going(Step::WriteSite), adoption);
    machine.go_on(&record).unwrap();
    assert_eq!(machine.node.get(), Some(Node::Agent));
    machine.back().unwrap();
    assert_eq!(machine.node.get(), None);
    assert!(machine.is_as_before());
}

#[test]
fn logs_are_back_in_their_place_also_when_the_java_node_does_not_start() {
    let mut machine = Simulated::new();
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("logs");
    let log = logs.join("application_1/container_1/stdout");
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    fs::write(&log, "text").unwrap();
    let adoption = Adoption {
        emptied_logs: vec![logs],
        java: Some(JavaProcess {
            pid: JAVA,
            start_time: 1,
        }),
        user: nix::unistd::geteuid().as_raw(),
        variables: BTreeMap::new(),
        ..adoption()
    };
    machine.java_starts = false;
    let record = Record::new(Stage::Going(Step::WriteSite), adoption);
    machine.go_on(&record).unwrap();
    machine.back().unwrap_err();
    assert_eq!(fs::read_to_string(&log).unwrap(), "text");
    machine.java_starts = true;
    machine.back().unwrap();
    assert_eq!(fs::read_to_string(&log).unwrap(), "text");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn properties_that_an_operator_added_stay_and_that_is_said() {
    for is_changed in [false, true] {
        let machine = Simulated::new();
        machine.go(Stage::Going(Step::WriteSite)).unwrap();
        let site = machine.folder.path().join("nm-agent-site.xml");
        if is_changed {
            fs::write(&site, "theirs").unwrap();
        }
        let record = machine.conf().record().unwrap().unwrap();
        let mut said = String::new();
        let mut say = |line: fmt::Arguments<'_>| said.push_str(&line.to_string());
        machine.back_saying(&record, &mut say).unwrap();
        assert_eq!(said.contains("was changed and stays"), is_changed, "{said}");
        assert_eq!(site.exists(), is_changed);
    }
}
