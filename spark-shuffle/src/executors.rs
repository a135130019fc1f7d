//! Applications of this node and the executors that registered: the table that connections look
//! up.
//!
//! An executor registers once in its life, so what it said is stored for the next agent before it
//! gets its answer.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use thiserror::Error;

use crate::cursor::{Cursor, put_bytes, put_count};
use crate::files::{ApplicationFolder, below};
use crate::message::{ExecutorName, Registration};

/// Executors of one application at most.
const EXECUTORS_MAX: usize = 20_000;

/// Local directories of an executor at most.
const DIRS_MAX: usize = 64;

/// Sub-folders of a local directory at most (`spark.diskStore.subDirectories`; 64).
const SUB_DIRS_MAX: usize = 4_096;

/// Bytes of all registrations at most; half of them for one user.
const REGISTRATIONS_BYTES_MAX: usize = 100 << 20;

/// Bytes of an executor beside its texts: its entry in the table and the counts of its `Arc`.
const EXECUTOR_OVERHEAD_BYTES: usize = 192;

/// Version of the form of a stored executor.
const RECORD_VERSION: u8 = 1;

/// Secret of an application, with which its clients prove who they are.
#[derive(Clone, PartialEq, Eq)]
pub struct ApplicationSecret(pub Vec<u8>);

impl fmt::Debug for ApplicationSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApplicationSecret(…)")
    }
}

/// Data that an application's containers bring.
#[derive(Clone, Debug)]
pub struct Application {
    /// User whose application it is.
    pub user: Arc<str>,
    /// Secret; `None` where clients prove nothing.
    pub secret: Option<ApplicationSecret>,
    /// Whether executors are stored for the next agent.
    pub is_recovered: bool,
    /// Folders of the application, one on each local directory.
    pub folders: Vec<ApplicationFolder>,
}

/// Receiver of a registration's end: called once it is stored, or could not be.
pub type Settled = Box<dyn FnOnce() + Send>;

/// Records of executors for the next agent. No call waits.
pub trait ExecutorStore: Send + Sync {
    /// Stores an executor's record, in place of an earlier one.
    fn put(&self, application: &str, executor: &str, record: Vec<u8>, settled: Settled);

    /// Removes the records of an application.
    fn remove(&self, application: &str);
}

/// An executor that registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Executor {
    /// Local directories in the executor's order, which decides where files are.
    pub(crate) dirs: Box<[Box<str>]>,
    pub(crate) sub_dirs: usize,
}

/// Registration that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotRegistered {
    #[error("java.lang.SecurityException: the application has no containers here")]
    Application,
    #[error("java.lang.IllegalArgumentException: 1 to {DIRS_MAX} local directories are expected")]
    Dirs,
    #[error("java.lang.IllegalArgumentException: 1 to {SUB_DIRS_MAX} sub-folders are expected")]
    SubDirs,
    #[error(
        "java.lang.SecurityException: a local directory is not below the application's folders"
    )]
    Place,
    #[error("java.lang.IllegalStateException: too many executors are registered")]
    Full,
}

/// An executor of an application and where its files may be.
pub(crate) struct Place {
    pub(crate) executor: Arc<Executor>,
    pub(crate) folders: Arc<[ApplicationFolder]>,
}

/// Executor that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoExecutor {
    /// The application has not brought its data since the agent was started again: it will.
    NotYet,
    Unknown,
}

/// Applications by id. Shared: the node writes, connections read.
pub struct Applications {
    table: RwLock<Table>,
    store: Option<Box<dyn ExecutorStore>>,
}

#[derive(Default)]
struct Table {
    by_id: HashMap<Box<str>, Known>,
    bytes: usize,
    bytes_by_user: HashMap<Arc<str>, usize>,
    executors: usize,
}

/// An application that containers brought, or of which an earlier agent stored executors.
#[derive(Default)]
struct Known {
    /// `None`: only its stored executors are known yet.
    brought: Option<Brought>,
    executors: BTreeMap<Box<str>, Arc<Executor>>,
    bytes: usize,
}

#[derive(Clone)]
struct Brought {
    user: Arc<str>,
    secret: Option<ApplicationSecret>,
    is_recovered: bool,
    folders: Arc<[ApplicationFolder]>,
}

