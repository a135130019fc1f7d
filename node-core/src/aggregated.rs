//! Files of running containers that are in aggregated logs already, for readers of the node's list
//! of logs. Pure.
//!
//! A rolled file is deleted here once it is uploaded; its readers learn from the list where it has
//! gone. Hadoop's NodeManager reads the remote files for each list; here the outcomes of the
//! uploads are remembered, as far as [`FILES_MAX`] goes, and forgotten with the application or the
//! agent.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use node_view::snapshot::AggregatedLogs;
use records::ApplicationId;

/// Files remembered at once, of all applications. A name takes 255 bytes at most.
const FILES_MAX: usize = 20_000;

/// Uploads by application, each application's in the order of their ends.
#[derive(Debug, Default)]
pub(crate) struct Aggregated {
    by_application: BTreeMap<ApplicationId, VecDeque<Arc<AggregatedLogs>>>,
    /// Number of files in all uploads.
    files: usize,
}

impl Aggregated {
    /// Adds an upload, after which remote files with these names are gone. Forgets the oldest
    /// uploads of the application to make room, and the new one if that is not enough.
    pub(crate) fn add(&mut self, id: ApplicationId, logs: AggregatedLogs, gone: &[String]) {
        let uploads = self.by_application.entry(id).or_default();
        let is_gone = |uploads: &Arc<AggregatedLogs>| gone.contains(&uploads.name);
        let forgotten = uploads.iter().filter(|one| is_gone(one));
        self.files -= forgotten.map(|one| one.files.len()).sum::<usize>();
        uploads.retain(|one| !is_gone(one));
        while self.files + logs.files.len() > FILES_MAX {
            let Some(oldest) = uploads.pop_front() else {
                break;
            };
            self.files -= oldest.files.len();
        }
        if self.files + logs.files.len() <= FILES_MAX {
            self.files += logs.files.len();
            uploads.push_back(Arc::new(logs));
        }
        if uploads.is_empty() {
            self.by_application.remove(&id);
        }
    }

    /// Forgets the uploads of an application.
    pub(crate) fn forget(&mut self, id: &ApplicationId) {
        let uploads = self.by_application.remove(id).unwrap_or_default();
        self.files -= uploads.iter().map(|one| one.files.len()).sum::<usize>();
    }

    /// Returns the uploads of an application, the oldest first.
    #[must_use]
    pub(crate) fn of(&self, id: &ApplicationId) -> Vec<Arc<AggregatedLogs>> {
        let uploads = self.by_application.get(id);
        uploads.into_iter().flatten().map(Arc::clone).collect()
    }
}

#[cfg(test)]
mod tests {
    use node_view::snapshot::AggregatedFile;
    use records::EpochMillis;
    use test_support::ids::container;

    use super::*;

    const APP: ApplicationId = ApplicationId::new(1_700_000_000_000, 7);
    const OTHER: ApplicationId = ApplicationId::new(1_700_000_000_000, 8);

    fn logs(name: &str, files: usize) -> AggregatedLogs {
        let file = AggregatedFile {
            container: container(1).name(),
            name: "stdout".to_owned(),
            length: 3,
        };
        AggregatedLogs {
            name: name.to_owned(),
            uploaded_at: EpochMillis(1),
            files: vec![file; files],
        }
    }

    fn names(aggregated: &Aggregated, id: ApplicationId) -> Vec<String> {
        let uploads = aggregated.of(&id);
        uploads.iter().map(|one| one.name.clone()).collect()
    }

    #[test]
    fn remote_files_that_were_removed_are_forgotten_with_the_upload_that_removed_them() {
        let mut aggregated = Aggregated::default();
        aggregated.add(APP, logs("n_1", 2), &[]);
        aggregated.add(APP, logs("n_2", 3), &[]);
        aggregated.add(APP, logs("n_3", 1), &["n_1".to_owned()]);
        assert_eq!(names(&aggregated, APP), ["n_2", "n_3"]);
        assert_eq!(aggregated.files, 4);
        aggregated.forget(&APP);
        assert_eq!((names(&aggregated, APP).len(), aggregated.files), (0, 0));
    }

    #[test]
    fn the_memory_is_bounded_and_an_application_pays_with_its_own_uploads() {
        let mut aggregated = Aggregated::default();
        aggregated.add(OTHER, logs("other", 1), &[]);
        aggregated.add(APP, logs("n_1", FILES_MAX / 2), &[]);
        aggregated.add(APP, logs("n_2", FILES_MAX / 2), &[]);
        assert_eq!(names(&aggregated, APP), ["n_2"]);
        aggregated.add(APP, logs("n_3", FILES_MAX), &[]);
        assert!(names(&aggregated, APP).is_empty());
        assert_eq!(names(&aggregated, OTHER), ["other"]);
        assert_eq!((aggregated.files, aggregated.by_application.len()), (1, 1));
    }
}
