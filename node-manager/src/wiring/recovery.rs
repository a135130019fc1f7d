//! The node's state store at the start: opened, read, and turned into what the parts begin with.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use container_runtime::launch::{LaunchEvent, Outlives, SharedExits};
use keeper::{ExitRecords, FoundStart, LastEnd, ProcessIdentity, StartSlots};
use localize::{KeptRecords, KeptResource, Needed, NodeDirs, UserName};
use node_core::recovery::{
    ApplicationStage, Decided, Judgement, Leftover, Pending, Recovered, Suspects, Work, decide,
    judge,
};
use node_core::{RestoredState, StoreOrder};
use records::{ApplicationId, ContainerId, ContainerName, Resource};
use sched::RecoveredStage;
use state_store::{Contents, KeySpace, StateStore};
use tokio::sync::mpsc;

use super::error::{AgentError, starting};
use crate::aux_services::{SPARK_KEY_SPACE, StoredExecutors};
use crate::clock::wall_now;
use crate::config::RecoveryConfig;
use crate::recovery::{FoundState, KEPT_FILES, KeptFiles, KeyWriter, StateWriter};
use crate::secrets::NodeSecrets;

/// The file in `yarn.nodemanager.recovery.dir`.
const STORE_FILE: &str = "state.redb";

/// State that another agent has left, and the means to leave some to the next.
pub(super) struct Recovery {
    store: StateStore,
    /// Means that the parts of the agent hold.
    pub(super) outliving: Outliving,
    decided: Decided,
    /// Work of that agent that does not go on at once.
    judgement: Judgement,
    noted: Vec<FoundStart>,
    found: FoundState,
    /// Records of the caches, and the resources that they name.
    kept_files: (Arc<KeptFiles>, Vec<KeptResource>),
}

/// Means by which containers outlive the agent, while it runs.
#[derive(Clone)]
pub(super) struct Outliving {
    /// Writer of the core's records.
    pub(super) writer: StateWriter,
    /// Records of the launcher.
    pub(super) launches: Outlives,
    /// Containers of earlier agents that go on.
    pub(super) kept: BTreeSet<ContainerName>,
}

impl Recovery {
    /// Opens the store and decides what goes on; `None`: nothing is to be recovered.
    ///
    /// # Errors
    /// The store, or the records of exit statuses, cannot be used.
    pub(super) fn open(config: &RecoveryConfig) -> Result<Option<Self>, AgentError> {
        if !config.enabled {
            return Ok(None);
        }
        let opened = StateStore::open_or_set_aside(&config.dir.join(STORE_FILE), wall_now().0);
        let (mut store, damage) = opened.map_err(AgentError::StateStore)?;
        if let Some(damage) = damage {
            let error = crate::error_chain(&damage);
            tracing::error!(
                error,
                "the node's state is damaged and set aside; its containers end"
            );
        }
        // Before the keepers' records, in which each of its processes is then.
        let (starts, noted) = StartSlots::open(&config.dir).map_err(AgentError::Starts)?;
        let mut exits = ExitRecords::read(&config.dir).map_err(starting(
            "the recovery (reading the exit statuses in yarn.nodemanager.recovery.dir)",
        ))?;
        let mut found = FoundState::take_from(&mut store);
        let mut decided = decide(std::mem::take(&mut found.containers), &noted, exits.left());
        let writer = StateWriter::new(&store);
        let judgement = judge_works(&config.dir, &decided, &mut found, &writer);
        if let Some(Work::Adoption(name)) = judgement.failed {
            decided.give_up(name);
        }
        let needed = decided.containers.iter();
        exits.delete_finished(&needed.filter_map(|container| container.process).collect());
        let kept = decided.containers.iter();
        let kept = kept.map(|recovered| recovered.spec.id.name());
        let kept = kept.collect();
        let kept_files = read_kept_files(&mut store)?;
        Ok(Some(Self {
            outliving: Outliving {
                writer,
                launches: Outlives {
                    exits: SharedExits::new(exits),
                    starts: Arc::new(starts),
                },
                kept,
            },
            kept_files,
            store,
            decided,
            judgement,
            noted,
            found,
        }))
    }

    /// Takes the records of a key space of another part.
    pub(super) fn take_space(&mut self, name: &'static str) -> (KeySpace, Contents) {
        let found = self.store.take_found(name);
        (self.store.key_space(name), found)
    }

