//! Records of the localized resources that stay in the caches over a restart of the agent.
//!
//! A record holds for one boot of the machine: neither it nor the file waits for the disk, so after
//! a failure of the machine the record may be there and the file's content not.

use std::collections::BTreeSet;
use std::path::PathBuf;

use localize::{KeptRecords, KeptResource, ResourceKind, ResourceUrl, Seal, Visibility};
use node_core::recovery::{RecordError, decode, encode};
use prost::Message;
use state_store::{Contents, KeySpace};
use thiserror::Error;

/// Key space of the records. The keys are [`KeptResource::key`]'s.
pub const KEPT_FILES: &str = "localization";

/// A localized resource. Its URL may hold a password.
#[derive(Clone, PartialEq, Eq, Message)]
struct FileRecord {
    /// Boot of the machine in which the record was written.
    #[prost(string, tag = "1")]
    boot: String,
    #[prost(enumeration = "Share", tag = "2")]
    share: i32,
    /// User whose containers share it; absent: public.
    #[prost(string, optional, tag = "3")]
    user: Option<String>,
    /// Application whose containers share it, if only they do.
    #[prost(string, optional, tag = "4")]
    application: Option<String>,
    #[prost(string, optional, tag = "5")]
    scheme: Option<String>,
    #[prost(string, optional, tag = "6")]
    user_info: Option<String>,
    #[prost(string, optional, tag = "7")]
    host: Option<String>,
    #[prost(uint32, optional, tag = "8")]
    port: Option<u32>,
    /// Path of the source.
    #[prost(string, tag = "9")]
    path: String,
    /// Modification time of the source, milliseconds since the epoch.
    #[prost(sint64, tag = "10")]
    timestamp_ms: i64,
    #[prost(enumeration = "Treatment", tag = "11")]
    treatment: i32,
    /// Regular expression of the entries to unpack.
    #[prost(string, optional, tag = "12")]
    pattern: Option<String>,
    #[prost(string, tag = "13")]
    local_dir: String,
    #[prost(uint64, optional, tag = "14")]
    shard: Option<u64>,
    #[prost(uint64, tag = "15")]
    id: u64,
    /// Name of the file or folder.
    #[prost(string, tag = "16")]
    name: String,
    #[prost(uint64, tag = "17")]
    bytes: u64,
    #[prost(bool, tag = "18")]
    is_folder: bool,
    #[prost(uint64, tag = "19")]
    inode: u64,
    #[prost(uint64, tag = "20")]
    length: u64,
    /// Time of the last change, nanoseconds since the epoch.
    #[prost(sint64, tag = "21")]
    changed_ns: i64,
}

/// Containers that share a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
enum Share {
    Public = 0,
    Private = 1,
    Application = 2,
}

/// Treatment of a resource after the download.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
enum Treatment {
    File = 0,
    Archive = 1,
    Pattern = 2,
}

/// Reason for which a resource's record counts for nothing.
#[derive(Debug, Error)]
enum Unusable {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("it was written before the machine was started")]
    OtherBoot,
    #[error("it names no resource of a cache")]
    NoResource,
}

/// Records of the localized resources in the state store.
#[derive(Debug)]
pub struct KeptFiles {
    space: KeySpace,
    boot: String,
}

impl KeptFiles {
    /// Writes to a key space, for this boot of the machine.
    #[must_use]
    pub fn new(space: KeySpace, boot: String) -> Self {
        Self { space, boot }
    }

    /// Reads the records that an earlier agent has left, and removes those that count for nothing.
    #[must_use]
    pub fn read(&self, found: &Contents) -> Vec<KeptResource> {
        let mut resources = Vec::with_capacity(found.len());
        let mut unusable = 0_usize;
        for (key, value) in found {
            match read(value, key, &self.boot) {
                Ok(resource) => resources.push(resource),
                Err(error) => {
                    tracing::debug!(key, %error, "a record of the cache is left out");
                    self.space.remove(key);
                    unusable += 1;
                }
            }
        }
        if unusable > 0 {
            tracing::info!(unusable, "cached resources are fetched again");
        }
        resources
    }

