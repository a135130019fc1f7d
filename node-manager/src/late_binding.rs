//! Late binding on the container management port: reservations of proxies for this node, offers of
//! nodes for this node's proxy.

use std::sync::Arc;

use amrm_proxy::AmrmProxy;
use late_binding::{offer_of, offer_response, peer_of_user, reservation_of};
use records::NodeId;
use sched::OfferAnswer;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::nm_agent::{
    OfferRequestProto, OfferResponseProto, ReserveRequestProto, ReserveResponseProto,
};
use wire::protocol::late_binding::LateBindingProtocol;
use wire::rpc::Caller;

use crate::container_manager::stopping;
use crate::core_task::Handle;

/// The protocol's implementation.
pub(crate) struct LateBinding {
    handle: Handle,
    proxy: Option<Arc<AmrmProxy>>,
}

impl LateBinding {
    /// Serves the agent behind `handle`, and its proxy if it has one.
    #[must_use]
    pub(crate) const fn new(handle: Handle, proxy: Option<Arc<AmrmProxy>>) -> Self {
        Self { handle, proxy }
    }
}

/// Returns the node that calls.
///
/// # Errors
/// `AuthorizationException`: an ApplicationMaster calls, or the launcher of one.
fn node_of(caller: &Caller) -> Result<NodeId, RemoteException> {
    peer_of_user(&caller.user).ok_or_else(|| {
        let message = "Only nodes of the cluster reserve room and offer it.";
        RemoteException::new(HadoopException::Authorization, message)
    })
}

fn malformed(error: impl ToString) -> RemoteException {
    RemoteException::new(HadoopException::InvalidProtocolBuffer, error.to_string())
}

impl LateBindingProtocol for LateBinding {
    async fn reserve(
        &self,
        caller: &Caller,
        request: ReserveRequestProto,
    ) -> Result<ReserveResponseProto, RemoteException> {
        let from = node_of(caller)?;
        let reservation = reservation_of(&request).map_err(malformed)?;
        let reserve = move |core: &mut node_core::Core, now| core.reserve(from, &reservation, now);
        let taken = self.handle.run(reserve).await.map_err(stopping)?;
        Ok(ReserveResponseProto {
            refusal: taken.err().map(|refusal| refusal.to_string()),
        })
    }

    async fn offer(
        &self,
        caller: &Caller,
        request: OfferRequestProto,
    ) -> Result<OfferResponseProto, RemoteException> {
        let from = node_of(caller)?;
        let offer = offer_of(&request).map_err(malformed)?;
        let proxy = self.proxy.as_ref();
        let answer = proxy.map_or(OfferAnswer::NOTHING, |proxy| proxy.offered(&from, &offer));
        Ok(offer_response(answer))
    }
}

#[cfg(test)]
mod tests {
    use late_binding::PEER_USER_PREFIX;

    use super::*;

    fn caller(user: &str) -> Caller {
        Caller {
            user: user.to_owned(),
            owner: user.to_owned(),
            token_identifier: None,
            token_kind: None,
            peer: ([127, 0, 0, 1], 1).into(),
        }
    }

    #[test]
    fn only_nodes_reserve_and_offer() {
        let node = node_of(&caller(&format!("{PEER_USER_PREFIX}n1:8041"))).unwrap();
        assert_eq!((node.host.as_str(), node.port), ("n1", 8_041));
        // Users of NMTokens.
        for user in ["appattempt_1_0001_000001", "", "n1:8041"] {
            let refused = node_of(&caller(user)).unwrap_err();
            assert!(refused.is(HadoopException::Authorization), "{refused}");
        }
    }
}
