//! Claims about other launch contexts and more resources for running containers.

use super::*;

fn context(command: &str) -> LaunchContext {
    LaunchContext {
        commands: vec![command.to_owned()],
        ..LaunchContext::default()
    }
}

fn resource(link: &str) -> (String, ResourceSpec) {
    let url = ResourceUrl {
        scheme: None,
        user_info: None,
        host: None,
        port: None,
        path: "/r".to_owned(),
    };
    let spec = ResourceSpec {
        url,
        size: 0,
        timestamp_ms: 0,
        kind: ResourceKind::File,
        visibility: Visibility::Public,
    };
    (link.to_owned(), spec)
}

fn localized(link: &str) -> LocalizedResource {
    LocalizedResource {
        link: link.to_owned(),
        path: "/r".into(),
        set: SetNumber(0),
        bytes: 1,
        was_cached: false,
    }
}

/// Tells a node that container 1 has a resource, of the last set.
fn fetched(node: &mut Node, purpose: LocalizeFor, link: &str) {
    let setups = &node.core.containers[&container_id(1)].setups;
    let set = setups
        .used_sets()
        .map(|used| used.next.unwrap_or(used.last));
    let resource = LocalizedResource {
        set: set.unwrap_or_default(),
        ..localized(link)
    };
    let event = WorkerEvent::Localized {
        id: container_id(1),
        purpose,
        took: Duration::ZERO,
        resources: vec![resource],
    };
    node.core.handle(event, node.now, 0);
}

/// Returns a node where container 1 runs this command.
fn running(command: &str) -> Node {
    let mut node = Node::new();
    let mut request = request(1);
    request.context = Ok(context(command));
    node.core.start(asker(), request, node.now);
    node.launched(1);
    node.core.take_effects();
    node
}

/// Ends the process that a restart ends, and returns the launch after it.
fn relaunched(node: &mut Node) -> LaunchOrder {
    assert_eq!(node.work(), [Work::Terminate(container_id(1))]);
    node.exit(1, 143);
    let order = launch_order(node);
    node.launched(1);
    order
}

fn commands(order: &LaunchOrder) -> &[String] {
    &order.context.context.commands
}

fn request_of(context: LaunchContext, auto_commit: bool) -> ReinitRequest {
    ReinitRequest {
        context,
        auto_commit,
        record: None,
    }
}

#[test]
fn a_restarted_container_is_launched_with_its_context_and_folders() {
    let mut node = running("first");
    let id = container_id(1);
    node.core.restart_container(asker(), id, node.now).unwrap();
    let order = relaunched(&mut node);
    assert_eq!(commands(&order), ["first"]);
    let dirs = &node.core.containers[&id].dirs;
    assert!(Arc::ptr_eq(&order.dirs, dirs));
    let refusal = node.core.commit_reinit(asker(), id, node.now).unwrap_err();
    assert_eq!(refusal.message, "Nothing to Commit !!");
}

#[test]
fn a_reinitialization_can_be_rolled_back_until_it_is_committed() {
    let id = container_id(1);
    let mut node = running("first");
    let reinit = |node: &mut Node| {
        node.core
            .reinitialize(asker(), id, request_of(context("second"), false), node.now)
            .unwrap();
        assert_eq!(commands(&relaunched(node)), ["second"]);
    };
    reinit(&mut node);
    node.core.roll_back_reinit(asker(), id, node.now).unwrap();
    assert_eq!(commands(&relaunched(&mut node)), ["first"]);
    let refusal = node.core.roll_back_reinit(asker(), id, node.now);
    assert_eq!(refusal.unwrap_err().message, "Nothing to rollback to !!");
    reinit(&mut node);
    node.core.commit_reinit(asker(), id, node.now).unwrap();
    let refusal = node.core.roll_back_reinit(asker(), id, node.now);
    assert_eq!(refusal.unwrap_err().message, "Nothing to rollback to !!");
}

#[test]
fn a_failure_after_a_reinitialization_rolls_back_and_a_second_one_ends_the_container() {
    let id = container_id(1);
    let mut node = running("first");
    node.core
        .reinitialize(asker(), id, request_of(context("second"), false), node.now)
        .unwrap();
    relaunched(&mut node);
    node.exit(1, 9);
    assert_eq!(commands(&launch_order(&mut node)), ["first"]);
    node.launched(1);
    let text = node.diagnostics(1);
    assert!(
        text.contains("Container Re-init Auto Rolled-Back."),
        "{text}"
    );
    node.exit(1, 9);
    assert_eq!(node.work(), [Work::CleanUp(id)]);
}

