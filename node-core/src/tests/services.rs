//! Claims about what auxiliary services learn of containers.

use std::collections::BTreeMap;

use launch_context::ServiceData;

use super::*;

/// Notice to services, reduced to what tests compare.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Begins(i64),
    Ends(i64),
    Data(ApplicationId),
    ApplicationEnds(ApplicationId),
}

fn told(effects: Vec<Effect>) -> Vec<Told> {
    let of = |effect| {
        if let Effect::ContainerInitialized(served) = effect {
            Some(Told::Begins(served.spec.id.id))
        } else if let Effect::ContainerStopped(served) = effect {
            Some(Told::Ends(served.spec.id.id))
        } else if let Effect::InitializeApplication { id, .. } = effect {
            Some(Told::Data(id))
        } else if let Effect::FinishApplication { id, .. } = effect {
            Some(Told::ApplicationEnds(id))
        } else {
            None
        }
    };
    effects.into_iter().filter_map(of).collect()
}

#[test]
fn a_container_begins_before_its_data_and_ends_before_its_application() {
    let mut node = Node::new();
    let mut request = request(1);
    let name = "spark_shuffle".to_owned();
    let published = BTreeMap::from([(name.clone(), Vec::new())]);
    node.core.config.service_metadata = Arc::new(published);
    let context = request.context.as_mut().unwrap();
    let data = ServiceData(b"secret".to_vec());
    context.service_data.insert(name, data);
    let outcome = node.core.start(asker(), request, node.now);
    assert!(matches!(outcome, StartOutcome::Started), "{outcome:?}");
    assert_eq!(
        told(node.core.take_effects()),
        [Told::Begins(1), Told::Data(APP)]
    );
    node.launched(1);
    assert_eq!(told(node.core.take_effects()), []);
    node.exit(1, 0);
    node.finish_application();
    let ended = [Told::Ends(1), Told::ApplicationEnds(APP)];
    assert_eq!(told(node.core.take_effects()), ended);
}

#[test]
fn a_container_that_never_leaves_new_neither_begins_nor_ends() {
    let mut node = Node::new();
    node.run(1);
    node.exit(1, 0);
    node.finish_application();
    node.core.take_effects();
    assert!(matches!(node.start(2), StartOutcome::Started));
    assert_eq!(told(node.core.take_effects()), [Told::ApplicationEnds(APP)]);
}