impl Applications {
    /// Returns a table without applications, whose executors are stored; `None`: they are not.
    #[must_use]
    pub fn new(store: Option<Box<dyn ExecutorStore>>) -> Self {
        Self {
            table: RwLock::default(),
            store,
        }
    }

    /// Takes what a container of an application brings. Repeated for each; the last counts, since a
    /// new attempt has another secret.
    pub fn initialize(&self, id: &str, application: Application) {
        let mut table = self.write();
        let known = table.by_id.entry(id.into()).or_default();
        let bytes = known.bytes;
        let brought = Brought {
            user: application.user,
            secret: application.secret,
            is_recovered: application.is_recovered,
            folders: application.folders.into(),
        };
        let user = Arc::clone(&brought.user);
        let earlier = known.brought.replace(brought);
        if earlier.is_none_or(|it| it.user != user) {
            *table.bytes_by_user.entry(user).or_default() += bytes;
        }
    }

    /// Forgets an application, its secret and its executors. Without effect for an unknown one.
    pub fn stop(&self, id: &str) {
        let mut table = self.write();
        if let Some(known) = table.by_id.remove(id) {
            table.bytes -= known.bytes;
            table.executors -= known.executors.len();
            if let Some(brought) = known.brought {
                table.give_back(&brought.user, known.bytes);
            }
        }
        // Under the lock, so that no registration's record comes after it.
        if let Some(store) = &self.store {
            store.remove(id);
        }
    }

    /// Takes a record of an earlier agent. Its executor is served once its application's containers
    /// are known. Returns whether the record could be read.
    pub fn restore(&self, application: &str, executor: &str, record: &[u8]) -> bool {
        let Some(found) = Executor::decode(record) else {
            return false;
        };
        self.write().add(application, executor, found);
        true
    }

    /// Returns the number of executors.
    #[must_use]
    pub fn executors(&self) -> usize {
        self.read().executors
    }

    /// Registers an executor, in place of an earlier one of its id. `settled` is called once it is
    /// stored.
    pub(crate) fn register(
        &self,
        name: ExecutorName<'_>,
        registration: Registration<'_>,
        settled: Settled,
    ) -> Result<(), NotRegistered> {
        let mut table = self.write();
        let known = table.by_id.get(name.application);
        let brought = known.and_then(|known| known.brought.clone());
        let brought = brought.ok_or(NotRegistered::Application)?;
        let executor = Executor::check(registration, &brought.folders)?;
        let record = executor.encode();
        table.make_room(name, &executor, &brought.user)?;
        table.add(name.application, name.executor, executor);
        match &self.store {
            Some(store) if brought.is_recovered => {
                store.put(name.application, name.executor, record, settled);
            }
            Some(_) | None => settled(),
        }
        Ok(())
    }

    /// Returns an executor and where its files may be.
    pub(crate) fn find(&self, name: ExecutorName<'_>) -> Result<Place, NoExecutor> {
        let table = self.read();
        let known = table.by_id.get(name.application);
        let known = known.ok_or(NoExecutor::Unknown)?;
        let brought = known.brought.as_ref().ok_or(NoExecutor::NotYet)?;
        let executor = known.executors.get(name.executor);
        Ok(Place {
            executor: Arc::clone(executor.ok_or(NoExecutor::Unknown)?),
            folders: Arc::clone(&brought.folders),
        })
    }

    /// Returns the user of an application that has containers here.
    pub(crate) fn user(&self, application: &str) -> Option<Arc<str>> {
        let table = self.read();
        let brought = table.by_id.get(application)?.brought.as_ref()?;
        Some(Arc::clone(&brought.user))
    }

    /// Returns the secret of an application.
    pub(crate) fn secret(&self, application: &str) -> Result<ApplicationSecret, NoExecutor> {
        let table = self.read();
        let known = table.by_id.get(application).ok_or(NoExecutor::Unknown)?;
        let brought = known.brought.as_ref().ok_or(NoExecutor::NotYet)?;
        // With an empty one anybody could prove anything.
        let secret = brought.secret.clone().filter(|it| !it.0.is_empty());
        secret.ok_or(NoExecutor::Unknown)
    }