#[test]
fn the_process_runs_on_until_the_next_context_has_its_resources() {
    let id = container_id(1);
    let mut node = running("first");
    let mut next = context("second");
    next.resources = vec![resource("b")];
    node.core
        .reinitialize(asker(), id, request_of(next.clone(), true), node.now)
        .unwrap();
    assert_eq!(node.work(), [Work::Localize(id)]);
    let refusal = node.core.restart_container(asker(), id, node.now);
    assert_eq!(
        refusal.unwrap_err().message,
        format!(
            "Cannot perform RE_INIT on [{id}]. Current state is [REINITIALIZING, \
             isReInitializing=true]. Container Execution Type is [GUARANTEED]."
        )
    );
    let failed = WorkerEvent::LocalizationFailed {
        id,
        purpose: LocalizeFor::Reinit,
        took: Duration::ZERO,
        diagnostics: "no such file".to_owned(),
    };
    node.core.handle(failed, node.now, 0);
    assert_eq!(node.work(), []);
    let text = node.diagnostics(1);
    assert!(text.contains("no such file") && text.contains("Container aborting re-init"));
    node.core
        .reinitialize(asker(), id, request_of(next, true), node.now)
        .unwrap();
    node.work();
    fetched(&mut node, LocalizeFor::Reinit, "b");
    let order = relaunched(&mut node);
    assert_eq!(commands(&order), ["second"]);
    // The number of the set that failed is not used again.
    let of_second = LocalizedResource {
        set: SetNumber(2),
        ..localized("b")
    };
    assert_eq!(order.localized, [of_second]);
}

#[test]
fn more_resources_are_linked_while_the_container_runs_and_after_a_restart() {
    let id = container_id(1);
    let mut node = running("first");
    let made = node.core.containers[&id].dirs.set(some_dirs());
    made.expect("the launch has made none");
    let resources = vec![resource("a")];
    node.core
        .localize_more(asker(), id, resources.clone())
        .unwrap();
    assert_eq!(node.work(), [Work::Localize(id)]);
    fetched(&mut node, LocalizeFor::Running, "a");
    let effects = node.core.take_effects();
    let [Effect::Link(order)] = &effects[..] else {
        panic!("{effects:?}");
    };
    assert_eq!(order.resources, [localized("a")]);
    node.core.restart_container(asker(), id, node.now).unwrap();
    assert_eq!(relaunched(&mut node).localized, [localized("a")]);
    for _ in 1..CONTEXT_LIMITS.resources_max {
        node.core
            .localize_more(asker(), id, resources.clone())
            .unwrap();
    }
    let refusal = node.core.localize_more(asker(), id, resources).unwrap_err();
    assert!(refusal.message.contains("101 more resources"), "{refusal}");
}

/// Tells a node that a resource of an earlier set has come for container 1, at this path.
fn late(node: &mut Node, set: u64, link: &str, path: &str) -> Vec<LocalizedResource> {
    let resource = LocalizedResource {
        path: path.into(),
        set: SetNumber(set),
        ..localized(link)
    };
    let event = WorkerEvent::Localized {
        id: container_id(1),
        purpose: LocalizeFor::Running,
        took: Duration::ZERO,
        resources: vec![resource],
    };
    node.core.handle(event, node.now, 0);
    let linked = |effect| {
        if let Effect::Link(order) = effect {
            return order.resources;
        }
        Vec::new()
    };
    let effects = node.core.take_effects().into_iter();
    effects.flat_map(linked).collect()
}

#[test]
fn resources_that_come_after_a_re_initialization_do_not_replace_those_of_its_set() {
    let id = container_id(1);
    let mut node = running("first");
    let made = node.core.containers[&id].dirs.set(some_dirs());
    made.expect("the launch has made none");
    let asked = vec![resource("a"), resource("b")];
    node.core.localize_more(asker(), id, asked).unwrap();
    node.core.take_effects();
    let (set, _) = reinit_with(&mut node, "a", true);
    assert_eq!(set, 1);
    assert_eq!(late(&mut node, 0, "a", "/released"), []);
    assert_eq!(late(&mut node, 0, "b", "/kept").len(), 1);
    // A resource of the set in force takes the place of an earlier one.
    assert_eq!(late(&mut node, 1, "a", "/newer").len(), 1);
    let paths = |resources: &[LocalizedResource]| -> Vec<String> {
        let path = |resource: &LocalizedResource| resource.path.display().to_string();
        resources.iter().map(path).collect()
    };
    let setups = &node.core.containers[&id].setups;
    assert_eq!(paths(setups.localized()), ["/newer", "/kept"]);
}