    /// Takes the executors that registered with Spark's shuffle, those of applications that go on
    /// here.
    pub(super) fn take_executors(&mut self) -> StoredExecutors {
        let (space, found) = self.take_space(SPARK_KEY_SPACE);
        let store = (space, self.store.commits());
        StoredExecutors::new(store, found, |id| self.has_application(id))
    }

    /// Returns whether containers of an application may still run here.
    pub(super) fn has_application(&self, id: ApplicationId) -> bool {
        let application = self.found.applications.get(&id);
        application.is_some_and(|application| application.stage() != ApplicationStage::Finished)
    }

    /// Returns what must stay in the local and log directories.
    pub(super) fn needed(&self) -> Needed {
        let users = self.users_of_resources();
        let with_process = self.decided.containers.iter();
        let mut with_process = with_process.filter(|recovered| recovered.process.is_some());
        let is_of = |stages: fn(ApplicationStage) -> bool| {
            let all = self.found.applications.iter();
            let wanted = all.filter(move |(_, application)| stages(application.stage()));
            wanted.map(|(id, _)| *id).collect()
        };
        let unfinished = self.decided.containers.iter();
        let unfinished =
            unfinished.filter(|recovered| !matches!(recovered.stage, RecoveredStage::Done(_)));
        Needed {
            applications: is_of(|stage| stage != ApplicationStage::Finished),
            logs: is_of(|stage| stage == ApplicationStage::Finished),
            containers: unfinished.map(|goes| goes.spec.id.name()).collect(),
            resources: users.into_iter().flat_map(|(_, paths)| paths).collect(),
            cached: self.kept_files.1.clone(),
            // Its record may not have been written between the launch and the end of the agent.
            has_unknown_resources: with_process.any(|recovered| {
                recovered.record.resources.is_empty()
                    && !recovered.context.local_resources.is_empty()
            }),
        }
    }

    /// Returns the containers that have links to resources, with the paths of these.
    pub(super) fn users_of_resources(&self) -> Vec<(ContainerId, Vec<PathBuf>)> {
        let unfinished = self.decided.containers.iter();
        let unfinished =
            unfinished.filter(|recovered| !matches!(recovered.stage, RecoveredStage::Done(_)));
        let users = unfinished.map(|recovered| {
            let paths: Vec<PathBuf> = recovered
                .record
                .used_resources()
                .map(PathBuf::from)
                .collect();
            (recovered.spec.id, paths)
        });
        users.filter(|(_, paths)| !paths.is_empty()).collect()
    }

    /// Lets the localizer go on with the resources that were found in the caches.
    pub(super) fn restore_caches(&self, localizer: &localize::Localizer, found: Vec<KeptResource>) {
        let (files, recorded) = &self.kept_files;
        files.forget_lost(recorded, &found);
        tracing::info!(
            recorded = recorded.len(),
            found = found.len(),
            "resources in the caches"
        );
        let users = self.users_of_resources();
        localizer.remember(Arc::clone(files) as Arc<dyn KeptRecords>, found, &users);
    }

    /// Gives the keys to the table that verifies tokens, which stores those that follow.
    pub(super) fn restore_keys(&mut self, secrets: &NodeSecrets) {
        let attempts = std::mem::take(&mut self.found.attempts);
        let writer = KeyWriter::new(&self.store);
        secrets.restore(writer, self.found.keys.take(), attempts);
    }

    /// Ends processes of containers that no record names, and returns what the core begins with.
    /// In the context of the runtime.
    pub(super) fn into_core_state(
        self,
        dirs: &NodeDirs,
        launches: &mpsc::Sender<LaunchEvent>,
    ) -> RestoredState {
        let Self {
            decided,
            judgement,
            found,
            noted,
            outliving,
            ..
        } = self;
        let count = decided.leftovers.len();
        let starts = &outliving.launches.starts;
        let leftovers = end_leftovers(decided.leftovers, starts, launches);
        let goes_on = decided.containers.iter();
        let goes_on = goes_on.filter(|recovered| recovered.process.is_some());
        let goes_on = goes_on.map(|goes| goes.spec.id.to_string());
        let stays = goes_on.chain(leftovers.iter().map(|(id, _)| id.to_string()));
        let stays: BTreeSet<String> = stays.collect();
        for start in noted.iter().filter(|start| !stays.contains(&start.name)) {
            starts.forget(&start.name);
        }
        let running = decided.containers.iter();
        let running = running.filter(|recovered| recovered.process.is_some());
        tracing::info!(
            containers = decided.containers.len(),
            with_process = running.count(),
            applications = found.applications.len(),
            leftovers = count,
            "recovered what the last agent has left"
        );
        let with_dirs = |recovered: Recovered| {
            let dirs = dirs_of(dirs, &recovered);
            (recovered, dirs)
        };
        RestoredState {
            applications: found.applications.into_iter().collect(),
            containers: decided.containers.into_iter().map(with_dirs).collect(),
            used_tokens: found.used.into_iter().collect(),
            arrivals: decided.arrivals,
            leftovers,
            settled_logs: found.settled_logs,
            drain: found.drain,
            learnt_runs: found.learnt_runs,
            judgement,
        }
    }
}

