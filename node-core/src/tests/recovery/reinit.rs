//! Crashes in the middle of a re-initialization: the next agent goes on with it.

use wire::proto::hadoop_yarn::{
    LocalResourceProto, LocalResourceTypeProto, LocalResourceVisibilityProto,
    StringLocalResourceMapProto, UrlProto,
};

use super::*;
use crate::recovery::ContextRecord;

const ID: i64 = 1;

/// Launches, as [`CrashingNode::ordered`] tells them.
const FIRST: &str = "first first -> /local/first";
const SECOND: &str = "second first -> /local/first second -> /local/second";

/// A launch context with one resource, whose link has the name of the command.
pub(super) fn context(command: &str) -> ContainerLaunchContextProto {
    let resource = LocalResourceProto {
        resource: Some(UrlProto {
            scheme: Some("file".to_owned()),
            file: Some(format!("/{command}")),
            ..UrlProto::default()
        }),
        size: Some(1),
        timestamp: Some(1),
        r#type: Some(LocalResourceTypeProto::File.into()),
        visibility: Some(LocalResourceVisibilityProto::Private.into()),
        ..LocalResourceProto::default()
    };
    ContainerLaunchContextProto {
        command: vec![command.to_owned()],
        local_resources: vec![StringLocalResourceMapProto {
            key: Some(command.to_owned()),
            value: Some(resource),
        }],
        ..ContainerLaunchContextProto::default()
    }
}

impl CrashingNode {
    /// Returns a node where a container runs the command "first".
    fn running() -> Self {
        let mut machine = Self::new();
        let mut request = request_for(container_id(ID), ExecutionType::Guaranteed);
        request.context = LaunchContext::read(context("first"));
        request.record = Some(Box::new(StartRecord {
            token: token(&request.spec).encode_to_vec(),
            context: context("first").encode_to_vec(),
            ..StartRecord::default()
        }));
        let outcome = machine.node.core.start(asker(), request, machine.node.now);
        assert!(matches!(outcome, StartOutcome::Started), "{outcome:?}");
        machine.settle();
        machine.localized("first");
        assert_eq!(machine.launched(), FIRST);
        machine
    }

    fn reinitialize(&mut self, command: &str, auto_commit: bool) {
        let context = context(command);
        let record = ContextRecord {
            context: context.encode_to_vec(),
        };
        let request = ReinitRequest {
            context: LaunchContext::read(context).unwrap(),
            auto_commit,
            record: Some(Box::new(record)),
        };
        self.order(|core, id, now| core.reinitialize(asker(), id, request, now))
            .unwrap();
    }

    fn roll_back(&mut self) -> Result<(), RemoteException> {
        self.order(|core, id, now| core.roll_back_reinit(asker(), id, now))
    }

    fn order(
        &mut self,
        order: impl FnOnce(&mut Core, ContainerId, Now) -> Result<(), RemoteException>,
    ) -> Result<(), RemoteException> {
        let now = self.node.now;
        let result = order(&mut self.node.core, container_id(ID), now);
        self.settle();
        result
    }

    /// Answers the last order to localize, which must be for this link.
    fn localized(&mut self, link: &str) {
        let Some(Effect::Localize {
            id,
            resources,
            purpose,
            set,
            ..
        }) = self.localizations.pop()
        else {
            panic!("nothing is localized");
        };
        let links: Vec<&String> = resources.iter().map(|(link, _)| link).collect();
        assert_eq!(links, [link]);
        self.localizations.clear();
        let resource = LocalizedResource {
            link: link.to_owned(),
            path: format!("/local/{link}").into(),
            set,
            bytes: 1,
            was_cached: false,
        };
        self.tell(WorkerEvent::Localized {
            id,
            purpose,
            took: Duration::ZERO,
            resources: vec![resource],
        });
    }

    fn tell(&mut self, event: WorkerEvent) {
        self.node.core.handle(event, self.node.now, 0);
        self.settle();
    }

    /// Ends the process that a restart ends. Returns the launch after it, which starts.
    fn relaunched(&mut self) -> String {
        assert_eq!(self.terminated.last(), Some(&container_id(ID)));
        self.terminated.clear();
        self.step(&Step::Exit(ID, 143));
        self.launched()
    }

    /// Starts the one launch that was ordered.
    fn launched(&mut self) -> String {
        let launch = self.ordered();
        self.step(&Step::Launched(ID));
        launch
    }