#[test]
fn resources_that_come_late_replace_those_of_sets_before_their_own() {
    let id = container_id(1);
    let mut node = running("first");
    let made = node.core.containers[&id].dirs.set(some_dirs());
    made.expect("the launch has made none");
    reinit_with(&mut node, "a", true);
    // Asked for in set 1, and there when set 2 is in force, which has "a" of set 1.
    reinit_with(&mut node, "b", true);
    assert_eq!(late(&mut node, 0, "a", "/released"), []);
    assert_eq!(late(&mut node, 1, "a", "/newer").len(), 1);
    node.core.restart_container(asker(), id, node.now).unwrap();
    let localized = relaunched(&mut node).localized;
    let paths: Vec<_> = localized
        .iter()
        .map(|it| (it.link.as_str(), it.path.to_str()))
        .collect();
    assert_eq!(paths, [("a", Some("/newer")), ("b", Some("/r"))]);
}

#[test]
fn resources_that_come_during_a_restart_are_there_at_the_next_launch() {
    let id = container_id(1);
    let mut node = running("first");
    let made = node.core.containers[&id].dirs.set(some_dirs());
    made.expect("the launch has made none");
    let asked = vec![resource("a")];
    node.core.localize_more(asker(), id, asked).unwrap();
    node.core.restart_container(asker(), id, node.now).unwrap();
    late(&mut node, 0, "a", "/r");
    node.exit(1, 143);
    assert_eq!(launch_order(&mut node).localized, [localized("a")]);
}

#[test]
fn a_setup_before_gets_no_resources_of_a_later_set() {
    let id = container_id(1);
    let mut node = running("first");
    let made = node.core.containers[&id].dirs.set(some_dirs());
    made.expect("the launch has made none");
    let (set, _) = reinit_with(&mut node, "a", false);
    late(&mut node, set, "b", "/r");
    node.core.roll_back_reinit(asker(), id, node.now).unwrap();
    assert_eq!(relaunched(&mut node).localized, []);
}

#[test]
fn resources_that_come_after_the_containers_end_get_no_links() {
    let id = container_id(1);
    let mut node = running("first");
    let made = node.core.containers[&id].dirs.set(some_dirs());
    made.expect("the launch has made none");
    let asked = node.core.localize_more(asker(), id, vec![resource("a")]);
    asked.unwrap();
    node.exit(1, 0);
    node.core.take_effects();
    fetched(&mut node, LocalizeFor::Running, "a");
    let effects = node.core.take_effects();
    assert!(effects.is_empty(), "{effects:?}");
    assert_eq!(node.core.containers[&id].setups.localized(), []);
}

#[test]
fn a_container_killed_during_its_restart_holds_no_context() {
    let id = container_id(1);
    let mut node = running("first");
    node.core.restart_container(asker(), id, node.now).unwrap();
    node.core.stop_container(asker(), id, node.now).unwrap();
    node.exit(1, 143);
    let setups = &node.core.containers[&id].setups;
    assert!(!setups.has_context() && !setups.is_changing() && !setups.can_roll_back());
}

/// Re-initializes container 1 with a resource for this link, up to the launch after it. Returns the
/// set that the resource is of, and what the localizer is told of sets.
fn reinit_with(node: &mut Node, link: &str, auto_commit: bool) -> (u64, Vec<UsedSets>) {
    let id = container_id(1);
    let mut next = context("next");
    next.resources = vec![resource(link)];
    node.core
        .reinitialize(asker(), id, request_of(next, auto_commit), node.now)
        .unwrap();
    let effects = node.core.take_effects();
    let set_of = |effect: &Effect| {
        if let Effect::Localize { set, .. } = effect {
            return Some(set.0);
        }
        None
    };
    let set = effects.iter().find_map(set_of);
    fetched(node, LocalizeFor::Reinit, link);
    (set.unwrap(), restart(node))
}

/// Ends the process that a restart ends, and starts the next. Returns what the localizer is told of
/// sets meanwhile.
fn restart(node: &mut Node) -> Vec<UsedSets> {
    let mut told = used_sets(node);
    node.exit(1, 143);
    told.append(&mut used_sets(node));
    node.launched(1);
    told
}