/// Judges what an agent that has crashed has left, and stores it for the next start before any of
/// it goes on.
fn judge_works(
    folder: &Path,
    decided: &Decided,
    found: &mut FoundState,
    writer: &StateWriter,
) -> Judgement {
    let end = LastEnd::read(folder);
    let has_crashed = end.is_some_and(|end| end.is_crash());
    let stored = found.suspects.take();
    let record = stored.as_ref().map(Suspects::of_record).unwrap_or_default();
    let pending = Pending::of(&decided.containers, &found.applications);
    let judgement = judge(has_crashed, &record, &pending);
    if let Some(end) = end.filter(|_| has_crashed) {
        let Suspects { tried, held, .. } = &judgement.suspects;
        let (status, held) = (end.status, held.len());
        tracing::error!(status, ?tried, held, "the last agent has crashed");
    }
    let next = judgement.suspects.record();
    if stored.is_some() || next.is_some() {
        writer.write(&StoreOrder::Suspects(next.map(Box::new)));
        writer.commit_now();
    }
    if let Err(error) = LastEnd::forget(folder) {
        tracing::warn!(%error, "the end of the last agent may be taken for that of this one");
    }
    judgement
}

/// Opens the records of the caches and reads those of an earlier agent.
fn read_kept_files(
    store: &mut StateStore,
) -> Result<(Arc<KeptFiles>, Vec<KeptResource>), AgentError> {
    let boot = keeper::boot_id();
    let boot = boot.map_err(starting("the recovery (reading the kernel's boot id)"))?;
    let files = KeptFiles::new(store.key_space(KEPT_FILES), boot);
    let resources = files.read(&store.take_found(KEPT_FILES));
    Ok((Arc::new(files), resources))
}

/// Finds the folders of a container's process.
fn dirs_of(dirs: &NodeDirs, recovered: &Recovered) -> Option<localize::ContainerDirs> {
    recovered.process?;
    let id = recovered.spec.id;
    let user: UserName = recovered.token.submitter.parse().ok()?;
    let (work, log) = (&recovered.record.work_dir, &recovered.record.log_dir);
    let found = dirs.find_container_dirs(&id, &user, (work.as_ref(), log.as_ref()));
    // Started a moment before the agent's end, its folders are not recorded. Creating them finds
    // those that exist.
    found.or_else(|| {
        let made = dirs.create_container_dirs(&id, &user);
        let failed = |error: &localize::DirsError| {
            let error = crate::error_chain(error);
            tracing::error!(container = %id, error, "the folders of a container are lost");
        };
        made.inspect_err(failed).ok()
    })
}

/// Kills what nobody would ever end. Returns the containers with their sizes; each is reported once
/// its processes are gone, which the kernel may delay for long.
fn end_leftovers(
    leftovers: Vec<Leftover>,
    starts: &Arc<StartSlots>,
    launches: &mpsc::Sender<LaunchEvent>,
) -> Vec<(ContainerName, Resource)> {
    let mut by_container: BTreeMap<ContainerName, (Resource, Vec<ProcessIdentity>)> =
        BTreeMap::new();
    for Leftover { id, process, size } in leftovers {
        let (withheld, processes) = by_container.entry(id).or_default();
        *withheld = size.unwrap_or(*withheld);
        processes.push(process);
    }
    let end = |(id, (size, processes)): (ContainerName, (Resource, Vec<ProcessIdentity>))| {
        let gone = container_runtime::launch::end_leftovers(&processes);
        let (starts, launches) = (Arc::clone(starts), launches.clone());
        tokio::spawn(async move {
            gone.await;
            starts.forget(&id.to_string());
            // A core that is gone needs no room.
            let _told = launches.send(LaunchEvent::LeftoversGone(id)).await;
        });
        (id, size)
    };
    by_container.into_iter().map(end).collect()
}
