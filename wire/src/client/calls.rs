//! The calls that wait for an answer on one connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::LossReason;
use crate::exception::RemoteException;
use crate::header::Outcome;

/// Outcome of a waiting call: the server's answer, or the reason for which there is none.
type Delivered = Result<Result<Bytes, RemoteException>, Arc<LossReason>>;

/// Waiting calls by id. Bounded by the client's limit of calls in flight.
#[derive(Debug, Default)]
pub(super) struct CallMap {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<i32, oneshot::Sender<Delivered>>,
    next_call_id: i32,
    lost: Option<Arc<LossReason>>,
}

impl CallMap {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a call, with an id that no waiting call has.
    pub(super) fn begin(&self) -> Result<WaitingCall<'_>, Arc<LossReason>> {
        let mut state = self.state();
        if let Some(reason) = &state.lost {
            return Err(Arc::clone(reason));
        }
        let mut call_id = state.next_call_id;
        while state.waiting.contains_key(&call_id) {
            call_id = successor(call_id);
        }
        state.next_call_id = successor(call_id);
        let (sender, receiver) = oneshot::channel();
        state.waiting.insert(call_id, sender);
        Ok(WaitingCall {
            calls: self,
            call_id,
            receiver,
        })
    }

    /// Completes a call with its answer. Drops the answer when the caller has given up.
    pub(super) fn complete(&self, call_id: i32, outcome: Outcome) -> Result<(), LossReason> {
        let result = match outcome {
            Outcome::Success(response) => Ok(response),
            Outcome::Error(exception) => Err(exception),
            Outcome::Fatal(exception) => return Err(LossReason::Fatal(exception)),
        };
        if call_id < 0 {
            return Err(LossReason::StrangeCallId { call_id });
        }
        let waiting = self.state().waiting.remove(&call_id);
        if let Some(waiting) = waiting {
            // The caller may have given up in this moment.
            let _ = waiting.send(Ok(result));
        }
        Ok(())
    }

    /// Fails every waiting call, and every later one at its beginning.
    pub(super) fn fail_all(&self, reason: LossReason) {
        let reason = Arc::new(reason);
        let waiting = {
            let mut state = self.state();
            state.lost = Some(Arc::clone(&reason));
            std::mem::take(&mut state.waiting)
        };
        for sender in waiting.into_values() {
            let _ = sender.send(Err(Arc::clone(&reason)));
        }
    }

    pub(super) fn outstanding(&self) -> usize {
        self.state().waiting.len()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.state().lost.is_some()
    }
}

const fn successor(call_id: i32) -> i32 {
    // Negative ids are reserved for SASL, pings and fatal answers.
    if call_id == i32::MAX { 0 } else { call_id + 1 }
}

/// Entry of a call in the map; removed when dropped.
#[derive(Debug)]
pub(super) struct WaitingCall<'a> {
    calls: &'a CallMap,
    call_id: i32,
    receiver: oneshot::Receiver<Delivered>,
}

impl WaitingCall<'_> {
    pub(super) const fn call_id(&self) -> i32 {
        self.call_id
    }

    pub(super) async fn outcome(mut self) -> Delivered {
        (&mut self.receiver)
            .await
            .expect("a sender leaves the map only to send or after its receiver")
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.calls.state().waiting.remove(&self.call_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exception::HadoopException;

    #[test]
    fn ids_of_waiting_calls_are_not_given_twice() {
        let calls = CallMap::default();
        calls.state().next_call_id = i32::MAX;
        let last = calls.begin().unwrap();
        let first = calls.begin().unwrap();
        assert_eq!((last.call_id(), first.call_id()), (i32::MAX, 0));
        calls.state().next_call_id = i32::MAX;
        assert_eq!(calls.begin().unwrap().call_id(), 1);
    }

    #[test]
    fn call_that_gave_up_leaves_nothing_behind() {
        let calls = CallMap::default();
        let call = calls.begin().unwrap();
        let call_id = call.call_id();
        drop(call);
        assert_eq!(calls.outstanding(), 0);
        assert!(
            calls
                .complete(call_id, Outcome::Success(Bytes::new()))
                .is_ok()
        );
    }

    #[tokio::test]
    async fn answers_reach_their_calls_in_any_order() {
        let calls = CallMap::default();
        let (first, second) = (calls.begin().unwrap(), calls.begin().unwrap());
        calls
            .complete(second.call_id(), Outcome::Success(Bytes::from_static(b"2")))
            .unwrap();
        let error = RemoteException::new(HadoopException::YarnException, "1");
        calls
            .complete(first.call_id(), Outcome::Error(error.clone()))
            .unwrap();
        assert_eq!(
            second.outcome().await.unwrap(),
            Ok(Bytes::from_static(b"2"))
        );
        assert_eq!(first.outcome().await.unwrap(), Err(error));
        assert_eq!(calls.outstanding(), 0);
    }

    #[tokio::test]
    async fn loss_ends_waiting_and_later_calls() {
        let calls = CallMap::default();
        let call = calls.begin().unwrap();
        calls.fail_all(LossReason::ClosedByServer);
        assert!(matches!(
            *call.outcome().await.unwrap_err(),
            LossReason::ClosedByServer
        ));
        assert!(matches!(
            *calls.begin().unwrap_err(),
            LossReason::ClosedByServer
        ));
    }

    #[test]
    fn negative_id_ends_the_connection_and_keeps_a_fatal_reason() {
        let calls = CallMap::default();
        let strange = calls.complete(-33, Outcome::Success(Bytes::new()));
        assert!(matches!(
            strange,
            Err(LossReason::StrangeCallId { call_id: -33 })
        ));
        let fatal = RemoteException::new(HadoopException::Sasl, "no");
        assert!(matches!(
            calls.complete(-1, Outcome::Fatal(fatal)),
            Err(LossReason::Fatal(_))
        ));
    }
}