    /// Removes the records of resources that are no longer what they were.
    pub fn forget_lost(&self, recorded: &[KeptResource], found: &[KeptResource]) {
        let found: BTreeSet<String> = found.iter().filter_map(KeptResource::key).collect();
        let recorded = recorded.iter().filter_map(KeptResource::key);
        for key in recorded.filter(|key| !found.contains(key)) {
            self.space.remove(&key);
        }
    }
}

impl KeptRecords for KeptFiles {
    fn keep(&self, key: &str, resource: &KeptResource) {
        if let Some(record) = record_of(resource, &self.boot) {
            self.space.put(key, encode(&record));
        }
    }

    fn forget(&self, key: &str) {
        self.space.remove(key);
    }

    fn forget_all(&self, prefix: &str) {
        self.space.clear(prefix);
    }
}

/// Returns the record of a resource; `None`: its path is no text.
fn record_of(resource: &KeptResource, boot: &str) -> Option<FileRecord> {
    let share = match resource.visibility {
        Visibility::Public => Share::Public,
        Visibility::Private => Share::Private,
        Visibility::Application => Share::Application,
    };
    let (treatment, pattern) = match &resource.kind {
        ResourceKind::File => (Treatment::File, None),
        ResourceKind::Archive => (Treatment::Archive, None),
        ResourceKind::Pattern(pattern) => (Treatment::Pattern, pattern.clone()),
    };
    let KeptResource { url, seal, .. } = resource;
    Some(FileRecord {
        boot: boot.to_owned(),
        share: share.into(),
        user: resource.user.as_ref().map(ToString::to_string),
        application: resource.application.map(|id| id.to_string()),
        scheme: url.scheme.clone(),
        user_info: url.user_info.clone(),
        host: url.host.clone(),
        port: url.port.map(u32::from),
        path: url.path.clone(),
        timestamp_ms: resource.timestamp_ms,
        treatment: treatment.into(),
        pattern,
        local_dir: resource.local_dir.to_str()?.to_owned(),
        shard: resource.shard,
        id: resource.id,
        name: resource.name.clone(),
        bytes: resource.bytes,
        is_folder: seal.is_folder,
        inode: seal.inode,
        length: seal.length,
        changed_ns: seal.changed_ns,
    })
}

fn read(value: &[u8], key: &str, boot: &str) -> Result<KeptResource, Unusable> {
    let record: FileRecord = decode(value)?;
    if record.boot != boot {
        return Err(Unusable::OtherBoot);
    }
    let resource = resource_of(record).ok_or(Unusable::NoResource)?;
    if resource.key().as_deref() == Some(key) {
        Ok(resource)
    } else {
        Err(Unusable::NoResource)
    }
}

fn resource_of(record: FileRecord) -> Option<KeptResource> {
    let visibility = match Share::try_from(record.share).ok()? {
        Share::Public => Visibility::Public,
        Share::Private => Visibility::Private,
        Share::Application => Visibility::Application,
    };
    let kind = match Treatment::try_from(record.treatment).ok()? {
        Treatment::File => ResourceKind::File,
        Treatment::Archive => ResourceKind::Archive,
        Treatment::Pattern => ResourceKind::Pattern(record.pattern),
    };
    let user = record.user.map(|user| user.parse()).transpose().ok()?;
    let application = record.application.map(|id| id.parse()).transpose().ok()?;
    Some(KeptResource {
        visibility,
        user,
        application,
        url: ResourceUrl {
            scheme: record.scheme,
            user_info: record.user_info,
            host: record.host,
            port: record.port.map(u16::try_from).transpose().ok()?,
            path: record.path,
        },
        timestamp_ms: record.timestamp_ms,
        kind,
        local_dir: PathBuf::from(record.local_dir),
        shard: record.shard,
        id: record.id,
        name: record.name,
        bytes: record.bytes,
        seal: Seal {
            is_folder: record.is_folder,
            inode: record.inode,
            length: record.length,
            changed_ns: record.changed_ns,
        },
    })
}