    // No code that may panic runs under the lock, so the table is whole even if it is poisoned.
    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Checks that one more executor fits, or this one in place of an earlier one.
    fn make_room(
        &self,
        name: ExecutorName<'_>,
        executor: &Executor,
        user: &Arc<str>,
    ) -> Result<(), NotRegistered> {
        let known = self.by_id.get(name.application);
        let earlier = known.and_then(|known| known.executors.get(name.executor));
        if earlier.is_none() && known.is_some_and(|it| it.executors.len() >= EXECUTORS_MAX) {
            return Err(NotRegistered::Full);
        }
        let freed = earlier.map_or(0, |earlier| earlier.bytes(name.executor));
        let more = executor.bytes(name.executor);
        let own = self.bytes_by_user.get(user).copied().unwrap_or(0);
        let fits = |taken: usize, max: usize| (taken + more).saturating_sub(freed) <= max;
        let fit =
            fits(self.bytes, REGISTRATIONS_BYTES_MAX) && fits(own, REGISTRATIONS_BYTES_MAX / 2);
        fit.then_some(()).ok_or(NotRegistered::Full)
    }

    fn add(&mut self, application: &str, id: &str, executor: Executor) {
        let more = executor.bytes(id);
        let known = self.by_id.entry(application.into()).or_default();
        let earlier = known.executors.insert(id.into(), Arc::new(executor));
        let freed = earlier.as_ref().map_or(0, |earlier| earlier.bytes(id));
        known.bytes = known.bytes + more - freed;
        self.bytes = self.bytes + more - freed;
        self.executors += usize::from(earlier.is_none());
        if let Some(brought) = &known.brought {
            let own = self.bytes_by_user.entry(Arc::clone(&brought.user));
            let own = own.or_default();
            *own = *own + more - freed;
        }
    }

    fn give_back(&mut self, user: &Arc<str>, bytes: usize) {
        if let Some(own) = self.bytes_by_user.get_mut(user) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                self.bytes_by_user.remove(user);
            }
        }
    }
}

impl Executor {
    fn check(
        registration: Registration<'_>,
        folders: &[ApplicationFolder],
    ) -> Result<Self, NotRegistered> {
        let count = registration.dirs.len();
        if !(1..=DIRS_MAX).contains(&count) {
            return Err(NotRegistered::Dirs);
        }
        let sub_dirs = usize::try_from(registration.sub_dirs);
        let sub_dirs = sub_dirs.map_err(|_| NotRegistered::SubDirs)?;
        if !(1..=SUB_DIRS_MAX).contains(&sub_dirs) {
            return Err(NotRegistered::SubDirs);
        }
        let is_below = |dir| folders.iter().any(|it| below(&it.path, dir).is_some());
        if !registration.dirs.into_iter().all(is_below) {
            return Err(NotRegistered::Place);
        }
        Ok(Self {
            dirs: registration.dirs.map(Box::from).collect(),
            sub_dirs,
        })
    }

    /// Returns the bytes that an executor of this id takes.
    fn bytes(&self, id: &str) -> usize {
        let dirs = self
            .dirs
            .iter()
            .map(|dir| dir.len() + size_of::<Box<str>>());
        dirs.sum::<usize>() + id.len() + EXECUTOR_OVERHEAD_BYTES
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![RECORD_VERSION];
        put_count(&mut bytes, self.sub_dirs);
        put_count(&mut bytes, self.dirs.len());
        for dir in &self.dirs {
            put_bytes(&mut bytes, dir.as_bytes());
        }
        bytes
    }

    fn decode(record: &[u8]) -> Option<Self> {
        let mut fields = Cursor::new(record);
        if fields.u8().ok()? != RECORD_VERSION {
            return None;
        }
        let sub_dirs = usize::try_from(fields.i32().ok()?).ok()?;
        let dirs = fields.texts(usize::MAX).ok()?;
        let is_valid = (1..=SUB_DIRS_MAX).contains(&sub_dirs)
            && (1..=DIRS_MAX).contains(&dirs.len())
            && fields.rest().is_empty();
        is_valid.then(|| Self {
            dirs: dirs.map(Box::from).collect(),
            sub_dirs,
        })
    }
}

impl fmt::Debug for Applications {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Applications")
            .field("executors", &self.executors())
            .finish_non_exhaustive()
    }
}
