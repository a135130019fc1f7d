//! Limits on launch contexts: of each, and of all together that the node keeps.
//!
//! A context waits from `startContainers` until a launch thread has read it, which for a queued
//! container may be hours. Those of guaranteed containers, and of others with a retry policy, are
//! kept until the container ends, because it may be launched again. A user may hold as many bytes
//! as nobody holds: half of the budget alone, a third each as two, and the next user always finds
//! some free. In: a user and a context. Out: the context with its share of the
//! budget, which its drop returns, or the refusal for the AM.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use access_control::AccessList;
use localize::{ResourceKind, ResourceSpec, UserName};
use sched::RetryOn;
use thiserror::Error;
use wire::exception::{HadoopException, RemoteException};
use wire::token::Token;

use crate::LaunchContext;

/// Bytes that a text costs beside its own: a `String` of 24 bytes, and the allocator's overhead.
const TEXT_OVERHEAD_BYTES: usize = 40;

/// Limits on launch contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextLimits {
    /// Local resources of one context (`yarn.nodemanager.agent.launch-context.max-resources`).
    pub resources_max: usize,
    /// Memory of one context, in bytes (`yarn.nodemanager.agent.launch-context.max-bytes`).
    pub bytes_max: u64,
    /// Memory of all waiting contexts, in bytes
    /// (`yarn.nodemanager.agent.launch-context.node-max-mb`).
    pub node_bytes_max: u64,
}

/// Refusal of a launch context.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ContextRefused {
    /// The context names too many local resources.
    #[error(
        "the launch context has {resources} local resources, at most {max} are allowed \
         (yarn.nodemanager.agent.launch-context.max-resources)"
    )]
    TooManyResources {
        /// Resources that the context names.
        resources: usize,
        /// Limit that the node is configured with.
        max: usize,
    },
    /// The context is too large.
    #[error(
        "the launch context takes {bytes} bytes, at most {max} are allowed \
         (yarn.nodemanager.agent.launch-context.max-bytes)"
    )]
    TooLarge {
        /// Memory that the context takes, in bytes.
        bytes: u64,
        /// Limit that the node is configured with.
        max: u64,
    },
    /// The user's share of the budget is used up.
    #[error(
        "the launch contexts of user {user} on this node take {held} bytes, and {free} \
         are free: {bytes} more would exceed the user's share \
         (yarn.nodemanager.agent.launch-context.node-max-mb); try again later"
    )]
    ShareUsedUp {
        /// User whose share is used up.
        user: UserName,
        /// Memory that the refused context takes, in bytes.
        bytes: u64,
        /// Bytes that the user's other contexts hold.
        held: u64,
        /// Bytes that nobody holds.
        free: u64,
    },
}

impl From<ContextRefused> for RemoteException {
    fn from(refusal: ContextRefused) -> Self {
        let class = match refusal {
            ContextRefused::TooManyResources { .. } | ContextRefused::TooLarge { .. } => {
                HadoopException::YarnException
            }
            // The class that an AM may answer with another try.
            ContextRefused::ShareUsedUp { .. } => HadoopException::NmNotYetReady,
        };
        Self::new(class, refusal.to_string())
    }
}

/// Bytes that waiting contexts hold, in total and by user.
#[derive(Debug)]
struct Book {
    limits: ContextLimits,
    total: u64,
    /// Users that hold something.
    by_user: BTreeMap<UserName, u64>,
}

/// Budget of all launch contexts that the node keeps.
#[derive(Debug)]
pub struct ContextBudget {
    book: Mutex<Book>,
}

/// A launch context with its share of the budget.
#[derive(Debug)]
pub struct HeldContext {
    /// Commands, environment, resources and credentials.
    pub context: LaunchContext,
    /// Share of the budget, to be dropped with the last of the context.
    pub share: ContextShare,
}

/// List of who may see an application, with its share of the budget.
#[derive(Debug)]
pub struct HeldList {
    /// Users and groups.
    pub list: AccessList,
    _share: ContextShare,
}

/// Bytes taken from a budget, which its drop returns.
#[derive(Debug)]
pub struct ContextShare {
    budget: Arc<ContextBudget>,
    user: UserName,
    bytes: u64,
}

impl ContextBudget {
    /// Returns a budget of which nothing is taken.
    #[must_use]
    pub fn new(limits: ContextLimits) -> Arc<Self> {
        let book = Mutex::new(Book {
            limits,
            total: 0,
            by_user: BTreeMap::new(),
        });
        Arc::new(Self { book })
    }