fn used_sets(node: &mut Node) -> Vec<UsedSets> {
    let effects = node.core.take_effects().into_iter();
    let sets_of = |effect| {
        if let Effect::UseSets { sets, .. } = effect {
            return Some(sets);
        }
        None
    };
    effects.filter_map(sets_of).collect()
}

fn sets(last: u64, back_to: Option<u64>) -> UsedSets {
    UsedSets {
        last: SetNumber(last),
        back_to: back_to.map(SetNumber),
        next: None,
    }
}

#[test]
fn the_localizer_is_told_which_sets_of_resources_a_container_has() {
    let id = container_id(1);
    let mut node = running("first");
    let told = reinit_with(&mut node, "a", true);
    assert_eq!(told, (1, vec![sets(1, None)]));
    let told = reinit_with(&mut node, "a", false);
    assert_eq!(told, (2, vec![sets(2, Some(1))]));
    node.core.commit_reinit(asker(), id, node.now).unwrap();
    assert_eq!(used_sets(&mut node), [sets(2, None)]);
    let told = reinit_with(&mut node, "b", false);
    assert_eq!(told, (3, vec![sets(3, Some(2))]));
    node.core.roll_back_reinit(asker(), id, node.now).unwrap();
    assert_eq!(restart(&mut node), [sets(2, None)]);

    let mut next = context("next");
    next.resources = vec![resource("c")];
    node.core
        .reinitialize(asker(), id, request_of(next, true), node.now)
        .unwrap();
    node.core.take_effects();
    let failed = WorkerEvent::LocalizationFailed {
        id,
        purpose: LocalizeFor::Reinit,
        took: Duration::ZERO,
        diagnostics: String::new(),
    };
    node.core.handle(failed, node.now, 0);
    // The number of the failed set is not used again.
    assert_eq!(used_sets(&mut node), [sets(2, None)]);
    assert_eq!(reinit_with(&mut node, "a", true), (5, vec![sets(5, None)]));

    let checked = node.core.localization_sets(asker(), vec![id], node.now);
    assert_eq!(checked[0].as_ref().unwrap(), &(id, SetNumber(5)));
}

#[test]
fn a_rollback_keeps_the_resources_of_a_reinitialization_that_is_under_way() {
    let id = container_id(1);
    let mut node = running("first");
    assert_eq!(reinit_with(&mut node, "a", false).0, 1);
    let mut next = context("third");
    next.resources = vec![resource("b")];
    node.core
        .reinitialize(asker(), id, request_of(next, true), node.now)
        .unwrap();
    node.core.take_effects();
    node.exit(1, 9);
    let rolled_back = UsedSets {
        next: Some(SetNumber(2)),
        ..sets(0, None)
    };
    assert_eq!(used_sets(&mut node), [rolled_back]);
    node.launched(1);
    fetched(&mut node, LocalizeFor::Reinit, "b");
    assert_eq!(restart(&mut node), [sets(2, None)]);
}

#[test]
fn links_of_all_launch_contexts_together_are_bounded() {
    let mut node = running("first");
    let max = CONTEXT_LIMITS.resources_max;
    for number in 0..max {
        reinit_with(&mut node, &number.to_string(), true);
    }
    let mut next = context("next");
    next.resources = vec![resource("one more")];
    let refusal = node
        .core
        .reinitialize(asker(), container_id(1), request_of(next, true), node.now)
        .unwrap_err();
    assert!(refusal.message.contains("101 resources"), "{refusal}");
    // A link that it has takes no further place.
    reinit_with(&mut node, "0", true);
}

#[test]
fn a_resource_that_has_moved_is_found_by_the_next_launch() {
    let mut node = running("one");
    let id = container_id(1);
    node.core
        .localize_more(asker(), id, vec![resource("a")])
        .unwrap();
    node.core.take_effects();
    fetched(&mut node, LocalizeFor::Running, "a");
    node.core.take_effects();
    let paths = [("/r".into(), "/moved".into()), ("/x".into(), "/y".into())];
    let paths = paths.into_iter().collect();
    node.core
        .handle(WorkerEvent::Moved { id, paths }, node.now, 0);
    node.core.restart_container(asker(), id, node.now).unwrap();
    let order = relaunched(&mut node);
    let found: Vec<_> = order.localized.iter().map(|it| it.path.clone()).collect();
    assert_eq!(found, [std::path::PathBuf::from("/moved")]);
}