    /// Returns the command and the links of the one launch that was ordered.
    fn ordered(&mut self) -> String {
        let launches = std::mem::take(&mut self.launches);
        let [order] = launches.as_slice() else {
            panic!("{launches:?}");
        };
        let links = order.localized.iter();
        let links = links.map(|one| format!(" {} -> {}", one.link, one.path.display()));
        let links: String = links.collect();
        format!("{}{links}", order.context.context.commands[0])
    }

    fn contexts_on_disk(&self) -> Vec<u64> {
        let stored = &self.disk.containers[&container_id(ID).name()];
        stored.contexts.keys().copied().collect()
    }
}

#[test]
fn resources_of_the_next_context_are_localized_by_the_next_agent() {
    let mut machine = CrashingNode::running();
    machine.reinitialize("second", false);
    machine.localizations.clear();
    machine.crash();
    machine.localized("second");
    assert_eq!(machine.relaunched(), SECOND);
    machine.roll_back().unwrap();
    assert_eq!(machine.relaunched(), FIRST);
}

#[test]
fn a_process_that_was_being_replaced_is_replaced_by_the_next_agent() {
    let mut machine = CrashingNode::running();
    machine.reinitialize("second", true);
    machine.localized("second");
    machine.terminated.clear();
    machine.crash();
    assert_eq!(machine.relaunched(), SECOND);
    let refusal = machine.roll_back().unwrap_err();
    assert_eq!(refusal.message, "Nothing to rollback to !!");
}

#[test]
fn a_launch_that_was_ordered_is_ordered_again_with_the_next_context() {
    let mut machine = CrashingNode::running();
    machine.reinitialize("second", false);
    machine.localized("second");
    machine.step(&Step::Exit(ID, 143));
    assert_eq!(machine.ordered(), SECOND);
    machine.crash();
    assert_eq!(machine.launched(), SECOND);
    machine.crash();
    // A failure after a re-initialization is rolled back.
    machine.step(&Step::Exit(ID, 9));
    assert_eq!(machine.launched(), FIRST);
}

#[test]
fn a_process_that_no_record_names_runs_the_next_context() {
    let mut machine = CrashingNode::running();
    machine.reinitialize("second", false);
    machine.localized("second");
    let before = machine.disk.clone();
    assert_eq!(machine.relaunched(), SECOND);
    machine.disk = before;
    machine.crash();
    assert_eq!(machine.terminated, [], "it is not replaced again");
    machine.roll_back().unwrap();
    assert_eq!(machine.relaunched(), FIRST);
}

#[test]
fn a_committed_context_is_that_of_every_launch_after_it() {
    let mut machine = CrashingNode::running();
    machine.reinitialize("second", false);
    machine.localized("second");
    assert_eq!(machine.relaunched(), SECOND);
    let commit = |core: &mut Core, id, now| core.commit_reinit(asker(), id, now);
    machine.order(commit).unwrap();
    machine.crash();
    machine.roll_back().unwrap_err();
    let restart = |core: &mut Core, id, now| core.restart_container(asker(), id, now);
    machine.order(restart).unwrap();
    machine.crash();
    assert_eq!(machine.relaunched(), SECOND);
}

#[test]
fn only_contexts_that_a_container_may_have_again_are_stored() {
    let mut machine = CrashingNode::running();
    let reinitialize = |machine: &mut CrashingNode, command, auto_commit| {
        machine.reinitialize(command, auto_commit);
        machine.localized(command);
        machine.relaunched();
    };
    reinitialize(&mut machine, "second", false);
    assert_eq!(machine.contexts_on_disk(), [1]);
    machine.crash();
    reinitialize(&mut machine, "third", false);
    assert_eq!(machine.contexts_on_disk(), [1, 2]);
    reinitialize(&mut machine, "fourth", true);
    assert_eq!(machine.contexts_on_disk(), [3]);
    machine.crash();
    machine.reinitialize("fifth", true);
    assert_eq!(machine.contexts_on_disk(), [3, 4]);
    machine.tell(WorkerEvent::LocalizationFailed {
        id: container_id(ID),
        purpose: LocalizeFor::Reinit,
        took: Duration::ZERO,
        diagnostics: String::new(),
    });
    assert_eq!(machine.contexts_on_disk(), [3]);
    machine.step(&Step::Exit(ID, 0));
    assert_eq!(machine.contexts_on_disk(), [0; 0]);
}
