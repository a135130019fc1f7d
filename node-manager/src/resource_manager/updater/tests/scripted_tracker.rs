//! A ResourceManager of a few lines: reacts to each call as the test wrote, and records the calls.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use wire::client::{Operation, RpcError};
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{
    ContainerStateProto, MasterKeyProto, RegisterNodeManagerRequestProto,
    UnRegisterNodeManagerResponseProto,
};

use super::super::*;

/// Reaction of the scripted ResourceManager to a call.
#[derive(Clone, Debug)]
pub(super) enum Behaviour {
    Normal,
    /// No server listens: the call fails at once.
    Refused,
    /// The call is carried out, and the answer is lost.
    AnswerLost,
    Standby,
    Exception,
    Silent,
    Resync,
}

#[derive(Debug, PartialEq)]
pub(super) enum Call {
    Register,
    /// Heartbeat with its response id and the completions that it reported.
    Heartbeat(i32, Vec<i64>),
    Unregister,
}

#[derive(Default)]
pub(super) struct Rm {
    /// For the next calls; `Normal` when there are none.
    pub(super) script: VecDeque<Behaviour>,
    pub(super) always: Option<Behaviour>,
    pub(super) calls: Vec<(Duration, Call)>,
    pub(super) interval_ms: i64,
}

/// The last response and its id, for repetitions, as a Java ResourceManager keeps them.
#[derive(Clone)]
pub(super) struct ScriptedTracker {
    pub(super) rm: Arc<Mutex<Rm>>,
    pub(super) began: Instant,
    pub(super) addresses: usize,
    pub(super) response_id: i32,
}

fn key() -> Option<MasterKeyProto> {
    Some(MasterKeyProto {
        key_id: Some(1),
        bytes: Some(Bytes::from_static(b"12345678")),
    })
}

impl ScriptedTracker {
    fn rm(&self) -> std::sync::MutexGuard<'_, Rm> {
        self.rm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, call: Call) -> Behaviour {
        let at = self.began.elapsed();
        let mut rm = self.rm();
        rm.calls.push((at, call));
        let always = rm.always.clone();
        rm.script
            .pop_front()
            .or(always)
            .unwrap_or(Behaviour::Normal)
    }

    async fn behave<R>(&self, behaviour: Behaviour, response: R) -> Result<R, CallError> {
        let failed = |source| {
            Err(CallError {
                address: "rm".to_owned(),
                method: "test",
                reused: false,
                source,
            })
        };
        let remote = |class| failed(RpcError::Remote(RemoteException::new(class, "not now")));
        match behaviour {
            Behaviour::Normal | Behaviour::Resync => Ok(response),
            Behaviour::Refused | Behaviour::AnswerLost => failed(RpcError::Timeout {
                address: ([127, 0, 0, 1], 1).into(),
                operation: Operation::Call,
                after: Duration::ZERO,
            }),
            Behaviour::Standby => remote(HadoopException::Standby),
            Behaviour::Exception => remote(HadoopException::YarnException),
            Behaviour::Silent => std::future::pending().await,
        }
    }
}

impl ResourceTracker for ScriptedTracker {
    fn address(&self, _: usize) -> &str {
        "rm"
    }

    fn endpoint_count(&self) -> usize {
        self.addresses
    }

    async fn register(
        &mut self,
        _: usize,
        _: &RegisterNodeManagerRequestProto,
    ) -> Result<RegisterNodeManagerResponseProto, CallError> {
        let behaviour = self.note(Call::Register);
        let response = RegisterNodeManagerResponseProto {
            container_token_master_key: key(),
            nm_token_master_key: key(),
            rm_identifier: Some(77),
            rm_version: Some("3.4.2".to_owned()),
            ..Default::default()
        };
        self.response_id = 0;
        self.behave(behaviour, response).await
    }

    async fn heartbeat(
        &mut self,
        _: usize,
        request: &NodeHeartbeatRequestProto,
    ) -> Result<NodeHeartbeatResponseProto, CallError> {
        let status = request.node_status.as_ref().unwrap();
        let completed = status
            .containers_statuses
            .iter()
            .filter(|status| status.state() == ContainerStateProto::CComplete)
            .map(|status| status.container_id.as_ref().unwrap().id())
            .collect();
        let behaviour = self.note(Call::Heartbeat(status.response_id(), completed));
        let is_repetition = status.response_id() + 1 == self.response_id;
        if matches!(behaviour, Behaviour::Normal | Behaviour::AnswerLost) && !is_repetition {
            self.response_id += 1;
        }
        let action = if matches!(behaviour, Behaviour::Resync) {
            NodeActionProto::Resync
        } else {
            NodeActionProto::Normal
        };
        let response = NodeHeartbeatResponseProto {
            response_id: Some(self.response_id),
            node_action: Some(action.into()),
            next_heart_beat_interval: Some(self.rm().interval_ms),
            ..Default::default()
        };
        self.behave(behaviour, response).await
    }

    async fn unregister(
        &mut self,
        _: usize,
        _: &UnRegisterNodeManagerRequestProto,
    ) -> Result<UnRegisterNodeManagerResponseProto, CallError> {
        let behaviour = self.note(Call::Unregister);
        self.behave(behaviour, Default::default()).await
    }
}
