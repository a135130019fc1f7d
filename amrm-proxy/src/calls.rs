//! Position of an AM in its sequence of `allocate` calls.
//!
//! The ResourceManager answers a repeated call as before and ignores any new content, so an
//! interceptor that adds or counts something needs to know which calls are repetitions.

/// Position of the AM in its sequence of calls, by response ids.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calls {
    answered: Option<i32>,
    unanswered: Option<i32>,
    /// Whether the current call repeats the last answered one.
    pub(crate) is_repeat: bool,
}

impl Calls {
    /// Begins an `allocate`. Returns whether the ResourceManager may have seen the same call
    /// before.
    pub(crate) fn begin(&mut self, id: i32) -> bool {
        self.is_repeat = self.answered == Some(id);
        let is_retry = self.unanswered == Some(id);
        self.unanswered = Some(id);
        is_retry
    }

    /// Notes that the current call was answered.
    pub(crate) fn complete(&mut self) {
        self.answered = self.unanswered.take();
    }
}
