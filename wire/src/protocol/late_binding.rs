//! Late binding between agents. Not one of Hadoop's protocols: agents serve it on their container
//! management port, and callers prove by a token of their own kind that they are nodes of the
//! cluster.

use crate::proto::nm_agent::{
    OfferRequestProto, OfferResponseProto, ReserveRequestProto, ReserveResponseProto,
};

protocol! {
    /// Protocol between the proxy of an attempt and the nodes that its tasks may go to.
    LateBindingProtocol, LateBindingService = "nm_agent.LateBindingProtocolPB", version 1;

    /// Call of a proxy to a node: tasks of an attempt wait for room, or news of them.
    Reserve: reserve = "reserve"(ReserveRequestProto) -> ReserveResponseProto;

    /// Call of a node to a proxy: there is room for tasks of an attempt.
    MakeOffer: offer = "offer"(OfferRequestProto) -> OfferResponseProto;
}
