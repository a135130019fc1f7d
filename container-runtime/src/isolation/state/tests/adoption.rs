//! Containers of an earlier agent that has ended between an order and its effect.

use super::super::action::Adopted;
use super::*;

/// An adoption of a container that has cgroups in these classes and is not to be frozen.
fn adopted(spec: ContainerSpec, is_in_class: bool, is_in_other: bool) -> Event {
    Event::Adopted(Adopted {
        spec,
        is_in_class,
        is_in_other,
        is_frozen: false,
    })
}

#[test]
fn limits_that_were_not_written_and_freezes_that_nobody_wants_are_mended() {
    let mut world = World::new();
    let id = container_id();
    world.kernel.launch(&rules(), &spec(id, GUARANTEED, 100));
    let group = group(GUARANTEED, id);
    world.kernel.groups.get_mut(&group).unwrap().frozen = true;
    world.kernel.forget(group);
    let spec = spec(id, GUARANTEED, 300);
    world.handle(adopted(spec, true, false));
    world.run_all();
    let files = &world.kernel.groups[&group];
    assert_eq!(files.limits, rules().container(&spec));
    assert!(!files.frozen);
    assert_eq!(world.state.groups(id).current, Some(group));
    assert!(world.answers.is_empty(), "nobody has asked");
}

#[test]
fn a_change_of_class_that_was_not_begun_or_not_ended_is_carried_on() {
    for is_begun in [false, true] {
        let mut world = World::new();
        let id = container_id();
        world.kernel.launch(&rules(), &spec(id, OPPORTUNISTIC, 100));
        let promoted = spec(id, GUARANTEED, 100);
        if is_begun {
            world.kernel.launch(&rules(), &promoted);
        }
        let (from, to) = (group(OPPORTUNISTIC, id), group(GUARANTEED, id));
        world.kernel.forget(from);
        world.kernel.forget(to);
        world.handle(adopted(promoted, is_begun, true));
        world.run_all();
        assert_eq!(world.kernel.groups[&from].processes, 0);
        assert_eq!(
            world.kernel.groups[&to].processes,
            1 + usize::from(is_begun)
        );
        assert_eq!(
            world.kernel.groups[&to].limits,
            rules().container(&promoted)
        );
        let groups = world.state.groups(id);
        assert_eq!((groups.former, groups.current), (Some(from), Some(to)));
    }
}

#[test]
fn a_frozen_container_stays_frozen_until_it_is_resumed() {
    let mut world = World::new();
    let id = container_id();
    let spec = spec(id, OPPORTUNISTIC, 100);
    world.kernel.launch(&rules(), &spec);
    let group = group(OPPORTUNISTIC, id);
    world.kernel.groups.get_mut(&group).unwrap().frozen = true;
    world.kernel.forget(group);
    world.handle(Event::Adopted(Adopted {
        spec,
        is_in_class: true,
        is_in_other: false,
        is_frozen: true,
    }));
    assert!(world.kernel.groups[&group].frozen);
    world.handle(Event::Pause(id));
    world.kernel.stop(id);
    world.advance(Duration::from_millis(1));
    assert!(matches!(world.answers[..], [IsolationEvent::Paused { .. }]));
    world.handle(Event::Resume(id));
    world.run_all();
    assert!(!world.kernel.groups[&group].frozen);
}
