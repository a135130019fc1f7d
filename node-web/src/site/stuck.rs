//! Parts of the agent that make no progress, as `/health` shows them. Knows no part.

use std::fmt;
use std::sync::Arc;

/// Reader of what makes no progress in the agent: a sentence for each part, none if all do. Must
/// not wait.
#[derive(Clone)]
pub struct StuckParts(Arc<dyn Fn() -> Vec<String> + Send + Sync>);

impl StuckParts {
    /// Makes a reader of a function.
    #[must_use]
    pub fn new(read: impl Fn() -> Vec<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    pub(super) fn read(&self) -> Vec<String> {
        (self.0)()
    }
}

impl fmt::Debug for StuckParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StuckParts").finish_non_exhaustive()
    }
}