#[cfg(test)]
mod tests {
    use state_store::StateStore;
    use test_support::ids;

    use super::*;

    fn resource(id: u64) -> KeptResource {
        KeptResource {
            visibility: Visibility::Application,
            user: Some("joe".parse().unwrap()),
            application: Some(ids::application(7)),
            url: ResourceUrl {
                scheme: Some("hdfs".to_owned()),
                user_info: Some("joe:secret".to_owned()),
                host: Some("nn".to_owned()),
                port: Some(8020),
                path: "/jobs/job.jar".to_owned(),
            },
            timestamp_ms: -5,
            kind: ResourceKind::Pattern(Some("classes/.*".to_owned())),
            local_dir: PathBuf::from("/l0"),
            shard: None,
            id,
            name: "job.jar".to_owned(),
            bytes: 3,
            seal: Seal {
                is_folder: true,
                inode: 1,
                length: 4096,
                changed_ns: -9,
            },
        }
    }

    fn public(id: u64) -> KeptResource {
        KeptResource {
            visibility: Visibility::Public,
            user: None,
            application: None,
            shard: Some(0),
            kind: ResourceKind::File,
            ..resource(id)
        }
    }

    fn keep(files: &KeptFiles, resource: &KeptResource) {
        files.keep(&resource.key().unwrap(), resource);
    }

    /// Opens the store of the folder, lets `work` write, and returns what the next agent reads.
    fn read_after(folder: &tempfile::TempDir, boot: &str, work: impl Fn(&KeptFiles)) -> Vec<u64> {
        let path = folder.path().join("state.redb");
        {
            let store = StateStore::open(&path).unwrap();
            work(&KeptFiles::new(
                store.key_space(KEPT_FILES),
                "first".to_owned(),
            ));
        }
        let mut store = StateStore::open(&path).unwrap();
        let found = store.take_found(KEPT_FILES);
        let files = KeptFiles::new(store.key_space(KEPT_FILES), boot.to_owned());
        let resources = files.read(&found);
        for kept in &resources {
            let is_public = kept.visibility == Visibility::Public;
            let written = if is_public {
                public(kept.id)
            } else {
                resource(kept.id)
            };
            assert_eq!(*kept, written);
        }
        resources.iter().map(|resource| resource.id).collect()
    }

    #[test]
    fn resources_are_read_as_they_were_kept_and_only_in_the_same_boot() {
        let folder = tempfile::tempdir().unwrap();
        let keep_two = |files: &KeptFiles| {
            keep(files, &resource(10));
            keep(files, &public(11));
        };
        assert_eq!(read_after(&folder, "first", keep_two), [10, 11]);
        assert_eq!(read_after(&folder, "second", |_| {}), [0; 0]);
        // They were removed with that.
        assert_eq!(read_after(&folder, "first", |_| {}), [0; 0]);
    }

    #[test]
    fn what_left_the_cache_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let work = |files: &KeptFiles| {
            for kept in [
                resource(10),
                resource(12),
                public(11),
                public(13),
                public(14),
            ] {
                keep(files, &kept);
            }
            files.forget(&public(11).key().unwrap());
            files.forget_all(&format!("{}/", ids::application(7)));
            files.forget_lost(&[public(13), public(14)], &[public(14)]);
        };
        assert_eq!(read_after(&folder, "first", work), [14]);
    }

    #[test]
    fn a_record_under_the_key_of_another_or_of_no_form_counts_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let work = |files: &KeptFiles| {
            files.keep("public/l0/filecache/99", &public(11));
            files.space.put(&public(12).key().unwrap(), vec![9, 9]);
            keep(files, &public(13));
        };
        assert_eq!(read_after(&folder, "first", work), [13]);
    }
}
