//! Response ids of an attempt's calls, as its AM counts them and as the ResourceManager does.
//!
//! Both sides continue from the id in the last answer. A ResourceManager that has registered an
//! attempt anew begins at 0, while the AM, unaware of that, continues. From then on the two ids
//! differ by a constant. Ids wrap from 2^31 - 1 to 0. The translation is one-to-one, so an
//! unexpected id stays unexpected.
//!
//! Source: `ApplicationMasterService.allocate`, `AMRMClientUtils.getNextResponseId`.

use std::borrow::Cow;

use records::ApplicationAttemptId;
use wire::exception::{HadoopException, RemoteException};

/// Texts in Hadoop's exception for an unexpected id, before the expected and the received id. The
/// AM's library parses the expected id out of the text.
const EXPECTED: &str = "expect responseId to be ";
const RECEIVED: &str = "but get ";

/// Returns the id after this one (Hadoop: `getNextResponseId`).
const fn next(id: i32) -> i32 {
    id.wrapping_add(1) & i32::MAX
}

/// Adds `by` to an id, with wrap-around. A negative id, which is never valid, stays negative.
const fn shift(id: i32, by: i32) -> i32 {
    (id.wrapping_add(by) & i32::MAX) | (id & i32::MIN)
}

/// Position of a received id relative to the last answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdOrder {
    /// The expected id: the AM has the last answer. Also assumed for every id directly after a
    /// restart of the agent, when the last answer is not known.
    Next,
    /// The id before: the AM has not received the last answer and repeats its call.
    Repeat,
    /// Any other id, which no correct AM sends.
    Unexpected {
        /// Id that would have been correct.
        expected: i32,
    },
}

/// Translation between the AM's and the ResourceManager's response ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ResponseIds {
    /// Id of the AM that corresponds to the ResourceManager's 0; not negative.
    base: i32,
    /// Id in the last answer to the AM; `None` after a restart of the agent.
    answered: Option<i32>,
}

impl ResponseIds {
    /// Makes the translation for an AM that has just registered by itself.
    pub(super) const fn registered() -> Self {
        Self {
            base: 0,
            answered: Some(0),
        }
    }

    /// Makes the translation from the stored base, after a restart of the agent.
    pub(super) const fn restored(base: i32) -> Self {
        Self {
            base: base & i32::MAX,
            answered: None,
        }
    }

    /// Returns the base, to be stored for a restart.
    pub(super) const fn base(&self) -> i32 {
        self.base
    }

    /// Returns whether both sides use the same ids.
    pub(super) const fn is_plain(&self) -> bool {
        self.base == 0
    }

    /// Returns whether the id of the AM's next call is known.
    pub(super) const fn is_known(&self) -> bool {
        self.answered.is_some()
    }

    pub(super) fn classify(&self, id: i32) -> IdOrder {
        match self.answered {
            Some(expected) if next(id) == expected => IdOrder::Repeat,
            Some(expected) if id != expected => IdOrder::Unexpected { expected },
            Some(_) | None => IdOrder::Next,
        }
    }

    /// Sets the base after the ResourceManager has started at 0 again: the AM's `id` corresponds to
    /// 0. Without an id, the AM's next expected id is used, if known.
    pub(super) fn rebase(&mut self, id: Option<i32>) {
        if let Some(id) = id.or(self.answered) {
            self.base = id & i32::MAX;
        }
    }

    /// Translates an id of the AM into the ResourceManager's.
    pub(super) const fn to_rm(self, id: i32) -> i32 {
        shift(id, self.base.wrapping_neg())
    }

    /// Translates the id in an answer into the AM's, and remembers it as the last one.
    pub(super) fn answer(&mut self, id: i32) -> i32 {
        let id = shift(id, self.base);
        self.answered = Some(id);
        id
    }

    /// Translates the ids in the ResourceManager's exception text for an unexpected id.
    pub(super) fn translate(self, exception: RemoteException) -> RemoteException {
        if self.is_plain() {
            return exception;
        }
        let message = replace_number(&exception.message, EXPECTED, |id| shift(id, self.base));
        let message = replace_number(&message, RECEIVED, |id| shift(id, self.base));
        RemoteException {
            message: message.into_owned(),
            ..exception
        }
    }
}

