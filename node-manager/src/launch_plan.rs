//! Plans of launches, made on launch threads: folders, account, and the last look at the localized
//! resources before their container starts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use container_runtime::launch::{
    Later, LaunchPlan, Link, LocalizationCounters, MakePlan, NoPlan, Planned,
};
use launch_context::HeldContext;
use localize::{DirsError, LocalizeError, LocalizedResource, Localizer, NodeDirs};
use node_core::{LaunchOrder, ServiceMetadata};
use records::ContainerExitStatus;
use tokio::sync::oneshot;

use crate::worker_channels::LocalizationSender;

/// What a launch thread needs to make a plan.
pub(crate) struct PlanMaker {
    /// Order of the core.
    pub(crate) order: LaunchOrder,
    /// Local and log directories.
    pub(crate) dirs: NodeDirs,
    /// Data of auxiliary services for containers.
    pub(crate) services: ServiceMetadata,
    /// Localizer of the resources.
    pub(crate) localizer: Localizer,
    /// Channel for new paths of resources.
    pub(crate) results: LocalizationSender,
}

impl PlanMaker {
    /// Makes the plan. Resources that were removed from the disk since the localization are
    /// localized again first, once for each launch; without that the container would start with
    /// links that lead nowhere.
    pub(crate) fn make(self) -> Result<Planned, NoPlan> {
        self.dirs.require_enough().map_err(no_plan)?;
        let gone = self.localizer.gone(&self.order.localized);
        if gone.is_empty() {
            return self.plan();
        }
        Ok(Planned::Later(self.bring_back(gone)))
    }

    fn bring_back(self, gone: Vec<LocalizedResource>) -> Later {
        let id = self.order.spec.id;
        let paths: Vec<PathBuf> = gone.iter().map(|gone| gone.path.clone()).collect();
        let first = paths.first().map(|path| path.display());
        tracing::info!(
            container = %id,
            resources = gone.len(),
            first = first.map(tracing::field::display),
            "localized resources are gone from the disk and are localized again"
        );
        let (reply, replied) = oneshot::channel();
        let user = self.order.user.clone();
        self.localizer.bring_back(id, user, gone, move |result| {
            // The container may have been ordered to end meanwhile.
            drop(reply.send(result));
        });
        Box::pin(async move {
            let result = replied.await.unwrap_or(Err(LocalizeError::Stopping));
            let make_plan: MakePlan = Box::new(move || self.make_with(paths, result));
            make_plan
        })
    }

    /// Makes the plan with the new places of resources that were at these paths.
    fn make_with(
        mut self,
        paths: Vec<PathBuf>,
        result: Result<Vec<LocalizedResource>, LocalizeError>,
    ) -> Result<Planned, NoPlan> {
        let back = result.map_err(|error| not_localized(&error))?;
        let moved: BTreeMap<_, _> = paths.into_iter().zip(back).collect();
        for resource in &mut self.order.localized {
            if let Some(back) = moved.get(&resource.path) {
                let link = std::mem::take(&mut resource.link);
                *resource = LocalizedResource {
                    link,
                    set: resource.set,
                    ..back.clone()
                };
            }
        }
        let moved = moved.into_iter().map(|(path, back)| (path, back.path));
        self.results.moved(self.order.spec.id, moved.collect());
        self.dirs.require_enough().map_err(no_plan)?;
        self.plan()
    }

    fn plan(self) -> Result<Planned, NoPlan> {
        let LaunchOrder {
            spec,
            user,
            context,
            localized,
            localized_in,
            dirs: known_dirs,
        } = self.order;
        let id = spec.id;
        let run_as = self.dirs.account_of(&user).map_err(no_plan)?;
        let places = match known_dirs.get() {
            Some(places) => places.clone(),
            None => {
                let made = self.dirs.create_container_dirs(&id, &user);
                let made = made.map_err(no_plan)?;
                known_dirs.get_or_init(|| made).clone()
            }
        };
        // The share is returned once a launch thread has the context, if this is the last launch:
        // few threads have one at a time.
        let context = match Arc::try_unwrap(context) {
            Ok(HeldContext { context, share: _ }) => context,
            Err(held) => held.context.clone(),
        };
        let localization_counters = counters_of(&localized, localized_in);
        Ok(Planned::Ready(Box::new(LaunchPlan {
            commands: context.commands,
            environment: context.environment,
            credentials: context.credentials,
            links: localized.into_iter().map(link_to).collect(),
            service_metadata: self.services.as_ref().clone(),
            localization_counters,
            run_as,
            ..LaunchPlan::new(id, user.to_string(), places)
        })))
    }
}

/// Returns the link of a container to a resource.
pub(crate) fn link_to(resource: LocalizedResource) -> Link {
    Link {
        link: resource.link,
        target: resource.path,
    }
}

/// Returns the counters of resources whose localization took `took`.
fn counters_of(resources: &[LocalizedResource], took: Duration) -> LocalizationCounters {
    let mut counters = LocalizationCounters {
        total_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        ..LocalizationCounters::default()
    };
    for resource in resources {
        let (files, bytes) = if resource.was_cached {
            (&mut counters.files_cached, &mut counters.bytes_cached)
        } else {
            (&mut counters.files_missed, &mut counters.bytes_missed)
        };
        *files += 1;
        *bytes = bytes.saturating_add(resource.bytes);
    }
    counters
}

/// Returns the end of a container that has no folders (Hadoop: `ContainerLaunch.call`).
fn no_plan(error: DirsError) -> NoPlan {
    let status = match error {
        DirsError::DisksFailed { .. } => ContainerExitStatus::DISKS_FAILED,
        DirsError::Io { .. }
        | DirsError::NoneUsable { .. }
        | DirsError::InUse { .. }
        | DirsError::NoThread(_)
        | DirsError::User(_)
        | DirsError::NoRoom { .. } => ContainerExitStatus::LAUNCH_FAILED,
    };
    NoPlan {
        status,
        diagnostics: crate::error_chain(&error),
    }
}

/// Returns the end of a container whose resources are gone and cannot be had again: that of one
/// whose localization fails.
fn not_localized(error: &LocalizeError) -> NoPlan {
    let status = match error {
        LocalizeError::DisksFailed { .. } => ContainerExitStatus::DISKS_FAILED,
        LocalizeError::InvalidUser(_)
        | LocalizeError::NoName { .. }
        | LocalizeError::Resource { .. }
        | LocalizeError::Cancelled
        | LocalizeError::Stopping => ContainerExitStatus::INVALID,
    };
    NoPlan {
        status,
        diagnostics: error.diagnostics(),
    }
}

#[cfg(test)]
mod tests {
    use localize::SetNumber;

    use super::*;

    #[test]
    fn the_counters_distinguish_fetched_resources_from_cached_ones() {
        let resource = |bytes, was_cached| LocalizedResource {
            link: String::new(),
            path: "/r".into(),
            set: SetNumber::default(),
            bytes,
            was_cached,
        };
        let resources = [resource(5, false), resource(7, true), resource(1, true)];
        let counters = counters_of(&resources, Duration::from_millis(40));
        assert_eq!(counters.to_string(), "5,8,1,2,40");
    }
}
