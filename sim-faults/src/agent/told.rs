//! What the workers of an agent have been told that answer nothing, and what must be true of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use localize::{LocalizedResource, SetNumber, UsedSets};
use node_core::{Core, LaunchOrder, LogOrder, Observed, WorkerEvent};
use node_view::snapshot::{ApplicationState, NodeSnapshot};
use records::{ApplicationId, ContainerId, Resource};
use sched::{ContainerQueuingLimit, ContainerSpec};

use crate::finding::{Checked, Finding};

/// Knowledge of the workers of one agent.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Sizes and types of containers, for the launcher, the cgroups and the monitor.
    sizes: BTreeMap<ContainerId, ContainerSpec>,
    pub(super) node_resource: Option<Resource>,
    pub(super) queuing_limit: Option<ContainerQueuingLimit>,
    /// Resources that the localizer holds for containers, by set and link; true: it is there.
    resources: BTreeMap<ContainerId, BTreeMap<(SetNumber, String), bool>>,
    /// Applications that auxiliary services know.
    served: BTreeSet<ApplicationId>,
    /// Containers that auxiliary services know.
    served_containers: BTreeSet<ContainerId>,
    /// Applications whose logs are aggregated; true: the last upload is under way.
    logs: BTreeMap<ApplicationId, bool>,
    /// Applications that are over, and whose pipelines are not.
    ending: BTreeSet<ApplicationId>,
    /// Applications whose tokens file systems may get.
    with_tokens: BTreeSet<ApplicationId>,
    /// Containers whose completion was recorded.
    completed: BTreeSet<ContainerId>,
}

/// Returns the localized resource of this set and link, whose path tells both.
pub(super) fn localized(id: ContainerId, set: SetNumber, link: String) -> LocalizedResource {
    LocalizedResource {
        path: PathBuf::from(format!("/cache/{id}/{}/{link}", set.0)),
        link,
        set,
        bytes: 1,
        was_cached: false,
    }
}

/// Reads the set in the path of a localized resource.
fn set_of(path: &std::path::Path) -> Option<SetNumber> {
    let set = path.parent()?.file_name()?.to_str()?;
    Some(SetNumber(set.parse().ok()?))
}

fn of_node(node: usize, what: String) -> Finding {
    Finding {
        what: format!("node {node}: {what}"),
        containers: Vec::new(),
        node: Some(node),
    }
}

impl Told {
    pub(super) fn size(&mut self, spec: ContainerSpec) {
        self.sizes.insert(spec.id, spec);
    }

    pub(super) fn localize(
        &mut self,
        id: ContainerId,
        set: SetNumber,
        links: impl Iterator<Item = String>,
    ) {
        let held = self.resources.entry(id).or_default();
        for link in links {
            held.entry((set, link)).or_insert(false);
        }
    }

    /// Takes what has become of resources that were localized for a container.
    pub(super) fn worked(&mut self, event: &WorkerEvent) {
        if let WorkerEvent::Localized { id, resources, .. } = event
            && let Some(held) = self.resources.get_mut(id)
        {
            for resource in resources {
                if let Some(is_there) = held.get_mut(&(resource.set, resource.link.clone())) {
                    *is_there = true;
                }
            }
        }
    }