    /// Takes new limits in place of the old ones. What is held already stays, also above a limit.
    pub fn set_limits(&self, limits: ContextLimits) {
        self.book().limits = limits;
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a context's bytes from the budget.
    ///
    /// # Errors
    /// [`ContextRefused`] when the context exceeds a limit, or its user's share.
    pub fn hold(
        self: &Arc<Self>,
        user: &UserName,
        context: LaunchContext,
    ) -> Result<HeldContext, ContextRefused> {
        let ContextLimits {
            resources_max,
            bytes_max,
            node_bytes_max: _,
        } = self.book().limits;
        let resources = context.resources.len();
        if resources > resources_max {
            let max = resources_max;
            return Err(ContextRefused::TooManyResources { resources, max });
        }
        let bytes = memory_bytes(&context);
        if bytes > bytes_max {
            let max = bytes_max;
            return Err(ContextRefused::TooLarge { bytes, max });
        }
        let share = self.take(user, bytes)?;
        Ok(HeldContext { context, share })
    }

    /// Keeps a list of who may see an application, which outlives the context that it came with.
    ///
    /// # Errors
    /// [`ContextRefused::ShareUsedUp`].
    pub fn hold_list(
        self: &Arc<Self>,
        user: &UserName,
        list: &str,
    ) -> Result<HeldList, ContextRefused> {
        let bytes = (list.len() + TEXT_OVERHEAD_BYTES + size_of::<HeldList>()) as u64;
        let share = self.take(user, bytes)?;
        Ok(HeldList {
            list: AccessList::new(list),
            _share: share,
        })
    }

    fn take(self: &Arc<Self>, user: &UserName, bytes: u64) -> Result<ContextShare, ContextRefused> {
        let mut book = self.book();
        let held = book.by_user.get(user).copied().unwrap_or(0);
        let free = book.limits.node_bytes_max.saturating_sub(book.total);
        if (held + bytes).saturating_add(bytes) > free {
            let user = user.clone();
            return Err(ContextRefused::ShareUsedUp {
                user,
                bytes,
                held,
                free,
            });
        }
        book.total += bytes;
        book.by_user.insert(user.clone(), held + bytes);
        Ok(ContextShare {
            budget: Arc::clone(self),
            user: user.clone(),
            bytes,
        })
    }
}

impl Drop for ContextShare {
    fn drop(&mut self) {
        let mut book = self.budget.book();
        book.total -= self.bytes;
        if let Entry::Occupied(mut held) = book.by_user.entry(self.user.clone()) {
            *held.get_mut() -= self.bytes;
            if *held.get() == 0 {
                held.remove();
            }
        }
    }
}

/// Returns the memory that a context takes, in bytes. Never 0.
fn memory_bytes(context: &LaunchContext) -> u64 {
    let text = |text: &String| text.len() + TEXT_OVERHEAD_BYTES;
    let commands: usize = context.commands.iter().map(text).sum();
    let services = context.service_data.iter();
    let services: usize = services
        .map(|(name, data)| text(name) + data.0.len() + TEXT_OVERHEAD_BYTES)
        .sum();
    let acls = context.acls.iter().map(|(_, list)| text(list));
    let environment = context.environment.iter();
    let environment: usize = environment
        .map(|(name, value)| text(name) + text(value))
        .sum();
    let codes = match &context.retry.on {
        RetryOn::ErrorCodes(codes) => codes.len() * size_of::<i32>() * 2,
        RetryOn::Never | RetryOn::AllErrors => 0,
    };
    let resources = context.resources.iter();
    let resources: usize = resources
        .map(|(link, resource)| text(link) + resource_bytes(resource))
        .sum();
    let tokens = context.file_system_tokens.iter();
    let tokens: usize = tokens
        .map(|token| {
            let bytes = token.identifier.len() + token.password.len();
            size_of::<Token>() + bytes + token.kind.len() + token.service.len()
        })
        .sum();
    let total = size_of::<HeldContext>()
        + commands
        + services
        + acls.sum::<usize>()
        + environment
        + resources
        + codes
        + tokens
        + context.credentials.len();
    total as u64
}

fn resource_bytes(resource: &ResourceSpec) -> usize {
    let url = &resource.url;
    let pattern = match &resource.kind {
        ResourceKind::Pattern(pattern) => pattern.as_ref(),
        ResourceKind::File | ResourceKind::Archive => None,
    };
    let texts = [
        url.scheme.as_ref(),
        url.user_info.as_ref(),
        url.host.as_ref(),
        Some(&url.path),
        pattern,
    ];
    let texts = texts.into_iter().flatten().map(String::len);
    size_of::<ResourceSpec>() + texts.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use log_aggregation::aggregated_log::AccessType;

    use super::*;

    /// Returns a context of this size, if the size is not too small for one.
    fn context(bytes: usize) -> LaunchContext {
        let mut context = LaunchContext::default();
        let own = usize::try_from(memory_bytes(&context)).unwrap();
        context.credentials = vec![0; bytes - own];
        context
    }

    #[test]
    fn a_kept_list_counts_until_it_is_dropped() {
        let budget = ContextBudget::new(ContextLimits {
            resources_max: 1,
            bytes_max: 10_000,
            node_bytes_max: 10_000,
        });
        let alice = "alice".parse().unwrap();
        let held = budget.hold_list(&alice, &"x".repeat(4000)).unwrap();
        assert!(budget.hold_list(&alice, &"x".repeat(4000)).is_err());
        assert!(budget.hold_list(&"bob".parse().unwrap(), "carol").is_ok());
        drop(held);
        assert!(budget.hold_list(&alice, &"x".repeat(4000)).is_ok());
    }

    #[test]
    fn access_control_lists_count() {
        let mut context = LaunchContext::default();
        let before = memory_bytes(&context);
        context.acls = vec![(AccessType::ViewApp, "x".repeat(1000))];
        assert!(memory_bytes(&context) >= before + 1000);
    }

    fn budget(bytes_max: u64, node_bytes_max: u64) -> Arc<ContextBudget> {
        ContextBudget::new(ContextLimits {
            resources_max: 2,
            bytes_max,
            node_bytes_max,
        })
    }

    /// Holds contexts of 1,000 bytes until one is refused.
    fn fill(budget: &Arc<ContextBudget>, user: &str) -> Vec<HeldContext> {
        let user = user.parse().unwrap();
        let held = std::iter::from_fn(|| budget.hold(&user, context(1_000)).ok());
        held.collect()
    }

    #[test]
    fn a_user_never_holds_more_than_is_free_and_the_next_one_always_finds_some() {
        let budget = budget(1_000, 64_000);
        let first = fill(&budget, "alice");
        assert_eq!(first.len(), 32);
        assert_eq!(fill(&budget, "bob").len(), 16, "of the other half");
        let kept = fill(&budget, "bob");
        assert_eq!(kept.len(), 16, "what was dropped is free again");
        assert_eq!(fill(&budget, "carol").len(), 8);
        drop((first, kept));
        let Book { total, by_user, .. } = &*budget.book();
        assert_eq!((*total, by_user.len()), (0, 0));
    }

    #[test]
    fn new_limits_are_for_what_comes_after_them() {
        let budget = budget(1_000, 64_000);
        let user = "alice".parse().unwrap();
        let held = budget.hold(&user, context(1_000)).unwrap();
        budget.set_limits(ContextLimits {
            resources_max: 2,
            bytes_max: 900,
            node_bytes_max: 800,
        });
        let refusal = budget.hold(&user, context(1_000)).unwrap_err();
        let (bytes, max) = (1_000, 900);
        assert_eq!(refusal, ContextRefused::TooLarge { bytes, max });
        assert!(
            budget.hold(&user, context(850)).is_err(),
            "more is held than the node allows"
        );
        drop(held);
        assert!(budget.hold(&user, context(400)).is_ok());
    }

    #[test]
    fn a_context_over_a_limit_is_refused_whatever_is_free() {
        let budget = budget(1_000, 1 << 30);
        let user = "alice".parse().unwrap();
        let refusal = budget.hold(&user, context(1_001)).unwrap_err();
        let (bytes, max) = (1_001, 1_000);
        assert_eq!(refusal, ContextRefused::TooLarge { bytes, max });
        let exception = RemoteException::from(refusal);
        assert!(exception.is(HadoopException::YarnException), "{exception}");
        let path = "/x".to_owned();
        let url = localize::ResourceUrl {
            scheme: None,
            user_info: None,
            host: None,
            port: None,
            path,
        };
        let spec = ResourceSpec {
            url,
            size: 0,
            timestamp_ms: 0,
            kind: ResourceKind::File,
            visibility: localize::Visibility::Private,
        };
        let resources = vec![("x".to_owned(), spec); 3];
        let many = LaunchContext {
            resources,
            ..LaunchContext::default()
        };
        let refusal = budget.hold(&user, many).unwrap_err();
        let (resources, max) = (3, 2);
        assert_eq!(refusal, ContextRefused::TooManyResources { resources, max });
    }
}
