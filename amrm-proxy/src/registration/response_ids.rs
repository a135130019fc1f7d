//! The numbers of an attempt's calls, as its AM counts them and as the ResourceManager does.
//!
//! Both count on from the number in the last answer. A ResourceManager that has registered an attempt anew begins at 0,
//! while the AM, which knows nothing of that, goes on. From then on one number is the other plus a constant. Numbers wrap
//! from 2^31 - 1 to 0. The translation maps different numbers to different ones, so that a wrong number stays wrong.
//!
//! Source: `ApplicationMasterService.allocate`, `AMRMClientUtils.getNextResponseId`.

use std::borrow::Cow;

use records::ApplicationAttemptId;
use wire::exception::{HadoopException, RemoteException};

/// What Hadoop's text for a wrong number says before the number that would be right, and before the one that came. The
/// library of AMs reads the first out of the text.
const EXPECTED: &str = "expect responseId to be ";
const RECEIVED: &str = "but get ";

/// The number after this one (Hadoop: `getNextResponseId`).
const fn next(id: i32) -> i32 {
    id.wrapping_add(1) & i32::MAX
}

/// Counts a number on, or back. What makes it negative, and so one that is never right, stays.
const fn shift(id: i32, by: i32) -> i32 {
    (id.wrapping_add(by) & i32::MAX) | (id & i32::MIN)
}

/// What a number says of the AM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hearing {
    /// It has the last answer; also when it is not known which one that was, after a restart of this node's agent.
    Next,
    /// It has not got the last answer and repeats its call.
    Repeat,
    /// It counts in a way of its own.
    Wrong {
        /// What would be right.
        expected: i32,
    },
}

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ResponseIds {
    /// The AM's number for the ResourceManager's 0; not negative.
    base: i32,
    /// The number in the last answer to the AM.
    answered: Option<i32>,
}

impl ResponseIds {
    /// Of an AM that has just registered itself.
    pub(super) const fn registered() -> Self {
        Self {
            base: 0,
            answered: Some(0),
        }
    }

    /// After a restart of the agent.
    pub(super) const fn restored(base: i32) -> Self {
        Self {
            base: base & i32::MAX,
            answered: None,
        }
    }

    /// What is needed to go on after a restart of the agent.
    pub(super) const fn base(&self) -> i32 {
        self.base
    }

    /// Whether both count alike.
    pub(super) const fn is_plain(&self) -> bool {
        self.base == 0
    }

    /// Whether it is known which number the AM's next call has.
    pub(super) const fn is_known(&self) -> bool {
        self.answered.is_some()
    }

    pub(super) fn hearing(&self, id: i32) -> Hearing {
        match self.answered {
            Some(expected) if id != expected && next(id) == expected => Hearing::Repeat,
            Some(expected) if id != expected => Hearing::Wrong { expected },
            Some(_) | None => Hearing::Next,
        }
    }

    /// The ResourceManager has lost count: to it, the AM's call of this number is number 0. Without one it is the AM's next
    /// call, as far as that is known.
    pub(super) fn begin_again(&mut self, id: Option<i32>) {
        if let Some(id) = id.or(self.answered) {
            self.base = id & i32::MAX;
        }
    }

    /// The number that a call of the AM has at the ResourceManager.
    pub(super) const fn to_rm(self, id: i32) -> i32 {
        shift(id, self.base.wrapping_neg())
    }

    /// The number that an answer of the ResourceManager has for the AM.
    pub(super) fn answer(&mut self, id: i32) -> i32 {
        let id = shift(id, self.base);
        self.answered = Some(id);
        id
    }

    /// The ResourceManager's text for a wrong number, with the numbers as the AM knows them.
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

/// Changes the number that follows `before`; the text stays when there is none.
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

/// Hadoop's exception for a wrong number.
pub(super) fn wrong(
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
        ids.begin_again(Some(base));
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
        assert_eq!(ids.hearing(0), Hearing::Next);
        ids.answer(5);
        assert_eq!(ids.hearing(5), Hearing::Next);
        assert_eq!(ids.hearing(4), Hearing::Repeat);
        for id in [3, 6, -1, i32::MIN, i32::MAX] {
            assert_eq!(ids.hearing(id), Hearing::Wrong { expected: 5 }, "{id}");
        }
        assert_eq!(ResponseIds::restored(3).hearing(99), Hearing::Next);
    }

    #[test]
    fn the_text_names_the_ams_numbers_and_keeps_the_rest() {
        let mut told = wrong(ATTEMPT, 3, 9);
        told.message
            .push_str("\n\tat org.apache.hadoop.Some.java:12");
        let translated = from(40).translate(told);
        assert_eq!(
            translated.message,
            format!(
                "{}\n\tat org.apache.hadoop.Some.java:12",
                wrong(ATTEMPT, 43, 49).message
            )
        );
        let plain = wrong(ATTEMPT, 3, 9);
        assert_eq!(ResponseIds::registered().translate(plain.clone()), plain);
    }
}