/// Replaces the number that follows `before`; without one the text is unchanged.
fn replace_number<'a>(text: &'a str, before: &str, change: impl Fn(i32) -> i32) -> Cow<'a, str> {
    let Some((head, tail)) = text.split_once(before) else {
        return Cow::Borrowed(text);
    };
    let length = tail
        .bytes()
        .position(|byte| !byte.is_ascii_digit() && byte != b'-')
        .unwrap_or(tail.len());
    let (number, rest) = tail.split_at(length);
    match number.parse() {
        Ok(number) => Cow::Owned(format!("{head}{before}{}{rest}", change(number))),
        Err(_) => Cow::Borrowed(text),
    }
}

/// Makes Hadoop's exception for an unexpected id.
pub(super) fn unexpected_id(
    attempt: ApplicationAttemptId,
    expected: i32,
    received: i32,
) -> RemoteException {
    RemoteException::new(
        HadoopException::InvalidApplicationMasterRequest,
        format!(
            "Invalid responseId in AllocateRequest from application attempt: {attempt} {EXPECTED}{expected} {RECEIVED}{received}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::ATTEMPT;

    fn from(base: i32) -> ResponseIds {
        let mut ids = ResponseIds::registered();
        ids.rebase(Some(base));
        ids
    }

    proptest! {
        #[test]
        fn what_is_right_stays_right_and_nothing_else_becomes_it(
            base in 0..=i32::MAX,
            last in 0..=i32::MAX,
            id in any::<i32>(),
        ) {
            let mut ids = from(base);
            let expected = ids.answer(last);
            let at_rm = ids.to_rm(id);
            prop_assert_eq!(at_rm == last, id == expected);
            prop_assert_eq!(next(at_rm) == last, next(id) == expected);
            prop_assert_eq!(ids.to_rm(expected), last);
        }

        #[test]
        fn any_text_can_be_translated(text in "(expect responseId to be |but get |-|[0-9]{1,3}|,| )*") {
            let exception = RemoteException::new(
                HadoopException::InvalidApplicationMasterRequest,
                text,
            );
            let translated = from(7).translate(exception.clone());
            prop_assert_eq!(&translated.class_name, &exception.class_name);
        }
    }

    #[test]
    fn numbers_wrap_as_hadoops_do() {
        let mut ids = from(i32::MAX);
        assert_eq!(ids.to_rm(i32::MAX), 0);
        assert_eq!(ids.answer(1), 0);
        assert_eq!(ids.to_rm(0), 1);
    }

    #[test]
    fn the_last_number_is_a_repeat_and_others_are_wrong() {
        let mut ids = ResponseIds::registered();
        assert_eq!(ids.classify(0), IdOrder::Next);
        ids.answer(5);
        assert_eq!(ids.classify(5), IdOrder::Next);
        assert_eq!(ids.classify(4), IdOrder::Repeat);
        for id in [3, 6, -1, i32::MIN, i32::MAX] {
            assert_eq!(
                ids.classify(id),
                IdOrder::Unexpected { expected: 5 },
                "{id}"
            );
        }
        assert_eq!(ResponseIds::restored(3).classify(99), IdOrder::Next);
    }

    #[test]
    fn the_text_names_the_ams_numbers_and_keeps_the_rest() {
        let mut told = unexpected_id(ATTEMPT, 3, 9);
        told.message
            .push_str("\n\tat org.apache.hadoop.Some.java:12");
        let translated = from(40).translate(told);
        assert_eq!(
            translated.message,
            format!(
                "{}\n\tat org.apache.hadoop.Some.java:12",
                unexpected_id(ATTEMPT, 43, 49).message
            )
        );
        let plain = unexpected_id(ATTEMPT, 3, 9);
        assert_eq!(ResponseIds::registered().translate(plain.clone()), plain);
    }
}