    /// Takes over the resources of an earlier agent's container, by their paths.
    pub(super) fn recover<'a>(&mut self, id: ContainerId, paths: impl Iterator<Item = &'a String>) {
        for path in paths.map(std::path::Path::new) {
            let link = path.file_name().and_then(|link| link.to_str());
            let (set, link) = set_of(path)
                .zip(link)
                .expect("paths are made by `localized`");
            let held = self.resources.entry(id).or_default();
            held.insert((set, link.to_owned()), true);
        }
    }

    /// Releases what the container has replaced and cannot go back to, as `localize` does.
    pub(super) fn use_sets(&mut self, id: ContainerId, used: UsedSets) {
        let settled = used.back_to.unwrap_or(used.last);
        let Some(held) = self.resources.get_mut(&id) else {
            return;
        };
        let mut later = BTreeSet::new();
        let kept = std::mem::take(held).into_iter().rev();
        let kept = kept.filter(|((set, link), is_there)| {
            let is_replaced = *set < settled && later.contains(link) && *is_there;
            if *set <= settled && *is_there {
                later.insert(link.clone());
            }
            if *set > used.last {
                return Some(*set) == used.next;
            }
            !is_replaced
        });
        *held = kept.collect();
    }

    pub(super) fn release(&mut self, id: ContainerId) {
        self.resources.remove(&id);
    }

    /// Resources that a process gets links to are still held.
    pub(super) fn link(&self, id: ContainerId, resources: &[LocalizedResource]) -> Checked {
        let held = self.resources.get(&id);
        let is_held = |resource: &LocalizedResource| {
            let set = set_of(&resource.path);
            let entry = set.map(|set| (set, resource.link.clone()));
            entry.is_some_and(|entry| held.is_some_and(|held| held.contains_key(&entry)))
        };
        match resources.iter().find(|resource| !is_held(resource)) {
            Some(resource) => {
                let path = resource.path.display();
                Err(Finding::of(id, format!("gets {path}, which was released")))
            }
            None => Ok(()),
        }
    }

    pub(super) fn launch(&mut self, order: &LaunchOrder) -> Checked {
        self.size(order.spec);
        self.link(order.spec.id, &order.localized)
    }

    /// A container whose folders are deleted holds no resources.
    pub(super) fn clean_up(&mut self, id: ContainerId) -> Checked {
        self.sizes.remove(&id);
        if self.resources.contains_key(&id) {
            return Err(Finding::of(id, "is cleaned up after, and holds resources"));
        }
        Ok(())
    }

    pub(super) fn tokens(&mut self, id: ApplicationId) {
        self.with_tokens.insert(id);
    }

    pub(super) fn forget_tokens(&mut self, id: ApplicationId) {
        self.with_tokens.remove(&id);
    }

    /// Resources are read from file systems by the application's tokens.
    pub(super) fn needs_tokens(&self, id: ContainerId) -> Checked {
        if self.with_tokens.contains(&id.application_id()) {
            Ok(())
        } else {
            Err(Finding::of(id, "is localized without its tokens"))
        }
    }

    pub(super) fn initialize(&mut self, id: ApplicationId) {
        self.served.insert(id);
    }

    /// Services learn of the beginning of a container once.
    pub(super) fn begin_for_services(&mut self, id: ContainerId) -> Checked {
        match self.served_containers.insert(id) {
            true => Ok(()),
            false => Err(Finding::of(id, "begins twice for services")),
        }
    }

    /// Services learn of the end of a container that they know, once.
    pub(super) fn end_for_services(&mut self, id: ContainerId) -> Checked {
        match self.served_containers.remove(&id) {
            true => Ok(()),
            false => Err(Finding::of(id, "ends for services that do not know it")),
        }
    }

    /// An application whose folders are deleted has no process, and services know none of its
    /// containers.
    pub(super) fn finish(&mut self, id: ApplicationId, running: Option<ContainerId>) -> Checked {
        self.served.remove(&id);
        self.ending.insert(id);
        if let Some(running) = running {
            return Err(Finding::of(running, "runs, and its application is over"));
        }
        let mut served = self.served_containers.iter();
        match served.find(|container| container.application_id() == id) {
            Some(served) => Err(Finding::of(*served, "has not ended for services")),
            None => Ok(()),
        }
    }

    pub(super) fn end_pipelines(&mut self, id: ApplicationId) {
        self.ending.remove(&id);
    }

    /// Takes an order about logs. Returns whether a last upload begins.
    pub(super) fn logs(&mut self, node: usize, order: &LogOrder) -> Result<bool, Finding> {
        match order {
            LogOrder::Begin(application) => {
                let id = application.id;
                if self.logs.insert(id, false).is_some() {
                    return Err(of_node(node, format!("aggregates the logs of {id} twice")));
                }
                Ok(false)
            }
            LogOrder::Finish(id) => {
                let last = self.logs.get_mut(id);
                Ok(last.is_some_and(|is_last| !std::mem::replace(is_last, true)))
            }
            LogOrder::ContainerStarted(..) | LogOrder::ContainerEnded(_) => Ok(false),
        }
    }

    pub(super) fn uploaded(&mut self, id: ApplicationId) {
        self.logs.remove(&id);
    }

    /// Whether the last upload of an application is under way.
    pub(super) fn is_uploading(&self, id: ApplicationId) -> bool {
        self.logs.get(&id) == Some(&true)
    }

    /// Logs are not deleted before their last upload is over.
    pub(super) fn delete_logs(&self, node: usize, id: ApplicationId) -> Checked {
        if self.logs.contains_key(&id) {
            return Err(of_node(
                node,
                format!("deletes logs of {id} that it aggregates"),
            ));
        }
        if self.with_tokens.contains(&id) {
            return Err(of_node(
                node,
                format!("keeps tokens of {id}, which is over"),
            ));
        }
        Ok(())
    }

    /// A container is recorded as completed once.
    pub(super) fn observed(&mut self, observed: &Observed) -> Checked {
        if let Observed::Completed { completion, .. } = observed
            && !self.completed.insert(completion.id)
        {
            return Err(Finding::of(completion.id, "completes twice"));
        }
        Ok(())
    }

    /// Checks that the core holds what was published.
    pub(super) fn compare(&self, node: usize, core: &Core) -> Checked {
        let snapshot: NodeSnapshot = core.snapshot();
        let mut known = BTreeSet::new();
        for container in &snapshot.containers {
            let held = (container.resource, container.execution_type);
            let told = self.sizes.get(&container.id);
            let told = told.map(|spec| (spec.resource, spec.execution_type));
            // Nobody limits a process any more that is being ended.
            let told = told.filter(|_| container.state.has_limits());
            if let Some(told) = told.filter(|told| *told != held) {
                let what = format!("is of {held:?}, and workers were told {told:?}");
                return Err(Finding::of(container.id, what));
            }
            known.insert(container.id);
        }
        if let Some(id) = self.resources.keys().find(|id| !known.contains(id)) {
            return Err(Finding::of(*id, "is forgotten, and holds resources"));
        }
        let total = snapshot.numbers.total;
        if let Some(told) = self.node_resource.filter(|told| *told != total) {
            let what = format!("has {total}, and workers were told {told}");
            return Err(of_node(node, what));
        }
        let limit = snapshot.numbers.queuing_limit;
        if self.queuing_limit != limit {
            let told = self.queuing_limit;
            let what = format!("limits its queue to {limit:?}, and the proxy was told {told:?}");
            return Err(of_node(node, what));
        }
        let is_over = |id: &&ApplicationId| {
            let known = snapshot.applications.iter().find(|known| known.id == **id);
            known.is_none_or(|known| matches!(known.state, ApplicationState::Finished))
        };
        if let Some(id) = self.served.iter().find(is_over) {
            return Err(of_node(node, format!("serves {id}, which is over")));
        }
        if let Some(id) = self.ending.first() {
            return Err(of_node(node, format!("goes on with the pipelines of {id}")));
        }
        Ok(())
    }
}
